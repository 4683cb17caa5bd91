#include "coordinator/predict/flow_table.h"

#include <gtest/gtest.h>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::address;
using testing::delta;
using testing::wire_key;

class FlowTableTest : public ::testing::Test {
 protected:
  // One interval of a second, as seen by one node.
  void report(const std::string& node, std::vector<FlowDelta> flows) {
    table.add(node, testing::report_of(++number, now, 1s, std::move(flows)), now + 1s);
  }
  void pass() { now += 1s; }
  const Subflow& only() {
    EXPECT_EQ(table.subflows().size(), 1U);
    return table.subflows().begin()->second;
  }

  Topology topology{testing::small_fabric(2, 2, 2)};
  FlowTable table{topology,
                  {.elephant_rate = Rate{8e6}, .elephant_message = {1000000}, .memory = 10s}};
  Time now{1000s};
  std::uint64_t number{};
  const WireKey key{wire_key(address(1, 1), address(2, 1))};
};

// Four observers of one flow: 1 MB each is 1 MB, not 4.
TEST_F(FlowTableTest, TakesEverySightingForTheSameFlow) {
  for (const char* node : {"leaf2", "h2-1", "leaf1", "h1-1"})
    report(node, {delta(key, 1000000, node == std::string("leaf1") ? "up2" : "")});
  EXPECT_EQ(only().sightings.size(), 4U);
  EXPECT_EQ(only().sightings.front().node, "h1-1");
  ASSERT_TRUE(table.rate(only(), now + 1s));
  EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 8e6);
}

// Whoever reports first, 1,000 octets are counted once: those of the observer nearest to the
// sender.
TEST_F(FlowTableTest, CountsAFlowOnceThatItsLeafReportsBeforeItsHost) {
  for (const char* node : {"h2-1", "leaf2", "leaf1", "h1-1"})
    report(node, {delta(key, 1000)});
  EXPECT_EQ(only().bytes, Bytes{1000});
  pass();
  for (const char* node : {"leaf1", "h1-1"})
    report(node, {delta(key, 500)});
  EXPECT_EQ(only().bytes, Bytes{1500});
}

// The leaf reports at 1 s, the host at 1.8 s of what it saw since 0.8 s: the leaf's interval began
// before the host's and saw the same packets all the same.
TEST_F(FlowTableTest, CountsAFlowOnceWhereTheIntervalsOfItsObserversAreApart) {
  report("leaf1", {delta(key, 1000)});
  now += 800ms;
  report("h1-1", {delta(key, 5000)});
  EXPECT_EQ(only().bytes, Bytes{5000});
}

// 3 x 1,000 before the host's agent began, and then 1,000 that both saw.
TEST_F(FlowTableTest, KeepsWhatALeafCountedBeforeTheHostBegan) {
  for (int i = 0; i < 3; ++i, pass())
    report("leaf1", {delta(key, 1000)});
  report("leaf1", {delta(key, 1000)});
  report("h1-1", {delta(key, 1000)});
  EXPECT_EQ(only().bytes, Bytes{4000});
}

// What the leaf estimated is replaced by what the host counted, and so is its error.
TEST_F(FlowTableTest, DropsTheErrorOfAnEstimateThatACountReplaces) {
  FlowDelta estimated = delta(key, 1000, "up1");
  estimated.bytes_error = {300};
  report("leaf1", {estimated});
  report("h1-1", {delta(key, 900)});
  EXPECT_EQ(only().bytes, Bytes{900});
  EXPECT_EQ(only().bytes_variance, 0.0);
}

// Clocks of two machines are not to be compared: the leaf's bursts are at 1000, 1004 and 1008 s of
// its own, and the host's first would be the fourth at the same distance by chance.
TEST_F(FlowTableTest, FindsNoPeriodInTheClocksOfTwoObservers) {
  for (int i = 0; i < 12; ++i, pass())
    report("leaf1", i % 4 == 0 ? std::vector{delta(key, 2000000)} : std::vector<FlowDelta>{});
  report("h1-1", {delta(key, 2000000)});
  EXPECT_FALSE(only().period);
  EXPECT_EQ(only().onsets.size(), 1U);
}

// Hosts date a queue pair by their own clock; that must not make two flows of it.
TEST_F(FlowTableTest, JoinsSightingsWhoseFirstSeenTimesDiffer) {
  WireKey later = key;
  later.first_seen = WallTime(5s);
  report("h1-1", {delta(key, 1000)});
  report("leaf1", {delta(later, 1000, "up1")});
  EXPECT_EQ(only().sightings.size(), 2U);
}

