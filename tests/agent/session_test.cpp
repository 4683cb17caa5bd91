#include "agent/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/agent/fakes.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLease = seconds(30);
const IpAddress kFar = IpAddress::v4(10, 2, 1, 2);

NodePlan plan(PlanVersion version, std::vector<Pin> pins = {pin("p1", kFar, "up2")}) {
  return {.node = "leaf1", .version = version, .pins = std::move(pins)};
}

Report report(std::uint64_t number) {
  Report report;
  report.number = number;
  return report;
}

Acknowledgement holding(PlanVersion version, std::uint32_t installed) {
  Acknowledgement state;
  state.version = version;
  state.installed = installed;
  return state;
}

// A session that talks to a coordinator which the test plays.
class Harness {
 public:
  explicit Harness(MemoryStore& store, Mode mode = Mode::program)
      : session({.node = "leaf1",
                 .role = Role::leaf,
                 .mode = mode,
                 .software = "test",
                 .boot_id = "boot",
                 .instance = 7,
                 .report_interval = seconds(1),
                 .longest_lease = seconds(120)},
                store, [this] {
                  return NodeFacts{
                      .installed = installed, .enforcers = {}, .sources = {}, .ports = {}};
                }) {
    session.start(now);
  }

  void advance(Duration by) {
    now += by;
    session.tick(now);
    collect();
  }
  void connect() {
    session.connected(now);
    collect();
  }
  void say(Message message, const std::string& from = "coordinator") {
    session.received(now, {.node = from, .sequence = 1, .message = std::move(message)});
    collect();
  }
  void welcome(PlanVersion version = {3, 0}) {
    connect();
    say(Welcome{.version = version, .report_interval = milliseconds(200), .lease = kLease});
    sent.clear();
  }
  void heartbeat(const NodePlan& of) {
    say(Heartbeat{.version = of.version, .digest = digest(of.pins), .lease = kLease});
  }
  // What the pins are to be, if that changed since the last call.
  std::optional<Wish> wish() { return session.take_wish(); }

  template <class T>
  std::vector<T> take() {
    std::vector<T> found;
    for (const Envelope& envelope : sent) {
      if (const T* message = std::get_if<T>(&envelope.message))
        found.push_back(*message);
    }
    sent.clear();
    return found;
  }

  Time now{seconds(1000)};
  Acknowledgement installed;
  Session session;
  std::vector<Envelope> sent;

 private:
  void collect() {
    for (Envelope& envelope : session.take_outbox())
      sent.push_back(std::move(envelope));
  }
};

class SessionTest : public ::testing::Test {
 protected:
  MemoryStore store;
};
// The same, for tests that stand for a safety rule.
class SafetyRule2 : public SessionTest {};
class SafetyRule4 : public SessionTest {};
class SafetyRule8 : public SessionTest {};
class SafetyRule9 : public SessionTest {};
class SafetyRule10 : public SessionTest {};

bool wants_nothing(const std::optional<Wish>& wish) {
  return wish && !wish->plan;
}

TEST_F(SessionTest, SaysHelloOnEveryConnectionWithWhatIsInstalled) {
  store.state.highest_seen = {3, 9};
  Harness agent(store);
  agent.installed = holding({3, 8}, 2);
  agent.installed.digest = 42;
  agent.connect();
  std::vector<Hello> hello = agent.take<Hello>();
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_EQ(hello[0].installed, (PlanVersion{3, 8}));
  EXPECT_EQ(hello[0].digest, 42u);
  EXPECT_EQ(hello[0].highest_seen, (PlanVersion{3, 9}));
  EXPECT_EQ(hello[0].instance, 7u);
  agent.session.lost(agent.now, "reset by peer");
  agent.connect();
  EXPECT_EQ(agent.take<Hello>().size(), 1u);
}

TEST_F(SessionTest, RepeatsHelloUntilItIsAnswered) {
  Harness agent(store);
  agent.connect();
  agent.take<Hello>();
  EXPECT_EQ(agent.session.next_deadline(), agent.now + kHelloAgain);
  agent.advance(kHelloAgain);
  EXPECT_EQ(agent.take<Hello>().size(), 1u);
  agent.say(Welcome{.version = {3, 0}, .report_interval = seconds(1), .lease = kLease});
  agent.advance(seconds(10));
  EXPECT_TRUE(agent.take<Hello>().empty());
}

TEST_F(SessionTest, TakesTheReportIntervalFromTheWelcome) {
  Harness agent(store);
  EXPECT_EQ(agent.session.report_interval(), seconds(1));
  agent.welcome();
  EXPECT_EQ(agent.session.report_interval(), milliseconds(200));
}

