#include "coordinator/broadcast/broadcast.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace heddle {
namespace {

using namespace std::chrono_literals;

class Memory final : public EpochStore {
 public:
  Result<std::uint64_t> load_epoch() override { return epoch; }
  Result<void> store_epoch(std::uint64_t value) override {
    if (broken)
      return fail(Errc::io, "no space left");
    epoch = value;
    return {};
  }
  std::uint64_t epoch{};
  bool broken{};
};

class Wire final : public MessagePort {
 public:
  Result<void> send(const std::string& route, const Message& message) override {
    if (gone.contains(route))
      return fail(Errc::not_found, "gone");
    sent.emplace_back(route, message);
    return {};
  }
  // What of a kind was sent since the last call.
  template <class T>
  std::vector<T> take(const std::string& route) {
    std::vector<T> of_kind;
    std::erase_if(sent, [&](const auto& entry) {
      const T* message = std::get_if<T>(&entry.second);
      if (entry.first != route || message == nullptr)
        return false;
      of_kind.push_back(*message);
      return true;
    });
    return of_kind;
  }
  std::vector<std::pair<std::string, Message>> sent;
  std::set<std::string> gone;
};

Pin pin(const std::string& port, int leaf, const std::string& out) {
  return {ByPortAndDestination{port, IpAddress::v4(10, static_cast<std::uint8_t>(leaf), 1, 2)},
          PortTableRoute{out}, "because"};
}

class BroadcastTest : public ::testing::Test {
 protected:
  BroadcastTest() {
    broadcast.set_nodes({"leaf1", "leaf2", "h1-1"});
    plan.version = reign.next();
    set("leaf1", {pin("p1", 2, "up1"), pin("p2", 2, "up2")});
    set("leaf2", {pin("p1", 1, "up1")});
  }
  void set(const std::string& node, std::vector<Pin> pins) {
    plan.nodes[node] = {.node = node, .version = plan.version, .pins = std::move(pins)};
  }
  void next() { plan.version = reign.next(); }
  static Hello hello(std::uint64_t instance = 1, PlanVersion installed = {}) {
    Hello said;
    said.role = Role::leaf;
    said.mode = Mode::program;
    said.boot_id = "boot";
    said.software = "0.1.0";
    said.instance = instance;
    said.installed = said.highest_seen = installed;
    said.enforcers = {{"port-tables", Granularity::port_and_destination, true, ""}};
    return said;
  }
  static Sender from(const std::string& node, const std::string& route = {},
                     const std::string& key = {}) {
    return {.route = route.empty() ? node : route, .node = node, .key_name = key};
  }
  Acknowledgement ack(const std::string& node) {
    const NodePlan part = broadcast.part_of(node);
    Acknowledgement said;
    said.version = part.version;
    said.digest = digest(part.pins);
    said.installed = static_cast<std::uint32_t>(part.pins.size());
    return said;
  }
  std::string errors() const {
    std::string text;
    for (const Notice& notice : notices)
      if (notice.level != Notice::Level::info)
        text += notice.text + "\n";
    return text;
  }

  Memory store;
  Reign reign{*Reign::begin(store)};
  Wire wire;
  std::vector<Notice> notices;
  Broadcast broadcast{{.report_interval = 1s, .lease = 10s, .resend_first = 200ms},
                      reign,
                      wire,
                      [this](const Notice& notice) { notices.push_back(notice); }};
  RoutePlan plan;
  Time now{100s};
};

TEST_F(BroadcastTest, WelcomesAnAgentAndSendsItItsPartOnly) {
  broadcast.publish(plan, now);
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(), now));
  const auto welcomes = wire.take<Welcome>("leaf1");
  ASSERT_EQ(welcomes.size(), 1U);
  EXPECT_TRUE(welcomes[0].columns_of_one);
  const auto snapshots = wire.take<Snapshot>("leaf1");
  ASSERT_EQ(snapshots.size(), 1U);
  EXPECT_EQ(snapshots[0].plan, plan.nodes["leaf1"]);
  EXPECT_EQ(snapshots[0].digest, digest(plan.nodes["leaf1"].pins));
  EXPECT_TRUE(wire.sent.empty());
}

TEST_F(BroadcastTest, SendsNothingToProgramBeforeThereIsAPlan) {
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(1, {}), now));
  broadcast.snapshot_requested("leaf1", {}, now);
  broadcast.tick(now);
  broadcast.tick(now + 900ms);
  EXPECT_EQ(wire.take<Welcome>("leaf1").size(), 1U);
  EXPECT_TRUE(wire.sent.empty()) << "no heartbeat may make an agent drop what it has";
}