class ReusedNumbers : public FlowTableTest {
 protected:
  // What the host says of its queue pair, begun at `first_seen` by the wall clock.
  FlowDelta of_host(Duration first_seen, std::uint32_t pid, std::uint64_t bytes,
                    std::string label = {}) const {
    FlowDelta result = delta(key, bytes);
    result.key.first_seen = WallTime(first_seen);
    result.local_qpn = 178;
    result.pid = pid;
    result.label = std::move(label);
    result.label_origin = result.label.empty() ? "" : "cgroup";
    return result;
  }
};

// A process of job 5 sent 3 x 2 MB and ended. Another one got its queue pair's numbers.
TEST_F(ReusedNumbers, ByAnotherProcessMakeAnotherSubflow) {
  for (int i = 0; i < 3; ++i, pass()) {
    report("h1-1", {of_host(100s, 11, 2000000, "slurm:5.0")});
    report("leaf1", {delta(key, 2000000, "up2")});
  }
  ASSERT_TRUE(only().elephant);
  // Its leaf reports first, as before, and sees no difference: that is no reason to begin afresh.
  report("leaf1", {delta(key, 1000, "up2")});
  EXPECT_EQ(only().bytes, Bytes{6000000});
  report("h1-1", {of_host(200s, 22, 1000)});
  EXPECT_EQ(only().bytes, Bytes{1000});
  EXPECT_EQ(only().label, "");
  EXPECT_EQ(only().label_node, "");
  EXPECT_EQ(only().sender.pid, 22U);
  EXPECT_EQ(only().onsets.size(), 1U);
  EXPECT_EQ(only().appeared, now + 1s);
  EXPECT_FALSE(only().elephant);
  ASSERT_EQ(only().sightings.size(), 1U);
  EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 8e3);
  EXPECT_TRUE(only().observed_up.valid()) << "the same ports are hashed the same way";
  pass();
  report("leaf1", {delta(key, 500, "up2")});
  report("h1-1", {of_host(200s, 22, 500)});
  EXPECT_EQ(only().bytes, Bytes{1500}) << "by both, once";
  EXPECT_EQ(only().sightings.size(), 2U);
}

// Also where nobody can count what they send.
TEST_F(ReusedNumbers, OfAnUnobservableQueuePairTakeNoLabelAlong) {
  FlowDelta first = of_host(100s, 11, 0, "slurm:5.0");
  first.unobservable = true;
  report("h1-1", {first});
  report("leaf1", {delta(key, 4000, "up1")});
  pass();
  FlowDelta next = of_host(200s, 22, 0);
  next.unobservable = true;
  report("h1-1", {next});
  EXPECT_EQ(only().label, "");
  EXPECT_EQ(only().sender.pid, 22U);
  EXPECT_EQ(only().bytes, Bytes{0});
  EXPECT_TRUE(only().sightings.empty());
  report("leaf1", {delta(key, 1000, "up1")});
  EXPECT_EQ(only().bytes, Bytes{1000});
}

// Agents date in steps of half a second, and a clock is slewed: the same beginning, not another.
TEST_F(ReusedNumbers, AreNotThoseOfABeginningThatIsDatedALittleDifferently) {
  report("h1-1", {of_host(100s, 11, 1000)});
  pass();
  report("h1-1", {of_host(100s + 540ms, 11, 1000)});
  EXPECT_EQ(only().bytes, Bytes{2000});
}

// An agent that begins anew dates all its flows anew and counts its reports from 1 again.
TEST_F(ReusedNumbers, AreNotTheSameNumbersThatARestartedAgentDatesAnew) {
  for (int i = 0; i < 3; ++i, pass())
    report("h1-1", {of_host(100s, 11, 1000)});
  number = 0;
  report("h1-1", {of_host(150s, 11, 1000)});
  EXPECT_EQ(only().bytes, Bytes{4000});
  pass();
  // But a process that ended meanwhile is not another's past.
  number = 0;
  report("h1-1", {of_host(160s, 22, 1000)});
  EXPECT_EQ(only().bytes, Bytes{1000});
}

