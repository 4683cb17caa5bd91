// Max-min rates, the metric and the schemes. On 64 leaves x 32 spines x 32 NICs one subflow per NIC
// is 2,048, eight are 16,384; on 512 x 64 x 32 eight are 131,072. Each subflow is a steering unit
// of its own.
#include <benchmark/benchmark.h>

#include <map>

#include "common/core/colouring.h"
#include "common/core/efficiency.h"
#include "common/core/heddle_session.h"
#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;

struct Case {
  Topology fabric;
  LinkState links{fabric};
  Problem problem;
  Routing routing;

  explicit Case(std::int64_t subflows)
      : fabric(make_fabric(subflows > 16384
                               ? FabricShape{.leaves = 512, .spines = 64, .nics = 32}
                               : FabricShape{.leaves = 64, .spines = 32, .nics = 32})) {
    std::mt19937_64 random(1);
    const auto each =
        static_cast<std::uint32_t>(static_cast<std::size_t>(subflows) / fabric.nics().size());
    problem = problem_of(fabric, links,
                         ring_jobs(
                             fabric, random, [](auto& r) { return 4 + r() % 253; }, each));
    problem.unit_of_subflow = by_queue_pair(problem.demand);
    routing = make_optimiser("ecmp")->place(problem, 1).routing;
  }
};

Case& shared_case(std::int64_t subflows) {
  static std::map<std::int64_t, std::unique_ptr<Case>> cases;
  auto& found = cases[subflows];
  if (!found)
    found = std::make_unique<Case>(subflows);
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

// The exact case, from nothing. The fitted exponent says how the time grows.
void heddle_exact(benchmark::State& state) {
  Case& c = shared_case(state.range(0));
  const auto optimiser = make_optimiser("heddle");
  for (auto _ : state)
    benchmark::DoNotOptimize(optimiser->place(c.problem, 1).proven);
  state.SetComplexityN(state.range(0));
}
BENCHMARK(heddle_exact)
    ->Arg(2048)
    ->Arg(16384)
    ->Arg(131072)
    ->Unit(benchmark::kMillisecond)
    ->Complexity([](benchmark::IterationCount n) { return static_cast<double>(n); });

// One path for each flow, a spine down: what must be doubled up is put on few jobs.
void heddle_spine_down(benchmark::State& state) {
  Case& c = shared_case(state.range(0));
  LinkState links = c.links;
  for (const CableId cable : c.fabric[SpineId{31}].cables)
    links.set(c.fabric, cable, false);
  Problem problem = c.problem;
  problem.links = &links;
  const auto optimiser = make_optimiser("heddle");
  for (auto _ : state)
    benchmark::DoNotOptimize(optimiser->place(problem, 1).proven);
}
BENCHMARK(heddle_spine_down)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

// From the plan of before, with one more link dead.
void heddle_warm(benchmark::State& state) {
  Case& c = shared_case(state.range(0));
  const auto optimiser = make_optimiser("heddle");
  Problem problem = c.problem;
  problem.current = optimiser->place(problem, 1).routing;
  LinkState links = c.links;
  links.set(c.fabric.uplink(CableId{7}), false);
  problem.links = &links;
  for (auto _ : state) {
    const Placement placement = optimiser->place(problem, 1);
    state.counters["moves"] = static_cast<double>(placement.moves.size());
  }
}
BENCHMARK(heddle_warm)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

// A job of 64 NICs comes to 1,984 that run, on a fabric where there is just room for it; and beside
// it, in the same unit, everything from nothing.
struct Arrival {
  Topology fabric = make_fabric({.leaves = 64, .spines = 32, .nics = 32});
  LinkState links{fabric};
  Problem problem;
  Arrival() {
    std::mt19937_64 random(64);
    problem = problem_of(fabric, links, ring_jobs(fabric, random, [](auto&) { return 64; }));
  }
};

void session_full_solve(benchmark::State& state) {
  const Arrival a;
  for (auto _ : state) {
    const HeddleSession session(a.problem, std::vector<bool>(32, true));
    benchmark::DoNotOptimize(session.efficiency({0}));
  }
}
BENCHMARK(session_full_solve)->Unit(benchmark::kMillisecond);

// The job goes to where it was the time before if it can, which would be too easy: each time is a
// new session's first.
void session_arrival(benchmark::State& state) {
  const Arrival a;
  std::vector<bool> running(32, true);
  running[9] = false;
  for (auto _ : state) {
    state.PauseTiming();
    auto session = std::make_unique<HeddleSession>(a.problem, running);
    state.ResumeTiming();
    const std::vector<std::uint32_t> moved = session->start({9});
    state.PauseTiming();
    state.counters["moved"] = static_cast<double>(moved.size());
    state.counters["worst"] = session->efficiency({9});
    session.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(session_arrival)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
