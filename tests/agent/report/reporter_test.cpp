#include "agent/report/reporter.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::seconds;

constexpr Time kStart{seconds(100)};
constexpr WallTime kWall{
    seconds(1'000'000)};  // the wall clock at boot time 0, unless a test sets it

FlowCounter flow(std::uint64_t bytes, std::uint64_t packets, Time first_seen = kStart) {
  return {.source = IpAddress::v4(10, 1, 1, 2),
          .destination = IpAddress::v4(10, 2, 1, 2),
          .source_port = 51986,
          .dest_qpn = 18,
          .out_port = "up1",
          .first_seen = first_seen,
          .bytes = {bytes},
          .packets = packets,
          .message_length = {0}};
}

FlowReading reading(std::vector<FlowCounter> flows, bool gap = false) {
  return {.source = "ebpf", .gap = gap, .flows = std::move(flows)};
}

class ReporterTest : public ::testing::Test {
 protected:
  Report at(seconds after_start, Result<FlowReading> what) {
    const Time now = kStart + after_start;
    return reporter.report(now, kWall + now.time_since_epoch(), what, {});
  }
  Reporter reporter{kStart, true};
};

TEST_F(ReporterTest, ReportsWhatASubflowSentSinceTheLastReport) {
  const Report first = at(seconds(1), reading({flow(1000, 2)}));
  ASSERT_EQ(first.flows.size(), 1u);
  EXPECT_EQ(first.flows[0].bytes, 1000_bytes);
  const Report second = at(seconds(3), reading({flow(5000, 4)}));
  ASSERT_EQ(second.flows.size(), 1u);
  EXPECT_EQ(second.flows[0].bytes, 4000_bytes);
  EXPECT_EQ(second.flows[0].packets, 2u);
  EXPECT_EQ(second.flows[0].out_port, "up1");
  EXPECT_EQ(second.flows[0].source, "ebpf");
  EXPECT_FALSE(second.flows[0].reset);
  EXPECT_FALSE(second.gap);
  EXPECT_EQ(second.begin, kStart + seconds(1));
  EXPECT_EQ(second.length, seconds(2));
  EXPECT_EQ(second.number, first.number + 1);
}

TEST_F(ReporterTest, LeavesOutASubflowThatSentNothing) {
  at(seconds(1), reading({flow(1000, 2)}));
  EXPECT_TRUE(at(seconds(2), reading({flow(1000, 2)})).flows.empty());
}

TEST_F(ReporterTest, KeepsTheIdentityOfASubflowWhenTheClockIsSet) {
  const Report first = at(seconds(1), reading({flow(1000, 2)}));
  const Time now = kStart + seconds(2);
  const Report second = reporter.report(now, kWall + now.time_since_epoch() + std::chrono::hours(2),
                                        reading({flow(2000, 4)}), {});
  ASSERT_EQ(second.flows.size(), 1u);
  EXPECT_EQ(second.flows[0].key, first.flows[0].key);
}

// 2^29 ns: more than three octets of zeros on the wire, and near enough to tell one subflow from
// the next.
TEST_F(ReporterTest, GivesTheTimeASubflowWasFirstSeenInCoarseSteps) {
  const Report first = at(seconds(1), reading({flow(1000, 2)}));
  const WallTime seen = first.flows.at(0).key.first_seen;
  EXPECT_EQ(seen.time_since_epoch().count() % (1 << 29), 0);
  EXPECT_LE(seen, kWall + kStart.time_since_epoch());
  EXPECT_GT(seen + Duration{1 << 29}, kWall + kStart.time_since_epoch());
}

TEST_F(ReporterTest, TellsAQueuePairNumberUsedAgainFromItsFormerUser) {
  const Report first = at(seconds(1), reading({flow(1000, 2)}));
  const Report second = at(seconds(2), reading({flow(1500, 3, kStart + seconds(2))}));
  ASSERT_EQ(second.flows.size(), 1u);
  EXPECT_EQ(second.flows[0].bytes, 1500_bytes);
  EXPECT_TRUE(second.flows[0].reset) << "what the forgotten entry counted last is unknown";
  EXPECT_LT(first.flows[0].key.first_seen, second.flows[0].key.first_seen);
}

