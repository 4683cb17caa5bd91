// Whole clusters whose hosts and spines hold pins, not only leaves.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSeed = 20250305;

IpAddress segment_of(const std::string& kind, std::size_t number) {
  return *IpAddress::parse(fmt::format("fd00:{}::{}", kind, number));
}

void program(FakeAgent& agent, const std::string& enforcer) {
  agent.mode = Mode::program;
  agent.enforcer = enforcer;
}

json parsed(const std::optional<Reply>& reply) {
  return reply && reply->exit_code == 0 ? json::parse(reply->json) : json();
}

// Every host wraps, every spine leads on, and leaves do nothing.
class SegmentCluster : public ::testing::Test {
 protected:
  SegmentCluster() : cluster(4, 4, 2, kSeed) {
    cluster.ring(4, 2);
    std::size_t number = 0;
    for (auto& [name, agent] : cluster.agents) {
      agent.can_steer = agent.role != Role::leaf;
      if (agent.role != Role::host)
        continue;
      program(agent, "srv6");
      agent.segments = {{SegmentBehaviour::delivers_v4, segment_of("d", ++number)}};
    }
    for (int s = 1; s <= 4; ++s)
      cluster.add_spine(fmt::format("spine{}", s)).segments = {
          {SegmentBehaviour::transit, segment_of("5", static_cast<std::size_t>(s))}};
  }

  bool settled() const {
    return cluster.converged() && cluster.installed_pins() == cluster.flows.size();
  }
  std::size_t pins_over(const IpAddress& segment) const {
    std::size_t pins = 0;
    for (const auto& [name, agent] : cluster.agents)
      for (const Pin& pin : agent.installed)
        if (const auto* list = std::get_if<SegmentList>(&pin.target))
          pins += list->segments.front() == segment ? 1 : 0;
    return pins;
  }

  FakeCluster cluster;
};

TEST_F(SegmentCluster, ReachesItsIdealByPinsOfHostsAlone) {
  const double before = cluster.measured().worst;
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return settled(); })) << cluster.installed_pins() << " pins";
  EXPECT_LT(before, 1.0);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  EXPECT_DOUBLE_EQ(cluster.coordinator->record()->worst, 1.0) << "what the plan promised";
  for (const auto& [name, agent] : cluster.agents)
    EXPECT_EQ(agent.installed.size(), agent.role == Role::host ? 1U : 0U) << name;
}

TEST_F(SegmentCluster, LeadsElsewhereAtOnceWhenTheAgentOfASpineIsLost) {
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return settled(); }));
  cluster.advance(2s);
  const IpAddress lost = segment_of("5", 2);
  ASSERT_GT(pins_over(lost), 0U);
  cluster.agents.at("spine2").gone = true;
  EXPECT_EQ(cluster.measured().worst, 0.0) << "what is led there is lost";
  // The connection is seen to be closed with the next heartbeat.
  ASSERT_TRUE(cluster.await(2s, [&] { return pins_over(lost) == 0 && settled(); }));
  EXPECT_GT(cluster.measured().worst, 0.0);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, cluster.coordinator->record()->worst);
  EXPECT_TRUE(cluster.logged("spine2 no longer tells of its segment"));
}

TEST_F(SegmentCluster, MovesNothingWhenTheCoordinatorIsRestarted) {
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return settled(); }));
  cluster.advance(2s);
  const std::uint64_t changes = cluster.changes();
  cluster.stop();
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  // Hosts are back before the spines that their pins lead over.
  for (int s = 1; s <= 4; ++s)
    cluster.agents.at(fmt::format("spine{}", s)).hello_at = cluster.clock.now() + 1s;
  cluster.advance(8s);
  EXPECT_EQ(cluster.changes(), changes);
  EXPECT_EQ(cluster.installed_pins(), cluster.flows.size());
}

