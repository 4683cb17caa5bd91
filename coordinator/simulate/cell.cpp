#include "coordinator/simulate/cell.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "coordinator/simulate/random.h"

namespace heddle::sim {
namespace {

constexpr Duration kSlow = std::chrono::milliseconds(50);
// Two ways to compute one fraction differ by rounding.
constexpr double kRounding = 1e-9;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double milliseconds(Duration duration) {
  if (duration == Duration::max())
    return kNone;  // of a job that can never end
  return static_cast<double>(duration.count()) / 1e6;
}

// Between nothing and twice the mean, each link its own.
std::vector<Rate> background_load(const Topology& topology, double mean, std::uint64_t seed) {
  std::vector<Rate> load(topology.link_count());
  Random random(seed);
  for (std::uint32_t i = 0; i < load.size(); ++i)
    if (topology.is_core({i}))
      load[i] = topology.capacity({i}) * (2.0 * mean * random.unit());
  return load;
}

std::vector<bool> enabled_leaves(const Topology& topology, double share, std::uint64_t seed) {
  std::vector<std::uint32_t> order(topology.leaves().size());
  std::iota(order.begin(), order.end(), 0U);
  Random(seed).shuffle(order);
  std::vector<bool> enabled(order.size(), false);
  const auto count =
      static_cast<std::size_t>(std::lround(share * static_cast<double>(order.size())));
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i)
    enabled[order[i]] = true;
  return enabled;
}

double mean_ms(const std::vector<Duration>& times) {
  double sum = 0.0;
  for (const Duration time : times)
    sum += milliseconds(time);
  return times.empty() ? kNone : sum / static_cast<double>(times.size());
}

TimelineOptions timeline_options(const Scenario& scenario, const CellOptions& options) {
  TimelineOptions timeline = options.timeline;
  for (const CableId cable : scenario.failed) {
    if (options.fail_at)
      timeline.events.push_back({.at = *options.fail_at, .cable = cable, .up = false});
    if (options.recover_at)
      timeline.events.push_back({.at = *options.recover_at, .cable = cable, .up = true});
  }
  return timeline;
}

LinkState links_of(const Scenario& scenario) {
  LinkState links(*scenario.topology);
  for (const CableId cable : scenario.failed)
    links.set(*scenario.topology, cable, false);
  return links;
}

std::vector<std::uint32_t> all_jobs(const Scenario& scenario) {
  std::vector<std::uint32_t> jobs(scenario.workload.jobs.size());
  std::iota(jobs.begin(), jobs.end(), 0U);
  return jobs;
}

void add_timeline(Row& row, Timeline timeline) {
  std::vector<double> warm;
  for (const Epoch& epoch : timeline.epochs) {
    warm.push_back(milliseconds(epoch.solver));
    row.moves += epoch.moves;
  }
  row.epochs = std::move(timeline.epochs);
  row.allreduce_ms.clear();
  for (const std::vector<Duration>& times : timeline.communication)
    row.allreduce_ms.push_back(mean_ms(times));
  row.completion_ms = Distribution(std::move(timeline.completion_ms));
  row.throughput_gbps = Distribution(std::move(timeline.throughput_gbps));
  row.warm_solver_ms = Distribution(std::move(warm));
  row.stalled = timeline.stalled;
  row.events = timeline.events;
}

}  // namespace

double percent_of_bound(const Epoch& epoch) {
  if (epoch.bound.efficiency <= 0.0)
    return kNone;
  if (epoch.efficiency.worst >= epoch.bound.efficiency - kRounding)
    return 100.0;
  return 100.0 * epoch.efficiency.worst / epoch.bound.efficiency;
}

double Row::percent_of_bound() const {
  return sim::percent_of_bound(all);
}

Scenario make_scenario(const Topology& topology, Workload workload, const Coordinates& at,
                       const CellOptions& options) {
  Scenario scenario;
  scenario.topology = &topology;
  scenario.workload = std::move(workload);
  scenario.qps = at.qps;
  scenario.steering =
      at.qps == 1 && options.steering == Steering::queue_pair ? Steering::flow : options.steering;
  scenario.failed =
      failed_cables(topology, {.spines = at.spines_down, .links = at.links_down, .seed = at.seed});
  if (options.background > 0)
    scenario.background = background_load(topology, options.background, at.seed);
  if (options.enabled < 1)
    scenario.enabled = enabled_leaves(topology, options.enabled, at.seed);
  scenario.seed = at.seed;
  return scenario;
}

Bound bound_of_all(const Scenario& scenario) {
  const LinkState links = links_of(scenario);
  const FlowIndex index(scenario.workload, scenario.qps);
  ActiveDemand active = make_demand(scenario.workload, index, *scenario.topology,
                                    all_jobs(scenario), scenario.steering);
  Problem problem;
  problem.topology = scenario.topology;
  problem.links = &links;
  problem.demand = std::move(active.demand);
  problem.unit_of_subflow = std::move(active.unit_of_subflow);
  problem.residual = scenario.background;
  return bound_of(problem, BoundEffort::linear);
}

Result<Row> run_cell(const Scenario& scenario, const Optimiser& scheme, const Coordinates& at,
                     const CellOptions& options, const Bound& bound) {
  Row row{.scheme = std::string(scheme.name()), .at = at};
  for (const SimJob& job : scenario.workload.jobs)
    row.flows += job.flows.size();
  const LinkState links = links_of(scenario);
  const std::vector<std::uint32_t> jobs = all_jobs(scenario);

  Router router(scenario, scheme);
  row.all = router.route(jobs, links, Duration{}, &bound);
  std::vector<double> cold{milliseconds(row.all.solver)};
  if (row.all.solver < kSlow && options.solves > 1)
    for (const Duration time : router.time_cold(links, options.solves - 1))
      cold.push_back(milliseconds(time));
  row.solver_ms = Distribution(std::move(cold));
  for (const Duration time : row.all.efficiency.communication)
    row.allreduce_ms.push_back(milliseconds(time));

  if (options.export_routing)
    row.routing = router.exported(jobs, links);

  if (options.timeline.end.count() > 0) {
    Scenario over_time = scenario;
    const TimelineOptions timeline = timeline_options(scenario, options);
    if (options.fail_at)
      over_time.failed.clear();
    Result<Timeline> played = simulate(over_time, scheme, timeline);
    if (!played)
      return tl::unexpected(played.error());
    add_timeline(row, *std::move(played));
  }
  return row;
}

}  // namespace heddle::sim
