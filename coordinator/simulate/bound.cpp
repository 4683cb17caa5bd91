#include "coordinator/simulate/bound.h"

#include <algorithm>
#include <vector>

#include "common/core/bounds.h"

namespace heddle::sim {
namespace {

// Two ways to compute one fraction differ by this.
constexpr double kRounding = 1e-9;

// The core bounds what a flow gets in its job's heaviest phase. In the other phases the job is at
// its ideal at best, so that a job of several phases may do better as a whole than in its heaviest.
double over_phases(const Demand& demand, const Evaluator& evaluator, double share) {
  if (share > 1.0 - kRounding)
    return 1.0;
  std::vector<std::vector<double>> seconds(demand.jobs.size());
  for (std::uint32_t f = 0; f < demand.flows.size(); ++f) {
    const FlowDemand& flow = demand.flows[f];
    const double needed = evaluator.needed_rate(f);
    auto& phases = seconds[flow.job.value];
    phases.resize(std::max<std::size_t>(phases.size(), flow.phase + 1), 0.0);
    if (needed > 0.0)
      phases[flow.phase] = std::max(phases[flow.phase], flow.weight * 8.0 / needed);
  }
  double bound = share;
  for (std::uint32_t j = 0; j < seconds.size(); ++j) {
    double ideal = 0.0, heaviest = 0.0;
    for (std::uint32_t p = 0; p < seconds[j].size(); ++p) {
      ideal += seconds[j][p];
      if (p == evaluator.heaviest_phase({j}))
        heaviest = seconds[j][p];
    }
    if (ideal > heaviest * (1.0 + kRounding) && share > 0.0)
      bound = std::max(bound, ideal / (ideal - heaviest + heaviest / share));
  }
  return bound;
}

// Whether a subflow that needs the network has no way through it.
bool cut_off(const Model& model, const Evaluator& evaluator) {
  std::vector<bool> reached(model.base().size());
  for (std::uint32_t s = 0; s < reached.size(); ++s)
    reached[s] = model.base()[s].routable() || evaluator.needed_rate(model.flow_of(s)) <= 0.0;
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
  bound.combinatorial = over_phases(free.demand, evaluator, bounds.worst);
  if (effort == BoundEffort::linear)
    bound.linear = over_phases(free.demand, evaluator, split_bound(model, evaluator));
  bound.efficiency = std::min(bound.combinatorial, bound.linear);
  return bound;
}

}  // namespace heddle::sim
