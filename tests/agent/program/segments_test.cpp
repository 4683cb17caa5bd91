// Segments of a node itself: they come without a plan, outlive pins, and go when they should.
#include "agent/program/segments.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "agent/program/claims.h"
#include "agent/program/flush.h"
#include "agent/program/guard.h"
#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

const IpAddress kSid = ip("fc00:5::1");

class Segments : public ProgrammerOverAFake {
 protected:
  Segments() {
    kernel.state.links.push_back(
        {.index = 50, .name = "lo", .up = true, .carrier = true, .master_kind = {}});
  }
  void start_as(Role role, std::optional<IpAddress> sid = kSid, Mode mode = Mode::program) {
    programmer.emplace(
        kernel, store, clock,
        ProgramConfig{.mode = mode,
                      .uplinks = {"up*"},
                      .host_ports = {"p*"},
                      .ranges = {},
                      .enforcer = role == Role::host ? Enforcer::srv6 : Enforcer::port_tables,
                      .segments = segments_of(role, sid)});
    ASSERT_TRUE(programmer->start());
    settle();
  }
  void give_address(std::uint32_t link, const char* address, const char* network) {
    KernelRoute connected;
    connected.table = 254;
    connected.destination = *Prefix::parse(network);
    connected.hops = {{.ifindex = link, .gateway = {}}};
    connected.local_address = ip(address);
    kernel.state.routes.push_back(connected);
  }
  SteeringTables installed() { return segments_in(claim(kernel.state, {}, store.kept).ours); }
};

TEST_F(Segments, OfASwitchAreThereWithoutAPlanFromEveryPortOfTheFabric) {
  start_as(Role::spine);
  EXPECT_EQ(programmer->segments(), (std::vector<LocalSegment>{{SegmentBehaviour::transit, kSid}}));
  EXPECT_EQ(programmer->segments_lack(), "");
  const SteeringTables there = installed();
  ASSERT_EQ(there.routes.size(), 1U);
  EXPECT_EQ(there.routes[0].destination, kSid);
  EXPECT_EQ(there.routes[0].table, RoutingRanges{}.table_base + RoutingRanges{}.table_count - 1);
  ASSERT_EQ(there.next_hops.size(), 1U);
  EXPECT_EQ(there.next_hops[0].ifindex, 50U) << "no port's carrier takes it along";
  std::vector<std::string> ports;
  for (const TableRule& rule : there.rules)
    ports.push_back(rule.in_port);
  EXPECT_EQ(ports, (std::vector<std::string>{"p1", "up1", "up2"}));
}

TEST_F(Segments, OfAHostDeliverEachFamilyAtAnAddressOfItsOwn) {
  give_address(1, "10.101.1.1", "10.101.1.0/30");
  start_as(Role::host, ip("fc00:9::ffff"));
  EXPECT_EQ(programmer->segments(),
            (std::vector<LocalSegment>{{SegmentBehaviour::delivers_v4, ip("fc00:9::ffff")},
                                       {SegmentBehaviour::delivers_v6, ip("fc00:9::1:0")}}));
  bool delivers = false;
  for (const NextHop& next_hop : installed().next_hops)
    delivers = delivers || next_hop.action->own_address == ip("10.101.1.1");
  EXPECT_TRUE(delivers);
}

TEST_F(Segments, OfAHostWithoutIpv4DeliverIpv6AndSayWhatIsMissing) {
  start_as(Role::host);
  EXPECT_EQ(programmer->segments(),
            (std::vector<LocalSegment>{{SegmentBehaviour::delivers_v6, ip("fc00:5::2")}}));
  EXPECT_NE(programmer->segments_lack().find("no uplink (up*) has an IPv4 address"),
            std::string::npos);
}

TEST_F(Segments, LieApartFromPins) {
  start_as(Role::leaf);
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  EXPECT_EQ(programmer->segments().size(), 1U);
  EXPECT_EQ(installed().rules.size(), 3U);
  const auto lookup = kernel.look_up(std::vector<Lookup>{
      {.in_ifindex = 9, .mark = 0, .source = {}, .destination = destination(1)}});
  EXPECT_EQ(lookup->at(0).table, RoutingRanges{}.table_base);
  // And are adopted with them, without one change.
  kernel.done.clear();
  start_as(Role::leaf);
  EXPECT_EQ(programmer->state().installed, 2U);
  programmer->want(plan(1, {{1, "up1"}, {2, "up2"}}));
  settle();
  EXPECT_TRUE(kernel.done.empty());
}

