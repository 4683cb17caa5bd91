// Nodes on which pins would do harm or nothing: told by the capability, with the remedy, and
// nothing is programmed.
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

NodePlan wanted() {
  return plan(1, {pin("p1", "10.2.1.2", "up1")});
}

class PortTablesIPv6 : public testing::Test {
 public:
  PortTablesIPv6() { tested_family = Family::v6; }
  ~PortTablesIPv6() override { tested_family = Family::v4; }
};

void shell(const NetNamespace& where, const std::string& command) {
  where.run([&] { EXPECT_EQ(std::system(command.c_str()), 0) << command; });
}

// Refused for `reason` with nothing programmed; then `repair`, and the pin is there.
void expect_refused_until(Leaf& leaf, const std::string& reason,
                          const std::function<void()>& repair) {
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(wanted());
  ASSERT_TRUE(agent.run_until([&] { return agent.acknowledged.has_value(); }));
  const EnforcerCapability capability = agent.programmer->capability();
  EXPECT_FALSE(capability.usable);
  EXPECT_EQ(capability.reason, reason);
  EXPECT_TRUE(leaf.nothing_pinned());
  ASSERT_EQ(agent.acknowledged->failed.size(), 1U);
  EXPECT_EQ(agent.acknowledged->failed[0].code, Errc::unsupported);
  EXPECT_EQ(agent.acknowledged->failed[0].reason, reason);
  repair();
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  EXPECT_TRUE(agent.programmer->capability().usable);
}

TEST(Prerequisites, RefuseAStrictReversePathFilter) {
  Leaf leaf;
  must(leaf.leaf.set_sysctl("net/ipv4/conf/up2/rp_filter", "1"));
  expect_refused_until(
      leaf,
      "rp_filter is strict on up2 and would drop what is steered; set net.ipv4.conf.all.rp_filter "
      "and net.ipv4.conf.up2.rp_filter to 0 or 2",
      [&] { must(leaf.leaf.set_sysctl("net/ipv4/conf/up2/rp_filter", "2")); });
}

TEST(Prerequisites, RefuseAStrictReversePathFilterOfAllInterfacesThatComesLater) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(wanted()));
  must(leaf.leaf.set_sysctl("net/ipv4/conf/all/rp_filter", "1"));
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 0; }));
  EXPECT_TRUE(leaf.nothing_pinned());
}

TEST(Prerequisites, RefuseLegacyMultipathThatGoesOnUsingADeadUplink) {
  Leaf leaf;
  shell(leaf.leaf, "ip route replace 10.2.0.0/16 nexthop via 10.101.1.2 nexthop via 10.101.2.2");
  expect_refused_until(
      leaf,
      "main has multipath routes without nexthop objects, which go on using up1 without carrier; "
      "set net.ipv4.conf.up1.ignore_routes_with_linkdown to 1, or let the routing daemon use "
      "nexthop objects",
      [&] {
        for (const char* uplink : {"up1", "up2"})
          must(leaf.leaf.set_sysctl(
              fmt::format("net/ipv4/conf/{}/ignore_routes_with_linkdown", uplink), "1"));
      });
}

TEST(Prerequisites, RefuseABridgedHostPort) {
  Leaf leaf;
  leaf.at_leaf.add_bridge("br0");
  leaf.at_leaf.set_master("p2", "br0");
  leaf.commit();
  expect_refused_until(
      leaf,
      "p2 belongs to a bridge, where a rule by ingress port has no effect; make it "
      "a routed port of the default VRF, or take it out of host_ports",
      [&] { shell(leaf.leaf, "ip link set p2 nomaster"); });
}

TEST(Prerequisites, RefuseANodeWithoutHostPorts) {
  Leaf leaf;
  leaf.at_leaf.delete_link("p1");
  leaf.at_leaf.delete_link("p2");
  leaf.commit();
  expect_refused_until(leaf, "no interface matches host_ports (p*)", [&] {
    leaf.at_leaf = must(Netlink::open(leaf.leaf));
    leaf.at_beyond = must(Netlink::open(leaf.beyond));
    leaf.cable("p1", "h1", "10.1.1");
  });
}

