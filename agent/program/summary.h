// What is told of a plan after it was read back: which pins are held, which are not and why, and
// which routes are there although nobody wants them any more. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/program/desire.h"
#include "agent/program/egress_watch.h"
#include "agent/program/verifier.h"
#include "common/core/messages.h"
#include "common/core/plan.h"

namespace heddle {

// Why the last changes failed, by table and destination; table 0: not about one route.
using ChangeFailures = std::map<std::pair<std::uint32_t, IpAddress>, std::string>;

void note_failure(ChangeFailures& failures, const Action& action, const ActionFailure& failure);

struct SummaryInput {
  const NodePlan& plan;
  const Desire& desired;
  const SteeringTables& installed;  // as read back
  const std::vector<PinRoute>& refused_by_hardware;
  // The routes that an ASIC has; nullptr where the kernel forwards itself and none has to.
  const std::vector<PinRoute>* offloaded;
  const Verifier& verifier;
  const EgressWatch& egress;
  const ChangeFailures& failures;
  std::optional<Error> refusal;  // why no pin is held at all
};

// Conflict, apply time and switch are the caller's. A route that is installed but not wanted counts
// as installed, is a failure of its unit, and makes the digest differ from the plan's: "all off" is
// confirmed only when nothing of ours steers any more.
Acknowledgement summarise(const SummaryInput& input);

}  // namespace heddle
