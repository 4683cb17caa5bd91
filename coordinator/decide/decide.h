// Whether a new plan is worth moving flows for, and why. Hysteresis: a routing with more movement
// must promise a gain; where links or the demand changed, the least movement that serves them is
// taken at once.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/optimise/planning.h"

namespace heddle {

struct DecideConfig {
  double hysteresis{0.02};  // the relative gain, of the worst job or in the mean, that moves flows
};

// What made us ask.
struct Situation {
  bool links_changed{};
  bool demand_changed{};
  std::string event;  // for people: "leaf1-spine2 down"; empty if only time has passed
};

struct Decision {
  // The place in the candidates of the routing to have from now on; nothing: hold the present plan.
  std::optional<std::size_t> chosen;
  std::string reason;
};

// Candidates come in order of growing movement (make_candidates).
Decision decide(const std::vector<Candidate>& candidates, const Situation& situation,
                const DecideConfig& config);

}  // namespace heddle