// The rules of all ports lead to the table of segments until they are gone.
TEST_F(Segments, ThatAreConfiguredNoMoreLeaveTheirTableToNoPort) {
  Link other = kernel.state.links.back();
  other.index = 10;
  other.name = "p2";
  kernel.state.links.push_back(other);
  const auto pins = [](std::uint64_t generation) {
    NodePlan plan{.node = "leaf1", .version = {.epoch = 1, .generation = generation}, .pins = {}};
    for (const char* port : {"p1", "p2"})
      plan.pins.push_back({.unit = ByPortAndDestination{port, destination(1)},
                           .target = PortTableRoute{port[1] == '1' ? "up1" : "up2"},
                           .reason = {}});
    return plan;
  };
  start_as(Role::leaf);
  programmer->want(pins(1));
  ASSERT_EQ(settle()->installed, 2U);
  const SteeringTables before = without_segments(claim(kernel.state, {}, store.kept).ours);
  kernel.done.clear();
  start_as(Role::leaf, std::nullopt);
  programmer->want(pins(2));
  settle();
  EXPECT_EQ(programmer->state().installed, 2U);
  EXPECT_TRUE(programmer->state().failed.empty());
  EXPECT_EQ(claim(kernel.state, {}, store.kept).ours, before) << "the segments alone are gone";
  for (const Action& action : kernel.done) {
    const auto* const route = std::get_if<RemoveRoute>(&action);
    EXPECT_TRUE(route == nullptr || route->route.destination == kSid);
    EXPECT_FALSE(std::holds_alternative<AddRoute>(action) ||
                 std::holds_alternative<MoveRoute>(action));
  }
}

// An ASIC takes routes, and leaves what is done with packets for the switch itself to its kernel.
TEST_F(Segments, OfASwitchAreNotWaitedForInItsAsic) {
  for (Link& link : kernel.state.links)
    link.switch_id = "000af7";
  kernel.state.routes.at(0).offloaded = true;
  start_as(Role::leaf);
  programmer->want(plan(1, {{1, "up1"}}));
  settle();
  EXPECT_LT(*programmer->next_deadline(), clock.time + std::chrono::seconds{1}) << "awaits the pin";
  for (KernelRoute& route : kernel.state.routes) {
    if (route.destination == Prefix::host(destination(1)))
      route.offloaded = true;
  }
  clock.time += std::chrono::seconds{1};
  settle();
  EXPECT_EQ(programmer->state().installed, 1U);
  EXPECT_EQ(programmer->segments().size(), 1U);
  EXPECT_GT(*programmer->next_deadline(), clock.time + std::chrono::seconds{10});
}

TEST_F(Segments, OfASpineWhoseDownlinksAreAlsoItsHostPortsKeepOutOfItsPortTables) {
  programmer.emplace(kernel, store, clock,
                     ProgramConfig{.mode = Mode::program,
                                   .uplinks = {"up*"},
                                   .host_ports = {"up*"},
                                   .ranges = {},
                                   .segments = segments_of(Role::spine, kSid)});
  ASSERT_TRUE(programmer->start());
  settle();
  programmer->want({.node = "spine1",
                    .version = {.epoch = 1, .generation = 1},
                    .pins = {{.unit = ByPortAndDestination{"up1", destination(1)},
                              .target = PortTableRoute{"up2"},
                              .reason = {}}}});
  ASSERT_EQ(settle()->installed, 1U);
  EXPECT_EQ(programmer->segments().size(), 1U);
  EXPECT_EQ(installed().routes.size(), 1U);
}

// A node elsewhere that has not heard of the end of anything still sends by them.
TEST_F(Segments, SafetyRule2PinsGoWithTheLeaseAndSegmentsStay) {
  start_as(Role::leaf);
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  programmer->want_nothing("the lease is over");
  ASSERT_EQ(settle()->installed, 0U);
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(programmer->segments().size(), 1U);
}

