// Pins of a host: what it sends itself, by uplink or by segments.
#include <gtest/gtest.h>

#include "agent/program/prerequisites.h"
#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

// The fake's uplinks, which are a host's here; `main` has a way to a spine's segment by each.
class HostPins : public ProgrammerOverAFake {
 protected:
  HostPins() {
    kernel.state.links.push_back(
        {.index = 50, .name = "lo", .up = true, .carrier = true, .master_kind = {}});
    for (std::uint32_t n : {1U, 2U}) {
      KernelRoute route;
      route.table = 254;
      route.destination = Prefix::host(spine(n));
      route.hops = {{.ifindex = n, .gateway = near_spine(n)}};
      kernel.state.routes.push_back(route);
      kernel.state.neighbours.push_back(
          {.ifindex = n, .address = near_spine(n), .state = Resolution::resolved});
    }
  }
  static IpAddress spine(std::uint32_t n) { return ip(n == 1 ? "fc00:5:1::1" : "fc00:5:2::1"); }
  static IpAddress near_spine(std::uint32_t n) { return ip(n == 1 ? "fd00:1::2" : "fd00:2::2"); }
  static IpAddress end() { return ip("fc00:9::1"); }

  void start_host(Enforcer enforcer) { start(Mode::program, {}, enforcer); }
  static Pin pin(std::uint8_t to, PinTarget target) {
    return {.unit = ByDestination{destination(to)}, .target = std::move(target), .reason = {}};
  }
  Acknowledgement held(std::uint64_t generation, std::vector<Pin> pins) {
    programmer->want(
        {.node = "host1", .version = {.epoch = 1, .generation = generation}, .pins = pins});
    return settle().value_or(Acknowledgement{});
  }
  template <class T>
  std::vector<T> did() const {
    std::vector<T> result;
    for (const Action& action : kernel.done) {
      if (const auto* const one = std::get_if<T>(&action))
        result.push_back(*one);
    }
    return result;
  }
};

TEST_F(HostPins, HoldADestinationByOneRuleForWhatTheHostSendsItself) {
  start_host(Enforcer::host_routes);
  EXPECT_TRUE(programmer->capability().usable) << programmer->capability().reason;
  EXPECT_EQ(programmer->capability().granularity, Granularity::destination);
  const std::vector<Pin> pins = {pin(1, HostRoute{"up1"}), pin(2, HostRoute{"up2"})};
  const Acknowledgement told = held(1, pins);
  EXPECT_EQ(told.installed, 2U);
  EXPECT_EQ(told.digest, digest(pins));
  const auto rules = did<AddRule>();
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].rule.in_port, "lo");
  for (const AddRoute& added : did<AddRoute>())
    EXPECT_EQ(added.route.table, rules[0].rule.table);
  ASSERT_EQ(did<AddNextHop>().size(), 2U);
  EXPECT_EQ(did<AddNextHop>()[0].next_hop.gateway, gateway(1));
}

TEST_F(HostPins, MoveByOneReplace) {
  start_host(Enforcer::host_routes);
  ASSERT_EQ(held(1, {pin(1, HostRoute{"up1"})}).installed, 1U);
  kernel.done.clear();
  ASSERT_EQ(held(2, {pin(1, HostRoute{"up2"})}).installed, 1U);
  EXPECT_EQ(did<MoveRoute>().size(), 1U);
  EXPECT_EQ(did<AddRoute>().size() + did<RemoveRoute>().size() + did<AddRule>().size(), 0U);
}

// What has no address yet takes the one of its route: another than without the pin, and its peers
// would not know it.
TEST_F(HostPins, LeavePacketsTheAddressThatMainGivesThem) {
  const auto far = std::ranges::find_if(kernel.state.routes,
                                        [](const KernelRoute& r) { return r.next_hop_id == 10; });
  far->local_address = ip("10.1.7.7");
  start_host(Enforcer::host_routes);
  ASSERT_EQ(held(1, {pin(1, HostRoute{"up1"})}).installed, 1U);
  ASSERT_EQ(did<AddRoute>().size(), 1U);
  EXPECT_EQ(did<AddRoute>()[0].route.source, ip("10.1.7.7"));

  kernel.done.clear();
  KernelRoute changed = kernel.state.routes.front();
  changed.local_address = ip("10.1.7.8");
  kernel.state.routes.front() = changed;
  programmer->kernel_changed(RouteEvent{.route = changed, .kind = RouteEvent::Kind::replaced});
  settle();
  ASSERT_EQ(did<MoveRoute>().size(), 1U);
  EXPECT_EQ(did<MoveRoute>()[0].route.source, ip("10.1.7.8"));
  EXPECT_EQ(programmer->state().installed, 1U);
}

