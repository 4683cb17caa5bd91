// When the programmer reads, acts, waits and tells.
#include "agent/program/programmer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(ProgrammerOverAFake, ObservingNeverChangesAnything) {
  start(Mode::observe);
  programmer->want(plan(1, {{1, "up1"}}));
  EXPECT_FALSE(settle().has_value());
  kernel.state.next_hops.back().members = {2};
  programmer->kernel_changed(NextHopEvent{.next_hop = kernel.state.next_hops.back()});
  settle();
  EXPECT_TRUE(kernel.done.empty());
  EXPECT_EQ(programmer->withdrawn().size(), 1U) << "observing tells of withdrawals all the same";
}

TEST_F(ProgrammerOverAFake, ObservingTakesAwayWhatAnEarlierLifeInstalledAndThenRests) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.removals_fail = true;
  start(Mode::observe);
  EXPECT_EQ(programmer->leftovers(), "2 pins of an earlier life, as this node only observes");
  EXPECT_EQ(programmer->state().installed, 2U) << "what is left is told";
  EXPECT_EQ(programmer->state().failed.size(), 2U);

  kernel.removals_fail = false;
  clock.time += seconds{1};
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 0U);
  EXPECT_TRUE(news->failed.empty());
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(kernel.state.rules.empty());
  EXPECT_TRUE(store.kept.empty());
  kernel.done.clear();
  programmer->want(plan(2, {{1, "up1"}}));
  EXPECT_FALSE(settle().has_value());
  EXPECT_TRUE(kernel.done.empty());
  start(Mode::observe);
  EXPECT_EQ(programmer->leftovers(), "");
}

// A host has no ports that face hosts.
TEST_F(ProgrammerOverAFake, WhatAnEarlierLifeAsALeafInstalledGoesWithItsHostPorts) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  programmer.emplace(
      kernel, store, clock,
      ProgramConfig{.mode = Mode::program, .uplinks = {"up*"}, .host_ports = {}, .ranges = {}});
  ASSERT_TRUE(programmer->start());
  settle();
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_EQ(programmer->state().installed, 0U);
}

TEST_F(ProgrammerOverAFake, WhatItsConfigurationForbidsIsRefusedWhoeverWantsIt) {
  programmer.emplace(kernel, store, clock,
                     ProgramConfig{.mode = Mode::program,
                                   .uplinks = {"up*"},
                                   .host_ports = {"p*"},
                                   .never_touch = {Prefix::host(destination(2))},
                                   .ranges = {}});
  ASSERT_TRUE(programmer->start());
  programmer->want(plan(1, {{1, "up1"}, {2, "up1"}}));
  const auto told = settle();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->installed, 1U);
  ASSERT_EQ(told->failed.size(), 1U);
  EXPECT_EQ(told->failed[0].code, Errc::permission);
  EXPECT_EQ(destination_of(told->failed[0].unit), destination(2));
  EXPECT_EQ(kernel.pinned(), 1U);
}

// Behind p1 are 10.1.1.0/30 and, by a gateway on it, 10.9.0.0/24; nobody knows who is behind p2. A
// port's table moves what comes in there, so none is filled whose senders may not be touched.
TEST_F(ProgrammerOverAFake, APortWithASenderThatIsNeverToBeTouchedGetsNoPins) {
  kernel.state.links.push_back(
      {.index = 10, .name = "p2", .up = true, .carrier = true, .master_kind = {}});
  for (const char* network : {"10.1.1.0/30", "10.9.0.0/24"}) {
    KernelRoute route;
    route.table = 254;
    route.destination = *Prefix::parse(network);
    route.hops = {Hop{.ifindex = 9, .gateway = {}}};
    kernel.state.routes.push_back(route);
  }
  NodePlan wanted = plan(1, {{1, "up1"}});
  wanted.pins.push_back({.unit = ByPortAndDestination{"p2", destination(1)},
                         .target = PortTableRoute{"up1"},
                         .reason = {}});
  for (const char* spared : {"10.1.1.2/32", "10.1.1.0/30", "10.9.0.0/16", "10.9.0.7/32"}) {
    programmer.emplace(kernel, store, clock,
                       ProgramConfig{.mode = Mode::program,
                                     .uplinks = {"up*"},
                                     .host_ports = {"p*"},
                                     .never_touch = {*Prefix::parse(spared)},
                                     .ranges = {}});
    ASSERT_TRUE(programmer->start());
    programmer->want(wanted);
    settle();
    const Acknowledgement told = programmer->state();
    EXPECT_EQ(told.installed, 1U) << spared;
    ASSERT_EQ(told.failed.size(), 1U) << spared;
    EXPECT_EQ(told.failed[0].code, Errc::permission);
    EXPECT_EQ(told.failed[0].unit, wanted.pins[0].unit);
    EXPECT_NE(told.failed[0].reason.find(spared), std::string::npos) << told.failed[0].reason;
    EXPECT_EQ(kernel.pinned(), 1U) << spared;
  }
}

