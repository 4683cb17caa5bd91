// Hysteresis by itself. Weights are here what counters say, without the grouping that keeps noise
// from plans (prediction.cpp), so that routings which are as good as each other change places in
// every period.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "coordinator/decide/decide.h"
#include "coordinator/predict/flow_table.h"
#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::address;

constexpr std::uint64_t kSeed = 20261130;
constexpr double kNoise = 0.05;
constexpr int kFlows = 5;  // of one job over two uplinks: three share one

struct Thousand {
  std::size_t moves{};  // after the first plan
  std::size_t decisions{};
  std::size_t promises{};  // of them: another routing promised more
};

// An iteration is five reports: three of sending, two of silence. Every rate that is reported is
// wrong by up to 5 %. After every fourth iteration it is decided, of which sanitizers have enough.
Thousand a_thousand_periods(const DecideConfig& config) {
  const Topology topology = testing::small_fabric(2, 2, kFlows);
  const LinkState links(topology);
  const auto optimiser = make_optimiser("heddle");
  FlowTable table(topology, {.elephant_rate = Rate{1e6}});
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<> error(1 - kNoise, 1 + kNoise);
  std::vector<JobDeclaration> declared{{.name = "job", .hosts = {}}};
  for (const auto& host : topology.hosts())
    declared[0].hosts.push_back(host.name);
  Time now(1000s);
  RoutePlan present;
  Thousand seen;
  for (std::uint64_t number = 1; number <= 5000; ++number) {
    std::vector<FlowDelta> flows;
    for (int host = 1; host <= kFlows; ++host)
      if (number % 5 < 3)
        flows.push_back(testing::delta(testing::wire_key(address(1, host), address(2, host)),
                                       static_cast<std::uint64_t>(625'000 * error(random)), "up1"));
    table.add("leaf1", testing::report_of(number, now, 200ms, std::move(flows)), now + 200ms);
    now += 200ms;
    if (number % 20 != 0 || number < kIntervals)
      continue;
    Prediction prediction = predict(topology, table, declared, nullptr);
    for (std::size_t i = 0; i < prediction.flows.size(); ++i)
      prediction.demand.flows[i].weight = static_cast<double>(
          table.volume(table.subflows().at(prediction.flows[i].subflows.front()))->bytes.value);
    PlanningInput input;
    input.topology = &topology;
    input.links = &links;
    input.prediction = &prediction;
    input.present = &present;
    input.steering[LeafId{0}] = Granularity::port_and_destination;
    const PlanningProblem planning = make_problem(input);
    const Candidates candidates = make_candidates(planning, *optimiser, kSeed);
    const Decision decision = decide(candidates.list, planning.units.size(), {}, config);
    const bool first = present.nodes.empty();
    ++seen.decisions;
    if (!first &&
        compare(candidates.list.back().efficiency, candidates.list.front().efficiency) > 0)
      ++seen.promises;
    if (!decision.chosen)
      continue;
    const Candidate& chosen = candidates.list[*decision.chosen];
    seen.moves += first ? 0 : chosen.moves;
    present = make_plan(input, planning, chosen.routing, {1, number}, false).plan;
  }
  return seen;
}

TEST(NoiseTest, WithoutHysteresisFlowsMoveForNoiseAndWithItTheyStay) {
  DecideConfig none;
  none.hysteresis = none.move_cost = 0;
  const Thousand without = a_thousand_periods(none);
  const Thousand with = a_thousand_periods({});
  std::printf(
      "seed %llu: %zu moves without hysteresis, %zu with; more was promised %zu of %zu times\n",
      static_cast<unsigned long long>(kSeed), without.moves, with.moves, with.promises,
      with.decisions);
  EXPECT_GT(without.moves, 100U) << "no two routings are near enough: this test is of nothing";
  EXPECT_GT(with.promises, with.decisions / 2);
  EXPECT_EQ(with.moves, 0U);
}

}  // namespace
}  // namespace heddle
