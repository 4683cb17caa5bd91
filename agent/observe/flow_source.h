// The flow source port: one implementation for each way of looking at traffic. Called from the
// event loop's thread; lives as long as the agent.
#pragma once

#include <vector>

#include "agent/report/flow_reading.h"
#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

class FlowSource {
 public:
  virtual ~FlowSource() = default;

  // Whether it can see traffic now, and if not, why and what to do about it; one for each way of
  // looking that it joins. Never fails: a source that cannot work is unusable, which is worth
  // reporting and no reason to end.
  virtual std::vector<SourceCapability> probe() = 0;

  // Interfaces came or went: watch the ones that are there now.
  virtual void links_changed() = 0;

  // Counters up to now. Errc::unobservable if the source is unusable, Errc::kernel if the reading
  // failed; the counters go on either way.
  virtual Result<FlowReading> read(Time now) = 0;
};

}  // namespace heddle