TEST_F(HostPins, HaveNothingToChooseWithOneUplink) {
  std::erase_if(kernel.state.links, [](const Link& link) { return link.name == "up2"; });
  start_host(Enforcer::host_routes);
  EXPECT_FALSE(programmer->capability().usable);
  EXPECT_NE(programmer->capability().reason.find("only one interface matches uplinks (up*)"),
            std::string::npos);
  EXPECT_EQ(held(1, {pin(1, HostRoute{"up1"})}).installed, 0U);
  EXPECT_TRUE(kernel.done.empty());
}

TEST_F(HostPins, RefuseWhatTheirEnforcerCannotHold) {
  const Pin by_port{.unit = ByPortAndDestination{"p1", destination(3)},
                    .target = PortTableRoute{"up1"},
                    .reason = {}};
  start_host(Enforcer::host_routes);
  Acknowledgement told =
      held(1, {pin(1, SegmentList{{spine(1), end()}}), pin(2, FlowMark{"up1"}), by_port});
  EXPECT_EQ(told.installed, 0U);
  EXPECT_EQ(told.failed.size(), 3U);
  start_host(Enforcer::srv6);
  told = held(2, {pin(1, HostRoute{"up1"}), pin(2, SegmentList{{gateway(1), end()}}), by_port});
  EXPECT_EQ(told.installed, 0U);
  ASSERT_EQ(told.failed.size(), 3U);
  EXPECT_EQ(told.failed[1].reason, "segments are addresses of IPv6");
  EXPECT_EQ(kernel.pinned(), 0U);
}

TEST_F(HostPins, OfSegmentsWrapAndGoByTheUplinkThatMainOffersToTheFirst) {
  start_host(Enforcer::srv6);
  EXPECT_TRUE(programmer->capability().usable) << programmer->capability().reason;
  const std::vector<Pin> pins = {pin(1, SegmentList{{spine(1), end()}}),
                                 pin(2, SegmentList{{spine(2), end()}})};
  const Acknowledgement told = held(1, pins);
  EXPECT_EQ(told.installed, 2U);
  EXPECT_EQ(told.digest, digest(pins));
  const auto hops = did<AddNextHop>();
  ASSERT_EQ(hops.size(), 2U);
  for (std::uint32_t n : {1U, 2U}) {
    EXPECT_EQ(hops[n - 1].next_hop.ifindex, n);
    EXPECT_EQ(hops[n - 1].next_hop.gateway, near_spine(n));
    EXPECT_EQ(hops[n - 1].next_hop.segments, (std::vector{spine(n), end()}));
  }
  EXPECT_EQ(
      to_string(Action{hops[0]}),
      "next hop 1880000000 via fd00:1::2 on interface 1 with segments fc00:5:1::1 fc00:9::1 on")
      << "what --dry-run prints";
}

TEST_F(HostPins, OfSegmentsAreAdoptedAfterARestartWithoutOneChange) {
  start_host(Enforcer::srv6);
  const std::vector<Pin> pins = {pin(1, SegmentList{{spine(1), end()}})};
  ASSERT_EQ(held(1, pins).installed, 1U);
  kernel.done.clear();
  start_host(Enforcer::srv6);
  EXPECT_EQ(programmer->state().installed, 1U) << "as if it were a plan";
  EXPECT_EQ(programmer->state().digest, digest(pins));
  EXPECT_EQ(held(1, pins).installed, 1U);
  EXPECT_TRUE(kernel.done.empty());
}

TEST_F(HostPins, OfOtherSegmentsAreMovedToANextHopOfTheirOwn) {
  start_host(Enforcer::srv6);
  ASSERT_EQ(held(1, {pin(1, SegmentList{{spine(1), end()}})}).installed, 1U);
  kernel.done.clear();
  const IpAddress other_end = ip("fc00:9::2");
  ASSERT_EQ(held(2, {pin(1, SegmentList{{spine(1), other_end}})}).installed, 1U);
  ASSERT_EQ(kernel.done.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<AddNextHop>(kernel.done[0]));
  EXPECT_TRUE(std::holds_alternative<MoveRoute>(kernel.done[1]));
}