TEST_F(SegmentCluster, TellsOfSegmentsAndOfWhatPinsAreGoodFor) {
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return settled(); }));
  const json agents = parsed(cluster.ask("agents"));
  bool seen = false;
  for (const json& agent : agents["agents"])
    if (agent["name"] == "spine1") {
      seen = true;
      EXPECT_EQ(agent["segments"], json({{{"address", "fd00:5::1"}, {"behaviour", "leads on"}}}));
    }
  EXPECT_TRUE(seen);
  const json plan = parsed(cluster.ask("plan show"));
  const std::string shown = plan.dump();
  EXPECT_NE(shown.find("segments fd00:5::"), std::string::npos) << shown;
  const FlowSpec& flow = cluster.flows.front();
  const json why =
      parsed(cluster.ask("plan explain", {to_string(address(flow.from_leaf, flow.from)),
                                          to_string(address(flow.to_leaf, flow.to))}));
  ASSERT_EQ(why["pins"].size(), 1U) << why.dump();
  EXPECT_EQ(why["pins"][0]["node"], fmt::format("h{}-{}", flow.from_leaf, flow.from));
  EXPECT_EQ(why["applies"], "at once to what the kernel sends; RDMA hardware does not take it");
}

// Four leaves, two ports a host, all of whose flows begin by the first one.
class RouteCluster : public ::testing::Test {
 protected:
  RouteCluster()
      : cluster(shaped_fabric({.leaves = 4, .spines = 2, .hosts = 2, .cables = 1, .ports = 2}),
                kSeed) {
    for (auto& [name, agent] : cluster.agents)
      if (agent.role == Role::host)
        program(agent, "host-routes");
    cluster.flows = {{1, 1, 3, 1}, {1, 1, 3, 2}, {1, 2, 3, 1}, {1, 2, 3, 2}};
  }
  FakeCluster cluster;
};

TEST_F(RouteCluster, SpreadsWhatHostsSendOverTheirPorts) {
  EXPECT_LT(cluster.measured().worst, 0.6);
  cluster.start();
  // A host route and a port table for each flow.
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }))
      << cluster.installed_pins() << " pins";
  cluster.advance(3s);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, cluster.coordinator->record()->worst)
      << "what the plan promised";
  EXPECT_GT(cluster.agents.at("leaf1").installed.size(), 0U);
  EXPECT_GT(cluster.agents.at("leaf2").installed.size(), 0U);
  const std::uint64_t changes = cluster.changes();
  cluster.advance(10s);
  EXPECT_EQ(cluster.changes(), changes) << "and stays";
}

// A host is on two leaves, so it belongs to two racks, whatever rack its own line in the file
// names.
TEST_F(RouteCluster, ARackThatIsSwitchedOffTakesItsHostsPinsAlong) {
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }));
  const auto pins = [&](const char* node) { return cluster.agents.at(node).installed.size(); };
  ASSERT_EQ(pins("h1-1"), 2U);
  const json off = parsed(cluster.ask("disable", {"--rack", "leaf2"}));
  std::set<std::string> nodes;
  for (const json& node : off["nodes"]) {
    nodes.insert(node["name"]);
    EXPECT_TRUE(node["confirmed"]) << node;
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"leaf2", "h1-1", "h1-2", "h2-1", "h2-2"}));
  EXPECT_EQ(pins("h1-1"), 0U);
  EXPECT_EQ(pins("leaf2"), 0U);
  // Another rack of theirs that is switched on takes them along only with the last that is off.
  parsed(cluster.ask("disable", {"--rack", "leaf1"}));
  parsed(cluster.ask("enable", {"--rack", "leaf1"}));
  cluster.advance(2s);
  EXPECT_TRUE(cluster.agents.at("h1-1").disabled);
  EXPECT_FALSE(cluster.agents.at("leaf1").disabled);
  parsed(cluster.ask("enable", {"--rack", "leaf2"}));
  EXPECT_FALSE(cluster.agents.at("h1-1").disabled);
  EXPECT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }));
}