TEST_F(BroadcastTest, SendsADiffOnlyToNodesWhosePinsChanged) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.hello(from("leaf2"), hello(), now);
  broadcast.publish(plan, now);
  const NodePlan before = broadcast.part_of("leaf1");
  broadcast.acknowledged("leaf1", ack("leaf1"), now);
  broadcast.acknowledged("leaf2", ack("leaf2"), now);
  wire.sent.clear();

  next();
  set("leaf1", {pin("p1", 2, "up2"), pin("p2", 2, "up2")});
  broadcast.publish(plan, now);
  ASSERT_EQ(wire.sent.size(), 1U);
  const auto diffs = wire.take<PlanDiff>("leaf1");
  ASSERT_EQ(diffs.size(), 1U);
  EXPECT_EQ(diffs[0].set.size(), 1U);
  EXPECT_EQ(apply(before, diffs[0]), plan.nodes["leaf1"]);
}

TEST_F(BroadcastTest, RepeatsAnUnconfirmedPlanAsASnapshotAtGrowingDistances) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.publish(plan, now);
  wire.sent.clear();
  std::vector<int> at;
  for (int ms = 0; ms <= 2000; ms += 10) {
    broadcast.admit(from("leaf1"), now + std::chrono::milliseconds(ms));
    broadcast.tick(now + std::chrono::milliseconds(ms));
    if (!wire.take<Snapshot>("leaf1").empty())
      at.push_back(ms);
  }
  EXPECT_EQ(at, (std::vector<int>{200, 600, 1400}));
  broadcast.acknowledged("leaf1", ack("leaf1"), now + 2s);
  for (int ms = 2000; ms <= 5000; ms += 10) {
    broadcast.admit(from("leaf1"), now + std::chrono::milliseconds(ms));
    broadcast.tick(now + std::chrono::milliseconds(ms));
  }
  EXPECT_TRUE(wire.take<Snapshot>("leaf1").empty());
  EXPECT_TRUE(broadcast.converged(*broadcast.find("leaf1")));
}

TEST_F(BroadcastTest, BeatsWithVersionAndDigestOfTheNodesPart) {
  broadcast.publish(plan, now);
  broadcast.hello(from("leaf1"), hello(), now);
  std::vector<int> at;
  for (int ms = 0; ms < 3000; ms += 5) {
    broadcast.admit(from("leaf1"), now + std::chrono::milliseconds(ms));
    broadcast.tick(now + std::chrono::milliseconds(ms));
    for (const Heartbeat& beat : wire.take<Heartbeat>("leaf1")) {
      EXPECT_EQ(beat.version, plan.version);
      EXPECT_EQ(beat.digest, digest(plan.nodes["leaf1"].pins));
      EXPECT_EQ(beat.lease, Duration(10s));
      at.push_back(ms);
    }
  }
  ASSERT_EQ(at.size(), 3U) << "one a second";
  EXPECT_EQ(at[1] - at[0], 1000);
  EXPECT_EQ(at[2] - at[1], 1000);
}

TEST_F(BroadcastTest, LeavesAnAgentAloneThatHoldsItsPartAlready) {
  broadcast.publish(plan, now);
  Hello said = hello(1, plan.version);
  said.digest = digest(plan.nodes["leaf1"].pins);
  broadcast.hello(from("leaf1"), said, now);
  EXPECT_TRUE(wire.take<Snapshot>("leaf1").empty());
}

TEST_F(BroadcastTest, LosesASilentAgentAndTakesItBackWithASnapshot) {
  broadcast.publish(plan, now);
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.tick(now + 3s);
  EXPECT_FALSE(broadcast.find("leaf1")->connected);
  wire.sent.clear();
  EXPECT_TRUE(broadcast.admit(from("leaf1"), now + 4s));
  EXPECT_TRUE(broadcast.find("leaf1")->connected);
  EXPECT_EQ(wire.take<Snapshot>("leaf1").size(), 1U);
}

TEST_F(BroadcastTest, SteersOnlyWhatProgramsAndMayAndCan) {
  const auto steers = [&](const Hello& said) {
    broadcast.hello(from("leaf1"), said, now);
    return broadcast.steering("leaf1", now).has_value();
  };
  EXPECT_FALSE(broadcast.steering("leaf1", now));
  EXPECT_TRUE(steers(hello()));
  Hello observing = hello();
  observing.mode = Mode::observe;
  EXPECT_FALSE(steers(observing));
  Hello unable = hello();
  unable.enforcers[0].usable = false;
  EXPECT_FALSE(steers(unable));
  EXPECT_TRUE(steers(hello()));
  EXPECT_FALSE(broadcast.steering("leaf1", now + 11s)) << "its lease is over";
  Acknowledgement foreign = ack("leaf1");
  foreign.conflict = "table 18800 holds a route of bird";
  broadcast.acknowledged("leaf1", foreign, now);
  EXPECT_FALSE(broadcast.steering("leaf1", now));
}