// A process that was interrupted while it sent has chosen the former next hop.
TEST_F(HostPins, LeaveTheFormerNextHopForAMomentAndUseItAgainIfTheyMoveBack) {
  start_host(Enforcer::host_routes);
  ASSERT_EQ(held(1, {pin(1, HostRoute{"up1"})}).installed, 1U);
  ASSERT_EQ(held(2, {pin(1, HostRoute{"up2"})}).installed, 1U);
  EXPECT_TRUE(did<RemoveNextHop>().empty());
  clock.time += std::chrono::milliseconds{150};
  ASSERT_EQ(held(3, {pin(1, HostRoute{"up1"})}).installed, 1U);
  EXPECT_EQ(did<AddNextHop>().size(), 2U) << "up1's was still there";
  clock.time += std::chrono::milliseconds{150};
  settle();
  EXPECT_TRUE(did<RemoveNextHop>().empty()) << "up2's is idle for 150 ms";
  clock.time += std::chrono::milliseconds{50};
  settle();
  ASSERT_EQ(did<RemoveNextHop>().size(), 1U);
  EXPECT_EQ(did<RemoveNextHop>()[0].id, did<AddNextHop>()[1].next_hop.id);
  EXPECT_GT(programmer->next_deadline(), clock.time + std::chrono::seconds{5});
  // When nothing is wanted any more, nothing is spared.
  programmer->want_nothing("disabled");
  settle();
  EXPECT_EQ(did<RemoveNextHop>().size(), 2U);
}

TEST_F(HostPins, SafetyRule12OfSegmentsGoWhenMainHasNoWayToTheFirst) {
  start_host(Enforcer::srv6);
  ASSERT_EQ(
      held(1, {pin(1, SegmentList{{spine(1), end()}}), pin(2, SegmentList{{spine(2), end()}})})
          .installed,
      2U);
  const auto way = std::ranges::find_if(kernel.state.routes, [](const KernelRoute& r) {
    return r.destination == Prefix::host(spine(1));
  });
  const RouteEvent gone{.route = *way, .kind = RouteEvent::Kind::removed};
  kernel.state.routes.erase(way);
  programmer->kernel_changed(gone);
  settle();
  EXPECT_EQ(programmer->state().installed, 1U);
  ASSERT_EQ(programmer->state().failed.size(), 1U);
  EXPECT_EQ(programmer->state().failed[0].code, Errc::not_found);
  EXPECT_EQ(programmer->state().failed[0].reason, "main offers no way to the segment fc00:5:1::1");
  EXPECT_EQ(programmer->counters().pins_withdrawn, 1U);
}

// RoCE takes the largest path MTU of 256 to 4096 that a link has room for with 96 octets of
// headers; two segments put 80 around it: 4096 + 96 + 80 = 4272.
TEST(PathMtu, LeavesRoomForWhatRoceSendsAndForIpv6sLeast) {
  const auto lack = [](std::uint32_t mtu, std::size_t segments = 2) {
    return lacks_room({.index = 1, .name = "up1", .master_kind = {}, .mtu = mtu}, segments);
  };
  for (const std::uint32_t fits : {1360U, 1500U, 4191U, 4272U, 9000U, 0U})
    EXPECT_EQ(lack(fits), "") << fits;
  EXPECT_NE(lack(4200).find("RoCE's path MTU there is 4096"), std::string::npos) << lack(4200);
  EXPECT_NE(lack(4200).find("; set the MTU to 4272 or more"), std::string::npos) << lack(4200);
  EXPECT_NE(lack(4271), "");
  EXPECT_NE(lack(4272, 3), "");
  EXPECT_NE(lack(1359).find("set the MTU to 1360 or more"), std::string::npos) << lack(1359);
}

TEST_F(HostPins, OfSegmentsNeedRoomForTheirWrapping) {
  kernel.state.links[0].mtu = 4200;
  start_host(Enforcer::srv6);
  EXPECT_FALSE(programmer->capability().usable);
  EXPECT_NE(programmer->capability().reason.find("the MTU of up1 is 4200"), std::string::npos);
  start_host(Enforcer::host_routes);
  EXPECT_TRUE(programmer->capability().usable) << programmer->capability().reason;
}

TEST_F(HostPins, LongerListsAreRefusedOneByOneWhereTheyDoNotFit) {
  kernel.state.links[0].mtu = 4272;
  start_host(Enforcer::srv6);
  const Acknowledgement told = held(1, {pin(1, SegmentList{{spine(1), end()}}),
                                        pin(2, SegmentList{{spine(1), spine(2), end()}})});
  EXPECT_EQ(told.installed, 1U);
  ASSERT_EQ(told.failed.size(), 1U);
  EXPECT_EQ(told.failed[0].code, Errc::unsupported);
}

}  // namespace
}  // namespace heddle