TEST_F(ProgrammerOverAFake, AWithdrawalIsActedOnWhileNothingCanBeRead) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.reading_fails = true;
  programmer->kernel_changed(EventsLost{});
  clock.time += seconds{1};
  KernelNextHop group = kernel.state.next_hops.at(2);
  group.members = {2};
  kernel.state.next_hops.at(2) = group;
  programmer->kernel_changed(NextHopEvent{.next_hop = group});
  settle();
  EXPECT_EQ(kernel.pinned(), 1U);
  kernel.reading_fails = false;
  clock.time += seconds{1};
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 1U);
  EXPECT_EQ(news->failed.at(0).code, Errc::not_found);
  EXPECT_EQ(programmer->counters().events_lost, 1U);
}

// A tenth of a second of failing reads, at growing distances, is a handful of reads.
TEST_F(ProgrammerOverAFake, ReadsThatFailAreRepeatedWithGrowingGaps) {
  start();
  kernel.reading_fails = true;
  programmer->kernel_changed(EventsLost{});
  const int before = kernel.reads;
  for (int ms = 0; ms < 1000; ++ms) {
    clock.time += milliseconds{1};
    settle();
  }
  EXPECT_GE(kernel.reads - before, 3);
  EXPECT_LE(kernel.reads - before, 8);
}

using SafetyRule12 = ProgrammerOverAFake;

// Two reads of 40 ms in a row, the first of which was just too early to see it.
TEST_F(SafetyRule12, AWithdrawalWhoseNotificationWasLostIsFoundInTimeAlsoWhenReadingIsSlow) {
  kernel.clock = &clock;
  kernel.read_time = milliseconds{40};
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  clock.time += seconds{1};
  programmer->kernel_changed(EventsLost{});
  settle();
  kernel.state.next_hops.at(2).members = {2};
  programmer->kernel_changed(EventsLost{});
  const Time lost = clock.time;
  while (kernel.pinned() != 0 && clock.time < lost + seconds{2}) {
    clock.time = std::max(clock.time, *programmer->next_deadline());
    programmer->step();
  }
  EXPECT_LT(clock.time - lost, milliseconds{100});
}

TEST_F(ProgrammerOverAFake, AnInconsistentDumpIsReadAgainSoon) {
  kernel.state.inconsistent = true;
  start();
  const int before = kernel.reads;
  kernel.state.inconsistent = false;
  clock.time += milliseconds{20};
  settle();
  EXPECT_EQ(kernel.reads, before + 1);
  clock.time += seconds{5};
  settle();
  EXPECT_EQ(kernel.reads, before + 1);
}

TEST_F(ProgrammerOverAFake, EverythingIsReadAgainEveryHalfMinuteAndRepairedWithoutANotification) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  std::erase_if(kernel.state.routes, [](const auto& r) { return r.table != 254; });
  clock.time += seconds{29};
  settle();
  EXPECT_EQ(kernel.pinned(), 0U);
  clock.time += seconds{1};
  settle();
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(programmer->counters().repairs, 1U);
}

// A stream of events moves the reads, and must not move the check.
TEST_F(ProgrammerOverAFake, EverythingIsCheckedEveryHalfMinuteAlsoUnderAStreamOfEvents) {
  start();
  const int before = kernel.probes;
  for (int s = 0; s < 30; ++s) {
    clock.time += seconds{1};
    programmer->kernel_changed(SettingsEvent{});
    settle();
  }
  EXPECT_EQ(kernel.probes, before + 1);
}

TEST_F(ProgrammerOverAFake, WhatIsThereGoesWhenProgrammingIsRefusedAndReturnsWhenItIsAllowed) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  kernel.unable = Error{Errc::permission, "not allowed"};
  clock.time += seconds{30};
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 0U);
  EXPECT_EQ(news->failed.at(0).reason, "not allowed");
  EXPECT_FALSE(programmer->capability().usable);
  EXPECT_EQ(kernel.pinned(), 0U);

  // Long before the next check of everything, at growing distances.
  kernel.unable.reset();
  clock.time += seconds{1};
  EXPECT_EQ(settle()->installed, 1U);
  EXPECT_TRUE(programmer->capability().usable);
}

TEST_F(ProgrammerOverAFake, AProbeWithoutAnAnswerForbidsNothing) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  kernel.unable = Error{Errc::timeout, "the kernel is silent"};
  clock.time += seconds{30};
  EXPECT_FALSE(settle().has_value());
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_TRUE(programmer->capability().usable);
}

