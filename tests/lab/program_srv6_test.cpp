// Segments on real kernels: packets of a host go by the spine that its pin names, IPv4 and IPv6,
// and what happens when parts of the way or of the agents go away.
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <map>

#include "agent/program/flush.h"
#include "agent/program/guard.h"
#include "agent/program/segments.h"
#include "tests/lab/each_way.h"
#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

IpAddress address(const std::string& text) {
  return must(IpAddress::parse(text));
}

// host1 -- leaf1 -- spine1 and spine2 -- leaf2 -- host2. Without segments everything goes by
// spine1.
class Chain {
 public:
  Chain() {
    for (const char* name : {"leaf1", "spine1", "spine2", "leaf2"}) {
      must(space(name).set_sysctl("net/ipv4/ip_forward", "1"));
      must(space(name).set_sysctl("net/ipv6/conf/all/forwarding", "1"));
    }
    // Else a link's own address of IPv6 has to wait for a second, and neighbours with it.
    for (const char* name : {"host1", "host2", "leaf1", "leaf2", "spine1", "spine2"}) {
      must(space(name).set_sysctl("net/ipv6/conf/all/accept_dad", "0"));
      must(space(name).set_sysctl("net/ipv6/conf/default/accept_dad", "0"));
    }
    cable(1, "host1", "up1", "leaf1", "p1");
    cable(2, "leaf1", "up1", "spine1", "d1");
    cable(3, "leaf1", "up2", "spine2", "d1");
    cable(4, "leaf2", "up1", "spine1", "d2");
    cable(5, "leaf2", "up2", "spine2", "d2");
    cable(6, "host2", "up1", "leaf2", "p1");
    for (int host : {1, 2}) {
      const std::string leaf = fmt::format("leaf{}", host);
      route(fmt::format("host{}", host), "::/0", host == 1 ? 1 : 6, 2, "up1");
      route(fmt::format("host{}", host), "0.0.0.0/0", host == 1 ? 1 : 6, 2, "up1");
      for (int spine : {1, 2})
        route(leaf, fmt::format("fc00:5:{}::/48", spine), uplink_of(host, spine), 2,
              fmt::format("up{}", spine));
      // The other rack, and the segments of its host.
      const int far = host == 1 ? 6 : 1;
      for (const std::string& to : networks_of(far)) {
        route(leaf, to, uplink_of(host, 1), 2, "up1");
        for (int spine : {1, 2})
          route(fmt::format("spine{}", spine), to, uplink_of(3 - host, spine), 1,
                fmt::format("d{}", 3 - host));
      }
      route(leaf, fmt::format("fc00:9:{}::/48", host), host == 1 ? 1 : 6, 1, "p1");
    }
  }

  const NetNamespace& space(const std::string& name) { return node(name).space; }
  Netlink& netlink(const std::string& name) { return node(name).netlink; }
  static IpAddress spine_segment(int spine) { return address(fmt::format("fc00:5:{}::1", spine)); }
  static IpAddress host_segment() { return address("fc00:9:2::10"); }

  std::uint64_t received_octets(const std::string& name) {
    std::uint64_t octets = 0;
    for (const LinkSeen& link : must(netlink(name).links()))
      octets += link.name == "d1" ? link.rx_bytes : 0;
    return octets;
  }

