// A coordinator that starts again while its agents go on, with and without what it knew.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/serve/json.h"
#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

// A ring in which every leaf sends four flows into the core, planned by a coordinator that is about
// to end.
class Restart : public ::testing::Test {
 protected:
  Restart() : cluster(4, 4, 4, kSeed) { cluster.ring(4, 4); }
  static constexpr std::uint64_t kSeed = 20250305;

  void settle() {
    ASSERT_TRUE(cluster.await(
        10s,
        [&] { return cluster.converged() && cluster.installed_pins() == cluster.flows.size(); }))
        << cluster.installed_pins() << " pins";
  }

  FakeCluster cluster;
};

TEST_F(Restart, MovesNothing) {
  cluster.start();
  settle();
  const std::uint64_t epoch = cluster.coordinator->record()->plan.version.epoch;
  const std::uint64_t changes = cluster.changes();
  cluster.stop();
  cluster.advance(1s);
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  ASSERT_TRUE(cluster.await(5s, [&] { return cluster.converged(); }));
  cluster.advance(20s);
  EXPECT_EQ(cluster.coordinator->record()->plan.version.epoch, epoch + 1);
  EXPECT_EQ(cluster.changes(), changes);
  EXPECT_EQ(cluster.installed_pins(), cluster.flows.size());
}

// Installed, then two of them moved by a cut cable, then a coordinator that comes to know both by
// its history alone; a record of before pins had dates says when its plan was made.
TEST_F(Restart, EveryPinKeepsTheTimeSinceWhenItIsSo) {
  const auto since = [&](const FlowSpec& flow) {
    const auto reply =
        cluster.ask("plan explain", {to_string(address(flow.from_leaf, flow.from)) + " " +
                                     to_string(address(flow.to_leaf, flow.to))});
    return reply && reply->exit_code == 0 ? nlohmann::json::parse(reply->json)["since"].dump()
                                          : "no answer";
  };
  const auto all = [&] {
    std::vector<std::string> dates;
    for (const FlowSpec& flow : cluster.flows)
      dates.push_back(since(flow));
    return dates;
  };
  cluster.start();
  settle();
  cluster.advance(30s);
  const std::vector<std::string> installed = all();
  cluster.cut(1, 2);
  ASSERT_TRUE(cluster.await(2s, [&] { return cluster.converged(); }));
  cluster.advance(30s);
  const std::vector<std::string> before = all();
  std::size_t moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    moved += before[i] != installed[i] ? 1 : 0;
  EXPECT_GT(moved, 0U);
  EXPECT_LT(moved, before.size()) << "the others were not moved";

  for (const bool dated : {true, false}) {
    cluster.stop();
    cluster.advance(2s);
    cluster.start();
    PlanRecord last = cluster.history.plans.back();
    if (!dated)
      last.since.clear();
    cluster.coordinator->restore(last);
    ASSERT_TRUE(cluster.await(5s, [&] { return cluster.converged(); }));
    cluster.advance(10s);
    if (dated)
      EXPECT_EQ(all(), before);
    else
      EXPECT_EQ(all(), std::vector(before.size(), nlohmann::json(iso(last.wall)).dump()));
  }
}

// A plan that a link event forces before everybody is back must not take the others' pins away.
TEST_F(Restart, KeepsThePinsOfAnAgentThatComesBackLate) {
  cluster.start();
  settle();
  cluster.stop();
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  FakeAgent& late = cluster.agents.at("leaf3");
  late.hello_at = cluster.clock.now() + 3s;
  const std::uint64_t changes = late.changes;
  const PlanVersion restored = cluster.coordinator->record()->plan.version;
  cluster.cut(1, 2);
  cluster.advance(2500ms);
  EXPECT_GT(cluster.coordinator->record()->plan.version, restored) << "nothing was planned";
  EXPECT_EQ(cluster.coordinator->broadcast().part_of("leaf3").pins.size(), 4U);
  ASSERT_TRUE(cluster.await(10s, [&] { return late.welcomed && cluster.converged(); }));
  cluster.advance(5s);
  EXPECT_EQ(late.changes, changes);
  EXPECT_EQ(late.installed.size(), 4U);
}

// The agents' pins stand until the new coordinator has seen enough to plan, and then it begins
// above them.
TEST_F(Restart, SafetyRule4ACoordinatorWithoutItsDiskGoesOnAboveTheAgentsEpoch) {
  cluster.store.epoch = 6;
  cluster.start();
  settle();
  ASSERT_EQ(cluster.coordinator->record()->plan.version.epoch, 7U);
  cluster.stop();
  cluster.store = {};
  cluster.history.plans.clear();
  cluster.start();
  EXPECT_EQ(cluster.reign->version().epoch, 1U);
  ASSERT_TRUE(cluster.await(
      5s, [&] { return cluster.coordinator->record() != nullptr && cluster.converged(); }));
  EXPECT_EQ(cluster.coordinator->record()->plan.version.epoch, 8U);
  EXPECT_EQ(cluster.store.epoch, 8U);
  EXPECT_TRUE(cluster.logged("has seen plan 7."));
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
}

// The history went on without the plans that a cut cable made necessary; what it has is an old one.
TEST_F(Restart, SafetyRule8APlanThatTheHistoryMissedIsNotReplacedByAnOlderOne) {
  cluster.start();
  settle();
  cluster.history.broken = true;
  cluster.cut(1, 2);
  ASSERT_TRUE(cluster.await(5s, [&] {
    return cluster.converged() && cluster.installed_pins() == 16 && cluster.measured().worst == 0.5;
  }));
  cluster.advance(3s);
  const std::uint64_t changes = cluster.changes();
  const std::uint64_t epoch = cluster.reign->version().epoch;
  cluster.stop();
  cluster.history.broken = false;
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  ASSERT_TRUE(cluster.await(5s, [&] { return cluster.logged("last plan is out of date"); }));
  EXPECT_EQ(cluster.coordinator->record(), nullptr);
  cluster.advance(4s);
  EXPECT_TRUE(cluster.converged());
  EXPECT_EQ(cluster.reign->version().epoch, epoch + 2);
  EXPECT_EQ(cluster.changes(), changes) << "pins moved though nothing changed";
  EXPECT_EQ(cluster.installed_pins(), 16U);
}

}  // namespace
}  // namespace heddle::testing