// A coordinator of the version before does not say it, and gets what it can read.
TEST_F(SessionTest, KnowsFromTheWelcomeWhetherShortColumnsAreRead) {
  Harness agent(store);
  agent.welcome();
  EXPECT_FALSE(agent.session.columns_of_one());
  agent.say(Welcome{
      .version = {3, 0}, .report_interval = seconds(1), .lease = kLease, .columns_of_one = true});
  EXPECT_TRUE(agent.session.columns_of_one());
  agent.connect();
  EXPECT_FALSE(agent.session.columns_of_one()) << "it may be another coordinator";
}

TEST_F(SessionTest, ReportsToNobodyBeforeItIsWelcome) {
  Harness agent(store);
  agent.connect();
  agent.sent.clear();
  agent.session.send_report(report(1));
  agent.session.send_link_change({});
  EXPECT_TRUE(agent.session.take_outbox().empty());
  agent.welcome();
  agent.session.send_report(report(2));
  EXPECT_EQ(agent.session.take_outbox().size(), 1u);
}

TEST_F(SessionTest, AppliesADiffToItsPlan) {
  Harness agent(store);
  agent.welcome();
  const NodePlan first = plan({3, 1});
  const NodePlan second = plan({3, 2}, {pin("p1", kFar, "up3"), pin("p2", kFar, "up4")});
  agent.say(snapshot_of(first));
  ASSERT_EQ(agent.wish(), (Wish{first, ""}));
  agent.say(diff(first, second));
  EXPECT_EQ(agent.wish(), (Wish{second, ""}));
  EXPECT_EQ(store.state.plan, second);
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty());
}

TEST_F(SessionTest, AsksForASnapshotAfterAGap) {
  Harness agent(store);
  agent.welcome();
  const NodePlan first = plan({3, 1});
  const NodePlan third = plan({3, 3}, {});
  agent.say(snapshot_of(first));
  agent.wish();
  NodePlan second = first;
  second.version = {3, 2};
  agent.say(diff(second, third));
  EXPECT_FALSE(agent.wish()) << "nothing of it may be half done";
  const std::vector<SnapshotRequest> asked = agent.take<SnapshotRequest>();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].have, (PlanVersion{3, 1}));
  // While the answer travels, the next diff does not ask again; later it does.
  agent.say(diff(second, third));
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty());
  agent.advance(kSnapshotAgain);
  agent.say(diff(second, third));
  EXPECT_EQ(agent.take<SnapshotRequest>().size(), 1u);
  agent.say(snapshot_of(third));
  EXPECT_EQ(agent.wish(), (Wish{third, ""}));
}

TEST_F(SessionTest, AsksForASnapshotWhenTheHeartbeatsDigestIsAnother) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.heartbeat(mine);
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty());
  agent.heartbeat(plan({3, 1}, {pin("p1", kFar, "up4")}));
  EXPECT_EQ(agent.take<SnapshotRequest>().size(), 1u);
}

TEST_F(SessionTest, AcknowledgesARepeatedPlanAgain) {
  Harness agent(store);
  agent.welcome();
  const NodePlan first = plan({3, 1});
  const NodePlan second = plan({3, 2}, {pin("p1", kFar, "up3")});
  agent.say(snapshot_of(first));
  agent.session.acknowledge(holding({3, 1}, 1));  // and it is lost on its way
  agent.say(snapshot_of(first));
  EXPECT_TRUE(agent.session.owes_acknowledgement()) << "a repeated snapshot";
  agent.say(diff(first, second));
  agent.session.acknowledge(holding({3, 2}, 1));
  agent.say(diff(first, second));
  EXPECT_TRUE(agent.session.owes_acknowledgement()) << "a repeated diff";
}

TEST_F(SessionTest, TakesANewVersionOfTheSamePinsFromTheHeartbeat) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  agent.wish();
  agent.heartbeat(plan({3, 5}));
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty());
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 5}), ""}));
  EXPECT_EQ(agent.session.highest_seen(), (PlanVersion{3, 5}));
}

TEST_F(SessionTest, RefusesASnapshotWhosePinsDoNotHaveTheirDigest) {
  Harness agent(store);
  agent.welcome();
  Snapshot damaged = snapshot_of(plan({3, 1}));
  damaged.digest ^= 1;
  agent.wish();
  agent.say(damaged);
  EXPECT_FALSE(agent.wish());
  EXPECT_EQ(agent.take<SnapshotRequest>().size(), 1u);
}

