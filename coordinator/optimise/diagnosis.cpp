#include "coordinator/optimise/diagnosis.h"

#include <algorithm>
#include <limits>

#include "common/core/optimiser_model.h"

namespace heddle {

namespace {

// Sums of rates and a capacity differ by rounding.
constexpr double kFull = 1.0 - 1e-6;

std::vector<std::uint32_t> flows_of_subflows(const Demand& demand) {
  std::vector<std::uint32_t> flow_of;
  for (std::uint32_t f = 0; f < demand.flows.size(); ++f)
    flow_of.insert(flow_of.end(), demand.flows[f].subflows, f);
  return flow_of;
}

struct Load {
  double rate{};     // of all subflows on the link, in bits per second
  double largest{};  // of one of them
};

}  // namespace

Bounds bounds_of(const PlanningProblem& planning) {
  Problem free = planning.problem;
  free.fixed.clear();
  free.current.clear();
  free.ways.clear();
  free.uplink_sets.clear();
  const Model model(free);
  const Evaluator evaluator(*free.topology, *free.links, free.demand, free.residual);
  return find_bounds(model, evaluator);
}

std::optional<double> bound_of_worst(const PlanningProblem& planning,
                                     const std::vector<bool>& judged) {
  if (judged.empty() || std::ranges::find(judged, false) != judged.end())
    return std::nullopt;
  return bounds_of(planning).worst;
}

namespace {

struct CrossedLink {
  LinkId link;
  double part{1.0};  // of the subflow's rate
};

// Over cables that are hashed over, all that live, each with its part.
std::vector<CrossedLink> crossed(const Topology& topology, const LinkState& links,
                                 const Path& path) {
  std::vector<CrossedLink> all{{topology.nic_tx(path.from)}};
  const auto add_hashed = [&](LeafId leaf, bool up) {
    std::vector<LinkId> live;
    for (const CableId id : topology.cables_between(leaf, topology[path.up].spine))
      if (const LinkId link = up ? topology.uplink(id) : topology.downlink(id); links.up(link))
        live.push_back(link);
    for (const LinkId link : live)
      all.push_back({link, 1.0 / static_cast<double>(live.size())});
  };
  if (path.crosses_core()) {
    if (path.spread)
      add_hashed(topology[path.from].leaf, true);
    else
      all.push_back({topology.uplink(path.up)});
    if (path.down.valid())
      all.push_back({topology.downlink(path.down)});
    else
      add_hashed(topology[path.to].leaf, false);
  }
  all.push_back({topology.nic_rx(path.to)});
  return all;
}

}  // namespace

std::vector<LinkId> links_of(const Topology& topology, const LinkState& links, const Path& path) {
  std::vector<LinkId> all;
  for (const CrossedLink& one : crossed(topology, links, path))
    all.push_back(one.link);
  return all;
}

std::optional<Diagnosis> diagnose(const PlanningProblem& planning, const Routing& routing,
                                  JobId job) {
  const Problem& problem = planning.problem;
  if (routing.size() != problem.current.size())
    return std::nullopt;
  const Topology& topology = *problem.topology;
  Evaluator evaluator(topology, *problem.links, problem.demand, problem.residual);
  const Efficiency efficiency = evaluator.evaluate(routing);
  const std::vector<std::uint32_t> flow_of = flows_of_subflows(problem.demand);
  const auto needed_of = [&](std::uint32_t s) {
    return evaluator.needed_rate(flow_of[s]) / problem.demand.flows[flow_of[s]].subflows;
  };

  std::optional<std::uint32_t> slowest;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t s = 0; s < routing.size(); ++s) {
    const FlowDemand& flow = problem.demand.flows[flow_of[s]];
    const double needed = needed_of(s);
    if (flow.job != job || flow.phase != evaluator.heaviest_phase(job) || !(needed > 0.0))
      continue;
    const double share = efficiency.subflow_rates[s].bits_per_second / needed;
    if (share < least) {
      least = share;
      slowest = s;
    }
  }
  if (!slowest)
    return std::nullopt;

  Diagnosis found{.subflow = *slowest,
                  .flow = flow_of[*slowest],
                  .rate = efficiency.subflow_rates[*slowest],
                  .needed = Rate{needed_of(*slowest)},
                  .bottleneck = std::nullopt,
                  .sharing = {}};
  if (!usable(problem, routing[*slowest]))
    return found;

  std::vector<Load> loads(topology.link_count());
  std::vector<std::vector<std::uint32_t>> on_link(topology.link_count());
  for (std::uint32_t s = 0; s < routing.size(); ++s) {
    if (!routing[s].routable())
      continue;
    const double rate = efficiency.subflow_rates[s].bits_per_second;
    for (const auto& [link, part] : crossed(topology, *problem.links, routing[s])) {
      loads[link.value].rate += rate * part;
      loads[link.value].largest = std::max(loads[link.value].largest, rate);
      on_link[link.value].push_back(s);
    }
  }
  const double own = found.rate.bits_per_second;
  for (const LinkId link : links_of(topology, *problem.links, routing[*slowest])) {
    const double capacity = evaluator.capacities()[link.value];
    // Where somebody gets more, that one is held up elsewhere less than this flow is.
    if (capacity <= 0.0 || loads[link.value].rate < capacity * kFull ||
        loads[link.value].largest > own * (1.0 + 1e-6))
      continue;
    // Of two full links the one in the core: that is where a routing can help.
    if (!found.bottleneck || (topology.is_core(link) && !topology.is_core(*found.bottleneck)))
      found.bottleneck = link;
  }
  if (found.bottleneck)
    for (const std::uint32_t s : on_link[found.bottleneck->value])
      if (s != *slowest)
        found.sharing.push_back(s);
  return found;
}

}  // namespace heddle