// Leaves alone see it: the source's leaf tells one from the next, the other only when it is gone.
TEST_F(ReusedNumbers, AreToldByWhoeverIsMostDirect) {
  const auto of_leaf = [this](Duration first_seen) {
    FlowDelta result = delta(key, 1000, "up1");
    result.key.first_seen = WallTime(first_seen);
    return result;
  };
  report("leaf2", {of_leaf(10s)});
  report("leaf1", {of_leaf(20s)});
  pass();
  report("leaf2", {of_leaf(30s)});
  report("leaf1", {of_leaf(20s)});
  EXPECT_EQ(only().bytes, Bytes{2000});
  pass();
  report("leaf1", {of_leaf(40s)});
  EXPECT_EQ(only().bytes, Bytes{1000});
  for (int i = 0; i < 6; ++i) {
    pass();
    report("leaf2", {of_leaf(30s)});
  }
  EXPECT_EQ(only().bytes, Bytes{7000}) << "leaf2 has taken over";
  report("leaf2", {of_leaf(50s)});
  EXPECT_EQ(only().bytes, Bytes{1000});
}

TEST_F(FlowTableTest, KnowsTheUplinkFromTheSourceLeafAlone) {
  report("leaf2", {delta(key, 1000, "p1")});
  EXPECT_FALSE(only().observed_up.valid());
  report("leaf1", {delta(key, 1000, "up2")});
  ASSERT_TRUE(only().observed_up.valid());
  EXPECT_EQ(topology[topology[only().observed_up].spine].name, "spine2");
  pass();
  report("leaf1", {delta(key, 1000, "up1")});
  EXPECT_EQ(topology[topology[only().observed_up].spine].name, "spine1");
}

TEST_F(FlowTableTest, KnowsAnElephantByItsFirstMessageAndByItsRate) {
  report("h1-1", {delta(key, 4096, {}, 999999)});
  EXPECT_FALSE(only().elephant);
  report("h1-1", {delta(key, 4096, {}, 1000000)});
  EXPECT_TRUE(only().elephant);

  const WireKey fast = wire_key(address(1, 2), address(2, 2));
  report("h1-2", {delta(fast, 999999)});  // 7.999992 Mbit/s
  EXPECT_FALSE(table.subflows().at(key_of(fast)).elephant);
  pass();
  report("h1-2", {delta(fast, 1000001)});
  EXPECT_TRUE(table.subflows().at(key_of(fast)).elephant);
}

// At 60 % of the threshold it stays one, at 40 % it ceases to be one when its memory ends.
TEST_F(FlowTableTest, LetsAnElephantGoOnlyBelowHalfTheThreshold) {
  for (int i = 0; i < 30; ++i, pass())
    report("h1-1", {delta(key, i < 3 ? 1000000 : 600000)});
  table.age(now);
  EXPECT_TRUE(only().elephant);
  for (int i = 0; i < 30; ++i, pass())
    report("h1-1", {delta(key, 400000)});
  table.age(now);
  EXPECT_FALSE(only().elephant);
}

TEST_F(FlowTableTest, RemembersASilentFlowForItsMemoryAndNoLonger) {
  report("h1-1", {delta(key, 2000000)});
  table.age(now + 10s);
  EXPECT_TRUE(only().elephant);
  table.age(now + 12s);
  EXPECT_TRUE(table.subflows().empty());
}

TEST_F(FlowTableTest, CountsIntervalsWithoutAWordOfTheFlowAsSilent) {
  report("h1-1", {delta(key, 3000000)});
  pass();
  report("h1-1", {});
  pass();
  report("h1-1", {});
  EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 8e6);
  pass();
  report("h1-1", {});
  EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 0.0);
}

TEST_F(FlowTableTest, SafetyRule7ARateThatNobodyReportsIsUnknownAndNotZero) {
  report("h1-1", {delta(key, 1000000)});
  EXPECT_TRUE(table.rate(only(), now + 4s));
  EXPECT_FALSE(table.rate(only(), now + 5s));
}

// Two seconds of sending, two of silence.
TEST_F(FlowTableTest, FindsThePeriodOfBursts) {
  for (int i = 0; i < 24; ++i, pass())
    report("h1-1", i % 4 < 2 ? std::vector{delta(key, 2000000)} : std::vector<FlowDelta>{});
  ASSERT_TRUE(only().period);
  EXPECT_EQ(*only().period, Duration(4s));
}

TEST_F(FlowTableTest, FindsNoPeriodInBurstsAtUnevenDistances) {
  for (const int silent : {1, 5, 2, 9, 1, 4}) {
    report("h1-1", {delta(key, 2000000)});
    pass();
    for (int i = 0; i < silent; ++i, pass())
      report("h1-1", {});
  }
  EXPECT_FALSE(only().period);
}

