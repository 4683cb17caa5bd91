#include "coordinator/predict/prediction.h"

#include <gtest/gtest.h>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::address;
using testing::delta;
using testing::wire_key;

class PredictionTest : public ::testing::Test {
 protected:
  void send(int from_leaf, int from, int to_leaf, int to, std::uint64_t bytes = 2000000,
            std::uint16_t port = 50000, std::uint32_t qpn = 17) {
    pending[fmt::format("h{}-{}", from_leaf, from)].push_back(
        delta(wire_key(address(from_leaf, from), address(to_leaf, to), port, qpn), bytes));
  }
  // Every host reports one interval of a second.
  void pass() {
    for (int leaf = 1; leaf <= 4; ++leaf)
      for (int host = 1; host <= 4; ++host) {
        const std::string node = fmt::format("h{}-{}", leaf, host);
        table.add(node, testing::report_of(1, now, 1s, pending[node]), now + 1s);
      }
    pending.clear();
    now += 1s;
  }
  Prediction predicted(std::vector<JobDeclaration> declared = {}) {
    return predict(topology, table, declared);
  }

  Topology topology{testing::small_fabric(4, 2, 4)};
  FlowTable table{topology,
                  {.elephant_rate = Rate{8e6}, .elephant_message = {1000000}, .memory = 10s}};
  std::map<std::string, std::vector<FlowDelta>> pending;
  Time now{1000s};
};

TEST_F(PredictionTest, DemandsElephantsAndLeavesMiceOut) {
  send(1, 1, 2, 1);
  send(1, 2, 2, 2, 1000);
  pass();
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 1U);
  EXPECT_EQ(topology[prediction.demand.flows[0].source].address, address(1, 1));
}

TEST_F(PredictionTest, StillDemandsWhatIsSilentInAComputePause) {
  send(1, 1, 2, 1);
  pass();
  for (int i = 0; i < 8; ++i)
    pass();
  table.age(now);
  EXPECT_EQ(predicted().demand.flows.size(), 1U);
}

TEST_F(PredictionTest, MakesQueuePairsOfOnePairOfNicsOneFlow) {
  send(1, 1, 2, 1, 2000000, 50000, 17);
  send(1, 1, 2, 1, 2000000, 50001, 18);
  send(1, 1, 2, 1, 2000000, 50002, 19);
  pass();
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 1U);
  EXPECT_EQ(prediction.demand.flows[0].subflows, 3U);
  EXPECT_EQ(prediction.flows[0].subflows.size(), 3U);
}

TEST_F(PredictionTest, ForgetsQueuePairsThatOthersReplaced) {
  send(1, 1, 2, 1, 2000000, 50000, 17);
  pass();
  pass();
  send(1, 1, 2, 1, 2000000, 50001, 18);
  pass();
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 1U);
  ASSERT_EQ(prediction.flows[0].subflows.size(), 1U);
  EXPECT_EQ(prediction.flows[0].subflows[0].dest_qpn, 18U);
}

// A ring over three hosts and a pair apart from it: two components.
TEST_F(PredictionTest, TakesConnectedHostsForAJob) {
  send(1, 1, 2, 1);
  send(2, 1, 3, 1);
  send(3, 1, 1, 1);
  send(4, 1, 4, 2);
  pass();
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.jobs.size(), 2U);
  EXPECT_EQ(prediction.jobs[0].name, "auto-h1-1");
  EXPECT_EQ(prediction.jobs[0].hosts, (std::vector<std::string>{"h1-1", "h2-1", "h3-1"}));
  EXPECT_EQ(prediction.jobs[1].name, "auto-h4-1");
  EXPECT_FALSE(prediction.jobs[0].declared);
}

TEST_F(PredictionTest, BelievesDeclarationsBeforeComponents) {
  send(1, 1, 2, 1);
  send(2, 1, 3, 1);
  send(3, 1, 4, 1);
  pass();
  const Prediction prediction =
      predicted({{.name = "llama", .hosts = {"h1-1", "h2-1", "h3-1"}, .line = 0}});
  ASSERT_EQ(prediction.jobs.size(), 2U);
  std::map<std::string, int> flows;
  for (const FlowDemand& flow : prediction.demand.flows)
    ++flows[prediction.jobs[flow.job.value].name];
  EXPECT_EQ(flows, (std::map<std::string, int>{{"auto-h3-1", 1}, {"llama", 2}}));
}

