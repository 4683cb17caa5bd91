#include "agent/agent.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/agent/fake_node.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const IpAddress kFar = IpAddress::v4(10, 2, 1, 2);

NodePlan plan(PlanVersion version, const std::string& out_port = "up2") {
  return {.node = "leaf1", .version = version, .pins = {pin("p1", kFar, out_port)}};
}

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(node.agent.start()); }
  void install(PlanVersion version = {3, 1}) {
    node.join();
    node.say(snapshot_of(plan(version)));
    ASSERT_EQ(node.kernel.pins().size(), 1u);
    node.channel.sent.clear();
  }
  FakeNode node;
};
using SafetyRule2Agent = AgentTest;
using SafetyRule5Agent = AgentTest;
using SafetyRule7Agent = AgentTest;
using SafetyRule10Agent = AgentTest;

TEST_F(AgentTest, InstallsAPlanAndAcknowledgesWhatItReadBack) {
  node.join();
  node.channel.sent.clear();
  node.say(snapshot_of(plan({3, 1})));
  const std::vector<Acknowledgement> told = node.channel.take<Acknowledgement>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].version, (PlanVersion{3, 1}));
  EXPECT_EQ(told[0].digest, digest(plan({3, 1}).pins));
  EXPECT_EQ(told[0].installed, 1u);
  EXPECT_TRUE(told[0].failed.empty());
  EXPECT_EQ(node.kernel.pins().size(), 1u);
}

TEST_F(AgentTest, ReportsAtTheIntervalThatTheCoordinatorAskedFor) {
  node.join(milliseconds(200));
  node.channel.sent.clear();
  node.run_for(seconds(2));
  const std::vector<Report> reports = node.channel.take<Report>();
  ASSERT_EQ(reports.size(), 10u);
  EXPECT_EQ(reports[1].length, milliseconds(200));
  EXPECT_EQ(reports[1].number, reports[0].number + 1);
  EXPECT_EQ(reports[0].ports.size(), 3u);
}

TEST_F(AgentTest, DoesNotMakeUpForReportsThatItSleptThrough) {
  node.join();
  node.run_for(seconds(2));
  node.channel.sent.clear();
  node.clock.time += seconds(60);
  node.run_for(Duration{0});
  const std::vector<Report> reports = node.channel.take<Report>();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_GE(reports[0].length, seconds(60));
}

TEST_F(AgentTest, TellsALostCarrierAtOnce) {
  install();
  const Time before = node.clock.time;
  node.agent.kernel_changed(node.kernel.lose_carrier(FakeKernel::kUp2));
  node.run_for(Duration{0});
  const std::vector<LinkChange> told = node.channel.take<LinkChange>();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(node.clock.time, before);
  ASSERT_EQ(told[0].ports.size(), 3u);
  EXPECT_TRUE(told[0].ports[1].carrier);
  EXPECT_FALSE(told[0].ports[2].carrier);
  EXPECT_EQ(node.flows.link_changes, 1);
}

// The plan says up2. Queue pairs' own counters tell nothing of ways.
TEST_F(AgentTest, TellsThatPacketsOfAPinLeaveElsewhere) {
  install();
  FlowCounter flow{.source = IpAddress::v4(10, 1, 1, 2),
                   .destination = kFar,
                   .source_port = 51986,
                   .dest_qpn = 7,
                   .out_port = "up1",
                   .first_seen = node.clock.time,
                   .bytes = {},
                   .packets = 0,
                   .message_length = {},
                   .peer = PeerOrigin::kernel};
  const auto go_on = [&](PeerOrigin peer) {
    flow.peer = peer;
    for (int n = 0; n < 4; ++n) {
      flow.packets += 10;
      flow.bytes.value += 10'000;
      node.flows.reading->flows = {flow};
      node.run_for(seconds(1));
    }
  };
  go_on(PeerOrigin::kernel);
  EXPECT_TRUE(node.channel.take<Acknowledgement>().empty());
  go_on(PeerOrigin::wire);
  const auto told = node.channel.take<Acknowledgement>();
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(told[0].failed.size(), 1u);
  EXPECT_EQ(told[0].failed[0].reason, "not effective: seen leaving by up1");
  EXPECT_EQ(told[0].states->installed, 1u);
  EXPECT_EQ(told[0].states->effective, 0u);
}

TEST_F(AgentTest, TellsNothingWhenALinkEventChangesNothing) {
  install();
  node.agent.kernel_changed(LinkEvent{.link = node.kernel.state.links[1], .removed = false});
  node.run_for(Duration{0});
  EXPECT_TRUE(node.channel.take<LinkChange>().empty());
}

