#include "coordinator/decide/quiet.h"

#include <algorithm>

namespace heddle {

std::vector<FlowKey> moving_flows(const PlanningProblem& planning, const Prediction& prediction,
                                  const Routing& routing) {
  std::vector<FlowKey> keys;
  std::size_t subflow = 0;
  for (std::size_t i = 0; i < planning.flow_of.size(); ++i)
    for (std::uint32_t k = 0; k < planning.problem.demand.flows[i].subflows; ++k, ++subflow)
      if (differs(*planning.problem.topology, planning.problem.current[subflow], routing[subflow]))
        keys.push_back(
            prediction.flows[planning.flow_of[i]].subflows[planning.subflow_of[subflow]]);
  return keys;
}

Quiet look_for_quiet(const FlowTable& table, std::span<const FlowKey> flows, Time now,
                     Duration needed) {
  Quiet quiet;
  for (const FlowKey& key : flows) {
    const auto found = table.subflows().find(key);
    if (found == table.subflows().end() || !found->second.period)
      continue;
    const Subflow& flow = found->second;
    ++quiet.periodic;
    quiet.longest_period = std::max(quiet.longest_period, *flow.period);
    // An iteration that is overdue can begin at any moment.
    if (flow.silent() && flow.burst_began + *flow.period >= now + needed)
      ++quiet.silent;
  }
  return quiet;
}

}  // namespace heddle
