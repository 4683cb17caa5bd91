// The off switch in a whole cluster: of everything, a rack, a node or a job.
#include <gtest/gtest.h>

#include "tests/coordinator/switching_on.h"

namespace heddle::testing {
namespace {

using OffSwitch = SwitchingOn;

TEST_F(OffSwitch, IsConfirmedByTheAgentsAndSurvivesTheCoordinator) {
  cluster.start();
  settle();
  const auto off = cluster.ask("disable", {"--all"});
  ASSERT_TRUE(off);
  EXPECT_EQ(off->exit_code, 0) << off->error;
  const json nodes = json::parse(off->json)["nodes"];
  EXPECT_EQ(nodes.size(), 20U);
  for (const json& node : nodes)
    EXPECT_TRUE(node["disabled"] && node["confirmed"]) << node;
  EXPECT_EQ(cluster.installed_pins(), 0U);
  EXPECT_EQ(cluster.store.operators.disabled_nodes.size(), 24U) << "the spines, too";

  // It survives the coordinator.
  cluster.stop();
  cluster.start();
  cluster.advance(5s);
  EXPECT_EQ(cluster.installed_pins(), 0U);

  ASSERT_EQ(cluster.ask("enable", {"--all"})->exit_code, 0);
  settle();
}

TEST_F(OffSwitch, NamesTheNodesThatDidNotConfirm) {
  cluster.start();
  settle();
  cluster.agents.at("leaf2").stuck_pins = 1;
  const auto off = cluster.ask("disable", {"--all"});
  ASSERT_TRUE(off);
  EXPECT_EQ(off->exit_code, 1);
  EXPECT_NE(off->error.find("not confirmed by leaf2;"), std::string::npos) << off->error;
  const json answer = json::parse(off->json);
  for (const json& node : answer.at("nodes"))
    EXPECT_EQ(node["confirmed"], node["name"] != "leaf2") << node;
}

TEST_F(OffSwitch, HoldsForOneRackOneNodeOrOneJob) {
  cluster.start({{.name = "llama", .hosts = {"h1-1", "h2-1"}, .line = 0}});
  settle();
  EXPECT_EQ(json::parse(cluster.ask("disable", {"--rack", "rack2"})->json)["nodes"].size(), 5U);
  EXPECT_EQ(cluster.installed_pins(), 12U);
  EXPECT_EQ(json::parse(cluster.ask("disable", {"--node", "leaf1"})->json)["nodes"][0]["name"],
            "leaf1");
  EXPECT_EQ(cluster.installed_pins(), 8U);
  cluster.ask("enable", {"--all"});
  settle();
  // One flow, h1-1 to h2-1, is the declared job's.
  const auto job = cluster.ask("disable", {"--job", "llama"});
  ASSERT_EQ(job->exit_code, 0) << job->error;
  const json answer = json::parse(job->json);
  for (const json& node : answer.at("nodes"))
    EXPECT_TRUE(node["confirmed"]) << node;
  EXPECT_EQ(cluster.installed_pins(), 15U);
  EXPECT_EQ(cluster.ask("disable", {"--job", "gpt"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("disable", {"--node", "leaf9"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("disable", {"--rack", "rack9"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("disable")->exit_code, 2);
}

// A host whose agent comes back, or comes for the first time, after everything was switched off.
TEST_F(OffSwitch, HoldsForNodesThatAreHeardOnlyLater) {
  cluster.agents.at("h1-1").gone = true;
  cluster.start();
  settle();
  const auto off = cluster.ask("disable", {"--all"});
  ASSERT_EQ(off->exit_code, 0) << off->error;
  EXPECT_TRUE(cluster.store.operators.disabled_nodes.contains("h1-1"));
  cluster.agents.at("h1-1").gone = false;
  EXPECT_TRUE(cluster.await(5s, [&] { return cluster.agents.at("h1-1").disabled; }));
  cluster.advance(100ms);  // its word has come back
  const auto on = cluster.ask("enable", {"--all"});
  ASSERT_EQ(on->exit_code, 0) << on->error;
  EXPECT_FALSE(cluster.agents.at("h1-1").disabled);
  settle();
}

// A recognised job is called by its first host, which is another one as soon as somebody else talks
// to them.
TEST_F(OffSwitch, HoldsForARecognisedJobUnderAnotherName) {
  cluster.flows = {{2, 1, 3, 1}, {3, 1, 2, 1}, {3, 2, 4, 2}, {4, 2, 3, 2}};
  cluster.start();
  settle();
  const auto jobs = [&] {
    std::map<std::string, bool> off;
    const json list = json::parse(cluster.ask("jobs")->json)["jobs"];
    for (const json& job : list)
      off[job["name"]] = job["disabled"];
    return off;
  };
  ASSERT_EQ(jobs(), (std::map<std::string, bool>{{"auto-h2-1", false}, {"auto-h3-2", false}}));
  ASSERT_EQ(cluster.ask("disable", {"--job", "auto-h2-1"})->exit_code, 0);
  EXPECT_EQ(cluster.installed_pins(), 2U);
  cluster.flows.push_back({1, 4, 3, 1});
  ASSERT_TRUE(cluster.await(5s, [&] { return jobs().contains("auto-h1-4"); }));
  cluster.advance(2s);
  EXPECT_EQ(jobs(), (std::map<std::string, bool>{{"auto-h1-4", true}, {"auto-h3-2", false}}));
  EXPECT_EQ(cluster.installed_pins(), 2U) << "the other job's";
  ASSERT_EQ(cluster.ask("job declare", {"llama", "h2-1", "h3-1", "h1-4"})->exit_code, 0);
  EXPECT_TRUE(jobs().at("llama")) << "declared by now, and still off";
  ASSERT_EQ(cluster.ask("enable", {"--job", "llama"})->exit_code, 0);
  EXPECT_FALSE(jobs().at("llama"));
  settle();
}

}  // namespace
}  // namespace heddle::testing
