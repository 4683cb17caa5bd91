#include "coordinator/simulate/router.h"

#include <algorithm>
#include <numeric>

#include "common/core/check.h"
#include "coordinator/simulate/routing_file.h"
#include "coordinator/simulate/stopwatch.h"

namespace heddle::sim {

Router::Router(const Scenario& scenario, const Optimiser& scheme)
    : scenario_(scenario),
      scheme_(scheme),
      hash_(make_optimiser("ecmp")),
      index_(scenario.workload, scenario.qps),
      paths_(index_.slots()) {
  HEDDLE_CHECK(hash_ != nullptr);
}

Routing Router::hashed(const ActiveDemand& active, const LinkState& links) const {
  Problem everything;
  everything.topology = scenario_.topology;
  everything.links = &links;
  everything.demand = active.demand;
  return hash_->place(everything, scenario_.seed).routing;
}

Problem Router::problem(const ActiveDemand& active, const LinkState& links,
                        bool from_nothing) const {
  Problem problem;
  problem.topology = scenario_.topology;
  problem.links = &links;
  problem.demand = active.demand;
  problem.unit_of_subflow = active.unit_of_subflow;
  problem.residual = scenario_.background;
  const bool some_stay = std::ranges::find(scenario_.enabled, false) != scenario_.enabled.end();
  if (from_nothing && !some_stay)
    return problem;
  problem.current.resize(active.slots.size());
  if (!from_nothing)
    for (std::size_t i = 0; i < active.slots.size(); ++i)
      problem.current[i] = paths_[active.slots[i]];
  if (!some_stay)
    return problem;
  const Routing hash = hashed(active, links);
  problem.fixed.assign(active.slots.size(), false);
  for (std::size_t i = 0; i < active.slots.size(); ++i) {
    const NicId source = active.demand.flows[i / scenario_.qps].source;
    const Topology& topology = *scenario_.topology;
    if (scenario_.enabled[topology[topology[source].attachments.front()].leaf.value])
      continue;
    problem.fixed[i] = true;
    problem.current[i] = hash[i];
  }
  return problem;
}

Epoch Router::route(std::span<const std::uint32_t> jobs, const LinkState& links, Duration at,
                    const Bound* known) {
  const ActiveDemand active =
      make_demand(scenario_.workload, index_, *scenario_.topology, jobs, scenario_.steering);
  const Problem problem = this->problem(active, links, false);
  const Stopwatch stopwatch;
  Placement placement = scheme_.place(problem, scenario_.seed);
  Epoch epoch{.at = at, .jobs = {jobs.begin(), jobs.end()}, .solver = stopwatch.elapsed()};
  HEDDLE_CHECK(placement.routing.size() == active.slots.size());
  for (const Move& move : placement.moves)
    if (move.from.routable())
      ++epoch.moves;
  for (std::size_t i = 0; i < active.slots.size(); ++i)
    paths_[active.slots[i]] = placement.routing[i];
  epoch.efficiency =
      evaluate(*scenario_.topology, links, active.demand, placement.routing, scenario_.background);
  epoch.efficiency.subflow_rates.clear();
  epoch.bound = known != nullptr ? *known : bound_of(problem, BoundEffort::combinatorial);
  epoch.proven = placement.proven;
  epoch.notes = std::move(placement.notes);
  return epoch;
}

std::vector<Duration> Router::time_cold(const LinkState& links, std::uint32_t count) const {
  std::vector<std::uint32_t> jobs(scenario_.workload.jobs.size());
  std::iota(jobs.begin(), jobs.end(), 0U);
  const ActiveDemand active =
      make_demand(scenario_.workload, index_, *scenario_.topology, jobs, scenario_.steering);
  const Problem problem = this->problem(active, links, true);
  std::vector<Duration> times;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Stopwatch stopwatch;
    const Placement placement = scheme_.place(problem, scenario_.seed);
    times.push_back(stopwatch.elapsed());
  }
  return times;
}

std::string Router::exported(std::span<const std::uint32_t> jobs, const LinkState& links) const {
  const ActiveDemand active =
      make_demand(scenario_.workload, index_, *scenario_.topology, jobs, scenario_.steering);
  Routing routing;
  for (const std::uint32_t slot : active.slots)
    routing.push_back(paths_[slot]);
  return write_routing(*scenario_.topology, links, scenario_.background, active.demand, routing);
}

void Router::hash_missing(std::span<const std::uint32_t> jobs, const LinkState& links) {
  const ActiveDemand active =
      make_demand(scenario_.workload, index_, *scenario_.topology, jobs, scenario_.steering);
  const Routing hash = hashed(active, links);
  for (std::size_t i = 0; i < active.slots.size(); ++i)
    if (!paths_[active.slots[i]].routable())
      paths_[active.slots[i]] = hash[i];
}

}  // namespace heddle::sim
