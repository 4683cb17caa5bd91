// What `main` offers, by the kernel's own rules of preference, as it is loaded and as it changes.
#include "agent/program/main_view.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using Effect = MainView::Effect;
using Kind = RouteEvent::Kind;

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}
Prefix net(const char* text) {
  return *Prefix::parse(text);
}

Link link(std::uint32_t index, const char* name, bool carrier = true) {
  return {.index = index, .name = name, .up = true, .carrier = carrier, .master_kind = {}};
}
Hop hop(std::uint32_t ifindex) {
  return {.ifindex = ifindex,
          .gateway = IpAddress::v4(10, 101, static_cast<std::uint8_t>(ifindex), 2)};
}
KernelNextHop next_hop(std::uint32_t id, std::uint32_t ifindex) {
  return {.id = id, .protocol = 186, .hop = hop(ifindex), .members = {}};
}
KernelNextHop group(std::uint32_t id, std::vector<std::uint32_t> members) {
  return {.id = id, .protocol = 186, .hop = {}, .members = std::move(members)};
}
KernelRoute by_object(const char* prefix, std::uint32_t id, std::uint32_t metric = 0) {
  KernelRoute route;
  route.table = 254;
  route.destination = net(prefix);
  route.metric = metric;
  route.next_hop_id = id;
  return route;
}
KernelRoute by_hops(const char* prefix, std::vector<Hop> hops, std::uint32_t metric = 0) {
  KernelRoute route = by_object(prefix, 0, metric);
  route.hops = std::move(hops);
  return route;
}

// up1 to up3 are links 1 to 3 and next hops 1 to 3, group 10 is all of them; p1 is link 9.
KernelState base() {
  KernelState state;
  for (std::uint32_t n = 1; n <= 3; ++n) {
    state.links.push_back(link(n, ("up" + std::to_string(n)).c_str()));
    state.next_hops.push_back(next_hop(n, n));
  }
  state.links.push_back(link(9, "p1"));
  state.next_hops.push_back(group(10, {1, 2, 3}));
  return state;
}

MainView loaded(std::vector<KernelRoute> routes) {
  KernelState state = base();
  state.routes = std::move(routes);
  MainView view({"up*"});
  view.load(state);
  return view;
}

std::string offers(const MainView& view, const char* destination) {
  std::string result;
  for (std::uint32_t n = 1; n <= 3; ++n) {
    if (const auto h = view.offer(ip(destination), n)) {
      EXPECT_EQ(h->gateway, hop(n).gateway);
      result += std::to_string(n);
    }
  }
  return result;
}

TEST(MainView, OffersTheHopsOfTheLongestPrefix) {
  const MainView view =
      loaded({by_object("0.0.0.0/0", 3), by_object("10.2.0.0/16", 10),
              by_hops("10.2.1.0/24", {hop(1), hop(2)}), by_hops("10.2.1.7/32", {hop(3)})});
  EXPECT_EQ(offers(view, "10.9.0.1"), "3");
  EXPECT_EQ(offers(view, "10.2.9.1"), "123");
  EXPECT_EQ(offers(view, "10.2.1.1"), "12");
  EXPECT_EQ(offers(view, "10.2.1.7"), "3");
}

TEST(MainView, OffersTheLeastMetricThatHasALiveHop) {
  MainView view = loaded({by_object("10.2.0.0/16", 2, 20), by_object("10.2.0.0/16", 1, 10)});
  EXPECT_EQ(offers(view, "10.2.1.1"), "1");
  EXPECT_EQ(view.apply(LinkEvent{.link = link(1, "up1", false)}), Effect::read_again);
  EXPECT_EQ(offers(view, "10.2.1.1"), "2");
}

TEST(MainView, OffersNothingWhereABlackholeIsPreferred) {
  KernelRoute blackhole = by_object("10.2.1.0/24", 0);
  blackhole.unicast = false;
  const MainView view = loaded({by_object("10.2.0.0/16", 10), blackhole});
  EXPECT_EQ(offers(view, "10.2.1.1"), "");
  EXPECT_EQ(offers(view, "10.2.2.1"), "123");
}