TEST_F(BroadcastTest, CountsOnSegmentsOnlyWhileTheirAgentIsThereAndOn) {
  Hello said = hello();
  said.enforcers[0].name = "srv6";
  said.segments = {{SegmentBehaviour::transit, *IpAddress::parse("fd00::1")}};
  EXPECT_TRUE(broadcast.segments("leaf1").empty());
  broadcast.hello(from("leaf1"), said, now);
  EXPECT_TRUE(std::ranges::equal(broadcast.segments("leaf1"), said.segments));
  EXPECT_TRUE(broadcast.holds_by("leaf1", "srv6", now));
  EXPECT_FALSE(broadcast.holds_by("leaf1", "port-tables", now));
  broadcast.tick(now + 3s);
  EXPECT_TRUE(broadcast.segments("leaf1").empty()) << "it fell silent";
  broadcast.hello(from("leaf1"), said, now + 4s);
  broadcast.switch_node("leaf1", false, "me", now + 4s);
  EXPECT_TRUE(broadcast.segments("leaf1").empty()) << "it is switched off";
  EXPECT_FALSE(broadcast.holds_by("leaf1", "srv6", now + 4s));
}

TEST_F(BroadcastTest, RefusesWhomTheFabricDoesNotKnowAndWhoseKeyIsAnothers) {
  EXPECT_FALSE(broadcast.hello(from("leaf9"), hello(), now));
  EXPECT_EQ(wire.take<Refusal>("leaf9").at(0).code, Errc::not_found);
  EXPECT_FALSE(broadcast.hello(from("leaf1", "r", "leaf2"), hello(), now));
  EXPECT_EQ(wire.take<Refusal>("r").at(0).code, Errc::permission);
  EXPECT_TRUE(broadcast.hello(from("leaf1", "r2", "leaf1"), hello(), now));
  EXPECT_FALSE(broadcast.admit(from("leaf1", "r2", "leaf2"), now));
  EXPECT_NE(errors().find("leaf9"), std::string::npos);
}

TEST_F(BroadcastTest, SafetyRule9TheSecondOfTwoAgentsWithOneNameIsRefusedAndBothAreNamed) {
  ASSERT_TRUE(broadcast.hello(from("leaf1", "first"), hello(0xaaa), now));
  EXPECT_FALSE(broadcast.hello(from("leaf1", "second"), hello(0xbbb), now + 1s));
  const auto refusals = wire.take<Refusal>("second");
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_EQ(refusals[0].code, Errc::duplicate);
  EXPECT_NE(errors().find("0xaaa"), std::string::npos) << errors();
  EXPECT_NE(errors().find("0xbbb"), std::string::npos) << errors();
  EXPECT_FALSE(broadcast.admit(from("leaf1", "second"), now + 1s));
  EXPECT_TRUE(broadcast.admit(from("leaf1", "first"), now + 1s));
  broadcast.publish(plan, now + 1s);
  EXPECT_TRUE(wire.take<Snapshot>("second").empty());
  EXPECT_EQ(wire.take<Snapshot>("first").size(), 1U);
}

TEST_F(BroadcastTest, SafetyRule9AnAgentThatWasRestartedIsNoSecondOne) {
  broadcast.publish(plan, now);
  ASSERT_TRUE(broadcast.hello(from("leaf1", "first"), hello(0xaaa), now));
  wire.gone.insert("first");
  EXPECT_TRUE(broadcast.hello(from("leaf1", "second"), hello(0xbbb), now + 10ms));
  EXPECT_EQ(broadcast.find("leaf1")->route, "second");
}

TEST_F(BroadcastTest, SafetyRule9ASecondAgentIsTakenWhenTheFirstFellSilent) {
  ASSERT_TRUE(broadcast.hello(from("leaf1", "first"), hello(0xaaa), now));
  EXPECT_TRUE(broadcast.hello(from("leaf1", "second"), hello(0xbbb), now + 4s));
}

TEST_F(BroadcastTest, SafetyRule9APlanOfOurEpochThatWeDidNotIssueMakesUsLeaveIt) {
  ASSERT_EQ(reign.version(), (PlanVersion{1, 1}));
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(1, {1, 5}), now));
  EXPECT_EQ(reign.version(), (PlanVersion{2, 0}));
  EXPECT_EQ(store.epoch, 2U);
  EXPECT_NE(errors().find("leaf1 holds plan 1.5"), std::string::npos) << errors();
  EXPECT_NE(errors().find("up to 1.1"), std::string::npos) << errors();
}