TEST_F(RouteCluster, ExplainsBothPinsOfAFlow) {
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }));
  const auto reply =
      cluster.ask("plan explain", {to_string(address(1, 1)), to_string(address(3, 1))});
  const json why = parsed(reply);
  ASSERT_EQ(why["pins"].size(), 2U) << why.dump();
  EXPECT_EQ(why["pins"][0]["node"], "h1-1");
  EXPECT_EQ(why["pins"][0]["applies"],
            "to queue pairs made from then on on RDMA hardware, at once to what the kernel sends");
  EXPECT_EQ(why["pins"][1]["applies"], "at once");
}

TEST_F(RouteCluster, GoesOverToTheOtherPortWhenOneDies) {
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }));
  FakeAgent& host = cluster.agents.at("h1-1");
  host.ports = {{"eth0", false, 0, 0}, {"eth1", true, 0, 0}};
  ASSERT_TRUE(cluster.await(3s, [&] {
    return cluster.converged() && std::ranges::all_of(host.installed, [](const Pin& pin) {
             return pin.target == PinTarget(HostRoute{"eth1"});
           });
  }));
  EXPECT_EQ(host.installed.size(), 2U);
}

TEST_F(RouteCluster, LeavesADrainedLeafByTheOtherPort) {
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 8U; }));
  json status = parsed(cluster.ask("drain", {"--leaf", "leaf1"}));
  ASSERT_TRUE(cluster.await(20s, [&] {
    status = parsed(cluster.ask("drain status"));
    return status["drains"][0]["state"] == "empty";
  })) << status;
  for (const char* name : {"h1-1", "h1-2"})
    for (const Pin& pin : cluster.agents.at(name).installed)
      EXPECT_EQ(pin.target, PinTarget(HostRoute{"eth1"})) << name;
  EXPECT_TRUE(cluster.agents.at("leaf1").installed.empty());
}

// One spine, two cables to each leaf: what matters is which of them it takes down.
class BundleCluster : public ::testing::Test {
 protected:
  BundleCluster()
      : cluster(shaped_fabric({.leaves = 2, .spines = 1, .hosts = 2, .cables = 2, .ports = 1}),
                kSeed) {
    cluster.flows = {{1, 1, 2, 1}, {1, 2, 2, 2}};
  }
  FakeCluster cluster;
};

TEST_F(BundleCluster, PinsDownlinksOnTheSpine) {
  cluster.add_spine("spine1").enforcer = "port-tables";
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 4U; }))
      << cluster.installed_pins() << " pins";
  ASSERT_EQ(cluster.agents.at("spine1").installed.size(), 2U);
  EXPECT_NE(cluster.agents.at("spine1").installed[0].target,
            cluster.agents.at("spine1").installed[1].target);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  EXPECT_DOUBLE_EQ(cluster.coordinator->record()->worst, 1.0);
  const json why =
      parsed(cluster.ask("plan explain", {to_string(address(1, 1)), to_string(address(2, 1))}));
  ASSERT_EQ(why["pins"].size(), 2U) << why.dump();
  EXPECT_EQ(why["pins"][1]["node"], "spine1");
  EXPECT_NE(why["path"].get<std::string>().find(" by spine1-leaf2"), std::string::npos) << why;
}

TEST_F(BundleCluster, LeavesDownlinksToTheHashWithoutAnAgentThere) {
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 2U; }));
  cluster.advance(2s);
  EXPECT_EQ(cluster.installed_pins(), 2U);
}

// A pin of a spine that cannot be installed is given up, and the hash has the choice again.
TEST_F(BundleCluster, GivesUpADownlinkThatTheSpineCannotInstall) {
  FakeAgent& spine = cluster.add_spine("spine1");
  spine.enforcer = "port-tables";
  spine.broken_port = "d2-1";
  cluster.start();
  ASSERT_TRUE(cluster.await(
      10s, [&] { return cluster.converged() && spine.plan && spine.plan->pins.size() == 1U; }));
  EXPECT_EQ(spine.installed.size(), 1U);
}

}  // namespace
}  // namespace heddle::testing