// Multipath of the old kind is understood where it is safe.
TEST(PortTables, TakeTheGatewayFromLegacyMultipathRoutes) {
  Leaf leaf;
  for (const char* uplink : {"up1", "up2"})
    must(leaf.leaf.set_sysctl(fmt::format("net/ipv4/conf/{}/ignore_routes_with_linkdown", uplink),
                              "1"));
  shell(leaf.leaf, "ip route replace 10.2.0.0/16 nexthop via 10.101.1.2 nexthop via 10.101.2.2");
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(wanted()));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up1");
  shell(leaf.leaf, "ip route replace 10.2.0.0/16 nexthop via 10.101.2.2 nexthop via 10.101.3.2");
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 0; }));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "");
}

TEST(PortTables, FollowAGatewayOfTheOtherFamily) {
  Leaf leaf;
  shell(leaf.beyond, "ip -6 address add fe80::1/64 dev s1 nodad");
  shell(leaf.leaf, "ip route replace 10.2.0.0/16 via inet6 fe80::1 dev up1");
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(wanted()));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up1");
}

// Verification
// ---------------------------------------------------------------------------------------

TEST(PortTables, CountNoPinThatAnotherRuleOverrules) {
  Leaf leaf;
  leaf.at_leaf.add_rule({.in_port = "p1", .table = 77, .priority = 100, .protocol = kOther});
  leaf.at_leaf.add_route(
      {.destination = net("10.2.0.0/16"), .nexthop_id = 3, .table = 77, .protocol = kOther});
  leaf.commit();
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(wanted());
  ASSERT_TRUE(agent.run_until([&] {
    return agent.state().failed.size() == 1 &&
           agent.state().failed[0].reason == "not effective: the kernel looks in table 77 instead";
  }));
  EXPECT_EQ(agent.state().installed, 0U);
  leaf.at_leaf.delete_rule({.in_port = "p1", .table = 77, .priority = 100, .protocol = kOther});
  leaf.commit();
  EXPECT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
}

TEST_F(PortTablesIPv6, CountNoPinThatAnotherRuleOverrules) {
  Leaf leaf;
  const RuleSpec rule{.in_port = "p1", .table = 77, .priority = 100, .protocol = kOther};
  leaf.at_leaf.add_rule(rule, Family::v6);
  leaf.at_leaf.add_route(
      {.destination = net("10.2.0.0/16"), .nexthop_id = 3, .table = 77, .protocol = kOther});
  leaf.commit();
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(wanted());
  ASSERT_TRUE(agent.run_until([&] {
    return agent.state().failed.size() == 1 &&
           agent.state().failed[0].reason == "not effective: the kernel takes next hop 3 instead";
  }));
  EXPECT_EQ(agent.state().installed, 0U);
  leaf.at_leaf.delete_rule(rule, Family::v6);
  leaf.commit();
  EXPECT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
}