// The node's part is 1.1 and ours goes on to 1.50: 1.30 is below ours, but never was this node's.
TEST_F(BroadcastTest, SafetyRule9APlanBetweenTheNodesAndOursMakesUsLeaveTheEpoch) {
  const auto at_fifty = [&] {
    broadcast.publish(plan, now);
    while (reign.version().generation < 50)
      next();
    set("leaf2", {});
    broadcast.publish(plan, now);
  };
  at_fifty();
  ASSERT_EQ(broadcast.part_of("leaf1").version, (PlanVersion{1, 1}));
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(1, {1, 1}), now));
  ASSERT_EQ(reign.version(), (PlanVersion{1, 50}));

  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(1, {1, 30}), now));
  EXPECT_EQ(reign.version(), (PlanVersion{2, 0}));
  EXPECT_NE(errors().find("leaf1 holds plan 1.30"), std::string::npos) << errors();
}

TEST_F(BroadcastTest, SafetyRule9AnAcknowledgementOrARequestShowsThatAnotherRulesToo) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.publish(plan, now);
  next();
  next();
  Acknowledgement foreign = ack("leaf1");
  foreign.version = {1, 2};
  broadcast.acknowledged("leaf1", foreign, now);
  EXPECT_EQ(reign.version().epoch, 2U);
  plan.version = reign.next();
  set("leaf1", {});
  broadcast.publish(plan, now);
  next();
  next();
  broadcast.snapshot_requested("leaf1", {.have = {2, 2}, .reason = "gap"}, now);
  EXPECT_EQ(reign.version().epoch, 3U);
}

TEST_F(BroadcastTest, SafetyRule9OtherPinsUnderOurVersionMakeUsLeaveTheEpoch) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.publish(plan, now);
  Acknowledgement other = ack("leaf1");
  other.digest ^= 1;
  broadcast.acknowledged("leaf1", other, now);
  EXPECT_EQ(reign.version().epoch, 2U);
  EXPECT_NE(errors().find("leaf1"), std::string::npos);
}

TEST_F(BroadcastTest, SafetyRule4ACoordinatorThatLostItsDiskBeginsAboveTheHighestEpoch) {
  broadcast.hello(from("leaf1"), hello(1, {7, 3}), now);
  EXPECT_EQ(reign.version(), (PlanVersion{8, 0}));
  broadcast.hello(from("leaf2"), hello(1, {5, 90}), now);
  EXPECT_EQ(reign.version().epoch, 8U);
  EXPECT_EQ(store.epoch, 8U);
}

TEST_F(BroadcastTest, SafetyRule4AnEpochThatNobodyCanHaveReachedIsRefusedAndNamed) {
  const std::uint64_t last = ~std::uint64_t{0};
  EXPECT_FALSE(broadcast.hello(from("leaf1"), hello(1, {last, 3}), now));
  EXPECT_EQ(wire.take<Refusal>("leaf1").size(), 1U);
  EXPECT_NE(errors().find("leaf1"), std::string::npos);
  EXPECT_NE(errors().find("18446744073709551615.3"), std::string::npos) << errors();
  EXPECT_EQ(reign.version(), (PlanVersion{1, 1}));
  EXPECT_EQ(store.epoch, 1U);

  ASSERT_TRUE(broadcast.hello(from("leaf2"), hello(), now));
  Acknowledgement damaged = ack("leaf2");
  damaged.version.epoch = last;
  broadcast.acknowledged("leaf2", damaged, now);
  broadcast.snapshot_requested("leaf2", {.have = {last, 1}, .reason = "gap"}, now);
  EXPECT_EQ(reign.version(), (PlanVersion{1, 1}));
}

TEST_F(BroadcastTest, SafetyRule4AnEpochIsStoredBeforeItIsUsed) {
  EXPECT_EQ(store.epoch, 1U);
  Reign second = *Reign::begin(store);
  EXPECT_EQ(second.version().epoch, 2U);
  EXPECT_EQ(store.epoch, 2U);
  store.broken = true;
  EXPECT_FALSE(Reign::begin(store)) << "without storing it, two reigns could share an epoch";
}

