#include "common/core/efficiency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Two leaves, two spines, two NICs a leaf (0 and 1, 2 and 3), all of 100 Gb/s.
class EfficiencyTest : public ::testing::Test {
 protected:
  Topology fabric{make_fabric({.leaves = 2, .spines = 2, .nics = 2})};
  LinkState links{fabric};

  // From NIC to NIC over a spine, each pair of leaves having one cable to it.
  Path via(std::uint32_t from, std::uint32_t to, std::uint32_t spine) const {
    const AttachmentId a = fabric[NicId{from}].attachments.front();
    const AttachmentId b = fabric[NicId{to}].attachments.front();
    return {.from = a,
            .up = fabric.cables_between(fabric[a].leaf, {spine}).front(),
            .down = fabric.cables_between(fabric[b].leaf, {spine}).front(),
            .to = b};
  }
  Path local(std::uint32_t from, std::uint32_t to) const {
    return {.from = fabric[NicId{from}].attachments.front(),
            .up = {},
            .down = {},
            .to = fabric[NicId{to}].attachments.front()};
  }
};

// Two flows of one job on one uplink get half each; apart, all. 1,000 bytes at 50 Gb/s last 160 ns.
TEST_F(EfficiencyTest, HalvesForTwoFlowsOnOneUplink) {
  const Demand demand = demand_of({flow(0, 0, 2, 1000), flow(0, 1, 3, 1000)});
  const Efficiency together = evaluate(fabric, links, demand, {via(0, 2, 0), via(1, 3, 0)});
  EXPECT_THAT(together.by_job, ElementsAre(DoubleNear(0.5, 1e-12)));
  EXPECT_EQ(together.max_on_link, 2U);
  EXPECT_EQ(together.communication.front(), Duration(160));
  const Efficiency apart = evaluate(fabric, links, demand, {via(0, 2, 0), via(1, 3, 1)});
  EXPECT_THAT(apart.by_job, ElementsAre(DoubleNear(1.0, 1e-12)));
  EXPECT_EQ(apart.max_on_link, 1U);
  EXPECT_EQ(compare(together, apart), -1);
  EXPECT_EQ(compare(apart, together), 1);
  EXPECT_EQ(compare(apart, apart), 0);
}

// The slowest flow holds up its job alone: job 1 shares a link, job 2 has one to itself.
TEST_F(EfficiencyTest, IsEachJobsOwnAndIsComparedFromTheWorst) {
  const Demand demand = demand_of({flow(1, 0, 2), flow(1, 1, 3), flow(0, 2, 0)});
  const Efficiency e = evaluate(fabric, links, demand, {via(0, 2, 0), via(1, 3, 0), via(2, 0, 0)});
  EXPECT_THAT(e.by_job, ElementsAre(1.0, 0.5));
  EXPECT_THAT(e.ascending, ElementsAre(0.5, 1.0));
  EXPECT_EQ(e.worst, 0.5);
  EXPECT_EQ(e.mean, 0.75);
}

// Weights 4 and 1: the light flow needs 25 Gb/s; the half that it gets beside the heavy one costs
// it nothing, but costs the heavy one half.
TEST_F(EfficiencyTest, WeighsFlowsByTheirBytes) {
  const Demand apart = demand_of({flow(0, 0, 2, 4), flow(0, 1, 3, 1)});
  EXPECT_EQ(evaluate(fabric, links, apart, {via(0, 2, 0), via(1, 3, 0)}).worst, 0.5);
  const Demand light = demand_of({flow(0, 0, 2, 1), flow(0, 1, 3, 1), flow(0, 2, 0, 2)});
  EXPECT_EQ(evaluate(fabric, links, light, {via(0, 2, 0), via(1, 3, 0), via(2, 0, 0)}).worst, 1.0);
}

// Spine 1 carries 2 of A's 4 subflows and B's 3: 20 each. So A moves at 4 x 20 and B at 3 x 20,
// although A's other two have more.
TEST_F(EfficiencyTest, MovesASplitFlowAtItsSlowestSubflow) {
  const Demand demand = demand_of({flow(0, 0, 2, 1, 4), flow(1, 1, 3, 1, 3)});
  const Path a = via(0, 2, 0), b = via(0, 2, 1), c = via(1, 3, 0);
  const Efficiency e = evaluate(fabric, links, demand, {a, a, b, b, c, c, c});
  EXPECT_THAT(e.by_job, ElementsAre(DoubleNear(0.8, 1e-12), DoubleNear(0.6, 1e-12)));
  EXPECT_EQ(e.max_on_link, 5U);
  EXPECT_NEAR(e.subflow_rates[0].bits_per_second, 20e9, 1);
  EXPECT_NEAR(e.subflow_rates[2].bits_per_second, 30e9, 1) << "what the NIC has left";
}

// Two senders into one NIC halve each other on any core, so both jobs are where they can be.
TEST_F(EfficiencyTest, DoesNotBlameTheCoreForANicsLimit) {
  const Demand demand = demand_of({flow(0, 0, 2), flow(1, 1, 2)});
  EXPECT_THAT(evaluate(fabric, links, demand, {via(0, 2, 0), via(1, 2, 1)}).by_job,
              ElementsAre(1.0, 1.0));
  EXPECT_THAT(evaluate(fabric, links, demand, {via(0, 2, 0), via(1, 2, 0)}).by_job,
              ElementsAre(1.0, 1.0));
}