TEST_F(ReporterTest, TellsTheSameSubflowThroughTwoPortsApart) {
  FlowCounter other = flow(300, 3);
  other.out_port = "up2";
  at(seconds(1), reading({flow(1000, 2), other}));
  other.bytes = {400};
  other.packets = 4;
  const Report second = at(seconds(2), reading({flow(3000, 6), other}));
  ASSERT_EQ(second.flows.size(), 2u);
  EXPECT_EQ(second.flows[0].bytes, 2000_bytes);
  EXPECT_EQ(second.flows[1].bytes, 100_bytes);
  EXPECT_EQ(second.flows[1].out_port, "up2");
}

// Moved from up1 to up2, where the packets' counter begins later: no other subflow, and neither
// once the first port's count is forgotten.
TEST_F(ReporterTest, ASubflowThatMovesToAnotherPortStaysTheSame) {
  const WireKey key = at(seconds(1), reading({flow(1000, 2)})).flows.at(0).key;
  FlowCounter moved = flow(300, 3, kStart + seconds(2));
  moved.out_port = "up2";
  const Report both = at(seconds(2), reading({flow(1500, 3), moved}));
  ASSERT_EQ(both.flows.size(), 2U);
  EXPECT_EQ(both.flows[0].key, key);
  EXPECT_EQ(both.flows[1].key, key);
  moved.bytes = {400};
  EXPECT_EQ(at(seconds(3), reading({moved})).flows.at(0).key, key);
  // It ended on all ports; this is the next one of these numbers.
  at(seconds(4), reading({}));
  EXPECT_LT(
      key.first_seen,
      at(seconds(5), reading({flow(100, 1, kStart + seconds(4))})).flows.at(0).key.first_seen);
}

// Its process is another one: that holds for what leaves through each port.
TEST_F(ReporterTest, AnotherSubflowIsAnotherOnEachPort) {
  const auto through_both = [](Time first_seen) {
    FlowCounter other = flow(300, 3, first_seen);
    other.out_port = "up2";
    return reading({flow(1000, 2, first_seen), other});
  };
  const WireKey key = at(seconds(1), through_both(kStart)).flows.at(0).key;
  const Report next = at(seconds(2), through_both(kStart + seconds(1)));
  ASSERT_EQ(next.flows.size(), 2U);
  EXPECT_LT(key.first_seen, next.flows[0].key.first_seen);
  EXPECT_EQ(next.flows[0].key, next.flows[1].key);
}

TEST_F(ReporterTest, NamesNoPortOnAHost) {
  Reporter host{kStart, false};
  const Report report = host.report(kStart + seconds(1), kWall, reading({flow(1000, 2)}), {});
  ASSERT_EQ(report.flows.size(), 1u);
  EXPECT_EQ(report.flows[0].out_port, "");
}

TEST_F(ReporterTest, CarriesTheStateOfThePorts) {
  const PortStatus port{.name = "up1", .carrier = true, .tx_bytes = 7, .rx_bytes = 9};
  const Report report = reporter.report(kStart + seconds(1), kWall, reading({}), {port});
  EXPECT_EQ(report.ports, std::vector{port});
}

TEST_F(ReporterTest, ForgetsASubflowThatItsSourceForgot) {
  at(seconds(1), reading({flow(1000, 2)}));
  at(seconds(2), reading({}));
  const Report third = at(seconds(3), reading({flow(1000, 2, kStart + seconds(3))}));
  ASSERT_EQ(third.flows.size(), 1u);
  EXPECT_EQ(third.flows[0].bytes, 1000_bytes);
}

TEST(SafetyRule7, AFailedReadingIsAGapAndNotSilence) {
  Reporter reporter{kStart, true};
  reporter.report(kStart + seconds(1), kWall, reading({flow(1000, 2)}), {});
  const Report failed =
      reporter.report(kStart + seconds(2), kWall, fail(Errc::kernel, "no memory"), {});
  EXPECT_TRUE(failed.gap);
  EXPECT_TRUE(failed.flows.empty());
  EXPECT_EQ(failed.length, seconds(1));
  // The next good reading covers both intervals, so that its rate is right: 4000 bytes in 2 s.
  const Report next = reporter.report(kStart + seconds(3), kWall, reading({flow(5000, 6)}), {});
  EXPECT_FALSE(next.gap);
  ASSERT_EQ(next.flows.size(), 1u);
  EXPECT_EQ(next.flows[0].bytes, 4000_bytes);
  EXPECT_EQ(next.begin, kStart + seconds(1));
  EXPECT_EQ(next.length, seconds(2));
}

