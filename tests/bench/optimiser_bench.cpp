// Max-min rates, the metric and the schemes, on 64 leaves x 32 spines x 32 NICs: one subflow per
// NIC is 2,048, eight are 16,384, each a steering unit of its own.
#include <benchmark/benchmark.h>

#include <map>

#include "common/core/colouring.h"
#include "common/core/efficiency.h"
#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;

struct Case {
  Topology fabric = make_fabric({.leaves = 64, .spines = 32, .nics = 32});
  LinkState links{fabric};
  Problem problem;
  Routing routing;

  explicit Case(std::uint32_t subflows) {
    std::mt19937_64 random(1);
    problem = problem_of(fabric, links,
                         ring_jobs(
                             fabric, random, [](auto& r) { return 4 + r() % 253; }, subflows));
    problem.unit_of_subflow = by_queue_pair(problem.demand);
    routing = make_optimiser("ecmp")->place(problem, 1).routing;
  }
};

Case& shared_case(std::int64_t subflows) {
  static std::map<std::int64_t, std::unique_ptr<Case>> cases;
  auto& found = cases[subflows];
  if (!found)
    found = std::make_unique<Case>(static_cast<std::uint32_t>(subflows / 2048));
  return *found;
}

// On hashed routes, where many links are contended: the slow case.
void max_min_rates(benchmark::State& state) {
  Case& c = shared_case(state.range(0));
  FairNetwork network;
  for (const Path& path : c.routing) {
    network.cross(c.fabric.nic_tx(path.from));
    if (path.crosses_core()) {
      network.cross(c.fabric.uplink(path.up));
      network.cross(c.fabric.downlink(path.down));
    }
    network.cross(c.fabric.nic_rx(path.to));
    network.end_flow();
  }
  const std::vector<double> capacities(c.fabric.link_count(), 100e9);
  MaxMin solver;
  for (auto _ : state)
    benchmark::DoNotOptimize(solver.solve(network, capacities).data());
}
BENCHMARK(max_min_rates)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

void metric(benchmark::State& state) {
  Case& c = shared_case(state.range(0));
  Evaluator evaluator(c.fabric, c.links, c.problem.demand);
  for (auto _ : state)
    benchmark::DoNotOptimize(evaluator.evaluate(c.routing).worst);
}
BENCHMARK(metric)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

void scheme(benchmark::State& state, const char* name) {
  Case& c = shared_case(state.range(0));
  const auto optimiser = make_optimiser(name);
  for (auto _ : state)
    benchmark::DoNotOptimize(optimiser->place(c.problem, 1).routing.data());
}
BENCHMARK_CAPTURE(scheme, ecmp, "ecmp")->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scheme, greedy, "greedy")->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scheme, edge_colouring, "edge-colouring")
    ->Arg(2048)
    ->Arg(16384)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