// It tells whether to offer the enforcer, which may change while the agent runs.
TEST_F(ProgrammerOverAFake, CapabilityFollowsSettingsAndLinks) {
  start();
  const EnforcerCapability usable = programmer->capability();
  EXPECT_TRUE(usable.usable);
  kernel.state.settings = {{.ifindex = 1, .strict_reverse_path = true}};
  programmer->kernel_changed(SettingsEvent{});
  clock.time += milliseconds{50};
  settle();
  EXPECT_NE(programmer->capability(), usable);
  kernel.state.settings.clear();
  programmer->kernel_changed(SettingsEvent{});
  clock.time += milliseconds{50};
  settle();
  EXPECT_EQ(programmer->capability(), usable);
  Link& port = kernel.state.links.back();
  port.master = 99;
  programmer->kernel_changed(LinkEvent{.link = port});
  clock.time += milliseconds{50};
  settle();
  EXPECT_NE(programmer->capability(), usable);
}

TEST_F(ProgrammerOverAFake, NothingIsAddedThatCannotBeRecordedButRemovalsGoOn) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  store.full = true;
  programmer->want(plan(2, {{1, "up1"}, {3, "up1"}}));
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 1U);
  ASSERT_EQ(news->failed.size(), 1U);
  EXPECT_EQ(news->failed[0].reason, "No space left on device");
  EXPECT_EQ(kernel.pinned(), 1U);
  store.full = false;
  clock.time += seconds{1};
  EXPECT_EQ(settle()->installed, 2U);
}

// "All off" must not be confirmed while a pin steers.
TEST_F(ProgrammerOverAFake, ARouteThatCannotBeRemovedIsCountedAndNamed) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.removals_fail = true;
  const NodePlan smaller = plan(2, {{1, "up1"}});
  programmer->want(smaller);
  auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 2U);
  EXPECT_EQ(news->states->installed, 2U);
  EXPECT_NE(news->digest, digest(smaller.pins));
  ASSERT_EQ(news->failed.size(), 1U);
  EXPECT_EQ(news->failed[0].unit, SteeringUnit(ByPortAndDestination{"p1", destination(2)}));
  EXPECT_EQ(news->failed[0].reason.rfind("could not be removed: the kernel refuses", 0), 0U)
      << news->failed[0].reason;

  programmer->want_nothing("disabled");
  news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 2U);
  EXPECT_EQ(news->failed.size(), 2U);
  EXPECT_NE(news->digest, digest({}));

  kernel.removals_fail = false;
  clock.time += seconds{1};
  news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 0U);
  EXPECT_TRUE(news->failed.empty());
  EXPECT_EQ(news->digest, digest({}));
}

using SafetyRule6 = ProgrammerOverAFake;

TEST_F(SafetyRule6, ARouteThatTheHardwareRefusedIsNotCounted) {
  kernel.hardware_refuses = true;
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 0U);
  EXPECT_EQ(news->failed.at(0).reason, "the hardware refused the route");
}

// By the kernel's own word it would go by up1.
TEST_F(SafetyRule6, APinWhosePacketsAreSeenLeavingElsewhereIsNotCounted) {
  KernelRoute behind;
  behind.table = 254;
  behind.destination = *Prefix::parse("10.1.1.0/30");
  behind.hops = {Hop{.ifindex = 9, .gateway = {}}};
  behind.local_address = IpAddress::v4(10, 1, 1, 1);
  kernel.state.routes.push_back(behind);
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  settle();
  EXPECT_EQ(programmer->state().states,
            (PinStates{.installed = 2, .hardware = false, .offloaded = 0, .effective = 2}));
  const auto leaves_by = [&](const char* uplink, std::uint64_t packets) {
    const std::vector<Departure> seen{{.source = IpAddress::v4(10, 1, 1, 2),
                                       .destination = destination(1),
                                       .source_port = 7,
                                       .out_port = uplink,
                                       .packets = packets}};
    clock.time += seconds{1};
    programmer->observed(seen);
    return settle();
  };
  leaves_by("up2", 1);
  EXPECT_FALSE(leaves_by("up2", 2));
  const auto told = leaves_by("up2", 3);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->installed, 1U);
  EXPECT_EQ(told->states,
            (PinStates{.installed = 2, .hardware = false, .offloaded = 0, .effective = 1}));
  ASSERT_EQ(told->failed.size(), 1U);
  EXPECT_EQ(told->failed[0].reason, "not effective: seen leaving by up2");
  EXPECT_EQ(kernel.pinned(), 2U) << "it stays: what overrules it may go";
  const auto better = leaves_by("up1", 1);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->installed, 2U);
  EXPECT_TRUE(better->failed.empty());
}