// Phase 0 has weight 3 and is alone on its link; phase 1 has weight 1 and shares one with job 2.
// Ideal 3 + 1 = 4, here 3 + 2 = 5. Job 2 is judged beside job 1's heaviest phase, which it does not
// meet.
TEST_F(EfficiencyTest, AddsUpPhasesThatDoNotOverlap) {
  Demand demand = demand_of({flow(0, 0, 3, 3), flow(0, 0, 3, 1), flow(1, 1, 2)});
  demand.flows[1].phase = 1;
  demand.jobs[0].phases = 2;
  const Efficiency e = evaluate(fabric, links, demand, {via(0, 3, 0), via(0, 3, 1), via(1, 2, 1)});
  EXPECT_THAT(e.by_job, ElementsAre(DoubleNear(0.8, 1e-12), 1.0));
  EXPECT_EQ(e.max_on_link, 2U)
      << "phases of one job are not on a link together, job 2 and phase 1 are";
}

// The spine hashes over two downlinks: 3 flows over 2 x 100 want 300, get 200: 2/3 each.
TEST(Efficiency, SpreadsHashedDownlinksInTheMean) {
  const Topology fabric = make_fabric({.leaves = 4, .spines = 1, .nics = 3, .cables = 2});
  LinkState links(fabric);
  const Demand demand = demand_of({flow(0, 0, 9), flow(0, 3, 10), flow(0, 6, 11)});
  Routing routing;
  for (const FlowDemand& f : demand.flows) {
    const AttachmentId a = fabric[f.source].attachments.front();
    routing.push_back({.from = a,
                       .up = fabric.cables_between(fabric[a].leaf, SpineId{0}).front(),
                       .down = {},
                       .to = fabric[f.destination].attachments.front()});
  }
  const Efficiency e = evaluate(fabric, links, demand, routing);
  EXPECT_NEAR(e.worst, 2.0 / 3, 1e-12);
  EXPECT_EQ(e.max_on_link, 2U) << "1.5 in the mean";
  links.set(fabric.downlink(fabric.cables_between(LeafId{3}, SpineId{0}).back()), false);
  EXPECT_NEAR(evaluate(fabric, links, demand, routing).worst, 1.0 / 3, 1e-12);
}

TEST_F(EfficiencyTest, IsZeroForAJobWithASubflowThatHasNoLivePath) {
  const Demand demand = demand_of({flow(0, 0, 2, 1, 2), flow(1, 3, 1)});
  EXPECT_THAT(evaluate(fabric, links, demand, {via(0, 2, 0), Path{}, via(3, 1, 1)}).by_job,
              ElementsAre(0.0, 1.0));
  links.set(fabric.uplink(via(0, 2, 0).up), false);
  const Efficiency e = evaluate(fabric, links, demand, {via(0, 2, 0), via(0, 2, 1), via(3, 1, 1)});
  EXPECT_THAT(e.by_job, ElementsAre(0.0, 1.0));
  EXPECT_EQ(e.communication.front(), Duration::max());
}

// 60 of 100 are taken on spine 1's uplink: the flow gets 40.
TEST_F(EfficiencyTest, TakesResidualLoadOffTheLinks) {
  const Demand demand = demand_of({flow(0, 0, 2)});
  std::vector<Rate> residual(fabric.link_count());
  residual[fabric.uplink(via(0, 2, 0).up).value] = 60_gbps;
  EXPECT_NEAR(evaluate(fabric, links, demand, {via(0, 2, 0)}, residual).worst, 0.4, 1e-12);
  EXPECT_EQ(evaluate(fabric, links, demand, {via(0, 2, 1)}, residual).worst, 1.0);
}

TEST_F(EfficiencyTest, NeedsNoCoreInsideALeafAndNothingForWhatIsNoTraffic) {
  Demand demand = demand_of({flow(0, 0, 1), flow(1, 2, 2), flow(2, 0, 2, 0.0)});
  demand.jobs.push_back({.name = "idle"});
  EXPECT_THAT(evaluate(fabric, links, demand, {local(0, 1), Path{}, Path{}}).by_job,
              ElementsAre(1.0, 1.0, 1.0, 1.0));
}

// A dual-homed NIC of 2 x 100 on an infinitely fast core: one subflow can have 100, two subflows
// together 200.
TEST(Efficiency, TakesAllAttachmentsAsTheIdeal) {
  FabricDescription d = describe({.leaves = 2, .spines = 2, .nics = 1});
  d.hosts[0].nics[0].attachments.push_back({"leaf2", "p9", 100_gbps, 0});
  d.hosts.push_back({"big", "", {{"eth0", "10.9.9.9", {{"leaf2", "p8", 400_gbps, 0}}, 0}}, 0});
  const Topology fabric = Topology::build(d).value();
  const LinkState links(fabric);
  const auto ideal = [&](std::uint32_t subflows) {
    return Evaluator(fabric, links, demand_of({flow(0, 0, 2, 1e9, subflows)})).ideal_seconds()[0];
  };
  EXPECT_NEAR(ideal(1), 0.08, 1e-12);
  EXPECT_NEAR(ideal(2), 0.04, 1e-12);
}

}  // namespace
}  // namespace heddle