// 2.0, 2.4 and 4.0 MB an iteration: the first two are within 25 % and count as 2.2.
TEST_F(PredictionTest, TakesWeightsWithinAQuarterForEqual) {
  for (int i = 0; i < 32; ++i) {
    if (i % 4 == 0) {
      send(1, 1, 2, 1, 2000000);
      send(2, 1, 3, 1, 2400000);
      send(3, 1, 1, 1, 4000000);
    }
    pass();
  }
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 3U);
  ASSERT_TRUE(prediction.jobs[0].weights_known);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[0].weight, 2.2e6);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[1].weight, 2.2e6);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[2].weight, 4.0e6);
}

// 2.0 and 2.6 MB make two groups when they are seen for the first time, and stay one if they were.
TEST_F(PredictionTest, KeepsGroupsUntilAWeightLeavesThemByAMargin) {
  for (int i = 0; i < 32; ++i) {
    if (i % 4 == 0) {
      send(1, 1, 2, 1, 2000000);
      send(2, 1, 3, 1, 2600000);
    }
    pass();
  }
  Prediction before = predicted();
  ASSERT_TRUE(before.jobs.at(0).weights_known);
  EXPECT_DOUBLE_EQ(before.demand.flows[1].weight, 2.6e6);
  for (FlowDemand& flow : before.demand.flows)
    flow.weight = 2.2e6;
  const Prediction kept = predict(topology, table, {}, &before);
  EXPECT_DOUBLE_EQ(kept.demand.flows[0].weight, 2.2e6);
  EXPECT_DOUBLE_EQ(kept.demand.flows[1].weight, 2.2e6);

  for (FlowDemand& flow : before.demand.flows)
    flow.weight = 1.7e6;
  const Prediction anew = predict(topology, table, {}, &before);
  EXPECT_DOUBLE_EQ(anew.demand.flows[0].weight, 2.0e6);
  EXPECT_DOUBLE_EQ(anew.demand.flows[1].weight, 2.6e6);
}

// A flow that gets a third because it shares its link must not be taken for one that wants a third.
TEST_F(PredictionTest, DoesNotTakeWhatAFlowGotForWhatItWants) {
  for (int i = 0; i < 32; ++i) {
    send(1, 1, 2, 1, 3000000);
    send(2, 1, 3, 1, 1000000);
    pass();
  }
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 2U);
  EXPECT_FALSE(prediction.jobs[0].weights_known);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[0].weight, prediction.demand.flows[1].weight);
}

TEST_F(PredictionTest, WeighsAllEqualUntilAllWereWatchedLongEnough) {
  for (int i = 0; i < 12; ++i) {
    send(1, 1, 2, 1, 2000000);
    if (i > 8)
      send(2, 1, 3, 1, 6000000);
    pass();
  }
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.demand.flows.size(), 2U);
  EXPECT_FALSE(prediction.jobs[0].weights_known);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[0].weight, 1.0);
  EXPECT_DOUBLE_EQ(prediction.demand.flows[1].weight, 1.0);
}

// 3 MB in one second of four: 3 MB an iteration.
TEST_F(PredictionTest, WeighsPeriodicFlowsByTheBytesOfAPeriod) {
  for (int i = 0; i < 32; ++i) {
    if (i % 4 == 0) {
      send(1, 1, 2, 1, 3000000);
      send(2, 1, 1, 1, 6000000);
    }
    pass();
  }
  const Prediction prediction = predicted();
  ASSERT_EQ(prediction.jobs.size(), 1U);
  EXPECT_EQ(prediction.jobs[0].period, Duration(4s));
  EXPECT_NEAR(prediction.demand.flows[0].weight, 3e6, 1e3);
  EXPECT_NEAR(prediction.demand.flows[1].weight, 6e6, 1e3);
}

TEST_F(PredictionTest, CountsElephantsToAddressesOutsideTheFabric) {
  const WireKey away = wire_key(address(1, 1), IpAddress::v4(192, 0, 2, 1));
  table.add("h1-1", testing::report_of(1, now, 1s, {delta(away, 2000000)}), now + 1s);
  const Prediction prediction = predicted();
  EXPECT_TRUE(prediction.demand.flows.empty());
  EXPECT_EQ(prediction.outside, 1U);
}

TEST_F(PredictionTest, SignsTheDemandByWhoWantsWhatAndNotByHowMuch) {
  send(1, 1, 2, 1);
  pass();
  const std::uint64_t before = demand_signature(predicted());
  send(1, 1, 2, 1, 9000000);
  pass();
  EXPECT_EQ(demand_signature(predicted()), before);
  EXPECT_NE(demand_signature(predicted({{.name = "llama", .hosts = {"h1-1", "h2-1"}, .line = 0}})),
            before);
  send(1, 2, 2, 2);
  pass();
  EXPECT_NE(demand_signature(predicted()), before);
}

}  // namespace
}  // namespace heddle