TEST_F(SessionTest, NeverProgramsInModeObserve) {
  store.state.plan = plan({3, 1});
  store.state.lease_deadline = Time{seconds(1010)};
  Harness agent(store, Mode::observe);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 2})));
  agent.heartbeat(plan({3, 2}));
  agent.heartbeat(plan({3, 3}, {}));
  agent.advance(seconds(60));
  EXPECT_FALSE(agent.wish());
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty()) << "it would ask for ever";
}

TEST_F(SessionTest, AcknowledgesWithTheStateOfTheSwitch) {
  Harness agent(store);
  agent.welcome();
  EXPECT_TRUE(agent.session.owes_acknowledgement()) << "hello did not say which pins failed";
  agent.session.acknowledge(holding({3, 1}, 4));
  EXPECT_FALSE(agent.session.owes_acknowledgement());
  agent.say(Switch{.enable = false, .by = "ada"});
  EXPECT_TRUE(agent.session.owes_acknowledgement()) << "also if the tables do not change";
  agent.take<Acknowledgement>();
  agent.session.acknowledge(holding({3, 1}, 0));
  agent.advance(Duration{0});
  const std::vector<Acknowledgement> acknowledged = agent.take<Acknowledgement>();
  ASSERT_EQ(acknowledged.size(), 1u);
  EXPECT_TRUE(acknowledged[0].disabled);
}

TEST_F(SessionTest, WantsNothingWhileDisabledAndTheNewestPlanAfterwards) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  agent.wish();
  agent.say(Switch{.enable = false, .by = "ada"});
  EXPECT_EQ(agent.wish(), (Wish{std::nullopt, "disabled by ada"}));
  const NodePlan next = plan({3, 2}, {pin("p1", kFar, "up4")});
  agent.say(diff(plan({3, 1}), next));
  agent.heartbeat(next);
  EXPECT_FALSE(agent.wish());
  agent.say(Switch{.enable = true, .by = "ada"});
  EXPECT_EQ(agent.wish(), (Wish{next, ""}));
}

TEST_F(SessionTest, StaysDisabledOverARestart) {
  {
    Harness agent(store);
    agent.welcome();
    agent.say(Switch{.enable = false, .by = "ada"});
  }
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  EXPECT_TRUE(wants_nothing(agent.wish()));
  EXPECT_TRUE(agent.session.disabled());
}

TEST_F(SessionTest, ObeysTheSwitchThatSomebodyTurnsOnTheMachine) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  agent.wish();
  agent.session.acknowledge({});
  store.by = "root";
  agent.session.switch_turned(agent.now);
  EXPECT_EQ(agent.wish(), (Wish{std::nullopt, "disabled by root"}));
  EXPECT_TRUE(agent.session.owes_acknowledgement());
  store.by.clear();
  agent.session.switch_turned(agent.now);
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 1}), ""}));
}

TEST_F(SessionTest, GoesOnWithThePlanBeforeARestartWhileItsLeaseRuns) {
  store.state.plan = plan({3, 1});
  store.state.highest_seen = {3, 1};
  store.state.lease_deadline = Time{seconds(1000)} + seconds(10);
  Harness agent(store);
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 1}), ""}));
  EXPECT_EQ(agent.session.next_deadline(), agent.now + seconds(10));
  agent.advance(seconds(10));
  EXPECT_TRUE(wants_nothing(agent.wish()));
}

TEST_F(SafetyRule2, TheLeaseOverEveryPinGoes) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.heartbeat(mine);
  agent.wish();
  agent.session.lost(agent.now, "no route to host");
  EXPECT_EQ(agent.session.next_deadline(), agent.now + kLease);
  agent.advance(kLease - milliseconds(1));
  EXPECT_FALSE(agent.wish());
  agent.advance(milliseconds(1));
  EXPECT_TRUE(wants_nothing(agent.wish()));
}

TEST_F(SafetyRule2, OnlyAConfirmedPlanComesBackAfterTheLease) {
  Harness agent(store);
  agent.welcome();
  const NodePlan old = plan({3, 1});
  agent.say(snapshot_of(old));
  agent.advance(kLease);
  agent.wish();
  // The coordinator has gone on: the old plan stays off, although there is a lease again.
  const NodePlan next = plan({3, 2}, {pin("p1", kFar, "up4")});
  agent.heartbeat(next);
  EXPECT_FALSE(agent.wish());
  EXPECT_EQ(agent.take<SnapshotRequest>().size(), 1u);
  agent.say(snapshot_of(next));
  EXPECT_EQ(agent.wish(), (Wish{next, ""}));

  agent.advance(kLease);
  EXPECT_TRUE(wants_nothing(agent.wish()));
  agent.heartbeat(next);
  EXPECT_EQ(agent.wish(), (Wish{next, ""}));
}