// In IPv6 an appended route of one hop becomes a second hop of the one that is there, and a
// replaced one leaves hops behind: each is told as if it were the whole route.
TEST_F(PortTablesIPv6, FollowHopsThatComeAndGoOneByOne) {
  Leaf leaf;
  for (const char* uplink : {"up1", "up2", "up3"})
    must(leaf.leaf.set_sysctl(fmt::format("net/ipv6/conf/{}/ignore_routes_with_linkdown", uplink),
                              "1"));
  shell(leaf.leaf, "ip -6 route del fd00:2::/32 && ip -6 route add fd00:2::/32 via fd00:101:2::2");
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(wanted());
  ASSERT_TRUE(agent.run_until([&] { return agent.state().failed.size() == 1; }));
  EXPECT_EQ(agent.state().failed[0].reason, say("main does not offer up1 for 10.2.1.2"));
  const auto change = [&](const char* command, std::uint32_t installed) {
    SCOPED_TRACE(command);
    shell(leaf.leaf, command);
    const Time begin = agent.clock.now();
    ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == installed; }));
    if (installed == 0) {
      EXPECT_LT(milliseconds(agent.clock.now() - begin), 100.0);
    }
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), installed == 0 ? "" : "up1");
  };
  change("ip -6 route append fd00:2::/32 via fd00:101:1::2", 1);
  change("ip -6 route del fd00:2::/32 via fd00:101:1::2", 0);
  change("ip -6 route append fd00:2::/32 via fd00:101:1::2", 1);
  change("ip -6 route replace fd00:2::/32 via fd00:101:3::2", 0);
  change("ip -6 route replace fd00:2::/32 nexthop via fd00:101:1::2 nexthop via fd00:101:2::2", 1);
  change("ip -6 route del fd00:2::/32", 0);
}

TEST_F(PortTablesIPv6, SayWhatIsMissingAndHoldWhatIsNotOfIPv6) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  const auto refused_until = [&](const std::string& reason, const std::function<void()>& repair) {
    agent.programmer->want(wanted());
    EXPECT_TRUE(agent.run_until([&] {
      return agent.state().installed == 0 && agent.state().failed.size() == 1 &&
             agent.state().failed[0].reason == reason;
    })) << reason
        << "\n"
        << (agent.state().failed.empty() ? "" : agent.state().failed[0].reason);
    EXPECT_TRUE(agent.programmer->capability().usable);
    repair();
    EXPECT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  };
  must(leaf.leaf.set_sysctl("net/ipv6/conf/all/forwarding", "0"));
  refused_until("IPv6 is not forwarded; set net.ipv6.conf.all.forwarding to 1",
                [&] { must(leaf.leaf.set_sysctl("net/ipv6/conf/all/forwarding", "1")); });
  shell(leaf.leaf,
        "ip -6 route replace fd00:3::/32 nexthop via fd00:101:1::2 nexthop via fd00:101:2::2");
  refused_until(
      "main has IPv6 multipath routes without nexthop objects, which go on using up1 without "
      "carrier; set net.ipv6.conf.up1.ignore_routes_with_linkdown to 1, or let the routing daemon "
      "use nexthop objects",
      [&] { shell(leaf.leaf, "ip -6 route del fd00:3::/32"); });
}

TEST_F(PortTablesIPv6, SayThatIPv6IsOffAndHoldThoseOfIPv4) {
  tested_family = Family::v4;
  Leaf leaf;
  must(leaf.leaf.set_sysctl("net/ipv6/conf/all/disable_ipv6", "1"));
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  std::vector<Pin> pins = wanted().pins;
  tested_family = Family::v6;
  pins.push_back(wanted().pins.front());
  agent.programmer->want(plan(1, pins));
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  ASSERT_EQ(agent.state().failed.size(), 1U);
  EXPECT_EQ(agent.state().failed[0].reason, "IPv6 is off on up1 (net.ipv6.conf.up1.disable_ipv6)");
  EXPECT_TRUE(leaf.pin_rules().empty());
}

TEST(PortTables, CountNoPinOnANodeThatDoesNotForward) {
  Leaf leaf;
  must(leaf.leaf.set_sysctl("net/ipv4/ip_forward", "0"));
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(wanted());
  ASSERT_TRUE(agent.run_until([&] {
    return agent.state().failed.size() == 1 &&
           agent.state().failed[0].reason ==
               "not effective: the kernel would not forward: No route to host";
  }));
  must(leaf.leaf.set_sysctl("net/ipv4/ip_forward", "1"));
  EXPECT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
}

// Capabilities
// ---------------------------------------------------------------------------------------

