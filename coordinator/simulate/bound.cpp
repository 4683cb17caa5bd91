#include "coordinator/simulate/bound.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "common/core/bounds.h"

namespace heddle::sim {
namespace {

// Two ways to compute one fraction differ by this.
constexpr double kRounding = 1e-9;

// The least times of a job's phases, were each alone in the fabric, against its ideal times.
double alone_by_phase(const Problem& problem, std::uint32_t job, std::span<const double> ideal) {
  double ideal_sum = 0.0, sum = 0.0;
  for (std::uint32_t p = 0; p < ideal.size(); ++p) {
    Problem alone;
    alone.topology = problem.topology;
    alone.links = problem.links;
    alone.residual = problem.residual;
    alone.demand.jobs = {{.name = {}, .phases = 1}};
    std::size_t subflow = 0;
    for (const FlowDemand& flow : problem.demand.flows) {
      if (flow.job.value == job && flow.phase == p) {
        alone.demand.flows.push_back(flow);
        alone.demand.flows.back().job = {0};
        alone.demand.flows.back().phase = 0;
        if (!problem.unit_of_subflow.empty())
          alone.unit_of_subflow.insert(
              alone.unit_of_subflow.end(),
              problem.unit_of_subflow.begin() + static_cast<std::ptrdiff_t>(subflow),
              problem.unit_of_subflow.begin() +
                  static_cast<std::ptrdiff_t>(subflow + flow.subflows));
      }
      subflow += flow.subflows;
    }
    const Model model(alone);
    const Evaluator evaluator(*alone.topology, *alone.links, alone.demand, alone.residual);
    ideal_sum += ideal[p];
    sum += ideal[p] / find_bounds(model, evaluator).worst;
  }
  return ideal_sum / sum;
}

// The core bounds what a flow gets in its job's heaviest phase. In the other phases the job is at
// its ideal at best, so that a job of several phases may do better as a whole than in its heaviest;
// nor better than if it had the fabric to itself in each phase.
double over_phases(const Problem& problem, const Evaluator& evaluator, double share) {
  const Demand& demand = problem.demand;
  std::vector<std::vector<double>> seconds(demand.jobs.size());
  for (std::uint32_t f = 0; f < demand.flows.size(); ++f) {
    const FlowDemand& flow = demand.flows[f];
    const double needed = evaluator.needed_rate(f);
    auto& phases = seconds[flow.job.value];
    phases.resize(std::max<std::size_t>(phases.size(), flow.phase + 1), 0.0);
    if (needed > 0.0)
      phases[flow.phase] = std::max(phases[flow.phase], flow.weight * 8.0 / needed);
  }
  double together = share, alone = 1.0;
  for (std::uint32_t j = 0; j < seconds.size(); ++j) {
    if (seconds[j].size() < 2)
      continue;
    const double ideal = std::accumulate(seconds[j].begin(), seconds[j].end(), 0.0);
    const double heaviest = seconds[j][evaluator.heaviest_phase({j})];
    together = std::max(together, ideal / (ideal - heaviest + heaviest / share));
    alone = std::min(alone, alone_by_phase(problem, j, seconds[j]));
  }
  const double bound = std::min(together, alone);
  return bound > 1.0 - kRounding ? 1.0 : bound;
}

// Whether a subflow that needs the network has no way through it.
bool cut_off(const Model& model, const Evaluator& evaluator) {
  const Routing base = model.base();
  std::vector<bool> reached(base.size());
  for (std::uint32_t s = 0; s < reached.size(); ++s)
    reached[s] = base[s].routable() || evaluator.needed_rate(model.flow_of(s)) <= 0.0;
  for (const Model::Unit& unit : model.units())
    for (const std::uint32_t s : model.members(unit))
      reached[s] = true;
  return std::ranges::find(reached, false) != reached.end();
}

}  // namespace

Bound bound_of(const Problem& problem, BoundEffort effort) {
  Problem free = problem;
  free.fixed.clear();
  free.current.clear();
  const Model model(free);
  const Evaluator evaluator(*free.topology, *free.links, free.demand, free.residual);
  const Bounds bounds = find_bounds(model, evaluator);
  Bound bound{.max_on_link = bounds.max_on_link};
  if (cut_off(model, evaluator))
    return {
        .max_on_link = bounds.max_on_link, .efficiency = 0.0, .combinatorial = 0.0, .linear = 0.0};
  bound.combinatorial = over_phases(free, evaluator, bounds.worst);
  if (effort == BoundEffort::linear)
    bound.linear = over_phases(free, evaluator, split_bound(model, evaluator));
  bound.efficiency = std::min(bound.combinatorial, bound.linear);
  return bound;
}

}  // namespace heddle::sim