TEST_F(SafetyRule6, ALeafWithAnAsicThatShowsNoProofOfOffloadOnlyObserves) {
  for (Link& link : kernel.state.links)
    link.switch_id = "000af7";
  start();
  EXPECT_FALSE(programmer->capability().usable);
  EXPECT_EQ(programmer->capability().reason,
            "an ASIC (switch id 000af7) forwards for up1, and the kernel shows no route of main as "
            "offloaded: nothing would prove that the ASIC has a pin, so this node only observes");
  programmer->want(plan(1, {{1, "up1"}}));
  settle();
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_EQ(programmer->state().installed, 0U);
  // It shows one: found at the next look at everything.
  kernel.state.routes.at(0).offloaded = true;
  kernel.hardware_takes = true;
  clock.time += std::chrono::seconds{30};
  settle();
  EXPECT_TRUE(programmer->capability().usable);
  EXPECT_EQ(programmer->state().installed, 1U);
}

TEST_F(SafetyRule6, AnAsicThatTakesARouteLateHasItCountedOnlyThen) {
  for (Link& link : kernel.state.links)
    link.switch_id = "000af7";
  kernel.state.routes.at(0).offloaded = true;
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  settle();
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(programmer->state().installed, 0U);
  EXPECT_EQ(programmer->state().states,
            (PinStates{.installed = 1, .hardware = true, .offloaded = 0, .effective = 0}));
  ASSERT_EQ(programmer->state().failed.size(), 1U);
  EXPECT_EQ(programmer->state().failed[0].reason,
            "not offloaded: the kernel has the route, the ASIC does not show it");
  kernel.state.routes.back().offloaded = true;  // without a word, as by default
  clock.time += std::chrono::seconds{1};
  settle();
  EXPECT_EQ(programmer->state().installed, 1U);
  EXPECT_TRUE(programmer->state().failed.empty());
  EXPECT_EQ(programmer->state().states->offloaded, 1U);
}

TEST_F(SafetyRule6, MarksAreNotTriedWhereAnAsicForwards) {
  for (Link& link : kernel.state.links)
    link.switch_id = "000af7";
  kernel.state.routes.at(0).offloaded = true;
  start(Mode::program, {}, Enforcer::flow_marks);
  EXPECT_FALSE(programmer->capability().usable);
  EXPECT_NE(programmer->capability().reason.find("use port-tables"), std::string::npos);
}

TEST_F(SafetyRule6, AForgottenGatewayIsAskedForAndItsPinKeptUncounted) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  const Neighbour forgotten{.ifindex = 1, .address = gateway(1), .state = Resolution::resolved};
  programmer->kernel_changed(NeighbourEvent{.neighbour = forgotten, .removed = true});
  EXPECT_EQ(settle()->installed, 0U);
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(kernel.resolutions, 1);
  clock.time += seconds{1};
  settle();
  EXPECT_EQ(kernel.resolutions, 2);
  programmer->kernel_changed(NeighbourEvent{.neighbour = forgotten});
  EXPECT_EQ(settle()->installed, 1U);
  Neighbour dead = forgotten;
  dead.state = Resolution::failed;
  programmer->kernel_changed(NeighbourEvent{.neighbour = dead});
  settle();
  EXPECT_EQ(kernel.pinned(), 0U);
}

// A gateway that is asked for each second is no reason to try each second what the kernel refuses.
TEST_F(ProgrammerOverAFake, WhatIsRefusedIsTriedLessAndLessWhateverElseIsAwaited) {
  start();
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  programmer->kernel_changed(NeighbourEvent{
      .neighbour = {.ifindex = 1, .address = gateway(1), .state = Resolution::failed}});
  kernel.removals_fail = true;
  programmer->want(plan(2, {{1, "up1"}}));
  settle();
  kernel.resolutions = 0;
  kernel.attempts = 0;
  for (const Time end = clock.time + seconds{20}; clock.time < end;) {
    clock.time = std::max(clock.time, *programmer->next_deadline());
    settle();
  }
  EXPECT_GE(kernel.resolutions, 19);
  // With each question of the second, and by itself after 0.1, 0.2, 0.4 s and so on up to 10.
  EXPECT_LE(kernel.attempts, 20 + 8);
  EXPECT_GE(kernel.attempts, 20 + 6) << "and no question puts that off";
}

TEST_F(ProgrammerOverAFake, AnEqualPlanIsAcknowledgedAgainWithoutAChange) {
  start();
  programmer->want(plan(1, {{1, "up1"}}));
  settle();
  kernel.done.clear();
  programmer->want(plan(1, {{1, "up1"}}));
  EXPECT_TRUE(settle().has_value());
  EXPECT_TRUE(kernel.done.empty());
  clock.time += seconds{30};
  EXPECT_FALSE(settle().has_value()) << "nothing changed, nothing to tell";
}

}  // namespace
}  // namespace heddle
