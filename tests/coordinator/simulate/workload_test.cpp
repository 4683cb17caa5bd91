#include "coordinator/simulate/workload.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>

#include "coordinator/simulate/collectives.h"
#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<NicId> nics(std::uint32_t n) {
  std::vector<NicId> list;
  for (std::uint32_t i = 0; i < n; ++i)
    list.push_back({i});
  return list;
}

ActiveDemand demand_of(const SimJob& job, std::uint32_t qps, Steering steering) {
  FabricSpec spec;
  spec.leaves = 4;
  spec.nics_per_leaf = 4;
  spec.uplinks = 4;
  const Topology topology = sim::testing::fabric(spec);
  const Workload workload{.name = "w", .jobs = {job}};
  const std::vector<std::uint32_t> jobs{0};
  return make_demand(workload, FlowIndex(workload, qps), topology, jobs, steering);
}

// Four members, 400 bytes each: 6 rounds of 100 bytes from each to the next.
TEST(Collective, ARingSendsEachPartRoundTwice) {
  SimJob job;
  EXPECT_EQ(CollectiveBuilder(job).ring(nics(4), 400.0, 0), 1U);
  const Round& round = job.iteration.at(0).groups.at(0).rounds.at(0);
  EXPECT_EQ(round.repeat, 6U);
  ASSERT_THAT(round.transfers, SizeIs(4));
  EXPECT_EQ(round.transfers[3].bytes, 100.0);
  EXPECT_EQ(job.flows[3].source, NicId{3});
  EXPECT_EQ(job.flows[3].destination, NicId{0});
  const ActiveDemand active = demand_of(job, 1, Steering::flow);
  for (const FlowDemand& flow : active.demand.flows)
    EXPECT_EQ(flow.weight, 600.0);
}

// Eight members: partners at distance 4, 2, 1 exchange 1/2, 1/4, 1/8, then 1/8, 1/4, 1/2: each
// sends 7/4 of its bytes.
TEST(Collective, HalvingDoublingExchangesWithPartnersAtEveryDistance) {
  SimJob job;
  EXPECT_EQ(CollectiveBuilder(job).halving_doubling(nics(8), 800.0, 0), 3U);
  const std::vector<Round>& rounds = job.iteration.at(0).groups.at(0).rounds;
  ASSERT_THAT(rounds, SizeIs(6));
  EXPECT_EQ(job.phases, 3U);
  double sent = 0.0;
  for (const Round& round : rounds)
    sent += round.transfers[0].bytes;
  EXPECT_EQ(sent, 1400.0);
  EXPECT_THAT(job.flows, SizeIs(24));
  EXPECT_EQ(rounds[0].transfers[0].flow, rounds[5].transfers[0].flow);
}

// Six members are four and two: 0 and 2 hand their 800 bytes to 1 and 3 first and get the sum last;
// between, 1, 3, 4 and 5 exchange 400, 200, 200 and 400.
TEST(Collective, HalvingDoublingTakesInMembersBeyondAPowerOfTwo) {
  SimJob job;
  EXPECT_EQ(CollectiveBuilder(job).halving_doubling(nics(6), 800.0, 5), 4U);
  EXPECT_EQ(job.phases, 9U);
  const std::vector<Round>& rounds = job.iteration.at(0).groups.at(0).rounds;
  ASSERT_THAT(rounds, SizeIs(6));
  std::vector<std::uint32_t> phases;
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, double>> sent;
  for (const Round& round : rounds) {
    phases.push_back(round.phase);
    sent.emplace_back();
    for (const Transfer& transfer : round.transfers) {
      const JobFlow& flow = job.flows[transfer.flow];
      sent.back()[{flow.source.value, flow.destination.value}] = transfer.bytes;
    }
  }
  EXPECT_THAT(phases, ElementsAre(5, 6, 7, 7, 6, 8));
  using Sent = decltype(sent)::value_type;
  EXPECT_EQ(sent[0], (Sent{{{0, 1}, 800.0}, {{2, 3}, 800.0}}));
  EXPECT_EQ(sent[1], (Sent{{{1, 4}, 400.0}, {{4, 1}, 400.0}, {{3, 5}, 400.0}, {{5, 3}, 400.0}}));
  EXPECT_EQ(sent[2], (Sent{{{1, 3}, 200.0}, {{3, 1}, 200.0}, {{4, 5}, 200.0}, {{5, 4}, 200.0}}));
  EXPECT_EQ(sent[5], (Sent{{{1, 0}, 800.0}, {{3, 2}, 800.0}}));
}