 private:
  struct Node {
    NetNamespace space;
    Netlink netlink;
  };
  Node& node(const std::string& name) {
    auto at = nodes_.find(name);
    if (at == nodes_.end()) {
      NetNamespace space = must(NetNamespace::create(unique_namespace_name(name)));
      Netlink netlink = must(Netlink::open(space));
      at = nodes_.emplace(name, Node{std::move(space), std::move(netlink)}).first;
    }
    return at->second;
  }
  static int uplink_of(int leaf, int spine) { return leaf == 1 ? 1 + spine : 3 + spine; }
  static std::vector<std::string> networks_of(int cable) {
    return {fmt::format("10.200.{}.0/30", cable), fmt::format("fd00:200:{}::/64", cable),
            fmt::format("fc00:9:{}::/48", cable == 1 ? 1 : 2)};
  }
  void cable(int number, const std::string& a, const std::string& port_a, const std::string& b,
             const std::string& port_b) {
    netlink(a).add_veth(port_a, netlink(b), port_b);
    for (const auto& [name, port, end] : {std::tuple(a, port_a, 1), {b, port_b, 2}}) {
      netlink(name).set_up(port);
      netlink(name).add_address(port, address(fmt::format("10.200.{}.{}", number, end)), 30);
      netlink(name).add_address(port, address(fmt::format("fd00:200:{}::{}", number, end)), 64);
      must(netlink(name).commit());
    }
  }
  void route(const std::string& name, const std::string& to, int cable, int end,
             const std::string& device) {
    const Prefix network = must(Prefix::parse(to));
    const IpAddress gateway =
        address(network.address.family == Family::v4 ? fmt::format("10.200.{}.{}", cable, end)
                                                     : fmt::format("fd00:200:{}::{}", cable, end));
    netlink(name).add_route({.destination = network, .gateway = gateway, .device = device});
    must(netlink(name).commit());
  }
  std::map<std::string, Node> nodes_;
};

ProgramConfig config_of(Role role, std::optional<IpAddress> sid) {
  const bool spine = role == Role::spine;
  return {.mode = Mode::program,
          .uplinks = {spine ? "d*" : "up*"},
          .host_ports = {spine ? "d*" : "p*"},
          .ranges = {},
          .enforcer = role == Role::host ? Enforcer::srv6 : Enforcer::port_tables,
          .segments = segments_of(role, sid)};
}

struct Member {
  Member(Chain& chain, const std::string& name, Role role, std::optional<IpAddress> sid = {})
      : agent(std::in_place, chain.space(name), state.path(), config_of(role, sid)) {
    agent->settle();
  }
  TemporaryDirectory state;
  std::optional<Agent> agent;
};