TEST_F(SafetyRule2, HeartbeatsRenewTheLease) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.wish();
  for (int i = 0; i < 10; ++i) {
    agent.advance(kLease / 2);
    agent.heartbeat(mine);
    EXPECT_FALSE(agent.wish());
  }
  EXPECT_EQ(store.state.lease_deadline, agent.now + kLease) << "the guard reads it";
}

TEST_F(SafetyRule2, NoLeaseIsLongerThanThisMachineAllows) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.say(Heartbeat{
      .version = mine.version, .digest = digest(mine.pins), .lease = std::chrono::hours(24)});
  EXPECT_EQ(agent.session.lease_deadline(), agent.now + seconds(120));
}

TEST_F(SafetyRule2, AShorterLeaseOfANewConfigurationHoldsFromTheNextWordOn) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.heartbeat(mine);
  EXPECT_EQ(agent.session.lease_deadline(), agent.now + kLease);
  agent.session.set_longest_lease(seconds(5));
  agent.heartbeat(mine);
  EXPECT_EQ(agent.session.lease_deadline(), agent.now + seconds(5));
}

TEST_F(SafetyRule2, WithoutALeaseAtTheStartNothingIsLeftStanding) {
  store.state.plan = plan({3, 1});
  Harness agent(store);
  EXPECT_TRUE(wants_nothing(agent.wish()));
}

TEST_F(SafetyRule2, ARefusedAgentsPinsEndWithTheirLease) {
  Harness agent(store);
  agent.welcome();
  const NodePlan mine = plan({3, 1});
  agent.say(snapshot_of(mine));
  agent.wish();
  agent.say(Refusal{.code = Errc::duplicate, .reason = "leaf1 is connected from elsewhere"});
  agent.heartbeat(mine);
  agent.advance(kLease);
  EXPECT_TRUE(wants_nothing(agent.wish()));
}

TEST_F(SafetyRule4, AnOlderPlanNeverReplacesANewerOne) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 5})));
  agent.wish();
  agent.say(snapshot_of(plan({3, 4}, {pin("p1", kFar, "up4")})));
  EXPECT_FALSE(agent.wish());
  EXPECT_TRUE(agent.session.owes_acknowledgement()) << "the coordinator learns what is held";
  agent.say(snapshot_of(plan({3, 5})));
  EXPECT_FALSE(agent.wish()) << "an equal one is a harmless repeat";
}

TEST_F(SafetyRule4, AnOlderEpochGivesNeitherPlanNorLease) {
  Harness agent(store);
  agent.welcome({4, 0});
  const NodePlan mine = plan({4, 1});
  agent.say(snapshot_of(mine));
  agent.wish();
  const std::optional<Time> lease = agent.session.lease_deadline();
  agent.advance(seconds(1));
  const NodePlan old = plan({3, 99}, {pin("p1", kFar, "up4")});
  agent.say(snapshot_of(old));
  agent.say(diff(mine, old));
  agent.heartbeat(old);
  EXPECT_FALSE(agent.wish());
  EXPECT_EQ(agent.session.lease_deadline(), lease);
}

TEST_F(SafetyRule4, AWelcomeOfAnOlderEpochIsAnsweredByHelloUntilItRises) {
  store.state.highest_seen = {7, 2};
  Harness agent(store);
  agent.connect();
  agent.say(Welcome{.version = {1, 0}, .report_interval = seconds(1), .lease = kLease});
  EXPECT_FALSE(agent.session.welcomed());
  agent.sent.clear();
  agent.advance(kHelloAgain);
  const std::vector<Hello> hello = agent.take<Hello>();
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_EQ(hello[0].highest_seen, (PlanVersion{7, 2}));
  agent.say(Welcome{.version = {8, 0}, .report_interval = seconds(1), .lease = kLease});
  EXPECT_TRUE(agent.session.welcomed());
}

TEST_F(SafetyRule4, TheHighestVersionSurvivesARestart) {
  {
    Harness agent(store);
    agent.welcome();
    agent.say(snapshot_of(plan({3, 5})));
  }
  store.state.plan.reset();
  Harness agent(store);
  agent.welcome();
  agent.wish();
  agent.say(snapshot_of(plan({3, 4})));
  EXPECT_FALSE(agent.wish());
}