TEST_F(AgentTest, TellsLinksOnceItIsWelcomeAgain) {
  install();
  node.agent.connection_changed(false, "reset by peer");
  node.agent.kernel_changed(node.kernel.lose_carrier(FakeKernel::kUp2));
  node.run_for(Duration{0});
  node.channel.sent.clear();
  node.join();
  const std::vector<LinkChange> told = node.channel.take<LinkChange>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_FALSE(told[0].ports[2].carrier);
}

// What the coordinator needs to find that a change was lost, and what it then gets.
TEST_F(AgentTest, ReportsWhichStateOfTheLinksHoldsAndTellsItAgainWhenAsked) {
  install();
  node.run_for(seconds(1));
  node.agent.kernel_changed(node.kernel.lose_carrier(FakeKernel::kUp2));
  node.run_for(Duration{0});
  const LinkChange lost = node.channel.take<LinkChange>().at(0);
  EXPECT_NE(lost.state, 0U);
  node.run_for(seconds(2));
  std::size_t reports = 0;
  for (const Envelope& envelope : node.channel.sent) {
    EXPECT_FALSE(std::holds_alternative<LinkChange>(envelope.message)) << "nobody asked";
    if (const auto* report = std::get_if<Report>(&envelope.message)) {
      EXPECT_EQ(report->links, lost.state);
      ++reports;
    }
  }
  EXPECT_GE(reports, 2U);
  node.channel.sent.clear();
  node.say(LinkRequest{.have = lost.state - 1});
  const std::vector<LinkChange> told = node.channel.take<LinkChange>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_FALSE(told[0].ports[2].carrier);
  EXPECT_NE(told[0].state, lost.state);
  node.run_for(seconds(2));
  const std::vector<Report> later = node.channel.take<Report>();
  ASSERT_FALSE(later.empty());
  EXPECT_EQ(later.back().links, told[0].state);
}

TEST_F(AgentTest, TellsItsNeighboursWhenTheyChangeAndWhenTheyAreNotKnownAnyMore) {
  install();
  node.cables.known = {{{"up1", "spine1", "d1", ""}}};
  node.run_for(seconds(3));
  std::vector<LinkChange> told = node.channel.take<LinkChange>();
  ASSERT_EQ(told.size(), 1u) << "once, not with every report";
  EXPECT_EQ(told[0].neighbours, node.cables.known);
  EXPECT_EQ(told[0].ports.size(), 3u) << "whole state";

  node.agent.kernel_changed(node.kernel.lose_carrier(FakeKernel::kUp2));
  node.run_for(Duration{0});
  EXPECT_EQ(node.channel.take<LinkChange>().at(0).neighbours, node.cables.known);

  node.cables.known.reset();
  node.run_for(seconds(1));
  const std::vector<Hello> hello = node.channel.take<Hello>();
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_EQ(hello[0].sources.back(), (SourceCapability{"lldp", false, ""}));
  node.join();
  told = node.channel.take<LinkChange>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].neighbours, std::nullopt);
}

TEST_F(AgentTest, TakesPinsOffWhenDisabledAndConfirmsByReadBack) {
  install();
  node.say(Switch{.enable = false, .by = "ada"});
  EXPECT_TRUE(node.kernel.pins().empty());
  const std::vector<Acknowledgement> told = node.channel.take<Acknowledgement>();
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.back().disabled);
  EXPECT_EQ(told.back().installed, 0u);
  node.say(Switch{.enable = true, .by = "ada"});
  EXPECT_EQ(node.kernel.pins().size(), 1u);
}

TEST_F(AgentTest, NoticesTheSwitchOnTheMachineAtAFullCheckIfNobodyTellsOfIt) {
  install();
  node.store.by = "root";
  for (int i = 0; i < 4; ++i) {  // a full check, and a report after it; the lease runs on
    node.run_for(seconds(8));
    node.say(
        Heartbeat{.version = {3, 1}, .digest = digest(plan({3, 1}).pins), .lease = seconds(30)});
  }
  EXPECT_TRUE(node.kernel.pins().empty());
  EXPECT_TRUE(node.agent.session().disabled());
}

TEST_F(AgentTest, AnswersASwitchAlsoWhenNothingChanges) {
  node.join();
  node.channel.sent.clear();
  node.say(Switch{.enable = true, .by = "ada"});
  EXPECT_EQ(node.channel.take<Acknowledgement>().size(), 1u);
}

TEST_F(AgentTest, OnlyObservesInModeObserve) {
  AgentConfig config = FakeNode::configuration();
  config.mode = Mode::observe;
  FakeNode observer(config);
  ASSERT_TRUE(observer.agent.start());
  observer.join();
  observer.say(snapshot_of(plan({3, 1})));
  observer.run_for(seconds(60));
  EXPECT_EQ(observer.kernel.changes, 0u);
  EXPECT_GE(observer.channel.take<Report>().size(), 59u);
}

