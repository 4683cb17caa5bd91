#include "coordinator/decide/churn.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace heddle {

namespace {

// Subflows on the busier of a path's two links.
std::uint32_t crowd(const Topology& topology, const std::vector<std::uint32_t>& counts,
                    const Path& path) {
  std::uint32_t most = counts[topology.uplink(path.up).value];
  if (path.down.valid())
    most = std::max(most, counts[topology.downlink(path.down).value]);
  return most;
}

bool moves_unit(const PlanningProblem& planning, const Routing& routing, std::uint32_t subflow) {
  return differs(*planning.problem.topology, planning.problem.current[subflow], routing[subflow]);
}

}  // namespace

bool could_stay(const PlanningProblem& planning, const Unit& unit) {
  const Routing& current = planning.problem.current;
  const Path& path = current[unit.subflows.front()];
  if (!path.crosses_core() || !usable(planning.problem, path) || !can_lead(planning, unit, path))
    return false;
  return std::ranges::all_of(unit.subflows,
                             [&](std::uint32_t subflow) { return current[subflow].up == path.up; });
}

std::uint32_t voluntary_moves(const PlanningProblem& planning, const Routing& routing) {
  std::uint32_t moves = 0;
  for (const Unit& unit : planning.units) {
    const std::uint32_t first = unit.subflows.front();
    moves +=
        unit.pinnable && moves_unit(planning, routing, first) && could_stay(planning, unit) ? 1 : 0;
  }
  return moves;
}

std::optional<Candidate> step_towards(const PlanningProblem& planning, const Candidate& goal,
                                      const Candidate& least, std::uint32_t budget) {
  const Problem& problem = planning.problem;
  const Topology& topology = *problem.topology;
  const std::vector<std::uint32_t> before = count_elephants(topology, problem.current);
  const std::vector<std::uint32_t> after = count_elephants(topology, goal.routing);
  struct Leaving {
    std::uint32_t unit;
    std::uint32_t left;     // subflows on the link that it leaves
    std::uint32_t reached;  // and on the one that it comes to, in the end
  };
  std::vector<Leaving> moves;
  for (std::uint32_t i = 0; i < planning.units.size(); ++i) {
    const Unit& unit = planning.units[i];
    const std::uint32_t first = unit.subflows.front();
    if (unit.pinnable && moves_unit(planning, goal.routing, first) && could_stay(planning, unit))
      moves.push_back({i, crowd(topology, before, problem.current[first]),
                       crowd(topology, after, goal.routing[first])});
  }
  // Two orders, as a step can be worse than none in one of them: those that leave the worst places,
  // and those that come to the best ones.
  for (const bool by_left : {true, false}) {
    std::ranges::stable_sort(moves, [&](const Leaving& a, const Leaving& b) {
      return by_left ? a.left > b.left : a.reached < b.reached;
    });
    Candidate step{.scheme = goal.scheme, .routing = goal.routing};
    for (std::size_t i = budget; i < moves.size(); ++i)
      for (const std::uint32_t subflow : planning.units[moves[i].unit].subflows)
        step.routing[subflow] = problem.current[subflow];
    // Units that a spine's pin leads together stay together.
    step.routing = with_downlinks(planning, std::move(step.routing), true);
    step.moves = goal.moves - static_cast<std::uint32_t>(moves.size()) + budget;
    step.efficiency =
        evaluate(topology, *problem.links, problem.demand, step.routing, problem.residual);
    if (compare(step.efficiency, least.efficiency) >= 0)
      return step;
  }
  return std::nullopt;
}

void Dwell::moved(const PlanningProblem& planning, const Routing& routing, Time now) {
  if (dwell_ <= Duration::zero())
    return;
  std::erase_if(until_, [&](const auto& entry) { return now >= entry.second; });
  for (const Unit& unit : planning.units) {
    const std::uint32_t first = unit.subflows.front();
    if (unit.pinnable && routing[first].crosses_core() && moves_unit(planning, routing, first))
      until_[{unit.node, unit.steering}] = now + dwell_;
  }
}

std::uint32_t Dwell::hold(PlanningProblem& planning, Time now) const {
  std::uint32_t held = 0;
  if (until_.empty())
    return held;
  for (const Unit& unit : planning.units) {
    if (!unit.pinnable || !unit.pinned || !could_stay(planning, unit))
      continue;
    const auto known = until_.find({unit.node, unit.steering});
    if (known == until_.end() || now >= known->second)
      continue;
    for (const std::uint32_t subflow : unit.subflows)
      planning.problem.fixed[subflow] = true;
    ++held;
  }
  return held;
}

}  // namespace heddle
