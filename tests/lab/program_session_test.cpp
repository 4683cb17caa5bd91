// Whole agents over a real kernel, by each way of holding a path: what a coordinator's words and
// its silence do to the tables, and what the log says of what others did to them.
#include <fmt/format.h>

#include <cstdio>

#include "common/runtime/log.h"
#include "tests/lab/agent_on_leaf.h"
#include "tests/lab/each_way.h"
#include "tests/lab/others.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Coordinator : public EachEnforcer {
 protected:
  static NodePlan two_pins(PlanVersion version = {.epoch = 3, .generation = 5}) {
    NodePlan both = plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.3.1.2", "up2")});
    both.version = version;
    return both;
  }
  static NodePlan moved(PlanVersion version) {
    NodePlan other = plan(1, {pin("p1", "10.2.1.2", "up3"), pin("p2", "10.3.1.2", "up3")});
    other.version = version;
    return other;
  }
  static bool held(Node& n) {
    return n.installed() == 2 && n.leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
           n.leaf.pinned_to("p2", "10.3.1.2") == "up2";
  }
  static void hold(Node& n) {
    n.say(Welcome{.version = {.epoch = 3, .generation = 5},
                  .report_interval = milliseconds{100},
                  .lease = seconds{30}});
    n.say(snapshot_of(two_pins()));
    ASSERT_TRUE(n.run_until([&] { return held(n); }));
  }
};

using SafetyRule2Coordinator = Coordinator;
using SafetyRule4Coordinator = Coordinator;
using SafetyRule10Coordinator = Coordinator;
using SafetyRule5Log = Coordinator;
INSTANTIATE_TEST_SUITE_P(, SafetyRule2Coordinator, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule4Coordinator, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule10Coordinator, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule5Log, every_way(), name_of_case);

TEST_P(SafetyRule2Coordinator, SilentPastTheLeaseItHasNoPinsLeftAndItsNextWordBringsThemBack) {
  Node n(GetParam().enforcer);
  const std::string others = state_of_others(n.leaf.leaf);
  constexpr auto kLease = seconds{1};
  hold(n);
  n.say(Heartbeat{.version = {.epoch = 3, .generation = 5},
                  .digest = digest(two_pins().pins),
                  .lease = kLease});
  const Time last_word = n.clock.now();
  ASSERT_TRUE(n.run_until([&] { return n.installed() == 0; }));
  const double ms = lab::milliseconds(n.clock.now() - last_word);
  std::printf("[ measured ] pins gone %.1f ms after the last word, under a lease of 1,000\n", ms);
  EXPECT_GE(ms, 990.0);
  EXPECT_LT(ms, 1200.0);
  EXPECT_TRUE(n.leaf.nothing_pinned());
  EXPECT_EQ(state_of_others(n.leaf.leaf), others);
  n.say(Heartbeat{.version = {.epoch = 3, .generation = 5},
                  .digest = digest(two_pins().pins),
                  .lease = seconds{30}});
  EXPECT_TRUE(n.run_until([&] { return held(n); }));
}

TEST_P(SafetyRule4Coordinator, AnOlderPlanAndAPlanOfAnOlderEpochChangeNothing) {
  Node n(GetParam().enforcer);
  hold(n);
  for (const PlanVersion older :
       {PlanVersion{.epoch = 3, .generation = 4}, PlanVersion{.epoch = 2, .generation = 900}}) {
    n.say(snapshot_of(moved(older)));
    n.go_on();
    EXPECT_TRUE(held(n)) << to_string(older);
  }
  n.say(snapshot_of(moved({.epoch = 3, .generation = 6})));
  EXPECT_TRUE(n.run_until(
      [&] { return n.installed() == 2 && n.leaf.pinned_to("p1", "10.2.1.2") == "up3"; }));
}

TEST_P(SafetyRule10Coordinator, APlanForAnotherNodeChangesNothing) {
  Node n(GetParam().enforcer);
  hold(n);
  NodePlan foreign = moved({.epoch = 3, .generation = 6});
  foreign.node = "leaf2";
  n.say(snapshot_of(foreign));
  n.go_on();
  EXPECT_TRUE(held(n));
}

TEST_P(SafetyRule10Coordinator, AnUplinkThatDoesNotExistIsRefusedAndTheOtherPinHeld) {
  Node n(GetParam().enforcer);
  hold(n);
  NodePlan next = plan(1, {pin("p1", "10.2.1.2", "up9"), pin("p2", "10.3.1.2", "up3")});
  next.version = {.epoch = 3, .generation = 6};
  n.say(snapshot_of(next));
  ASSERT_TRUE(n.run_until(
      [&] { return n.installed() == 1 && n.leaf.pinned_to("p2", "10.3.1.2") == "up3"; }));
  EXPECT_EQ(n.leaf.pinned_to("p1", "10.2.1.2"), "");
  const Acknowledgement state = n.agent.programmer().state();
  ASSERT_EQ(state.failed.size(), 1U);
  EXPECT_EQ(state.failed[0].reason, lost_with(9, "there is no interface up9"));
}

// The log
// ------------------------------------------------------------------------------------------

class Log {
 public:
  Log() {
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  ~Log() { set_log_sink({}); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::ptrdiff_t count(const std::string& words) const {
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

 private:
  std::vector<std::string> lines_;
};

TEST_P(SafetyRule5Log, SaysOnceThatSomethingWasDeletedAndRestored) {
  Node n(GetParam().enforcer);
  hold(n);
  n.go_on();
  const Log log;
  const auto repairs = n.agent.programmer().counters().repairs;
  shown(n.leaf.leaf, "nft flush ruleset; ip nexthop flush proto 205");
  ASSERT_TRUE(
      n.run_until([&] { return held(n) && n.agent.programmer().counters().repairs > repairs; }));
  ASSERT_TRUE(n.run_until([&] { return log.count("was found changed") > 0; }));
  n.go_on();
  EXPECT_EQ(log.count("was found changed"), 1);
}

TEST_P(SafetyRule5Log, SaysOnceWhatForeignStateIsInTheWay) {
  Node n(GetParam().enforcer);
  hold(n);
  const Log log;
  shown(n.leaf.leaf, "ip nexthop add id 1880000007 blackhole proto 99");
  ASSERT_TRUE(n.run_until([&] { return n.installed() == 0; }));
  // More happens, and it is still there.
  n.leaf.set_far_end(3, false);
  n.go_on();
  n.leaf.set_far_end(3, true);
  n.go_on();
  EXPECT_EQ(log.count("foreign state where only heddle's may be: nexthop id 1880000007"), 1);
  shown(n.leaf.leaf, "ip nexthop del id 1880000007");
  ASSERT_TRUE(n.run_until([&] { return held(n); }));
  EXPECT_EQ(log.count("nothing foreign is in the way"), 1);
}

}  // namespace
}  // namespace heddle::lab
