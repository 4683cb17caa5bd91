// Draining in a whole cluster: what is moved, what cannot be, and when it is empty.
#include <gtest/gtest.h>

#include "tests/coordinator/switching_on.h"

namespace heddle::testing {
namespace {

class Drain : public SwitchingOn {
 protected:
  json drains() { return json::parse(cluster.ask("drain status")->json)["drains"]; }
  json await_empty(std::size_t number) {
    EXPECT_TRUE(cluster.await(10s, [&] { return drains()[number]["state"] == "empty"; }))
        << drains();
    return drains()[number];
  }
};

TEST_F(Drain, ADrainedSpineIsLeftByAllPinsAndEmptyByItsCounters) {
  cluster.start();
  settle();
  json status = json::parse(cluster.ask("drain", {"--spine", "spine2"})->json);
  EXPECT_EQ(status["drains"][0]["state"], "moving") << status;
  ASSERT_TRUE(cluster.await(6s, [&] {
    status = json::parse(cluster.ask("drain status")->json);
    return status["drains"][0]["state"] == "empty";
  })) << status;
  EXPECT_GE(cluster.took, 10 * cluster.settings.broadcast.report_interval)
      << "a pause is not enough";
  for (const auto& [name, agent] : cluster.agents)
    for (const Pin& pin : agent.installed)
      EXPECT_NE(std::get<PortTableRoute>(pin.target).out_port, "up2") << name;
  EXPECT_EQ(status["drains"][0]["links"].size(), 8U);
  EXPECT_TRUE(std::ranges::any_of(cluster.coordinator->record()->moves, [](const MoveRecord& move) {
    return move.from == "spine2" && move.reason.find("is drained") != std::string::npos;
  }));

  // It survives a restart.
  cluster.stop();
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  cluster.advance(3s);
  EXPECT_EQ(json::parse(cluster.ask("drain status")->json)["drains"][0]["state"], "empty");

  // Now its cables can be cut, and nothing happens.
  const std::uint64_t changes = cluster.changes();
  for (int leaf = 1; leaf <= 4; ++leaf)
    cluster.cut(leaf, 2);
  cluster.advance(2s);
  EXPECT_EQ(cluster.changes(), changes);
  for (int leaf = 1; leaf <= 4; ++leaf)
    cluster.cut(leaf, 2, true);
  EXPECT_EQ(order("undrain", {"--spine", "spine2"}), 0);
  ASSERT_TRUE(cluster.await(5s, [&] { return cluster.measured().worst == 1.0; }));
  EXPECT_EQ(order("undrain", {"--spine", "spine2"}), 4);
}

TEST_F(Drain, ADrainSaysWhatItCannotMove) {
  cluster.agents.at("leaf2").mode = Mode::observe;
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 12; }));
  cluster.advance(1s);
  ASSERT_EQ(order("drain", {"--spine", "spine2"}), 0);
  cluster.advance(3s);
  json status = json::parse(cluster.ask("drain status")->json);
  EXPECT_EQ(status["drains"][0]["state"], "busy") << status;
  EXPECT_NE(status["drains"][0]["remain"].dump().find("of leaf2, which heddle does not steer"),
            std::string::npos)
      << status;
  ASSERT_EQ(order("drain", {"--leaf", "leaf1"}), 0);
  cluster.advance(1s);
  status = json::parse(cluster.ask("drain status")->json);
  EXPECT_EQ(status["drains"][1]["state"], "busy");
  EXPECT_NE(status["drains"][1]["remain"].dump().find("which have no other way"), std::string::npos)
      << status;
  EXPECT_EQ(order("drain", {"--spine", "spine9"}), 4);
  EXPECT_EQ(order("drain", {"spine2"}), 2);
}

TEST_F(Drain, SafetyRule7ADrainIsNotEmptyBecauseALeafIsSilent) {
  cluster.start();
  settle();
  ASSERT_EQ(order("drain", {"--cable", "leaf1-spine2"}), 0);
  cluster.advance(4s);
  ASSERT_EQ(json::parse(cluster.ask("drain status")->json)["drains"][0]["state"], "empty");
  cluster.agents.at("leaf1").welcomed = false;
  cluster.agents.at("leaf1").hello_at = cluster.clock.now() + 60s;
  cluster.agents.at("leaf1").report_at = cluster.clock.now() + 60s;
  cluster.advance(2s);
  EXPECT_EQ(json::parse(cluster.ask("drain status")->json)["drains"][0]["state"], "unobservable");
}