void set_net_admin(bool effective) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(::syscall(SYS_capget, &header, data), 0);
  const auto bit = 1U << static_cast<unsigned>(CAP_NET_ADMIN);
  data[0].effective = effective ? data[0].effective | bit : data[0].effective & ~bit;
  ASSERT_EQ(::syscall(SYS_capset, &header, data), 0);
}

// In a thread of its own: capabilities belong to threads.
TEST(Prerequisites, RefuseWithoutTheCapabilityToChangeRoutes) {
  Leaf leaf;
  leaf.leaf.run([&] {
    set_net_admin(false);
    const TemporaryDirectory state;
    Agent agent(leaf, state.path());
    EXPECT_FALSE(agent.programmer->capability().usable);
    EXPECT_EQ(agent.programmer->capability().reason,
              "not allowed to change routes; give the agent CAP_NET_ADMIN (the unit file does)");
    agent.programmer->want(wanted());
    EXPECT_TRUE(agent.run_until([&] { return agent.acknowledged.has_value(); }));
    EXPECT_EQ(agent.state().failed.size(), 1U);
  });
  EXPECT_TRUE(leaf.nothing_pinned());
}

TEST(PortTables, TellWhenTheCapabilityIsLostWhileRunningAndGoOnWhenItReturns) {
  Leaf leaf;
  leaf.leaf.run([&] {
    const TemporaryDirectory state;
    Agent agent(leaf, state.path());
    EXPECT_TRUE(
        agent.installs(plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")})));
    set_net_admin(false);
    agent.programmer->want(plan(2, {pin("p1", "10.2.1.2", "up2"), pin("p2", "10.2.1.2", "up2")}));
    EXPECT_TRUE(agent.run_until([&] { return agent.state().version.generation == 2; }));
    EXPECT_EQ(agent.state().installed, 2U) << "one of them where it should not be any more";
    ASSERT_EQ(agent.state().failed.size(), 1U);
    EXPECT_EQ(agent.state().failed[0].reason,
              "the kernel refuses route 10.2.1.2 in table 18800 to next hop 1880000001 moved: "
              "Operation not permitted");
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up1");
    set_net_admin(true);
    EXPECT_TRUE(agent.run_until([&] { return agent.state().failed.empty(); }));
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up2");
  });
}

// Size
// -----------------------------------------------------------------------------------------------

TEST(PortTables, TakeTenThousandChangesInWellUnderASecond) {
  Leaf leaf;
  const TemporaryDirectory state;
  const auto pins = [](int shift) {
    std::vector<Pin> result;
    for (int d = 0; d < 10000; ++d)
      result.push_back(pin(d % 2 == 0 ? "p1" : "p2",
                           fmt::format("10.2.{}.{}", d / 250, d % 250 + 2),
                           Leaf::uplink((d + shift) % kUplinks + 1)));
    return result;
  };
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(plan(1, {pin("p1", "10.3.1.2", "up1"), pin("p1", "10.3.1.3", "up2"),
                                      pin("p1", "10.3.1.4", "up3")})));
  const auto timed = [&](const char* what, const NodePlan& wanted) {
    ASSERT_TRUE(agent.installs(wanted)) << what;
    const double ms = milliseconds(agent.acknowledged->apply_time);
    std::printf("[ measured ] %s, read back and verified: %.1f ms\n", what, ms);
    EXPECT_LT(ms, 1000.0) << what;
  };
  timed("10,000 pins added", plan(2, pins(0)));
  timed("10,000 pins moved", plan(3, pins(1)));
  timed("nothing to do over 10,000 pins", plan(4, pins(1)));
  timed("1 of 10,000 pins moved", [&] {
    auto all = pins(1);
    all[0].target = PortTableRoute{.out_port = "up1"};
    return plan(5, all);
  }());
  EXPECT_EQ(leaf.pinned_routes().size(), 10000U);
}

}  // namespace
}  // namespace heddle::lab
