// `heddle fabric check` of a whole cluster: from what agents tell of their neighbours to the
// answer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

// Two leaves, two spines, a host a leaf: six cables.
class Cables : public ::testing::Test {
 protected:
  Cables() : cluster(2, 2, 1, 20'261'130) {
    cluster.start();
    cluster.advance(3s);
  }
  void tell(const std::string& node, std::optional<std::vector<LldpNeighbour>> neighbours) {
    const AgentState* const known = cluster.coordinator->broadcast().find(node);
    ASSERT_NE(known, nullptr);
    const Sender sender{.route = known->route, .node = node, .key_name = node};
    cluster.coordinator->received(sender,
                                  {.node = node,
                                   .sequence = 0,
                                   .message = LinkChange{.ports = cluster.agents.at(node).ports,
                                                         .withdrawn = {},
                                                         .neighbours = std::move(neighbours)}});
  }
  json check(int exit_code) {
    const auto reply = cluster.ask("fabric check", {});
    EXPECT_TRUE(reply);
    EXPECT_EQ(reply->exit_code, exit_code) << reply->error;
    EXPECT_EQ(reply->error, "");
    return json::parse(reply->json);
  }

  FakeCluster cluster;
};

TEST_F(Cables, AreUnverifiedWhereNobodyTells) {
  const json answer = check(0);
  EXPECT_EQ(answer["cables"], json::parse(R"({"expected":6,"verified":0,"unverified":6})"));
  ASSERT_EQ(answer["silent"].size(), 6U);
  for (const json& node : answer["silent"])
    EXPECT_NE(node["reason"], "");
}

TEST_F(Cables, ThatLieElsewhereAreTheAnswerAndItsExitCode) {
  tell("leaf1", {{{"up1", "spine1", "d1", ""}, {"up2", "spine2", "d1", ""}}});
  EXPECT_EQ(check(1)["differences"].at(0)["text"],
            "leaf1 p1 should lead to h1-1 eth0, but hears nobody");
  tell("leaf1", {{{"p1", "h1-1", "eth0", ""},
                  {"up1", "spine2.fabric.example", "d1", ""},
                  {"up2", "spine1.fabric.example", "d1", ""}}});
  const json answer = check(1);
  ASSERT_EQ(answer["differences"].size(), 1U);
  EXPECT_EQ(answer["differences"].at(0)["kind"], "swapped");
  tell("leaf1",
       {{{"p1", "h1-1", "eth0", ""}, {"up1", "spine1", "d1", ""}, {"up2", "spine2", "d1", ""}}});
  EXPECT_EQ(check(0)["cables"]["verified"], 3);
}

TEST_F(Cables, SafetyRule7OfANodeThatKnowsNothingAnyMoreAreUnverified) {
  tell("leaf1",
       {{{"p1", "h1-1", "eth0", ""}, {"up1", "spine1", "d1", ""}, {"up2", "spine2", "d1", ""}}});
  EXPECT_EQ(check(0)["cables"]["verified"], 3);
  tell("leaf1", std::nullopt);
  EXPECT_EQ(check(0)["cables"]["verified"], 0);
}

TEST_F(Cables, AreAskedForWithoutArguments) {
  EXPECT_EQ(cluster.ask("fabric check", {"x"})->exit_code, 2);
}

}  // namespace
}  // namespace heddle::testing
