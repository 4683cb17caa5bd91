// What is never to be touched gets no pin, and loses those that it has; likewise what an agent
// refuses by a configuration of its own.
#include <gtest/gtest.h>

#include "tests/coordinator/switching_on.h"

namespace heddle::testing {
namespace {

class NeverTouch : public SwitchingOn {};

TEST_F(NeverTouch, WhatIsNeverToBeTouchedIsNeverPinned) {
  cluster.settings.never_touch = {*Prefix::parse("10.2.0.0/16")};
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 8; }));
  cluster.advance(5s);
  EXPECT_EQ(cluster.installed_pins(), 8U);
  EXPECT_EQ(pins_of("leaf2"), 0U) << "from there";
  EXPECT_EQ(pins_of("leaf1"), 0U) << "and to there";
}

// The flows pause while the coordinator is away, so that it knows them by their pins only.
TEST_F(NeverTouch, WhatIsNoLongerToBeTouchedIsLetGoByARestart) {
  cluster.start();
  settle();
  const PlanRecord last = cluster.history.plans.back();
  cluster.stop();
  cluster.settings.never_touch = {*Prefix::parse("10.2.0.0/16")};
  cluster.sending = [](Time) { return false; };
  cluster.start();
  cluster.coordinator->restore(last);
  const auto planned = [&](const std::string& leaf) {
    return cluster.coordinator->broadcast().part_of(leaf).pins.size();
  };
  EXPECT_EQ(planned("leaf1") + planned("leaf2"), 0U) << "not even once more";
  cluster.advance(3s);
  EXPECT_EQ(pins_of("leaf2"), 0U) << "from there";
  EXPECT_EQ(pins_of("leaf1"), 0U) << "and to there";
  EXPECT_EQ(cluster.installed_pins(), 8U) << "the others go on";
}

TEST_F(NeverTouch, ASourceThatIsNoLongerToBeTouchedIsLetGoByAReload) {
  cluster.start();
  settle();
  const PlanRecord last = cluster.history.plans.back();
  cluster.stop();
  cluster.sending = [](Time) { return false; };
  cluster.start();
  cluster.coordinator->restore(last);
  cluster.advance(1s);
  ASSERT_EQ(cluster.installed_pins(), 16U) << "they may only be pausing";
  cluster.settings.never_touch = {*Prefix::parse("10.2.0.0/16")};
  cluster.coordinator->reconfigure(cluster.settings, {});
  cluster.advance(1s);
  EXPECT_EQ(pins_of("leaf1") + pins_of("leaf2"), 0U);
  EXPECT_EQ(cluster.installed_pins(), 8U);
}

// It goes on with what it was sent before, and is given the rest with the first word it is told.
TEST_F(NeverTouch, ALeafThatIsNotHeardYetLosesWhatIsNoLongerToBeTouchedWhenItIs) {
  cluster.start();
  settle();
  const PlanRecord last = cluster.history.plans.back();
  cluster.stop();
  cluster.start();
  FakeAgent& late = cluster.agents.at("leaf2");
  late.hello_at = late.report_at = cluster.clock.now() + 2s;
  cluster.coordinator->restore(last);
  cluster.advance(1s);
  cluster.settings.never_touch = {*Prefix::parse("10.2.0.0/16")};
  cluster.coordinator->reconfigure(cluster.settings, {});
  cluster.advance(500ms);
  ASSERT_FALSE(late.welcomed);
  ASSERT_EQ(pins_of("leaf2"), 4U) << "it does not know yet";
  EXPECT_EQ(cluster.coordinator->broadcast().part_of("leaf2").pins.size(), 0U);
  const std::uint64_t before = late.changes;
  ASSERT_TRUE(cluster.await(5s, [&] { return late.welcomed; }));
  ASSERT_TRUE(cluster.await(10ms, [&] { return pins_of("leaf2") == 0U; }));
  EXPECT_EQ(late.changes, before + 1) << "in one step";
}

TEST_F(NeverTouch, WhatAnAgentRefusesByItsOwnConfigurationIsNotAskedAgain) {
  cluster.agents.at("leaf3").forbidden_port = "p1";
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 15; }));
  cluster.advance(3s);
  EXPECT_EQ(cluster.coordinator->broadcast().part_of("leaf3").pins.size(), 3U);
  EXPECT_TRUE(cluster.converged());
}

// Queue pairs come and go: what was refused of those that are gone must not pile up.
TEST_F(NeverTouch, ARefusalIsForgottenWithItsFlow) {
  cluster.agents.at("leaf3").forbidden_port = "p1";
  cluster.start();
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 15; }));
  const auto flow = std::ranges::find_if(
      cluster.flows, [](const FlowSpec& one) { return one.from_leaf == 3 && one.from == 1; });
  const FlowSpec gone = *flow;
  cluster.flows.erase(flow);
  ASSERT_TRUE(
      cluster.await(15s, [&] { return cluster.coordinator->flows().subflows().size() == 15; }));
  cluster.advance(2 * cluster.settings.period);
  cluster.agents.at("leaf3").forbidden_port.clear();
  cluster.flows.push_back(gone);
  EXPECT_TRUE(cluster.await(5s, [&] { return cluster.installed_pins() == 16; })) << "asked again";
}

}  // namespace
}  // namespace heddle::testing