TEST(Collective, AllToAllMeetsEveryPairOnce) {
  SimJob job;
  CollectiveBuilder(job).all_to_all(nics(5), 500.0, 0);
  std::set<std::pair<NicId, NicId>> pairs;
  for (const JobFlow& flow : job.flows) {
    EXPECT_NE(flow.source, flow.destination);
    pairs.insert({flow.source, flow.destination});
  }
  EXPECT_THAT(pairs, SizeIs(20));
}

TEST(Collective, APipelineSendsForwardOnly) {
  SimJob job;
  CollectiveBuilder(job).pipeline(nics(4), 10.0, 8, 0);
  ASSERT_THAT(job.flows, SizeIs(3));
  EXPECT_EQ(job.iteration.at(0).groups.at(0).rounds.at(0).repeat, 8U);
}

TEST(Collective, OneMemberNeedsNoNetwork) {
  SimJob job;
  CollectiveBuilder builder(job);
  EXPECT_EQ(builder.ring(nics(1), 10.0, 0), 0U);
  EXPECT_EQ(builder.halving_doubling(nics(1), 10.0, 0), 0U);
  EXPECT_EQ(builder.all_to_all(nics(1), 10.0, 0), 0U);
  EXPECT_TRUE(job.flows.empty());
}

TEST(Demand, OneQueuePairIsOneUnitForEachFlow) {
  SimJob job;
  CollectiveBuilder(job).ring(nics(4), 400.0, 0);
  EXPECT_TRUE(demand_of(job, 1, Steering::flow).unit_of_subflow.empty());
  const ActiveDemand by_pair = demand_of(job, 2, Steering::queue_pair);
  EXPECT_THAT(by_pair.unit_of_subflow, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// All but one send to NIC 0: 1 to 3 from its own leaf, 4 and 5 from the next.
TEST(Demand, SteeringByDestinationMovesALeafsFlowsToANicTogether) {
  SimJob job;
  Round round;
  for (std::uint32_t n = 1; n <= 5; ++n) {
    round.transfers.push_back({n - 1, 1.0});
    job.flows.push_back({NicId{n}, NicId{0}});
  }
  job.iteration = {{.compute = {}, .groups = {{.rounds = {round}}}}};
  EXPECT_THAT(demand_of(job, 1, Steering::destination).unit_of_subflow, ElementsAre(0, 0, 0, 1, 1));
}

// A flow that appears in two phases has one path: its halves are one unit.
TEST(Demand, AFlowKeepsItsPathFromPhaseToPhase) {
  SimJob job{.name = "job", .phases = 2, .flows = {{NicId{0}, NicId{4}}}};
  job.iteration = {
      {.compute = {}, .groups = {{.rounds = {{.transfers = {{0, 3.0}}, .phase = 0}}}}},
      {.compute = {}, .groups = {{.rounds = {{.transfers = {{0, 5.0}}, .phase = 1}}}}}};
  const ActiveDemand active = demand_of(job, 1, Steering::flow);
  ASSERT_THAT(active.demand.flows, SizeIs(2));
  EXPECT_EQ(active.demand.flows[1].weight, 5.0);
  EXPECT_THAT(active.unit_of_subflow, ElementsAre(0, 0));
  EXPECT_THAT(active.slots, ElementsAre(0, 0));
}

}  // namespace
}  // namespace heddle::sim
