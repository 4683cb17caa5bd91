// The port to what stands at the other ends of this node's cables. Called from the event loop's
// thread; lives as long as the agent.
#pragma once

#include <optional>
#include <vector>

#include "common/core/messages.h"
#include "common/core/units.h"

namespace heddle {

class CableSource {
 public:
  virtual ~CableSource() = default;

  // Whether neighbours are known, and if not, why and what to do about it.
  virtual SourceCapability probe(WallTime now) = 0;
  // Whole state; nothing if it is not known, which is not the same as nobody (safety rule 7).
  virtual std::optional<std::vector<LldpNeighbour>> neighbours(WallTime now) = 0;
};

}  // namespace heddle
