// Whether a new plan is worth moving flows for, and why. Hysteresis: a routing must promise a gain,
// and the more of the flows it moves, the larger a one; where links or the demand changed, the
// least movement that serves them is taken at once.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/optimise/planning.h"

namespace heddle {

struct DecideConfig {
  double hysteresis{0.02};  // the relative gain, of the worst job or in the mean, that moves flows
  double move_cost{0.02};   // what moving all flows must gain besides; half of them, half of it
  std::uint32_t moves_per_plan{1000};        // of flows that could stay (churn.h); 0: any number
  Duration dwell{std::chrono::seconds(10)};  // that a flow stays where it was moved (churn.h)
  Duration quiet_wait{std::chrono::seconds(10)};  // for a silent phase (quiet.h); 0: not at all
  bool operator==(const DecideConfig&) const = default;
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

// Candidates come in order of growing movement (make_candidates). `units`: how many there are that
// could be moved.
Decision decide(const std::vector<Candidate>& candidates, std::size_t units,
                const Situation& situation, const DecideConfig& config);

// What made a plan necessary or possible: "leaf1-spine2 down", "the demand changed".
std::string cause_of(const Situation& situation);

}  // namespace heddle