class Segments : public testing::TestWithParam<Family> {
 protected:
  IpAddress host2() const {
    return address(GetParam() == Family::v4 ? "10.200.6.1" : "fd00:200:6::1");
  }
  // The last segment of a list to host2 for the family.
  IpAddress delivering() const {
    IpAddress segment = Chain::host_segment();
    if (GetParam() == Family::v6)
      ++segment.octets[15];
    return segment;
  }
  NodePlan by_spine(int spine) const {
    return {.node = "host1",
            .version = {.epoch = 1, .generation = ++generation_},
            .pins = {{.unit = ByDestination{host2()},
                      .target = SegmentList{{Chain::spine_segment(spine), delivering()}},
                      .reason = {}}}};
  }
  void open_sockets(Chain& chain) {
    const bool v4 = GetParam() == Family::v4;
    receiver_ = must(chain.space("host2").socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
    sender_ = must(chain.space("host1").socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
    sockaddr_storage any{};
    any.ss_family = v4 ? AF_INET : AF_INET6;
    reinterpret_cast<sockaddr_in*>(&any)->sin_port = htons(4791);
    ASSERT_EQ(::bind(receiver_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    const IpAddress to = host2();
    void* const where = v4 ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&any)->sin_addr)
                           : static_cast<void*>(&reinterpret_cast<sockaddr_in6*>(&any)->sin6_addr);
    std::memcpy(where, to.octets.data(), to.size());
    ASSERT_EQ(::connect(sender_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    // Neighbours are asked for when the first packets come.
    for (int tries = 0; tries < 20 && arrivals() < kPackets; ++tries) {
    }
  }
  // How many of 100 packets arrive.
  int arrivals(std::size_t octets = kPayload) {
    const std::vector<char> payload(octets);
    int arrived = 0;
    for (int i = 0; i < kPackets; ++i) {
      EXPECT_EQ(::send(sender_, payload.data(), payload.size(), 0),
                static_cast<ssize_t>(payload.size()));
      pollfd readable{.fd = receiver_, .events = POLLIN, .revents = 0};
      std::array<char, 4096> buffer{};
      if (::poll(&readable, 1, 200) == 1 &&
          ::recv(receiver_, buffer.data(), buffer.size(), 0) == static_cast<ssize_t>(octets))
        ++arrived;
    }
    return arrived;
  }
  // What each spine got of them, by its counter: all of it, or next to nothing.
  void expect_all_by(Chain& chain, int spine) {
    const std::string chosen = fmt::format("spine{}", spine);
    const std::string other = fmt::format("spine{}", 3 - spine);
    const std::uint64_t before = chain.received_octets(chosen);
    const std::uint64_t before_other = chain.received_octets(other);
    EXPECT_EQ(arrivals(), kPackets);
    EXPECT_GE(chain.received_octets(chosen) - before, kPackets * kPayload);
    EXPECT_LT(chain.received_octets(other) - before_other, 10 * kPayload);
  }

  static constexpr int kPackets = 100;
  static constexpr std::size_t kPayload = 500;
  int sender_{-1};
  int receiver_{-1};
  mutable std::uint64_t generation_{};
};
std::string name_of_family(const testing::TestParamInfo<Family>& info) {
  return info.param == Family::v4 ? "IPv4" : "IPv6";
}
INSTANTIATE_TEST_SUITE_P(, Segments, testing::Values(Family::v4, Family::v6), name_of_family);

TEST_P(Segments, LeadAHostsPacketsByTheSpineThatItsPinNamesAndMoveThem) {
  Chain chain;
  Member spine1(chain, "spine1", Role::spine, Chain::spine_segment(1));
  Member spine2(chain, "spine2", Role::spine, Chain::spine_segment(2));
  Member host2(chain, "host2", Role::host, Chain::host_segment());
  Member host1(chain, "host1", Role::host);
  EXPECT_EQ(spine1.agent->programmer->segments().size(), 1U)
      << spine1.agent->programmer->segments_lack();
  EXPECT_EQ(host2.agent->programmer->segments().size(), 2U)
      << host2.agent->programmer->segments_lack();
  open_sockets(chain);
  expect_all_by(chain, 1);  // unpinned
  for (const int spine : {2, 1, 2}) {
    ASSERT_TRUE(host1.agent->installs(by_spine(spine)));
    expect_all_by(chain, spine);
  }
  // Off again: unwrapped, as `main` has it.
  ASSERT_TRUE(host1.agent->installs(
      {.node = "host1", .version = {.epoch = 1, .generation = 99}, .pins = {}}));
  expect_all_by(chain, 1);
}

// 40 octets of IPv6, 8 of the routing header, 16 for each of two segments.
TEST_P(Segments, TellSendersOfTheRoomThatIsLeft) {
  Chain chain;
  Member spine2(chain, "spine2", Role::spine, Chain::spine_segment(2));
  Member host2(chain, "host2", Role::host, Chain::host_segment());
  Member host1(chain, "host1", Role::host);
  ASSERT_TRUE(host1.agent->installs(by_spine(2)));
  open_sockets(chain);
  const bool v4 = GetParam() == Family::v4;
  static_assert(IP_PMTUDISC_DO == IPV6_PMTUDISC_DO);
  const int always = IP_PMTUDISC_DO;
  ASSERT_EQ(::setsockopt(sender_, v4 ? IPPROTO_IP : IPPROTO_IPV6,
                         v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &always, sizeof always),
            0);
  int mtu = 0;
  socklen_t size = sizeof mtu;
  ASSERT_EQ(
      ::getsockopt(sender_, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size),
      0);
  EXPECT_EQ(mtu, 1500 - 80);
  const std::size_t largest = 1500 - 80 - (v4 ? 20 : 40) - 8;
  EXPECT_EQ(arrivals(largest), kPackets);
  const std::vector<char> larger(largest + 1);
  EXPECT_EQ(::send(sender_, larger.data(), larger.size(), 0), -1);
  EXPECT_EQ(errno, EMSGSIZE);
}

TEST_P(Segments, SafetyRule2OutliveTheirAgentsAndGuardsAsPinsElsewhereLeadByThem) {
  Chain chain;
  Member spine2(chain, "spine2", Role::spine, Chain::spine_segment(2));
  Member host2(chain, "host2", Role::host, Chain::host_segment());
  Member host1(chain, "host1", Role::host);
  ASSERT_TRUE(host1.agent->installs(by_spine(2)));
  open_sockets(chain);
  TemporaryDirectory run;
  const std::string boot = must(current_boot_id());
  for (const auto& [name, member] : {std::pair("spine2", &spine2), {"host2", &host2}}) {
    member->agent->programmer->want_nothing("the lease is over");
    member->agent->settle();
    member->agent.reset();
    const InNamespace inside(chain.space(name));
    const auto kernel = must(NetlinkKernel::open({.ranges = {}}));
    OwnershipFile store(member->state.path(), boot);
    const GuardOutcome outcome =
        must(guard(*kernel, store, {.run_dir = run.path(), .boot_id = boot, .ranges = {}},
                   SystemClock().now()));
    EXPECT_EQ(outcome.verdict, GuardVerdict::only_segments);
  }
  expect_all_by(chain, 2);

  const InNamespace inside(chain.space("spine2"));
  const auto kernel = must(NetlinkKernel::open({.ranges = {}}));
  OwnershipFile store(spine2.state.path(), boot);
  const FlushReport report = must(flush(*kernel, store, {}));
  EXPECT_EQ(report.routes, 1U);
  EXPECT_EQ(report.rules, 2U);
  EXPECT_TRUE(report.left_alone.empty());
  EXPECT_TRUE(must(store.load()).empty());
}

TEST_P(Segments, StayWhenAPortOfTheirNodeLosesItsCarrier) {
  Chain chain;
  Member spine1(chain, "spine1", Role::spine, Chain::spine_segment(1));
  Member spine2(chain, "spine2", Role::spine, Chain::spine_segment(2));
  Member host2(chain, "host2", Role::host, Chain::host_segment());
  Member host1(chain, "host1", Role::host);
  ASSERT_TRUE(host1.agent->installs(by_spine(2)));
  open_sockets(chain);
  expect_all_by(chain, 2);
  const auto changes = spine1.agent->programmer->counters().changes;
  chain.netlink("leaf1").set_up("up1", false);
  must(chain.netlink("leaf1").commit());
  spine1.agent->settle();
  EXPECT_EQ(spine1.agent->programmer->segments().size(), 1U);
  EXPECT_EQ(spine1.agent->programmer->counters().changes, changes);
}

TEST_P(Segments, SafetyRule12APinGoesWithinTheLimitWhenMainNoLongerLeadsToTheFirst) {
  Chain chain;
  Member spine2(chain, "spine2", Role::spine, Chain::spine_segment(2));
  Member host2(chain, "host2", Role::host, Chain::host_segment());
  Member host1(chain, "host1", Role::host);
  ASSERT_TRUE(host1.agent->installs(by_spine(2)));
  // The routing daemon says that there is no way.
  Netlink& at_host = chain.netlink("host1");
  const Prefix segment = Prefix::host(Chain::spine_segment(2));
  at_host.add_route({.destination = segment, .gateway = {}, .device = "lo"});
  const Time begin = host1.agent->clock.now();
  must(at_host.commit());
  ASSERT_TRUE(host1.agent->run_until([&] { return host1.agent->state().installed == 0; }));
  const double ms = lab::milliseconds(host1.agent->clock.now() - begin);
  EXPECT_LT(ms, 100.0);
  ASSERT_EQ(host1.agent->state().failed.size(), 1U);
  EXPECT_EQ(host1.agent->state().failed[0].reason, "main offers no way to the segment fc00:5:2::1");
  open_sockets(chain);
  expect_all_by(chain, 1);
  std::printf("[ measured ] pin gone %.2f ms after main lost the way to its segment\n", ms);
}

TEST(OwnSegments, AreNotToldWhileAnInterfaceHasTheirAddressNorInstalledOverForeignState) {
  Chain chain;
  chain.netlink("spine1").add_address("d1", Chain::spine_segment(1), 128);
  must(chain.netlink("spine1").commit());
  Member taken(chain, "spine1", Role::spine, Chain::spine_segment(1));
  ASSERT_TRUE(taken.agent->run_until([&] { return taken.agent->programmer->segments().empty(); }));
  EXPECT_NE(taken.agent->programmer->segments_lack().find("no interface may have its address"),
            std::string::npos)
      << taken.agent->programmer->segments_lack();

  const std::uint32_t table = RoutingRanges{}.table_base + RoutingRanges{}.table_count - 1;
  chain.netlink("spine2").add_route({.destination = must(Prefix::parse("fc00:77::/64")),
                                     .gateway = address("fd00:200:3::1"),
                                     .device = "d1",
                                     .table = table,
                                     .protocol = kOther});
  must(chain.netlink("spine2").commit());
  Member intruded(chain, "spine2", Role::spine, Chain::spine_segment(2));
  EXPECT_NE(intruded.agent->state().conflict.find("fc00:77::/64"), std::string::npos)
      << intruded.agent->state().conflict;
  EXPECT_EQ(intruded.agent->programmer->counters().changes, 0U);
}

// Carrier
// -------------------------------------------------------------------------------------------

class WrappedPins : public EachEnforcer {};
INSTANTIATE_TEST_SUITE_P(, WrappedPins,
                         testing::Values(Way{Enforcer::srv6, Family::v4},
                                         Way{Enforcer::srv6, Family::v6}),
                         name_of_case);

TEST_P(WrappedPins, SafetyRule5FollowCarrierLossAndReturnOfTheirUplink) {
  Case c(GetParam());
  ASSERT_TRUE(
      c.agent.installs(plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up2")})));
  for (int round = 0; round < 10; ++round) {
    c.leaf.set_far_end(1, false);
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 1; }));
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.2.2"), "up2");
    c.leaf.set_far_end(1, true);
    // IPv6 forgets the addresses of an end whose link was down, or with them its routes.
    c.leaf.write_main();
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "up1");
  }
}

// What leads to the segment counts, not what `main` offers for the destination.
TEST_P(WrappedPins, SafetyRule6AreNotHeldByAGatewayOfTheirSegmentThatDoesNotAnswer) {
  Case c(GetParam());
  const auto lead_by = [&](int end) {
    c.leaf.at_leaf.add_route({.destination = Prefix::host(Leaf::segment(1)),
                              .gateway = Leaf::segment_gateway(1, end),
                              .device = "up1"});
    c.leaf.commit();
  };
  ASSERT_TRUE(
      c.agent.installs(plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up2")})));
  lead_by(3);  // nobody has this address yet
  ASSERT_TRUE(c.agent.run_until([&] {
    const auto now = c.agent.state();
    return now.installed == 1 && now.failed.size() == 1 &&
           now.failed[0].reason == "gateway fd00:102:1::3 does not answer";
  }));
  EXPECT_EQ(c.agent.state().failed[0].code, Errc::timeout);
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.2.2"), "up2");
  c.leaf.at_beyond.add_address("s1", Leaf::segment_gateway(1, 3), 64);
  must(c.leaf.at_beyond.commit());
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "up1");
}

TEST_P(WrappedPins, SafetyRule5ATinyBufferUnderTwoThousandForeignChangesEndsInTheRightTables) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path(), 8 << 10, {}, config());
  ASSERT_TRUE(
      agent.installs(plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up2")})));
  // A flood in the middle of which `main` loses its way to the segment of up1, unseen.
  for (int n = 0; n < 2000; ++n) {
    leaf.at_leaf.add_route({.destination = net(fmt::format("10.50.{}.{}/32", n / 250, n % 250)),
                            .nexthop_id = 2,
                            .protocol = kOther});
    if (n == 1000)
      leaf.at_leaf.delete_route({.destination = Prefix::host(Leaf::segment(1)),
                                 .gateway = Leaf::segment_gateway(1, 2),
                                 .device = "up1"});
  }
  leaf.commit();
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "");
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.2.2"), "up2");
  EXPECT_GE(agent.programmer->counters().events_lost, 1U);
}

}  // namespace
}  // namespace heddle::lab
