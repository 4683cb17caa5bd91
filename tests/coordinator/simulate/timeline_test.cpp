#include "coordinator/simulate/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "coordinator/simulate/collectives.h"
#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using namespace std::chrono_literals;
using sim::testing::fabric;

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
  auto timeline = simulate(scenario, *make_optimiser(scheme), options);
  EXPECT_TRUE(timeline.has_value()) << timeline.error().message;
  return *std::move(timeline);
}

void expect_anchor(const Timeline& timeline, std::size_t iterations) {
  ASSERT_EQ(timeline.communication.size(), 1U);
  ASSERT_EQ(timeline.communication[0].size(), iterations);
  for (const Duration time : timeline.communication[0])
    EXPECT_NEAR(static_cast<double>(time.count()), 1'173'333'336.0, 10.0);
}

TEST(Anchor, TheFirstPublicJobSetTakesAsLongAsInThePapersSimulator) {
  const Topology topology = fabric();
  const auto folder = sim::testing::paper_folder(2);
  if (!folder)
    GTEST_SKIP() << "the public job files are not here";
  expect_anchor(play(topology, load_paper_jobs(*folder)->first(1), "greedy", {.iterations = 3}), 3);
}

TEST(Anchor, AGeneratedJobOfTheSameKindTakesAsLong) {
  const Topology topology = fabric();
  expect_anchor(play(topology, one_bloom(topology), "greedy", {.iterations = 3}), 3);
}

// Two leaves with two NICs each, over one spine.
Topology two_leaves(std::uint32_t spines = 1) {
  FabricSpec spec;
  spec.leaves = 2;
  spec.nics_per_leaf = 2;
  spec.uplinks = spines;
  return fabric(spec);
}

// NIC 0 to NIC 2, and NIC 1 to NIC 3, as a group each.
Workload two_transfers(double first_bytes, double second_bytes) {
  SimJob job{.name = "job"};
  job.flows = {{NicId{0}, NicId{2}}, {NicId{1}, NicId{3}}};
  Step step{.compute = 1s};
  step.groups = {{.rounds = {{.transfers = {{0, first_bytes}}}}},
                 {.rounds = {{.transfers = {{1, second_bytes}}}}}};
  job.iteration = {step};
  return {.name = "two", .jobs = {job}};
}

// 1.25 GB and 2.5 GB at 100 Gb/s alone would take 0.1 s and 0.2 s. They share a link: at 50 Gb/s
// the first ends after 0.2 s, when the second has 1.25 GB left, which take 0.1 s.
TEST(Timeline, ATransferThatEndsLeavesItsShareToTheOther) {
  const Topology topology = two_leaves();
  const Timeline timeline =
      play(topology, two_transfers(1.25e9, 2.5e9), "greedy", {.iterations = 1});
  ASSERT_EQ(timeline.completion_ms.size(), 2U);
  EXPECT_DOUBLE_EQ(timeline.completion_ms[0], 200.0);
  EXPECT_DOUBLE_EQ(timeline.completion_ms[1], 300.0);
  EXPECT_NEAR(timeline.throughput_gbps[0], 50.0, 1e-9);
  ASSERT_EQ(timeline.communication[0].size(), 1U);
  EXPECT_EQ(timeline.communication[0][0], 300ms);
}

// The second of two rounds begins for both members when the slower member has ended the first: 0.1
// s + 0.1 s, though the faster needs 0.05 s for each.
TEST(Timeline, ARingWaitsForItsSlowestMemberInEachRound) {
  const Topology topology = two_leaves(2);
  SimJob job{.name = "ring"};
  job.flows = {{NicId{0}, NicId{2}}, {NicId{2}, NicId{0}}};
  job.iteration = {
      {.compute = 1s,
       .groups = {{.rounds = {{.transfers = {{0, 1.25e9}, {1, 0.625e9}}, .repeat = 2}}}}}};
  const Timeline timeline =
      play(topology, {.name = "ring", .jobs = {job}}, "greedy", {.iterations = 1});
  EXPECT_EQ(timeline.communication[0], std::vector<Duration>{200ms});
  EXPECT_EQ(timeline.completion_ms, (std::vector<double>{50.0, 100.0, 50.0, 100.0}));
}

// Each iteration: 1 s of computing, 0.1 s of sending. Two fit into 2.5 s, the third does not.
TEST(Timeline, EndsWhenTimeIsOver) {
  const Topology topology = two_leaves(2);
  const Timeline timeline =
      play(topology, two_transfers(1.25e9, 1.25e9), "greedy", {.end = 2500ms});
  EXPECT_EQ(timeline.communication[0], (std::vector<Duration>{100ms, 100ms}));
  EXPECT_EQ(timeline.stalled, 0U);
}

// Two spines carry 1.25 GB each from 1 s on. At 1.05 s one fails: both share the other, so that
// what was left, half of each, takes twice 0.05 s. Nothing is recovered.
TEST(Timeline, AFailureMovesWhatItHits) {
  const Topology topology = two_leaves(2);
  TimelineOptions options{.iterations = 1};
  for (const CableId cable : topology.spines()[1].cables)
    options.events.push_back({.at = 1050ms, .cable = cable, .up = false});
  const Timeline timeline = play(topology, two_transfers(1.25e9, 1.25e9), "greedy", options);
  EXPECT_EQ(timeline.communication[0], std::vector<Duration>{150ms});
  ASSERT_EQ(timeline.epochs.size(), 2U);
  EXPECT_EQ(timeline.epochs[1].at, 1050ms);
  EXPECT_EQ(timeline.epochs[1].moves, 1U);
  EXPECT_DOUBLE_EQ(timeline.epochs[1].efficiency.worst, 0.5);
}

// As above, and at 1.07 s the spine is back: 0.05 s at 100, 0.02 s at 50 Gb/s, and 0.04 s at 100
// for the rest.
TEST(Timeline, ARecoveryIsUsedAtOnce) {
  const Topology topology = two_leaves(2);
  TimelineOptions options{.iterations = 1};
  for (const CableId cable : topology.spines()[1].cables) {
    options.events.push_back({.at = 1050ms, .cable = cable, .up = false});
    options.events.push_back({.at = 1070ms, .cable = cable, .up = true});
  }
  const Timeline timeline = play(topology, two_transfers(1.25e9, 1.25e9), "greedy", options);
  EXPECT_EQ(timeline.communication[0], std::vector<Duration>{110ms});
}

TEST(Timeline, ALeafThatIsCutOffStallsItsTransfersAndEndsTheRun) {
  const Topology topology = two_leaves(2);
  Scenario scenario;
  scenario.topology = &topology;
  scenario.workload = two_transfers(1.25e9, 1.25e9);
  for (const CableId cable : topology.leaves()[0].cables)
    scenario.failed.push_back(cable);
  const Timeline timeline = *simulate(scenario, *make_optimiser("greedy"), {});
  EXPECT_EQ(timeline.stalled, 2U);
  EXPECT_TRUE(timeline.communication[0].empty());
  ASSERT_EQ(timeline.epochs.size(), 1U);
  EXPECT_THAT(timeline.epochs[0].notes,
              ::testing::Contains(::testing::HasSubstr("leaf1 has no live uplink")));
}

// The same run, but cut off at 1.05 s and back at 2 s: 0.05 s before, 0.05 s after.
TEST(Timeline, AStalledTransferGoesOnWhenALinkReturns) {
  const Topology topology = two_leaves(2);
  TimelineOptions options{.iterations = 1};
  for (const CableId cable : topology.leaves()[0].cables) {
    options.events.push_back({.at = 1050ms, .cable = cable, .up = false});
    options.events.push_back({.at = 2000ms, .cable = cable, .up = true});
  }
  const Timeline timeline = play(topology, two_transfers(1.25e9, 1.25e9), "greedy", options);
  EXPECT_EQ(timeline.communication[0], std::vector<Duration>{1050ms});
}

// Placed only at 0 s, 2 s and so on: what begins at 1 s is hashed until 2 s.
TEST(Timeline, PlacesPeriodicallyIfAskedTo) {
  const Topology topology = two_leaves(2);
  const Timeline timeline =
      play(topology, two_transfers(25e9, 25e9), "greedy", {.iterations = 1, .period = 2s});
  ASSERT_FALSE(timeline.epochs.empty());
  for (const Epoch& epoch : timeline.epochs)
    EXPECT_EQ(epoch.at % Duration(2s), Duration::zero());
  EXPECT_EQ(timeline.communication[0].size(), 1U);
}

// Halving-doubling of 4 members with 1 GB each: 2 x (0.5 + 0.25) GB at 100 Gb/s.
TEST(Timeline, HalvingDoublingTakesAsLongAsItsExchanges) {
  const Topology topology = two_leaves(2);
  SimJob job{.name = "job"};
  const std::vector<NicId> members{NicId{0}, NicId{2}, NicId{1}, NicId{3}};
  CollectiveBuilder(job).halving_doubling(members, 1e9, 0);
  const Timeline timeline =
      play(topology, {.name = "w", .jobs = {job}}, "greedy", {.iterations = 1});
  EXPECT_EQ(timeline.communication[0], std::vector<Duration>{120ms});
}

// Flows of one byte and no computing between them: millions of each for a second. What a run
// records of them is bounded, and whoever asked for it is told which job it was.
TEST(Timeline, FlowsTooSmallToSimulateAreAnErrorThatNamesTheirJob) {
  const Topology topology = two_leaves(2);
  Scenario scenario;
  scenario.topology = &topology;
  scenario.workload = two_transfers(1.25e9, 1.25e9);
  SimJob tiny{.name = "tiny", .flows = {{NicId{2}, NicId{0}}}};
  tiny.iteration = {{.compute = {}, .groups = {{.rounds = {{.transfers = {{0, 1.0}}}}}}}};
  scenario.workload.jobs.push_back(tiny);
  const auto fault = [&](const TimelineOptions& options) {
    const auto timeline = simulate(scenario, *make_optimiser("greedy"), options);
    EXPECT_FALSE(timeline.has_value());
    return timeline ? Error{} : timeline.error();
  };
  const Error epochs = fault({.end = 1s, .most_epochs = 100});
  EXPECT_EQ(epochs.code, Errc::unsupported);
  EXPECT_THAT(epochs.message, ::testing::HasSubstr("more than 100 placements within"));
  EXPECT_THAT(epochs.message, ::testing::HasSubstr("iterations of tiny"));
  // Placed seldom, they still end.
  EXPECT_THAT(fault({.end = 1s, .period = 500ms, .most_transfers = 1000}).message,
              ::testing::HasSubstr("more than 1000 transfers"));
  EXPECT_THAT(fault({.end = 1s, .period = 500ms, .most_instants = 1000}).message,
              ::testing::HasSubstr("more than 1000 events"));
}

// q subflows over both spines carry what one path cannot.
TEST(Timeline, AFlowOfSeveralQueuePairsUsesSeveralSpines) {
  FabricSpec spec;
  spec.leaves = 2;
  spec.nics_per_leaf = 3;
  spec.uplinks = 2;
  const Topology topology = fabric(spec);
  SimJob job{.name = "job"};
  job.flows = {{NicId{0}, NicId{3}}, {NicId{1}, NicId{4}}, {NicId{2}, NicId{5}}};
  Round round;
  for (std::uint32_t f = 0; f < 3; ++f)
    round.transfers.push_back({f, 1.25e9});
  job.iteration = {{.compute = 1s, .groups = {{.rounds = {round}}}}};
  const Workload workload{.name = "w", .jobs = {job}};
  // One path each: two of three share a spine. Two: three subflows on each of two spines, 2/3 of a
  // NIC for each flow.
  EXPECT_EQ(play(topology, workload, "heddle", {.iterations = 1}).communication[0][0], 200ms);
  EXPECT_EQ(play(topology, workload, "heddle", {.iterations = 1}, 2).communication[0][0], 150ms);
}

TEST(Timeline, IsTheSameEveryTime) {
  const Topology topology = fabric();
  const Workload workload = sim::testing::paper_jobs(2, topology);
  const TimelineOptions options{.end = 20s};
  const Timeline a = play(topology, workload, "ecmp", options),
                 b = play(topology, workload, "ecmp", options);
  EXPECT_EQ(a.communication, b.communication);
  EXPECT_EQ(a.completion_ms, b.completion_ms);
  EXPECT_EQ(a.events, b.events);
  EXPECT_GT(a.completion_ms.size(), 1000U);
}

// A ring whose members end together begins its next round with the rates it had: one instant for
// each round.
TEST(Timeline, SymmetricTransfersEndInOneInstant) {
  const Topology topology = fabric();
  const Timeline timeline = play(topology, one_bloom(topology), "heddle", {.iterations = 3});
  // Each iteration: compute over, first round over, second round over.
  EXPECT_EQ(timeline.events, 9U);
}

}  // namespace
}  // namespace heddle::sim
