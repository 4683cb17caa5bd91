// What the record of what is ours allows, and what its loss forbids.
#include <gtest/gtest.h>

#include <algorithm>

#include "agent/program/flush.h"
#include "agent/program/programmer.h"
#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

using std::chrono::seconds;

TEST_F(ProgrammerOverAFake, ADamagedRecordForbidsNothingWhereThereIsNothing) {
  store.damaged = true;
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  EXPECT_EQ(settle()->installed, 1U);
}

TEST_F(ProgrammerOverAFake, ADamagedRecordMakesWhatIsThereForeign) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  settle();
  store.damaged = true;
  kernel.done.clear();
  start();
  programmer->want(plan(2, {{1, "up2"}}));
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->failed.at(0).reason, "the record is damaged");
  EXPECT_TRUE(kernel.done.empty());
}

constexpr RoutingRanges kOtherRanges{.protocol = 210,
                                     .table_base = 30000,
                                     .table_count = 8,
                                     .rule_priority = 300,
                                     .nexthop_base = 7000,
                                     .nexthop_count = 8};

using SafetyRule1 = ProgrammerOverAFake;

TEST_F(SafetyRule1, OtherRangesInTheConfigurationOrphanNothing) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  kernel.removals_fail = true;
  start(Mode::program, kOtherRanges);
  EXPECT_EQ(programmer->leftovers(),
            "1 pins of an earlier life, as protocol or ranges are others now");
  programmer->want(plan(2, {{1, "up2"}}));
  auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 1U) << "under the former ranges, as long as it is there";
  EXPECT_EQ(store.kept.ranges, RoutingRanges{});
  EXPECT_FALSE(store.kept.empty()) << "the record goes on naming what is in the kernel";

  kernel.removals_fail = false;
  clock.time += seconds{1};
  news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 1U);
  EXPECT_TRUE(news->failed.empty());
  EXPECT_EQ(store.kept.ranges, kOtherRanges);
  ASSERT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(kernel.state.routes.back().table, kOtherRanges.table_base);
  EXPECT_EQ(kernel.state.routes.back().protocol, kOtherRanges.protocol);
  ASSERT_EQ(kernel.state.rules.size(), 1U);
  EXPECT_EQ(kernel.state.rules[0].priority, kOtherRanges.rule_priority);
}

// A foreign route appears over our next hop, and with the next event the pin is to go: before
// everything was read again the kernel would take the foreign route along with the next hop.
TEST_F(SafetyRule1, ANextHopThatOthersBeganToUseAMomentAgoIsNotRemoved) {
  for (const bool by_group : {false, true}) {
    kernel = FakeKernel();
    store.kept = {};
    start();
    programmer->want(plan(1, {{1, "up1"}}));
    ASSERT_EQ(settle()->installed, 1U);
    const std::uint32_t ours = kernel.state.next_hops.back().id;
    ASSERT_TRUE(RoutingRanges{}.owns_next_hop(ours));
    if (by_group) {
      kernel.state.next_hops.push_back({.id = 77, .protocol = 99, .hop = {}, .members = {ours}});
      programmer->kernel_changed(NextHopEvent{.next_hop = kernel.state.next_hops.back()});
    } else {
      KernelRoute foreign;
      foreign.table = 254;
      foreign.destination = *Prefix::parse("10.80.0.0/16");
      foreign.protocol = 99;
      foreign.next_hop_id = ours;
      kernel.state.routes.push_back(foreign);
      programmer->kernel_changed(RouteEvent{.route = foreign});
    }
    programmer->want_nothing("disabled");
    settle();  // the full read that would know is still to come
    clock.time += seconds{1};
    settle();
    const auto& hops = kernel.state.next_hops;
    EXPECT_TRUE(std::any_of(hops.begin(), hops.end(), [&](const auto& n) { return n.id == ours; }));
    EXPECT_TRUE(store.kept.owns_next_hop(ours))
        << "it is ours still, to be removed when it is free";
    EXPECT_TRUE(kernel.state.rules.empty());
  }
}

// What was lost may have been just that.
TEST_F(SafetyRule1, NoNextHopIsRemovedBetweenALossOfNotificationsAndTheNextRead) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  const std::uint32_t ours = kernel.state.next_hops.back().id;
  programmer->kernel_changed(EventsLost{});
  programmer->want_nothing("disabled");
  settle();
  EXPECT_EQ(kernel.state.next_hops.back().id, ours);
  EXPECT_EQ(kernel.pinned(), 0U) << "pins do not wait";
  clock.time += seconds{1};
  settle();
  EXPECT_NE(kernel.state.next_hops.back().id, ours);
}

TEST_F(SafetyRule1, FlushGoesByTheRecordedRangesNotTheConfiguredOnes) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.ranges = kOtherRanges;
  EXPECT_EQ(flush(kernel, store, kOtherRanges).value().routes, 2U);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(kernel.state.rules.empty());
  EXPECT_EQ(kernel.ranges, RoutingRanges{}) << "removals carry the recorded protocol";
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(SafetyRule1, ARecordOfTheFirstFormatIsTakenForTheConfiguredRanges) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  store.kept.ranges.reset();
  kernel.done.clear();
  start();
  programmer->want(plan(2, {{1, "up1"}}));
  EXPECT_EQ(settle()->installed, 1U);
  EXPECT_TRUE(kernel.done.empty());
  EXPECT_EQ(store.kept.ranges, RoutingRanges{});
}

// No device here offloads routes; the flag is the kernel's.

}  // namespace
}  // namespace heddle