// Whoever sends in bursts may have sent while nobody looked.
TEST_F(Drain, SafetyRule7TimeInWhichNobodyLookedIsNoSilence) {
  cluster.start();
  settle();
  ASSERT_EQ(order("drain", {"--cable", "leaf1-spine2"}), 0);
  await_empty(0);
  FakeAgent& leaf = cluster.agents.at("leaf1");
  leaf.report_at = cluster.clock.now() + 3s;
  cluster.advance(2900ms);
  ASSERT_EQ(drains()[0]["state"], "unobservable");
  ASSERT_TRUE(cluster.await(1s, [&] { return drains()[0]["state"] != "unobservable"; }));
  EXPECT_EQ(drains()[0]["state"], "busy") << drains();
  const Time seen = cluster.clock.now();
  await_empty(0);
  EXPECT_GE(cluster.clock.now() - seen, 9 * cluster.settings.broadcast.report_interval);
}

// Jobs run on the other leaves only, or none of its hosts sends: its cables and ports are quiet.
TEST_F(Drain, ALeafAndARackWhoseHostsAreSilentAreEmpty) {
  std::erase_if(cluster.flows,
                [](const FlowSpec& flow) { return flow.from_leaf == 1 || flow.to_leaf == 1; });
  cluster.start();
  settle();
  ASSERT_EQ(order("drain", {"--leaf", "leaf1"}), 0);
  ASSERT_EQ(order("drain", {"--rack", "rack1"}), 0);
  for (const int drained : {0, 1})
    EXPECT_EQ(await_empty(drained)["links"].size(), 16U) << "4 cables and 4 ports, both ways";
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0) << "nobody else is in the way of that";
}

// Its own hosts have one leaf, so their flows cannot be led elsewhere, those that stay below it
// included. When their job has ended it is empty.
TEST_F(Drain, ALeafIsEmptyWhenTheJobsOfItsHostsHaveEnded) {
  cluster.flows.push_back({1, 1, 1, 4});
  for (const char* kind : {"leaf", "rack"}) {
    FakeCluster again(4, 4, 4, kSeed);
    again.flows = cluster.flows;
    again.start();
    ASSERT_TRUE(
        again.await(10s, [&] { return again.converged() && again.installed_pins() == 16; }));
    const auto status = [&] { return json::parse(again.ask("drain status")->json)["drains"][0]; };
    again.ask("drain", {fmt::format("--{}", kind), fmt::format("{}1", kind)});
    again.advance(3s);
    EXPECT_EQ(status()["state"], "busy");
    EXPECT_EQ(status()["remain"],
              json({"9 elephants to or from its own hosts, which have no other way: end or move "
                    "their jobs"}));
    std::erase_if(again.flows,
                  [](const FlowSpec& flow) { return flow.to_leaf == 1 && flow.from_leaf != 1; });
    std::erase_if(again.flows,
                  [](const FlowSpec& flow) { return flow.from_leaf == 1 && flow.to_leaf != 1; });
    again.advance(12s);
    EXPECT_EQ(status()["state"], "busy") << "what stays below it is still to be moved";
    EXPECT_EQ(status()["remain"],
              json({"1 elephant to or from its own hosts, which have no other way: end or move "
                    "their jobs"}));
    again.flows.pop_back();
    EXPECT_TRUE(again.await(20s, [&] { return status()["state"] == "empty"; })) << status();
  }
}

// As long as a leaf at one end of what is drained says nothing, nobody knows what its ports carry.
TEST_F(Drain, SafetyRule7ALeafIsNotEmptyBecauseItIsSilentItself) {
  std::erase_if(cluster.flows,
                [](const FlowSpec& flow) { return flow.from_leaf == 1 || flow.to_leaf == 1; });
  cluster.start();
  settle();
  ASSERT_EQ(order("drain", {"--leaf", "leaf1"}), 0);
  (void)await_empty(0);
  cluster.agents.at("leaf1").welcomed = false;
  cluster.agents.at("leaf1").hello_at = cluster.clock.now() + 60s;
  cluster.agents.at("leaf1").report_at = cluster.clock.now() + 60s;
  cluster.advance(2s);
  EXPECT_EQ(drains()[0]["state"], "unobservable");
}

}  // namespace
}  // namespace heddle::testing