// Its period is 8 s, so a pause of 20 s may still be one.
TEST_F(FlowTableTest, RemembersPeriodicFlowsForThreePeriods) {
  for (int i = 0; i < 40; ++i, pass())
    report("h1-1", i % 8 < 2 ? std::vector{delta(key, 2000000)} : std::vector<FlowDelta>{});
  ASSERT_EQ(only().period, Duration(8s));
  table.age(now + 14s);
  EXPECT_TRUE(only().elephant);
}

TEST_F(FlowTableTest, CountsMiceBeyondItsSizeWithoutTrackingThem) {
  FlowTable tiny(topology, {.elephant_message = {1000000}, .max_subflows = 1});
  const WireKey other = wire_key(address(1, 2), address(2, 2));
  tiny.add("h1-1", testing::report_of(1, now, 1s, {delta(key, 10)}), now);
  tiny.add("h1-2", testing::report_of(1, now, 1s, {delta(other, 10)}), now);
  EXPECT_EQ(tiny.subflows().size(), 1U);
  EXPECT_EQ(tiny.untracked(), 1U);
  tiny.add("h1-2", testing::report_of(2, now, 1s, {delta(other, 10, {}, 1000000)}), now);
  EXPECT_EQ(tiny.subflows().size(), 2U);
}

// Its machine says what the sender's process works for. A leaf that sees the same flow knows
// nothing of that, and takes nothing back; the machine itself may.
TEST_F(FlowTableTest, TakesTheLabelFromWhoeverKnowsItUntilItIsTakenBack) {
  FlowDelta labelled = delta(key, 1000);
  labelled.label = "slurm:1234.0";
  labelled.label_origin = "cgroup";
  report("leaf1", {delta(key, 1000, "up1")});
  report("h1-1", {labelled});
  report("leaf1", {delta(key, 1000, "up1")});
  EXPECT_EQ(only().label, "slurm:1234.0");
  EXPECT_EQ(only().label_origin, "cgroup");
  EXPECT_EQ(only().label_node, "h1-1");
  pass();
  report("h1-1", {delta(key, 1000)});
  EXPECT_EQ(only().label, "") << "the queue pair is another process's now";
  EXPECT_EQ(only().label_node, "");
}

// 300 and 400 of independent estimates are off by 500 together.
TEST_F(FlowTableTest, AddsTheErrorsOfEstimatesAsIndependent) {
  FlowDelta estimated = delta(key, 10000, "up1");
  for (const std::uint64_t error : {300, 400}) {
    estimated.bytes_error = {error};
    report("leaf1", {estimated});
    pass();
  }
  EXPECT_EQ(only().bytes.value, 20000U);
  EXPECT_DOUBLE_EQ(only().bytes_variance, 500.0 * 500.0);
}

// A host's queue pair on hardware that cannot count: it is there, and what it sends is not zero.
TEST_F(FlowTableTest, SafetyRule7KeepsAFlowThatNobodySeesWithoutBytesOrRate) {
  FlowDelta pair = delta(key, 0);
  pair.unobservable = true;
  pair.local_qpn = 178;
  pair.pid = 197;
  pair.peer = PeerOrigin::cm;
  for (int i = 0; i < 15; ++i) {
    report("h1-1", {pair});
    pass();
    table.age(now);
  }
  EXPECT_TRUE(only().sightings.empty());
  EXPECT_FALSE(table.rate(only(), now));
  EXPECT_FALSE(only().elephant);
  EXPECT_EQ(only().sender.node, "h1-1");
  EXPECT_EQ(only().sender.qpn, 178U);
  EXPECT_EQ(only().sender.pid, 197U);
  // A leaf sees its packets: now they are counted.
  report("leaf1", {delta(key, 1000, "up1")});
  report("h1-1", {pair});
  EXPECT_EQ(only().bytes, Bytes{1000});
  EXPECT_EQ(only().sender.qpn, 178U);
  for (int i = 0; i < 12; ++i) {
    report("h1-1", {});
    pass();
    table.age(now);
  }
  EXPECT_TRUE(table.subflows().empty()) << "its queue pair has ended";
}