TEST(SafetyRule7, ACounterThatGoesBackIsAReset) {
  Reporter reporter{kStart, true};
  const Report first = reporter.report(kStart + seconds(1), kWall, reading({flow(1000, 10)}), {});
  const Report second = reporter.report(kStart + seconds(2), kWall, reading({flow(400, 4)}), {});
  ASSERT_EQ(second.flows.size(), 1u);
  EXPECT_EQ(second.flows[0].bytes, 400_bytes);
  EXPECT_EQ(second.flows[0].packets, 4u);
  EXPECT_TRUE(second.flows[0].reset);
  EXPECT_EQ(second.flows[0].key, first.flows[0].key);
}

TEST(SafetyRule7, ASubflowFirstSeenInAGapIsOnlyALowerBound) {
  Reporter reporter{kStart, true};
  const Report report =
      reporter.report(kStart + seconds(1), kWall, reading({flow(1000, 10)}, true), {});
  EXPECT_TRUE(report.gap);
  ASSERT_EQ(report.flows.size(), 1u);
  EXPECT_TRUE(report.flows[0].reset);
}

// What the gap hid is not forgotten, or its whole count would be one interval's when it is seen
// again: 500 bytes in 2 s.
TEST(SafetyRule7, ASubflowThatAGapHidGoesOnFromWhatWasReportedOfIt) {
  Reporter reporter{kStart, true};
  const Report first = reporter.report(kStart + seconds(1), kWall, reading({flow(9000, 90)}), {});
  EXPECT_TRUE(reporter.report(kStart + seconds(2), kWall, reading({}, true), {}).flows.empty());
  const Report again = reporter.report(kStart + seconds(3), kWall, reading({flow(9500, 95)}), {});
  ASSERT_EQ(again.flows.size(), 1U);
  EXPECT_EQ(again.flows[0].bytes, 500_bytes);
  EXPECT_EQ(again.flows[0].packets, 5U);
  EXPECT_FALSE(again.flows[0].reset);
  EXPECT_EQ(again.flows[0].key, first.flows.at(0).key);
}

// Gaps without end do not make memory without end: each hides 10,000 more.
TEST(Reporter, DoesNotRememberWithoutLimitWhatGapsHide) {
  Reporter reporter{kStart, true};
  std::vector<FlowCounter> flows;
  const auto hide = [&](int second, std::uint8_t address) {
    flows.clear();
    for (std::uint32_t i = 0; i < 10'000; ++i) {
      FlowCounter one = flow(1000, 10);
      one.source = IpAddress::v4(10, 1, 1, address);
      one.dest_qpn = i;
      flows.push_back(std::move(one));
    }
    reporter.report(kStart + seconds(second), kWall, reading(flows, true), {});
  };
  hide(1, 1);
  const std::vector<FlowCounter> oldest = flows;
  for (int i = 2; i <= 8; ++i)
    hide(i, static_cast<std::uint8_t>(i));
  const Report again = reporter.report(kStart + seconds(9), kWall, reading(oldest, true), {});
  ASSERT_EQ(again.flows.size(), oldest.size()) << "forgotten, hence new";
  EXPECT_TRUE(again.flows[0].reset) << "a lower bound";
}

TEST(SafetyRule7, WhatAQueuePairSendsUnseenIsUnobservableAndNotZero) {
  Reporter reporter{kStart, false};
  FlowCounter pair = flow(0, 0);
  pair.unobservable = true;
  pair.local_qpn = 178;
  pair.pid = 197;
  pair.peer = PeerOrigin::cm;
  pair.seen_by = "rdma";
  for (int second = 1; second <= 2; ++second) {
    const Report report = reporter.report(kStart + seconds(second), kWall, reading({pair}), {});
    ASSERT_EQ(report.flows.size(), 1u) << "it is there, silent or not";
    EXPECT_TRUE(report.flows[0].unobservable);
    EXPECT_EQ(report.flows[0].local_qpn, 178u);
    EXPECT_EQ(report.flows[0].pid, 197u);
    EXPECT_EQ(report.flows[0].peer, PeerOrigin::cm);
    EXPECT_EQ(report.flows[0].source, "rdma");
  }
}

}  // namespace
}  // namespace heddle
