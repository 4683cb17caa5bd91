// Quiet times: a flow whose period is known is moved while it is silent, between two iterations.
// Nothing is lost by a move at another time, but packets may arrive out of order.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "coordinator/optimise/planning.h"
#include "coordinator/predict/flow_table.h"

namespace heddle {

struct Quiet {
  std::size_t periodic{};     // of the flows asked about: how many have a known period
  std::size_t silent{};       // of those: how many are silent now, and will be for long enough
  Duration longest_period{};  // of theirs
  bool now() const { return silent == periodic; }
};

// What `routing` moves, by the keys of its subflows.
std::vector<FlowKey> moving_flows(const PlanningProblem& planning, const Prediction& prediction,
                                  const Routing& routing);

// `needed`: for how long they must stay silent, as a plan takes its time to reach the tables.
Quiet look_for_quiet(const FlowTable& table, std::span<const FlowKey> flows, Time now,
                     Duration needed);

}  // namespace heddle