// The route is told nothing of it: only its next hop is.
TEST(MainView, OffersNothingWhereANextHopHasBecomeABlackhole) {
  MainView view = loaded({by_object("0.0.0.0/0", 10), by_object("10.2.0.0/16", 1)});
  EXPECT_EQ(offers(view, "10.2.1.1"), "1");
  KernelNextHop dropping = next_hop(1, 1);
  dropping.hop.reset();
  dropping.blackhole = true;
  EXPECT_NE(view.apply(NextHopEvent{.next_hop = dropping, .removed = false}), Effect::none);
  EXPECT_EQ(offers(view, "10.2.1.1"), "") << "the default route takes nothing of it";
  EXPECT_EQ(offers(view, "10.3.1.1"), "23");
}

TEST(MainView, IgnoresOtherTablesAndTypesOfService) {
  KernelRoute elsewhere = by_object("10.2.0.0/16", 10);
  elsewhere.table = 77;
  KernelRoute marked = by_object("10.2.0.0/16", 10);
  marked.tos = 8;
  EXPECT_EQ(offers(loaded({elsewhere, marked}), "10.2.1.1"), "");
}

// A replaced group is told by a next hop notification only.
TEST(MainView, FollowsANextHopObjectUnderAnUnchangedRoute) {
  MainView view = loaded({by_object("10.2.0.0/16", 10)});
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = group(10, {2, 3})}), Effect::changed);
  EXPECT_EQ(offers(view, "10.2.1.1"), "23");
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = group(10, {2, 3})}), Effect::none);
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = next_hop(2, 2), .removed = true}), Effect::changed);
  EXPECT_EQ(offers(view, "10.2.1.1"), "3");
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = group(10, {}), .removed = true}), Effect::changed);
  EXPECT_EQ(offers(view, "10.2.1.1"), "");
}

// The kernel drops the routes over it, and the places in groups, without a notification.
TEST(MainView, RevivesNothingWhenADeletedNextHopsIdIsUsedAgain) {
  MainView view = loaded(
      {by_object("10.2.0.0/16", 10), by_object("10.2.1.0/24", 1), by_object("10.2.1.0/24", 2, 20)});
  EXPECT_EQ(offers(view, "10.2.1.1"), "1");
  view.apply(NextHopEvent{.next_hop = next_hop(1, 1), .removed = true});
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = next_hop(1, 1)}), Effect::changed);
  EXPECT_EQ(offers(view, "10.2.1.1"), "2");
  EXPECT_EQ(offers(view, "10.2.2.1"), "23");
  view.apply(NextHopEvent{.next_hop = group(10, {}), .removed = true});
  view.apply(NextHopEvent{.next_hop = group(10, {1, 2, 3})});
  EXPECT_EQ(offers(view, "10.2.2.1"), "");
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 10), .kind = Kind::added});
  EXPECT_EQ(offers(view, "10.2.2.1"), "123");
}

// The kernel would not have taken it, so what is known of the link is old.
TEST(MainView, AsksToReadAgainWhenANextHopAppearsOverALinkWithoutCarrier) {
  MainView view = loaded({});
  view.apply(LinkEvent{.link = link(1, "up1", false)});
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = next_hop(7, 1)}), Effect::read_again);
  EXPECT_EQ(view.apply(NextHopEvent{.next_hop = next_hop(8, 2)}), Effect::changed);
}

TEST(MainView, FollowsReplacedAddedAndRemovedRoutes) {
  MainView view = loaded({by_object("10.2.0.0/16", 10)});
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 1), .kind = Kind::replaced});
  EXPECT_EQ(offers(view, "10.2.1.1"), "1");
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 2, 5), .kind = Kind::added});
  EXPECT_EQ(offers(view, "10.2.1.1"), "1");
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 1), .kind = Kind::removed});
  EXPECT_EQ(offers(view, "10.2.1.1"), "2");
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 2, 5), .kind = Kind::removed});
  EXPECT_EQ(offers(view, "10.2.1.1"), "");
  EXPECT_EQ(view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 2, 5), .kind = Kind::removed}),
            Effect::none);
}

TEST(MainView, TakesANotificationFromBeforeTheDumpForTheSameRoute) {
  MainView view = loaded({by_object("10.2.0.0/16", 1)});
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 1), .kind = Kind::added});
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 1), .kind = Kind::removed});
  EXPECT_EQ(offers(view, "10.2.1.1"), "");
}

TEST(MainView, AsksToReadAgainWhenItCannotTellWhichRouteWent) {
  MainView view = loaded({by_object("10.2.0.0/16", 1), by_object("10.2.0.0/16", 2)});
  EXPECT_EQ(view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 3), .kind = Kind::removed}),
            Effect::read_again);
}