TEST_F(SafetyRule4, APlanThatCouldNotBeKeptIsNotReplacedByAnOlderOneAtARestart) {
  {
    Harness agent(store);
    agent.welcome();
    agent.say(snapshot_of(plan({3, 4}, {pin("p1", kFar, "up4")})));
    store.loses_plans = true;
    agent.say(snapshot_of(plan({3, 5})));
  }
  ASSERT_EQ(store.state.plan->version, (PlanVersion{3, 4}));
  ASSERT_EQ(store.state.highest_seen, (PlanVersion{3, 5}));
  Harness agent(store);
  EXPECT_FALSE(agent.wish()) << "things stay as they are until the coordinator has spoken";
  agent.welcome();
  agent.say(snapshot_of(plan({3, 5})));
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 5}), ""}));
}

TEST_F(SafetyRule4, APlanOfALaterEpochReplacesOneOfAHigherGeneration) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 500})));
  agent.wish();
  const NodePlan next = plan({4, 1}, {});
  agent.say(snapshot_of(next));
  EXPECT_EQ(agent.wish(), (Wish{next, ""}));
}

TEST_F(SafetyRule8, AFullDiskStopsNeitherPlansNorTheSwitch) {
  store.full = true;
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 1}), ""}));
  agent.say(Switch{.enable = false, .by = "ada"});
  EXPECT_EQ(agent.wish(), (Wish{std::nullopt, "disabled by ada"}));
  agent.session.switch_turned(agent.now);
  EXPECT_TRUE(agent.session.disabled()) << "some other file in the folder changed";
}

TEST_F(SafetyRule8, ASwitchThatCannotBeKeptHoldsAlsoIfNobodyIsNamed) {
  store.full = true;
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 1})));
  agent.wish();
  agent.say(Switch{.enable = false, .by = ""});
  EXPECT_TRUE(agent.session.disabled());
  EXPECT_TRUE(wants_nothing(agent.wish()));
}

TEST_F(SafetyRule9, ARefusedAgentProgramsNothingNewAndAsksAgainLater) {
  Harness agent(store);
  agent.connect();
  agent.wish();
  agent.say(Refusal{.code = Errc::duplicate, .reason = "leaf1 is connected from elsewhere"});
  agent.sent.clear();
  agent.say(snapshot_of(plan({3, 1})));
  agent.heartbeat(plan({3, 1}));
  EXPECT_FALSE(agent.wish());
  agent.session.send_report(report(1));
  agent.advance(kHelloAfterRefusal - seconds(1));
  EXPECT_TRUE(agent.sent.empty());
  agent.advance(seconds(1));
  EXPECT_EQ(agent.take<Hello>().size(), 1u);
  agent.say(Welcome{.version = {3, 0}, .report_interval = seconds(1), .lease = kLease});
  agent.say(snapshot_of(plan({3, 1})));
  EXPECT_EQ(agent.wish(), (Wish{plan({3, 1}), ""}));
}

TEST_F(SafetyRule9, ASecondCoordinatorOfTheSameEpochGivesNoLease) {
  Harness agent(store);
  agent.welcome();
  agent.say(snapshot_of(plan({3, 5})));
  const std::optional<Time> lease = agent.session.lease_deadline();
  agent.advance(seconds(1));
  agent.heartbeat(plan({3, 2}, {}));
  EXPECT_EQ(agent.session.lease_deadline(), lease);
  EXPECT_TRUE(agent.take<SnapshotRequest>().empty());
}

TEST_F(SafetyRule10, WhatDoesNotComeFromTheCoordinatorHasNoEffect) {
  Harness agent(store);
  agent.welcome();
  agent.wish();
  agent.say(snapshot_of(plan({3, 1})), "leaf2");
  EXPECT_FALSE(agent.wish());
  agent.say(Hello{});
  agent.say(Request{.id = 1, .command = "status", .arguments = {}});
  EXPECT_FALSE(agent.wish());
  EXPECT_TRUE(agent.sent.empty());
}

TEST_F(SafetyRule10, APlanForAnotherNodeHasNoEffect) {
  Harness agent(store);
  agent.welcome();
  agent.wish();
  NodePlan other = plan({3, 1});
  other.node = "leaf2";
  agent.say(snapshot_of(other));
  EXPECT_FALSE(agent.wish());
  EXPECT_EQ(agent.session.highest_seen(), (PlanVersion{3, 0}));
}

TEST_F(SafetyRule10, NothingCountsBeforeTheWelcome) {
  Harness agent(store);
  agent.connect();
  agent.wish();
  agent.say(snapshot_of(plan({3, 1})));
  agent.heartbeat(plan({3, 1}));
  agent.say(Switch{.enable = false, .by = "ada"});
  EXPECT_FALSE(agent.wish());
  EXPECT_FALSE(agent.session.disabled());
  EXPECT_FALSE(agent.session.lease_deadline());
}

}  // namespace
}  // namespace heddle