TEST_F(AgentTest, OffersAnEnforcerOnALeafAndNoneOnAHost) {
  node.join();
  const std::vector<Hello> from_leaf = node.channel.take<Hello>();
  ASSERT_EQ(from_leaf.size(), 1u);
  ASSERT_EQ(from_leaf[0].enforcers.size(), 1u);
  EXPECT_TRUE(from_leaf[0].enforcers[0].usable) << from_leaf[0].enforcers[0].reason;

  AgentConfig config = FakeNode::configuration();
  config.role = Role::host;
  config.mode = Mode::observe;
  FakeNode host(config);
  ASSERT_TRUE(host.agent.start());
  host.join();
  const std::vector<Hello> from_host = host.channel.take<Hello>();
  ASSERT_EQ(from_host.size(), 1u);
  EXPECT_TRUE(from_host[0].enforcers.empty());
}

TEST_F(AgentTest, SaysHelloAgainWhenItsEnforcerBreaksDownAndWhenItIsRepaired) {
  install();
  node.run_for(seconds(5));
  EXPECT_TRUE(node.channel.take<Hello>().empty()) << "nothing has changed";
  InterfaceSettings& setting = node.kernel.state.settings.front();
  setting.strict_reverse_path = true;
  node.agent.kernel_changed(EventsLost{});
  node.run_for(seconds(1));
  const std::vector<Hello> broken = node.channel.take<Hello>();
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_FALSE(broken[0].enforcers.at(0).usable);
  EXPECT_NE(broken[0].enforcers.at(0).reason, "");
  node.say(Welcome{.version = {3, 1}, .report_interval = seconds(1), .lease = seconds(30)});
  setting.strict_reverse_path = false;
  node.agent.kernel_changed(EventsLost{});
  node.run_for(seconds(1));
  const std::vector<Hello> repaired = node.channel.take<Hello>();
  ASSERT_EQ(repaired.size(), 1u);
  EXPECT_TRUE(repaired[0].enforcers.at(0).usable);
}

TEST_F(AgentTest, SaysHelloAgainWhenASourceGoesBlind) {
  install();
  node.flows.capability = {.name = "ebpf", .usable = false, .reason = "no interface matches up*"};
  node.run_for(seconds(1));
  const std::vector<Hello> blind = node.channel.take<Hello>();
  ASSERT_EQ(blind.size(), 1u);
  EXPECT_EQ(blind[0].sources.at(0), node.flows.capability);
}

TEST_F(SafetyRule2Agent, PinsGoWhenTheLeaseIsOverAndObservingGoesOn) {
  install();
  node.agent.connection_changed(false, "no route to host");
  node.run_for(seconds(29));
  EXPECT_EQ(node.kernel.pins().size(), 1u);
  node.run_for(seconds(2));
  EXPECT_TRUE(node.kernel.pins().empty());
  const int readings = node.flows.readings;
  node.run_for(seconds(5));
  EXPECT_EQ(node.flows.readings, readings + 5);
}

TEST_F(SafetyRule5Agent, LostNotificationsMakeItLookAtLinksAgain) {
  install();
  node.kernel.lose_carrier(FakeKernel::kUp2);  // nobody tells
  node.agent.kernel_changed(EventsLost{});
  node.run_for(milliseconds(100));
  const std::vector<LinkChange> told = node.channel.take<LinkChange>();
  ASSERT_FALSE(told.empty());
  EXPECT_FALSE(told[0].ports[2].carrier);
}

TEST_F(SafetyRule7Agent, AnUnreadableSourceIsAGapInTheReport) {
  node.join();
  node.flows.reading = fail(Errc::unobservable, "no interface matches up*");
  node.run_for(seconds(2));
  const std::vector<Report> reports = node.channel.take<Report>();
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(reports.back().gap);
}

TEST_F(SafetyRule10Agent, DamagedMessagesProgramNothing) {
  install();
  const std::size_t changes = node.kernel.changes;
  const std::vector<std::byte> good =
      encode({.node = "coordinator", .sequence = 1, .message = snapshot_of(plan({3, 2}, "up1"))});
  constexpr unsigned kSeed = 20261130;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes = good;
    if (round % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int i = 0; i < 1 + round % 4; ++i)
        bytes[random() % bytes.size()] ^= std::byte{static_cast<unsigned char>(1 + random() % 255)};
    }
    if (bytes == good)
      continue;
    node.agent.received(bytes);
    node.run_for(Duration{0});
    // A damaged text for people may pass, but then the pins are those that were announced.
    const std::vector<const KernelRoute*> pins = node.kernel.pins();
    ASSERT_EQ(pins.size(), 1u) << "round " << round;
    ASSERT_EQ(pins[0]->destination, Prefix::host(kFar)) << "round " << round;
  }
  EXPECT_LE(node.kernel.changes, changes + 6);
}

}  // namespace
}  // namespace heddle
