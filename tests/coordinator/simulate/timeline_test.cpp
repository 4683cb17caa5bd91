#include "coordinator/simulate/timeline.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using namespace std::chrono_literals;
using testing::fabric;

// One BLOOM job, two copies: 48 rings of two send 7,333,333,334 bytes each way, twice, at 100 Gb/s.
Workload one_bloom(const Topology& topology) {
  PresetSpec spec;
  spec.name = "model";
  spec.model = "BLOOM";
  spec.jobs = 1;
  return *make_preset(spec, topology);
}

Timeline play(const Topology& topology, Workload workload, std::string_view scheme,
              TimelineOptions options = {}, std::uint32_t qps = 1) {
  Scenario scenario;
  scenario.topology = &topology;
  scenario.workload = std::move(workload);
  scenario.qps = qps;
  scenario.steering = qps > 1 ? Steering::queue_pair : Steering::flow;
  return simulate(scenario, *make_optimiser(scheme), options);
}

void expect_anchor(const Timeline& timeline, std::size_t iterations) {
  ASSERT_EQ(timeline.communication.size(), 1U);
  ASSERT_EQ(timeline.communication[0].size(), iterations);
  for (const Duration time : timeline.communication[0])
    EXPECT_NEAR(static_cast<double>(time.count()), 1'173'333'336.0, 10.0);
}

TEST(Anchor, TheFirstPublicJobSetTakesAsLongAsInThePapersSimulator) {
  const Topology topology = fabric();
  const auto folder = testing::paper_folder(2);
  if (!folder)
    GTEST_SKIP() << "the public job files are not here";
  expect_anchor(play(topology, load_paper_jobs(*folder)->first(1), "greedy", {.iterations = 3}), 3);
}

TEST(Anchor, AGeneratedJobOfTheSameKindTakesAsLong) {
  const Topology topology = fabric();
  expect_anchor(play(topology, one_bloom(topology), "greedy", {.iterations = 3}), 3);
}

}  // namespace
}  // namespace heddle::sim