TEST_F(BroadcastTest, PinsThatFailedAreNoSignOfAnotherCoordinator) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.publish(plan, now);
  Acknowledgement partial = ack("leaf1");
  partial.digest ^= 1;
  partial.installed = 1;
  partial.failed = {
      {plan.nodes["leaf1"].pins[0].unit, Errc::kernel, "the neighbour does not answer"}};
  broadcast.acknowledged("leaf1", partial, now);
  EXPECT_EQ(reign.version().epoch, 1U);
  EXPECT_FALSE(broadcast.converged(*broadcast.find("leaf1")));
  EXPECT_NE(errors().find("neighbour"), std::string::npos);
}

TEST_F(BroadcastTest, RepeatsTheOffSwitchUntilItIsConfirmed) {
  broadcast.publish(plan, now);
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.switch_node("leaf1", false, "ann", now);
  EXPECT_EQ(wire.take<Switch>("leaf1").at(0).by, "ann");
  broadcast.tick(now + 200ms);
  ASSERT_EQ(wire.take<Switch>("leaf1").size(), 1U);
  Acknowledgement off = ack("leaf1");
  off.disabled = true;
  off.installed = 0;
  broadcast.acknowledged("leaf1", off, now + 300ms);
  EXPECT_TRUE(broadcast.find("leaf1")->disabled);
  broadcast.tick(now + 2s);
  EXPECT_TRUE(wire.take<Switch>("leaf1").empty());
  EXPECT_FALSE(broadcast.steering("leaf1", now));
}

TEST_F(BroadcastTest, SwitchesAnAgentOffThatWasAwayWhenItWasAsked) {
  broadcast.switch_node("leaf1", false, "ann", now);
  broadcast.hello(from("leaf1"), hello(), now + 1s);
  broadcast.tick(now + 1s);
  ASSERT_EQ(wire.take<Switch>("leaf1").size(), 1U);
}

TEST_F(BroadcastTest, LetsTheSwitchOnTheMachineItselfStand) {
  Hello off = hello();
  off.disabled = true;
  broadcast.hello(from("leaf1"), off, now);
  EXPECT_TRUE(broadcast.disabled().contains("leaf1"));
  broadcast.tick(now);
  EXPECT_TRUE(wire.take<Switch>("leaf1").empty());

  broadcast.hello(from("leaf2"), hello(), now);
  Acknowledgement turned = ack("leaf2");
  turned.disabled = true;
  broadcast.acknowledged("leaf2", turned, now);
  EXPECT_TRUE(broadcast.disabled().contains("leaf2"));
}

TEST_F(BroadcastTest, ALateWordOfAnAgentDoesNotUndoTheOffSwitch) {
  broadcast.hello(from("leaf1"), hello(), now);
  broadcast.switch_node("leaf1", false, "ann", now);
  Acknowledgement off = ack("leaf1");
  off.disabled = true;
  broadcast.acknowledged("leaf1", off, now);
  broadcast.acknowledged("leaf1", ack("leaf1"), now);
  EXPECT_TRUE(broadcast.disabled().contains("leaf1"));
  wire.sent.clear();
  broadcast.tick(now + 1s);
  ASSERT_EQ(wire.take<Switch>("leaf1").size(), 1U);
}

TEST_F(BroadcastTest, AsksForTheLinksThatWereLostAndLeavesOutWhatIsLate) {
  const auto told = [this](std::uint64_t state) {
    return broadcast.links_told("leaf1",
                                {.ports = {}, .withdrawn = {}, .neighbours = {}, .state = state});
  };
  const auto asked = [this](std::uint64_t reported) {
    Report report;
    report.links = reported;
    broadcast.reported("leaf1", report, now);
    return !wire.take<LinkRequest>("leaf1").empty();
  };
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(7), now));
  EXPECT_FALSE(asked(0)) << "an agent that gives no number";
  EXPECT_TRUE(told(~0ULL));
  EXPECT_TRUE(told(1)) << "numbers go on over their highest";
  EXPECT_FALSE(told(~0ULL)) << "late";
  EXPECT_FALSE(asked(1));
  EXPECT_TRUE(asked(2));
  EXPECT_TRUE(told(2));
  EXPECT_FALSE(asked(2));
  ASSERT_TRUE(broadcast.hello(from("leaf1"), hello(8), now));
  EXPECT_TRUE(told(1)) << "an instance counts for itself";
}

TEST_F(BroadcastTest, CountsTheReportsThatWereLost) {
  broadcast.hello(from("leaf1"), hello(), now);
  Report report;
  for (const std::uint64_t number : {1, 2, 5}) {
    report.number = number;
    broadcast.reported("leaf1", report, now);
  }
  EXPECT_EQ(broadcast.find("leaf1")->reports_lost, 2U);
}

}  // namespace
}  // namespace heddle
