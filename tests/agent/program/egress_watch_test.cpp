// Pins of p1 (behind it 10.1.1.0/30), by each unit, to 10.2.1.2 by up1, unless a test says
// otherwise.
#include "agent/program/egress_watch.h"

#include <gtest/gtest.h>

#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

using std::chrono::seconds;

const IpAddress kSource = IpAddress::v4(10, 1, 1, 2);
constexpr std::uint16_t kPort = 51986;

Pin by_port(const char* out) {
  return {.unit = ByPortAndDestination{"p1", destination(1)},
          .target = PortTableRoute{out},
          .reason = {}};
}
Pin by_queue_pair(const char* out) {
  return {
      .unit = ByQueuePair{kSource, destination(1), kPort}, .target = FlowMark{out}, .reason = {}};
}
Pin by_destination(const char* out) {
  return {.unit = ByDestination{destination(1)}, .target = HostRoute{out}, .reason = {}};
}

class EgressWatchTest : public testing::Test {
 protected:
  EgressWatchTest() {
    FakeKernel kernel;
    KernelRoute behind;
    behind.table = 254;
    behind.destination = *Prefix::parse("10.1.1.0/30");
    behind.hops = {Hop{.ifindex = 9, .gateway = {}}};
    kernel.state.routes.push_back(behind);
    view.load(kernel.state);
  }
  static Departure flow(const char* out, std::uint64_t packets) {
    return {.source = kSource,
            .destination = destination(1),
            .source_port = kPort,
            .out_port = out,
            .packets = packets};
  }
  // A second goes by, in which these were counted, from the beginning.
  bool period(const Pin& pin, const std::vector<Departure>& departures) {
    now += seconds{1};
    const std::vector<std::size_t> held{0};
    return watch.observed(departures, view, {pin}, held, now);
  }
  std::string failure(const Pin& pin) const {
    const std::string* const why = watch.failure(pin.unit);
    return why == nullptr ? "" : *why;
  }

  MainView view{{"up*"}};
  EgressWatch watch;
  Time now{seconds{1000}};
};

TEST_F(EgressWatchTest, PacketsThatLeaveByItsUplinkProveAPinOfEachUnit) {
  for (const Pin& pin : {by_port("up1"), by_queue_pair("up1"), by_destination("up1")}) {
    EXPECT_FALSE(period(pin, {flow("up1", 5)})) << "sent before the pin was there, perhaps";
    EXPECT_FALSE(watch.proven(pin.unit));
    EXPECT_TRUE(period(pin, {flow("up1", 6)}));
    EXPECT_TRUE(watch.proven(pin.unit)) << to_string(pin.unit);
    EXPECT_EQ(failure(pin), "");
    EXPECT_FALSE(period(pin, {flow("up1", 7)})) << "nothing new";
  }
}

TEST_F(EgressWatchTest, TwoPeriodsInWhichPacketsLeaveElsewhereMakeAPinOfEachUnitIneffective) {
  for (const Pin& pin : {by_port("up1"), by_queue_pair("up1"), by_destination("up1")}) {
    period(pin, {flow("up1", 5)});
    period(pin, {flow("up1", 6)});
    EXPECT_FALSE(period(pin, {flow("up1", 6), flow("up2", 1)})) << "it may be over already";
    EXPECT_EQ(failure(pin), "");
    EXPECT_TRUE(period(pin, {flow("up1", 6), flow("up2", 2)}));
    EXPECT_EQ(failure(pin), "not effective: seen leaving by up2") << to_string(pin.unit);
    EXPECT_FALSE(watch.proven(pin.unit));
  }
}

TEST_F(EgressWatchTest, OneFlowOfAPinThatGoesAstrayIsEnough) {
  const Pin pin = by_port("up1");
  Departure other = flow("up2", 0);
  other.source_port = 7;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    other.packets = n;
    period(pin, {flow("up1", 10 * n), other});
  }
  EXPECT_EQ(failure(pin), "not effective: seen leaving by up2");
}