TEST(MainView, KnowsNeighboursOfUplinksOnly) {
  MainView view = loaded({});
  EXPECT_EQ(view.resolution(1, ip("10.101.1.2")), Resolution::pending);
  const Neighbour found{.ifindex = 1, .address = ip("10.101.1.2"), .state = Resolution::resolved};
  EXPECT_EQ(view.apply(NeighbourEvent{.neighbour = found}), Effect::changed);
  EXPECT_EQ(view.resolution(1, ip("10.101.1.2")), Resolution::resolved);
  EXPECT_EQ(view.apply(NeighbourEvent{.neighbour = found}), Effect::none);
  Neighbour at_host = found;
  at_host.ifindex = 9;
  EXPECT_EQ(view.apply(NeighbourEvent{.neighbour = at_host}), Effect::none);
  EXPECT_EQ(view.apply(NeighbourEvent{.neighbour = found, .removed = true}), Effect::changed);
  EXPECT_EQ(view.resolution(1, ip("10.101.1.2")), Resolution::pending);
}

TEST(MainView, FindsAnAddressBehindAPort) {
  const auto behind = [](const char* network, const char* own) {
    KernelRoute connected = by_hops(network, {{.ifindex = 9, .gateway = {}}});
    connected.local_address = ip(own);
    return to_string(loaded({connected}).neighbour_address(9).value());
  };
  EXPECT_EQ(behind("10.1.1.0/30", "10.1.1.1"), "10.1.1.2");
  EXPECT_EQ(behind("10.1.1.0/30", "10.1.1.2"), "10.1.1.1");
  EXPECT_EQ(behind("10.1.1.4/31", "10.1.1.4"), "10.1.1.5");
  EXPECT_EQ(behind("10.1.1.4/31", "10.1.1.5"), "10.1.1.4");
  EXPECT_EQ(behind("10.7.7.7/32", "10.0.0.1"), "10.7.7.7");
  EXPECT_FALSE(loaded({}).neighbour_address(9).has_value());
}

std::string told(MainView& view, const std::vector<IpAddress>& also = {}) {
  std::string result;
  for (const Withdrawal& w : view.withdrawn(also))
    result += to_string(w.destination) + "@" + w.out_port + " ";
  return result;
}

TEST(MainView, TellsWhatUplinksWithCarrierDoNotOffer) {
  MainView view = loaded({by_object("10.2.0.0/16", 10), by_hops("10.3.0.0/16", {hop(1), hop(2)}),
                          by_object("10.255.0.1/32", 1), by_object("0.0.0.0/0", 1)});
  // What one uplink alone offers is that spine's own; the default route speaks for nothing in
  // particular.
  EXPECT_EQ(told(view), "10.3.0.0/16@up3 ");
  view.apply(NextHopEvent{.next_hop = group(10, {3})});
  EXPECT_EQ(told(view), "10.2.0.0/16@up1 10.2.0.0/16@up2 10.3.0.0/16@up3 ");
  // A dead uplink's ports say so themselves.
  view.apply(LinkEvent{.link = link(1, "up1", false)});
  EXPECT_EQ(told(view), "10.2.0.0/16@up2 10.3.0.0/16@up3 ");
}

TEST(MainView, TellsOfANetworkThatIsGoneAltogether) {
  MainView view = loaded({by_object("10.2.0.0/16", 10)});
  EXPECT_EQ(told(view), "");
  view.apply(RouteEvent{.route = by_object("10.2.0.0/16", 10), .kind = Kind::removed});
  EXPECT_EQ(told(view), "10.2.0.0/16@up1 10.2.0.0/16@up2 10.2.0.0/16@up3 ");
}

TEST(MainView, TellsOfDestinationsThatArePinned) {
  MainView view = loaded({by_object("10.2.0.0/16", 10), by_object("10.2.1.0/24", 1),
                          by_hops("10.1.1.0/30", {{.ifindex = 9, .gateway = {}}})});
  // 10.2.1.2 goes by up1 alone; 10.1.1.2 is on this leaf; 10.2.9.2 goes everywhere.
  EXPECT_EQ(told(view, {ip("10.1.1.2"), ip("10.2.1.2"), ip("10.2.9.2")}),
            "10.2.1.2/32@up2 10.2.1.2/32@up3 ");
}

}  // namespace
}  // namespace heddle
