// The routings that could become the next plan.
#include <fmt/format.h>

#include <algorithm>

#include "common/core/check.h"
#include "coordinator/optimise/planning.h"

namespace heddle {

namespace {

// Why a routing may not become a plan; empty if it may.
std::string fault(const PlanningProblem& planning, const Routing& routing) {
  const Problem& problem = planning.problem;
  if (routing.size() != problem.current.size())
    return "it does not place every subflow";
  for (const Unit& unit : planning.units) {
    const Path& path = routing[unit.subflows.front()];
    for (const std::uint32_t subflow : unit.subflows) {
      if (problem.fixed[subflow]
              ? differs(*problem.topology, problem.current[subflow], routing[subflow])
              : routing[subflow].up != path.up)
        return fmt::format("it tears {} apart or moves what is not ours", to_string(unit.steering));
    }
    const auto* leaf = std::get_if<LeafId>(&unit.node);
    if (unit.pinnable && path.crosses_core() && leaf != nullptr &&
        (*problem.topology)[path.up].leaf != *leaf)
      return fmt::format("it lets {} enter the core at another leaf", to_string(unit.steering));
    if (unit.pinnable && path.routable() &&
        (!usable(problem, path) || !can_lead(planning, unit, path)))
      return fmt::format("it leads {} over a link that is down or withdrawn",
                         to_string(unit.steering));
  }
  return {};
}

Candidate judge(const PlanningProblem& planning, std::string scheme, Routing routing) {
  const Problem& problem = planning.problem;
  Candidate candidate{.scheme = std::move(scheme), .routing = std::move(routing)};
  candidate.efficiency = evaluate(*problem.topology, *problem.links, problem.demand,
                                  candidate.routing, problem.residual);
  for (const Unit& unit : planning.units) {
    const std::uint32_t first = unit.subflows.front();
    candidate.moves += unit.pinnable && differs(*problem.topology, problem.current[first],
                                                candidate.routing[first])
                           ? 1
                           : 0;
  }
  return candidate;
}

// The routing in which all stay where they are; empty if one of them cannot.
Routing stay(const PlanningProblem& planning) {
  Routing routing = planning.problem.current;
  for (const Unit& unit : planning.units) {
    if (!unit.pinnable)
      continue;
    // Subflows of one unit may have been hashed to different uplinks; one pin cannot keep both.
    const Path& path = routing[unit.subflows.front()];
    if (!path.routable() || !usable(planning.problem, path) || !can_lead(planning, unit, path))
      return {};
    for (const std::uint32_t subflow : unit.subflows)
      if (routing[subflow].up != path.up)
        return {};
  }
  return routing;
}

}  // namespace

Candidates make_candidates(const PlanningProblem& planning, const Optimiser& optimiser,
                           std::uint64_t seed) {
  Candidates result;
  const auto consider = [&](std::string scheme, Routing routing, bool keep = true) {
    if (routing.size() == planning.problem.current.size())
      routing = with_downlinks(planning, std::move(routing), keep);
    if (const std::string why = fault(planning, routing); !why.empty()) {
      result.notes.push_back(fmt::format("{} was not used: {}", scheme, why));
      return;
    }
    result.list.push_back(judge(planning, std::move(scheme), std::move(routing)));
  };
  if (planning.units.empty())
    return result;

  if (Routing routing = stay(planning); !routing.empty())
    consider("stay", std::move(routing));

  // Repair: what is pinned and can stay is held fast, and the rest is placed around it.
  const bool something_new = std::ranges::any_of(
      planning.units, [](const Unit& unit) { return unit.pinnable && !unit.pinned; });
  if (something_new) {
    Problem held = planning.problem;
    for (const Unit& unit : planning.units)
      for (const std::uint32_t subflow : unit.subflows)
        held.fixed[subflow] = !unit.pinnable || unit.pinned;
    const auto greedy = make_optimiser("greedy");
    HEDDLE_CHECK(greedy != nullptr);
    Placement placement = greedy->place(held, seed);
    consider("repair", std::move(placement.routing));
  }

  Placement placement = optimiser.place(planning.problem, seed);
  result.notes.insert(result.notes.end(), placement.notes.begin(), placement.notes.end());
  consider(std::string(optimiser.name()), std::move(placement.routing), false);
  return result;
}

}  // namespace heddle