TEST_F(EgressWatchTest, PacketsOnTheRightWayAloneLiftTheVerdict) {
  const Pin pin = by_queue_pair("up1");
  for (std::uint64_t n = 1; n <= 3; ++n)
    period(pin, {flow("up2", n)});
  ASSERT_NE(failure(pin), "");
  EXPECT_TRUE(period(pin, {flow("up1", 1), flow("up2", 3)}));
  EXPECT_EQ(failure(pin), "");
  EXPECT_TRUE(watch.proven(pin.unit));
}

// A pin that moves from up1 to up2: what up1 counted until then was right.
TEST_F(EgressWatchTest, WhatWasCountedBeforeAPinMovedSaysNothingOfIt) {
  period(by_port("up1"), {flow("up1", 5)});
  period(by_port("up1"), {flow("up1", 9)});
  const Pin moved = by_port("up2");
  for (std::uint64_t n = 1; n <= 3; ++n) {
    period(moved, {flow("up1", 12), flow("up2", n)});
    EXPECT_EQ(failure(moved), "");
  }
  EXPECT_TRUE(watch.proven(moved.unit));
  // And a verdict ends with the pin that it was about.
  for (std::uint64_t n = 13; n <= 14; ++n)
    period(moved, {flow("up1", n), flow("up2", 3)});
  ASSERT_EQ(failure(moved), "not effective: seen leaving by up1");
  period(by_port("up1"), {flow("up1", 15), flow("up2", 3)});
  EXPECT_EQ(failure(moved), "");
}

TEST_F(EgressWatchTest, AFlowThatFellSilentLeavesItsVerdictForAMinute) {
  const Pin pin = by_port("up1");
  for (std::uint64_t n = 1; n <= 3; ++n)
    period(pin, {flow("up2", n)});
  for (int silent = 0; silent < 59; ++silent)
    EXPECT_FALSE(period(pin, {}));
  EXPECT_NE(failure(pin), "");
  period(pin, {});
  EXPECT_TRUE(period(pin, {}));
  EXPECT_EQ(failure(pin), "");
}

// A counter that the source forgot begins again below what it was.
TEST_F(EgressWatchTest, ACounterThatBeginsAgainIsNoPacket) {
  const Pin pin = by_port("up1");
  period(pin, {flow("up2", 1000)});
  for (int n = 0; n < 3; ++n)
    period(pin, {flow("up2", 10)});
  EXPECT_EQ(failure(pin), "");
}

TEST_F(EgressWatchTest, OthersPacketsSayNothing) {
  const auto three = [&](const Pin& pin, Departure departure) {
    watch = {};
    for (std::uint64_t n = 1; n <= 3; ++n) {
      departure.packets = n;
      period(pin, {departure});
    }
    EXPECT_EQ(failure(pin), "");
    EXPECT_FALSE(watch.proven(pin.unit));
  };
  Departure from_elsewhere = flow("up2", 0);
  from_elsewhere.source = IpAddress::v4(10, 1, 2, 2);  // not behind p1
  three(by_port("up1"), from_elsewhere);
  Departure of_another_port = flow("up2", 0);
  of_another_port.source_port = 7;
  three(by_queue_pair("up1"), of_another_port);
  Departure to_another = flow("up2", 0);
  to_another.destination = destination(2);
  three(by_destination("up1"), to_another);
  three(by_port("up1"), flow("p1", 0));    // no uplink
  three(by_port("up1"), flow("gone", 0));  // no interface
  Pin by_segments = by_destination("up1");
  by_segments.target = SegmentList{{IpAddress::v4(10, 9, 9, 9)}};
  three(by_segments, flow("up2", 0));  // names none
}

TEST_F(EgressWatchTest, PinsThatAreNotHeldAreForgotten) {
  const std::vector<Pin> pins{by_port("up1"), by_queue_pair("up1")};
  const std::vector<std::size_t> both{0, 1};
  const std::vector<std::size_t> second{1};
  for (std::uint64_t n = 1; n <= 3; ++n)
    watch.observed(std::vector{flow("up2", n)}, view, pins, both, now += seconds{1});
  ASSERT_NE(failure(pins[0]), "");
  watch.observed(std::vector{flow("up2", 4)}, view, pins, second, now += seconds{1});
  EXPECT_EQ(failure(pins[0]), "");
  EXPECT_NE(failure(pins[1]), "");
}

}  // namespace
}  // namespace heddle
