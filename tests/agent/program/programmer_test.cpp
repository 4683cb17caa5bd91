// What a real kernel cannot be made to show on demand: reads that fail, dumps that are
// inconsistent, a disk that is full, hardware that refuses, time that passes. Everything else is
// tested on a real one (tests/lab/program_*).
#include "agent/program/programmer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "agent/program/flush.h"
#include "common/core/check.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HandClock final : public Clock {
 public:
  Time now() const override { return time; }
  WallTime wall() const override { return {}; }
  Time time{seconds{1000}};
};

class FakeStore final : public OwnershipStore {
 public:
  Result<Ownership> load() override {
    if (damaged)
      return fail(Errc::parse, "the record is damaged");
    return kept;
  }
  Result<void> save(const Ownership& ownership) override {
    if (full)
      return fail(Errc::io, "No space left on device");
    kept = ownership;
    return {};
  }
  Ownership kept;
  bool full{};
  bool damaged{};
};

IpAddress gateway(std::uint32_t n) {
  return IpAddress::v4(10, 101, static_cast<std::uint8_t>(n), 2);
}
IpAddress destination(std::uint8_t n) {
  return IpAddress::v4(10, 2, n, 2);
}

// Links up1 and up2 (1, 2) behind the group that 10.2.0.0/16 uses, and p1 (9).
class FakeKernel final : public RouteKernel {
 public:
  FakeKernel() {
    for (std::uint32_t n : {1U, 2U, 9U}) {
      state.links.push_back({.index = n,
                             .name = n == 9 ? "p1" : "up" + std::to_string(n),
                             .up = true,
                             .carrier = true,
                             .master_kind = {}});
      if (n == 9)
        continue;
      state.next_hops.push_back({.id = n,
                                 .protocol = 186,
                                 .hop = Hop{.ifindex = n, .gateway = gateway(n)},
                                 .members = {}});
      state.neighbours.push_back(
          {.ifindex = n, .address = gateway(n), .state = Resolution::resolved});
    }
    state.next_hops.push_back({.id = 10, .protocol = 186, .hop = {}, .members = {1, 2}});
    KernelRoute far;
    far.table = 254;
    far.destination = *Prefix::parse("10.2.0.0/16");
    far.next_hop_id = 10;
    state.routes.push_back(far);
  }

  void use(const RoutingRanges& used) override { ranges = used; }
  Result<void> probe() override {
    ++probes;
    return unable ? Result<void>(tl::unexpected(*unable)) : Result<void>{};
  }
  Result<void> subscribe() override { return {}; }
  Result<KernelState> read() override {
    ++reads;
    if (clock != nullptr)
      clock->time += read_time;
    if (reading_fails)
      return fail(Errc::timeout, "the kernel is silent");
    return state;
  }
  Result<KernelState> read_ours() override {
    if (reading_fails)
      return fail(Errc::timeout, "the kernel is silent");
    return state;
  }
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override {
    std::vector<ActionFailure> failures;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (removals_fail && std::holds_alternative<RemoveRoute>(actions[i])) {
        failures.push_back({.action = i, .error = EBUSY, .message = "not now"});
        continue;
      }
      done.push_back(actions[i]);
      take(actions[i]);
    }
    return failures;
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    return std::vector<LookupAnswer>(lookups.size());
  }
  void resolve(std::uint32_t, const IpAddress&) override { ++resolutions; }

  std::size_t pinned() const {
    return static_cast<std::size_t>(std::count_if(state.routes.begin(), state.routes.end(),
                                                  [](const auto& r) { return r.table != 254; }));
  }

  KernelState state;
  std::vector<Action> done;
  bool reading_fails{};
  bool hardware_refuses{};
  bool removals_fail{};
  int reads{};
  int resolutions{};
  int probes{};
  std::optional<Error> unable;
  HandClock* clock{};  // moved by
  Duration read_time{};
  RoutingRanges ranges;

 private:
  void take(const Action& action) {
    if (const auto* hop = std::get_if<AddNextHop>(&action)) {
      state.next_hops.push_back(
          {.id = hop->next_hop.id,
           .protocol = ranges.protocol,
           .hop = Hop{.ifindex = hop->next_hop.ifindex, .gateway = hop->next_hop.gateway},
           .members = {}});
    } else if (const auto* gone = std::get_if<RemoveNextHop>(&action)) {
      std::erase_if(state.next_hops, [&](const auto& n) { return n.id == gone->id; });
    } else if (const auto* add = std::get_if<AddRoute>(&action)) {
      add_route(add->route);
    } else if (const auto* move = std::get_if<MoveRoute>(&action)) {
      remove_route(move->route);
      add_route(move->route);
    } else if (const auto* removal = std::get_if<RemoveRoute>(&action)) {
      remove_route(removal->route);
    } else if (const auto* rule = std::get_if<AddRule>(&action)) {
      state.rules.push_back({.priority = ranges.rule_priority,
                             .protocol = ranges.protocol,
                             .table = rule->rule.table,
                             .in_port = rule->rule.in_port,
                             .plain = true});
    } else if (const auto* off = std::get_if<RemoveRule>(&action)) {
      std::erase_if(state.rules, [&](const auto& r) { return r.in_port == off->rule.in_port; });
    }
  }
  void add_route(const PinRoute& route) {
    KernelRoute added;
    added.table = route.table;
    added.destination = Prefix::host(route.destination);
    added.protocol = ranges.protocol;
    added.next_hop_id = route.next_hop;
    added.offload_failed = hardware_refuses;
    state.routes.push_back(added);
  }
  void remove_route(const PinRoute& route) {
    std::erase_if(state.routes, [&](const auto& r) {
      return r.table == route.table && r.destination == Prefix::host(route.destination);
    });
  }
};

class ProgrammerOverAFake : public testing::Test {
 protected:
  void start(Mode mode = Mode::program, const RoutingRanges& ranges = {}) {
    kernel.ranges = ranges;
    programmer.emplace(
        kernel, store, clock,
        ProgramConfig{.mode = mode, .uplinks = {"up*"}, .host_ports = {"p*"}, .ranges = ranges});
    ASSERT_TRUE(programmer->start());
    settle();
  }
  // Steps while something is due now; the last acknowledgement.
  std::optional<Acknowledgement> settle() {
    std::optional<Acknowledgement> last;
    for (int steps = 0; programmer->next_deadline() <= clock.time; ++steps) {
      if (auto news = programmer->step())
        last = news;
      // Something that is always due would keep the processor busy for ever.
      HEDDLE_CHECK(steps < 100);
    }
    return last;
  }
  static NodePlan plan(std::uint64_t generation,
                       std::vector<std::pair<std::uint8_t, const char*>> pins) {
    NodePlan result{.node = "leaf1", .version = {.epoch = 1, .generation = generation}, .pins = {}};
    for (const auto& [d, out] : pins)
      result.pins.push_back({.unit = ByPortAndDestination{"p1", destination(d)},
                             .target = PortTableRoute{out},
                             .reason = {}});
    return result;
  }

  FakeKernel kernel;
  FakeStore store;
  HandClock clock;
  std::optional<Programmer> programmer;
};

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