TEST_F(Segments, SafetyRule2TheGuardTakesPinsAwayLeavesSegmentsAndRests) {
  start_as(Role::leaf);
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  const std::string run = testing::TempDir() + "heddle-segments-" + std::to_string(::getpid());
  std::filesystem::create_directories(run);
  const GuardInput input{.run_dir = run, .boot_id = "boot", .ranges = {}};
  const auto first = guard(kernel, store, input, clock.time);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->verdict, GuardVerdict::flushed);
  EXPECT_EQ(first->report.routes, 1U);
  EXPECT_EQ(first->report.segments_kept, 1U);
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(installed().rules.size(), 3U);
  const auto second = guard(kernel, store, input, clock.time);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->verdict, GuardVerdict::only_segments);
  EXPECT_EQ(second->next, clock.time + std::chrono::seconds{10});
  std::filesystem::remove_all(run);
}

TEST_F(Segments, GoByAFlushOfEverythingWithTheRecord) {
  start_as(Role::spine);
  ASSERT_EQ(kernel.pinned(), 1U);
  const auto report = flush(kernel, store, {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->routes, 1U);
  EXPECT_EQ(report->segments_kept, 0U);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(kernel.state.rules.empty());
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(Segments, GoWhenTheyAreNoLongerConfiguredAndWhenTheNodeOnlyObserves) {
  start_as(Role::spine);
  ASSERT_EQ(kernel.pinned(), 1U);
  start_as(Role::spine, std::nullopt);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(programmer->segments().empty());
  start_as(Role::spine);
  ASSERT_EQ(kernel.pinned(), 1U);
  start_as(Role::spine, std::nullopt, Mode::observe);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(Segments, AnotherAddressTakesTheFormersPlace) {
  start_as(Role::spine);
  start_as(Role::spine, ip("fc00:5::77"));
  EXPECT_EQ(programmer->segments(),
            (std::vector<LocalSegment>{{SegmentBehaviour::transit, ip("fc00:5::77")}}));
  EXPECT_EQ(kernel.pinned(), 1U);
}

TEST_F(Segments, AreNotToldWhileAnInterfaceHasTheirAddress) {
  kernel.taken.insert(kSid);
  start_as(Role::spine);
  EXPECT_TRUE(programmer->segments().empty());
  EXPECT_NE(programmer->segments_lack().find("something else takes its packets"), std::string::npos)
      << programmer->segments_lack();
  kernel.taken.clear();
  clock.time += std::chrono::seconds{31};
  settle();
  EXPECT_EQ(programmer->segments().size(), 1U);
  EXPECT_EQ(programmer->segments_lack(), "");
}

TEST_F(Segments, SafetyRule1StayAsTheyAreWhileForeignStateForbidsChanges) {
  start_as(Role::leaf);
  programmer->want(plan(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  KernelRoute foreign;
  foreign.table = RoutingRanges{}.table_base + 7;
  foreign.destination = Prefix::host(destination(9));
  foreign.protocol = 99;
  kernel.state.routes.push_back(foreign);
  programmer->kernel_changed(RouteEvent{.route = foreign, .kind = RouteEvent::Kind::added});
  clock.time += std::chrono::seconds{1};
  settle();
  EXPECT_NE(programmer->state().conflict, "");
  EXPECT_EQ(programmer->state().installed, 0U);
  EXPECT_EQ(installed().routes.size(), 1U);
  EXPECT_EQ(programmer->segments().size(), 1U);
  // Nor are they put there while it is.
  start_as(Role::leaf, ip("fc00:5::77"));
  EXPECT_EQ(installed().routes.at(0).destination, kSid);
}

TEST_F(Segments, AreRestoredAfterSomebodyDeletedThem) {
  start_as(Role::spine);
  std::erase_if(kernel.state.routes, [](const KernelRoute& r) { return r.table != 254; });
  std::erase_if(kernel.state.next_hops,
                [](const KernelNextHop& n) { return n.action.has_value(); });
  clock.time += std::chrono::seconds{31};
  settle();
  EXPECT_EQ(programmer->segments().size(), 1U);
  EXPECT_EQ(kernel.pinned(), 1U);
  EXPECT_EQ(programmer->counters().repairs, 1U);
}

}  // namespace
}  // namespace heddle