// The host's agent dies after 2 s. Its leaf, which has seen the same packets, is believed from then
// on, once the host has missed three reports: its bytes since then are not lost meanwhile.
TEST_F(FlowTableTest, TheNextObserverTakesOverWhereTheMostDirectOneDies) {
  for (int i = 0; i < 2; ++i, pass())
    for (const char* node : {"h1-1", "leaf1", "leaf2"})
      report(node, {delta(key, 1000, node == std::string("leaf1") ? "up1" : "")});
  EXPECT_EQ(only().bytes, Bytes{2000});
  for (int i = 1; i <= 8; ++i, pass()) {
    for (const char* node : {"leaf1", "leaf2"})
      report(node, {delta(key, 1000, node == std::string("leaf1") ? "up1" : "")});
    EXPECT_EQ(only().bytes, Bytes{i <= 3 ? 2000U : 2000U + 1000U * static_cast<unsigned>(i)}) << i;
  }
  EXPECT_EQ(only().sightings.front().node, "leaf1");
  ASSERT_TRUE(table.volume(only()));
  EXPECT_EQ(table.volume(only())->bytes, Bytes{10000});
  EXPECT_FALSE(only().silent());
  // It comes back, and nothing is counted twice.
  for (int i = 0; i < 3; ++i, pass())
    for (const char* node : {"leaf1", "h1-1"})
      report(node, {delta(key, 1000, node == std::string("leaf1") ? "up1" : "")});
  EXPECT_EQ(only().sightings.front().node, "h1-1");
  EXPECT_EQ(only().bytes, Bytes{13000});
}

// Both die; the other leaf is the only one left.
TEST_F(FlowTableTest, WhoeverIsLeftTakesOver) {
  for (const char* node : {"h1-1", "leaf1", "leaf2"})
    report(node, {delta(key, 1000)});
  pass();
  report("leaf1", {delta(key, 1000, "up1")});
  report("leaf2", {delta(key, 1000)});
  for (int i = 0; i < 6; ++i) {
    pass();
    report("leaf2", {delta(key, 1000)});
  }
  EXPECT_EQ(only().sightings.front().node, "leaf2");
  EXPECT_EQ(only().sightings.size(), 1U);
  EXPECT_EQ(only().bytes, Bytes{8000});
}

// What a leaf's samples only estimate stays an estimate: 3 intervals, each off by 30.
TEST_F(FlowTableTest, WhoTakesOverBringsItsErrors) {
  FlowDelta estimated = delta(key, 1000, "up1");
  estimated.bytes_error = {30};
  report("leaf1", {estimated});
  report("h1-1", {delta(key, 1000)});
  EXPECT_DOUBLE_EQ(only().bytes_variance, 0);
  for (int i = 0; i < 4; ++i) {
    pass();
    report("leaf1", {estimated});
  }
  EXPECT_EQ(only().bytes, Bytes{5000});
  EXPECT_NEAR(only().bytes_variance, 4 * 900, 1e-6);
}

// An agent whose source fails reports gaps: it does not see, which is no silence, and the leaf is
// believed as if the agent had died.
TEST_F(FlowTableTest, SafetyRule7AnObserverThatCannotSeeIsNoSilence) {
  for (const char* node : {"h1-1", "leaf1"})
    report(node, {delta(key, 1000)});
  for (int i = 0; i < 5; ++i) {
    pass();
    Report blind = testing::report_of(++number, now, 1s, {});
    blind.gap = true;
    table.add("h1-1", blind, now + 1s);
    EXPECT_FALSE(only().silent());
    report("leaf1", {delta(key, 1000, "up1")});
  }
  EXPECT_EQ(only().sightings.front().node, "leaf1");
  EXPECT_EQ(only().bytes, Bytes{6000});
}

// A queue pair's counter is read every third second, 3,000 octets each time: that is 8,000 bit/s
// all the time, not a burst each three seconds, and never silence.
TEST_F(FlowTableTest, SafetyRule7IntervalsWithoutALookAreNoSilence) {
  FlowDelta unread = delta(key, 0);
  unread.unobservable = true;
  for (int look = 0; look < 8; ++look) {
    report("h1-1", {delta(key, look == 0 ? 1000 : 3000)});
    EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 8e3) << look;
    pass();
    for (int i = 0; i < 2; ++i, pass()) {
      report("h1-1", {unread});
      EXPECT_FALSE(only().silent());
      EXPECT_DOUBLE_EQ(table.rate(only(), now + 1s)->bits_per_second, 8e3);
    }
  }
  EXPECT_FALSE(only().period) << "looks are no bursts";
  EXPECT_EQ(only().bytes, Bytes{22000});
  // Two looks later it has sent nothing: that is silence.
  report("h1-1", {});
  EXPECT_TRUE(only().silent());
}

}  // namespace
}  // namespace heddle
