// What fails around an agent, by each way of holding a path: cables, names, settings, capabilities,
// and other people's commands. A way is one line in every_way(); it knows how to write a pin and
// how to find one in the kernel, and everything here is said in these terms.
#include <linux/capability.h>
#include <sys/syscall.h>

#include <cstdio>

#include "tests/lab/each_way.h"
#include "tests/lab/others.h"

namespace heddle::lab {
namespace {

class Failure : public EachEnforcer {
 protected:
  static NodePlan two_pins() {
    return plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.3.1.2", "up2")});
  }
  static bool both_held(Case& c) {
    return c.agent.state().installed == 2 && c.leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
           c.leaf.pinned_to("p2", "10.3.1.2") == "up2";
  }
  static bool at_rest(const Case& c) {
    return c.agent.programmer->next_deadline() > c.agent.clock.now() + std::chrono::seconds{5};
  }
  static std::string reason(const Case& c, std::size_t failure = 0) {
    const auto state = c.agent.state();
    return failure < state.failed.size() ? state.failed[failure].reason : "";
  }
  static std::string without_up1() { return lost_with(1, "there is no interface up1"); }
  static void report(const std::string& what, double ms) {
    std::printf("[ measured ] %s: %.1f ms\n", what.c_str(), ms);
  }
};

using SafetyRule5Cables = Failure;
using SafetyRule5Names = Failure;
using SafetyRule5Deletions = Failure;
using SafetyRule1Others = Failure;
using SafetyRule1Settings = Failure;
using SafetyRule10Capabilities = Failure;
INSTANTIATE_TEST_SUITE_P(, SafetyRule5Cables, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule5Names, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule5Deletions, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule1Others, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule1Settings, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule10Capabilities, every_way(), name_of_case);

// Cables
// ------------------------------------------------------------------------------------------

// up1 and up2 are the two cables to one spine.
TEST_P(SafetyRule5Cables, AWholeSpineThatGoesTakesItsPinsAlongAndTheyReturnWithIt) {
  Case c(GetParam());
  NodePlan wanted = two_pins();
  wanted.pins.push_back(pin("p2", "10.3.1.3", "up3"));
  ASSERT_TRUE(c.agent.installs(wanted));
  for (const int cable : {1, 2})
    c.leaf.at_beyond.set_up("s" + std::to_string(cable), false);
  const Time cut = c.agent.clock.now();
  must(c.leaf.at_beyond.commit());
  ASSERT_TRUE(c.agent.run_until([&] {
    return c.agent.state().installed == 1 && reason(c, 0) == lost_with(1, "up1 has no carrier") &&
           reason(c, 1) == lost_with(2, "up2 has no carrier");
  }));
  report("a whole spine's pins gone", milliseconds(c.agent.clock.now() - cut));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
  EXPECT_EQ(c.leaf.pinned_to("p2", "10.3.1.2"), "");
  EXPECT_EQ(c.leaf.pins(), 1U);

  for (const int cable : {1, 2})
    c.leaf.at_beyond.set_up("s" + std::to_string(cable), true);
  must(c.leaf.at_beyond.commit());
  c.leaf.write_main();
  const Time back = c.agent.clock.now();
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 3; }));
  report("and back after main offered them again", milliseconds(c.agent.clock.now() - back));
  EXPECT_TRUE(c.leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
              c.leaf.pinned_to("p2", "10.3.1.2") == "up2");
  EXPECT_EQ(c.leaf.pin_next_hops().size(), 3U);
}

// A leaf for each way.
struct Flapping {
  explicit Flapping(const Way& by)
      : way(by), agent(leaf, state.path(), 4 << 20, {}, programming(by.enforcer)) {}
  bool both_held() {
    return agent.state().installed == 2 && leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
           leaf.pinned_to("p2", "10.3.1.2") == "up2";
  }
  NodePlan two_pins() const {
    return plan(1, {pin_by(way.enforcer, "p1", "10.2.1.2", "up1"),
                    pin_by(way.enforcer, "p2", "10.3.1.2", "up2")});
  }
  Way way;
  Leaf leaf;
  TemporaryDirectory state;
  Agent agent;
  std::string others;
  std::optional<double> repaired_ms{};
};

// All agents' loops in one, as each is in life, until the time has come or `reached`.
template <class Reached>
void run_all(const std::vector<std::unique_ptr<Flapping>>& all, Time end, Reached reached) {
  std::vector<pollfd> readable;
  for (const auto& one : all)
    readable.push_back({.fd = one->agent.kernel->fd(), .events = POLLIN, .revents = 0});
  const SystemClock clock;
  while (!reached()) {
    Time next = end;
    for (const auto& one : all) {
      one->agent.kernel->ready();
      while (one->agent.programmer->next_deadline().value_or(end) <= clock.now())
        one->agent.programmer->step();
      next = std::min(next, one->agent.programmer->next_deadline().value_or(end));
    }
    const Time now = clock.now();
    if (now >= end)
      return;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(next, now) - now);
    ::poll(readable.data(), readable.size(), static_cast<int>(wait.count()));
  }
}

// Every way at once, because it takes as long as it says.
TEST(SafetyRule5Flaps, AHundredInTenSecondsAreRepairedWithinASecondOfTheLastByEveryWay) {
  std::vector<std::unique_ptr<Flapping>> all;
  for (const Way& way : kAllWays) {
    const Meaning meaning(way);
    Flapping& one = *all.emplace_back(std::make_unique<Flapping>(way));
    ASSERT_TRUE(one.agent.installs(one.two_pins())) << to_string(way);
    one.others = state_of_others(one.leaf.leaf);
  }
  const SystemClock clock;
  const Time begin = clock.now();
  const auto set_all = [&](bool up) {
    for (const auto& one : all) {
      const Meaning meaning(one->way);
      one->leaf.set_far_end(1, up);
      if (up)
        one->leaf.write_main();
    }
  };
  constexpr auto kHalf = std::chrono::milliseconds{50};
  // The loop runs as it does in life until the moment of the next change has come.
  const auto until = [&](int half) { run_all(all, begin + half * kHalf, [] { return false; }); };
  for (int flap = 0; flap < 100; ++flap) {
    set_all(false);
    until(2 * flap + 1);
    set_all(true);
    if (flap < 99)
      until(2 * flap + 2);
  }
  const Time last = clock.now();
  run_all(all, last + std::chrono::seconds{10}, [&] {
    for (const auto& one : all) {
      const Meaning meaning(one->way);
      if (!one->repaired_ms && one->both_held())
        one->repaired_ms = milliseconds(clock.now() - last);
    }
    return std::ranges::all_of(all, [](const auto& one) { return one->repaired_ms.has_value(); });
  });
  std::printf("[ measured ] 100 flaps of %zu leaves in %.1f s\n", all.size(),
              milliseconds(last - begin) / 1000.0);
  for (const auto& one : all) {
    SCOPED_TRACE(to_string(one->way));
    const Meaning meaning(one->way);
    ASSERT_TRUE(one->repaired_ms) << one->agent.state().installed;
    std::printf("[ measured ] %s: repaired %.1f ms after the last\n", to_string(one->way).c_str(),
                *one->repaired_ms);
    EXPECT_LT(*one->repaired_ms, 1000.0);
    // No drift: as many objects as before, and nothing of others has changed.
    one->agent.settle();
    EXPECT_TRUE(one->both_held());
    EXPECT_EQ(one->leaf.pins(), 2U);
    EXPECT_EQ(one->leaf.pin_next_hops().size(), 2U);
    EXPECT_EQ(one->leaf.pin_rules().size(), is_of_hosts(one->way.enforcer) ? 1U : 2U);
    EXPECT_EQ(state_of_others(one->leaf.leaf), one->others);
  }
}

// Names and indices
// -------------------------------------------------------------------------------

TEST_P(SafetyRule5Names, ARenamedUplinkIsAnotherAndTheOldNameBringsItBack) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  shown(c.leaf.leaf, "ip link set up1 down && ip link set up1 name x1 && ip link set x1 up");
  ASSERT_TRUE(c.agent.run_until(
      [&] { return c.agent.state().installed == 1 && reason(c) == without_up1(); }));
  EXPECT_EQ(c.leaf.pins(), 1U);
  shown(c.leaf.leaf, "ip link set x1 down && ip link set x1 name up1 && ip link set up1 up");
  if (tested_family == Family::v6)  // IPv6 forgets the address of a link that is set down
    shown(c.leaf.leaf, "ip -6 address add fd00:101:1::1/60 dev up1 nodad");
  if (by_segments())
    shown(c.leaf.leaf, "ip -6 address add fd00:102:1::1/64 dev up1 nodad");
  c.leaf.at_leaf = must(Netlink::open(c.leaf.leaf));
  c.leaf.write_main();
  ASSERT_TRUE(c.agent.run_until([&] { return both_held(c); })) << reason(c);
}

TEST_P(SafetyRule5Names, TheIndexOfAVanishedUplinkUsedAgainCarriesNothing) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  const int index = c.leaf.at_leaf.index_of("up1");
  shown(c.leaf.leaf,
        fmt::format("ip link del up1 && ip link add x1 index {} type veth peer name y1 && "
                    "ip link set x1 up && ip link set y1 up && ip address add 10.101.1.1/30 dev x1",
                    index));
  ASSERT_TRUE(c.agent.run_until(
      [&] { return c.agent.state().installed == 1 && reason(c) == without_up1() && at_rest(c); }));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
  for (const NexthopSeen& next_hop : c.leaf.pin_next_hops())
    EXPECT_NE(next_hop.out_index, index);
  EXPECT_EQ(c.leaf.pin_next_hops().size(), 1U);
}

// Other people's commands
// -------------------------------------------------------------------------

TEST_P(SafetyRule5Deletions, WhatSomebodyFlushesIsRestored) {
  const RoutingRanges ours;
  const std::string family = tested_family == Family::v6 ? "-6" : "-4";
  // `ip` can flush routes over next hop objects only where the kernel tells no more than the id.
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"ip route flush table", fmt::format("sysctl -qw net.ipv4.nexthop_compat_mode=0; "
                                           "for t in $(ip {0} route show table all | "
                                           "sed -n 's/.* table \\(188[0-9]*\\) .*/\\1/p' | "
                                           "sort -u); do ip {0} route flush table $t; done",
                                           family)},
      {"ip nexthop flush", fmt::format("ip nexthop flush proto {}", ours.protocol)},
      {"ip rule flush", fmt::format("ip {} rule flush protocol {}", family, ours.protocol)},
      {"nft flush ruleset", "nft flush ruleset"},
  };
  for (const auto& [name, command] : commands) {
    SCOPED_TRACE(name);
    Case c(GetParam());
    ASSERT_TRUE(c.agent.installs(two_pins()));
    const auto repairs = c.agent.programmer->counters().repairs;
    const std::size_t next_hops = c.leaf.pin_next_hops().size();
    const bool touches_us =
        name != "nft flush ruleset" || GetParam().enforcer == Enforcer::flow_marks;
    shown(c.leaf.leaf, command);
    const Time begin = c.agent.clock.now();
    if (!touches_us)
      std::printf("[ %s ] has nothing that %s flushes\n", to_string(GetParam()).c_str(),
                  name.c_str());
    ASSERT_TRUE(c.agent.run_until([&] {
      return both_held(c) && (!touches_us || c.agent.programmer->counters().repairs > repairs);
    })) << reason(c);
    report(name + ": restored", milliseconds(c.agent.clock.now() - begin));
    EXPECT_EQ(c.leaf.pin_next_hops().size(), next_hops);
    EXPECT_EQ(c.agent.state().conflict, "");
    EXPECT_EQ(c.agent.programmer->counters().repairs > repairs, touches_us);
  }
}

// `ip nexthop flush` takes main's next hops along: pins come back when main does (rule 12). The
// ways to segments lean on none, so they are taken by themselves.
TEST_P(SafetyRule5Deletions, WhatIsFlushedTogetherWithMainReturnsWithMain) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  if (by_segments())
    shown(c.leaf.leaf, "ip -6 route del fc00:5:1::1; ip -6 route del fc00:5:2::1");
  shown(c.leaf.leaf, "ip nexthop flush; nft flush ruleset");
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 0 && at_rest(c); }));
  EXPECT_EQ(reason(c), lost_with(1, say("main does not offer up1 for 10.2.1.2")));
  EXPECT_EQ(c.leaf.pins(), 0U);
  c.leaf.write_main();
  EXPECT_TRUE(c.agent.run_until([&] { return both_held(c); }));
}

TEST_P(SafetyRule1Others, ATableFullOfForeignRoutesWithOurPrefixesStaysAsItIs) {
  Leaf leaf;
  add_state_of_others(leaf);
  std::vector<Pin> pins;
  for (int d = 0; d < 1000; ++d) {
    const std::string destination = fmt::format("10.2.{}.{}", d / 250, d % 250 + 2);
    for (const std::uint32_t table : {static_cast<std::uint32_t>(RT_TABLE_MAIN), 77U})
      leaf.at_leaf.add_route({.destination = Prefix::host(ip(destination)),
                              .nexthop_id = kGroup,
                              .table = table,
                              .protocol = kOther,
                              .metric = 7});
    pins.push_back(pin(d % 2 == 0 ? "p1" : "p2", destination, Leaf::uplink(d % kUplinks + 1)));
  }
  leaf.commit();
  const std::string before = state_of_others(leaf.leaf);
  const TemporaryDirectory state;
  {
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(plan(1, pins)));
    EXPECT_EQ(leaf.pins(), 1000U);
    EXPECT_EQ(state_of_others(leaf.leaf), before);
    std::swap(pins[0].target, pins[1].target);
    pins.pop_back();
    ASSERT_TRUE(agent.installs(plan(2, pins)));
  }
  Agent agent(leaf, state.path(), 4 << 20, {}, config());
  ASSERT_TRUE(agent.installs(plan(3, {})));
  EXPECT_TRUE(leaf.nothing_pinned());
  EXPECT_EQ(state_of_others(leaf.leaf), before);
}

TEST_P(SafetyRule1Others, WhatLiesWhereOnlyOursMayBeIsNamedStopsEverythingAndStays) {
  struct Intruder {
    std::string name;
    std::string there;
    std::string gone;
  };
  const std::string v = tested_family == Family::v6 ? "-6 " : "-4 ";
  const std::string six = tested_family == Family::v6 ? "IPv6 " : "";
  const std::string route =
      fmt::format("{} table 18805 nhid 1 proto 99", to_string(net("10.2.1.2/32")));
  const std::vector<Intruder> intruders = {
      {fmt::format("route {} table 18805 proto 99 nhid 1", to_string(net("10.2.1.2/32"))),
       "ip " + v + "route add " + route, "ip " + v + "route del " + route},
      {fmt::format("route {} table 254 proto 205 nhid 1", to_string(net("10.78.0.0/16"))),
       fmt::format("ip {}route add {} nhid 1 proto 205", v, to_string(net("10.78.0.0/16"))),
       fmt::format("ip {}route del {} nhid 1 proto 205", v, to_string(net("10.78.0.0/16")))},
      {six + "rule pref 1880 iif p2 lookup 77 proto 99",
       "ip " + v + "rule add pref 1880 iif p2 lookup 77 protocol 99",
       "ip " + v + "rule del pref 1880 iif p2 lookup 77 protocol 99"},
      {"nexthop id 1880000007 proto 99", "ip nexthop add id 1880000007 blackhole proto 99",
       "ip nexthop del id 1880000007"},
  };
  for (const Intruder& intruder : intruders) {
    SCOPED_TRACE(intruder.name);
    Case c(GetParam());
    ASSERT_TRUE(c.agent.installs(two_pins()));
    shown(c.leaf.leaf, intruder.there);
    ASSERT_TRUE(c.agent.run_until([&] { return !c.agent.state().conflict.empty(); }));
    EXPECT_TRUE(c.agent.state().conflict.starts_with(intruder.name)) << c.agent.state().conflict;
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 0; }));
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2") + c.leaf.pinned_to("p2", "10.3.1.2"), "");
    EXPECT_EQ(c.agent.state().failed.at(0).code, Errc::foreign_state);
    shown(c.leaf.leaf, intruder.gone);  // fails unless it is still there
    EXPECT_TRUE(c.agent.run_until([&] { return both_held(c); }));
  }
}

// Settings
// -----------------------------------------------------------------------------------------

TEST_P(SafetyRule1Settings, WhereAPinWouldDoHarmItGoesAndReturnsWhenTheReasonIsGone) {
  struct Setting {
    std::string wrong;
    std::string reason;  // its beginning
    std::string right;
  };
  const bool v6 = tested_family == Family::v6;
  const std::string legacy =
      v6 ? "ip -6 route add fd00:9::/32 nexthop via fd00:101:1::2 nexthop via fd00:101:2::2"
         : "ip route add 10.9.0.0/16 nexthop via 10.101.1.2 nexthop via 10.101.2.2";
  const std::vector<Setting> settings = {
      {"sysctl -qw net.ipv4.conf.all.rp_filter=1", "rp_filter is strict on ",
       "sysctl -qw net.ipv4.conf.all.rp_filter=0"},
      {legacy, v6 ? "main has IPv6 multipath routes" : "main has multipath routes",
       v6 ? "ip -6 route del fd00:9::/32" : "ip route del 10.9.0.0/16"},
  };
  for (const Setting& setting : settings) {
    SCOPED_TRACE(setting.wrong);
    Case c(GetParam());
    ASSERT_TRUE(c.agent.installs(two_pins()));
    shown(c.leaf.leaf, setting.wrong);
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 0; }));
    EXPECT_TRUE(reason(c).starts_with(setting.reason)) << reason(c);
    EXPECT_EQ(c.leaf.pins(), 0U);
    shown(c.leaf.leaf, setting.right);
    EXPECT_TRUE(c.agent.run_until([&] { return both_held(c); })) << reason(c);
  }
}

TEST_P(SafetyRule1Settings, ANamespaceWithoutIPv6HoldsWhatIsOfIPv4) {
  Leaf leaf;
  must(leaf.leaf.set_sysctl("net/ipv6/conf/all/disable_ipv6", "1"));
  const TemporaryDirectory state;
  Agent agent(leaf, state.path(), 4 << 20, {}, config());
  agent.programmer->want(two_pins());
  if (tested_family == Family::v4 && !by_segments()) {
    EXPECT_TRUE(agent.run_until([&] { return agent.state().installed == 2; }));
    EXPECT_EQ(leaf.pins(), 2U);
    return;
  }
  ASSERT_TRUE(agent.run_until([&] { return agent.state().failed.size() == 2; }));
  EXPECT_EQ(agent.state().failed[0].reason,
            by_segments() ? "IPv6 is off on up1; set net.ipv6.conf.up1.disable_ipv6 to 0"
                          : "IPv6 is off on up1 (net.ipv6.conf.up1.disable_ipv6)");
  EXPECT_TRUE(leaf.pinned_routes().empty());
}

// Capabilities
// -------------------------------------------------------------------------------------

void set_net_admin(bool effective) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(::syscall(SYS_capget, &header, data), 0);
  const auto bit = 1U << static_cast<unsigned>(CAP_NET_ADMIN);
  data[0].effective = effective ? data[0].effective | bit : data[0].effective & ~bit;
  ASSERT_EQ(::syscall(SYS_capset, &header, data), 0);
}

// In a thread of its own: capabilities belong to threads.
TEST_P(SafetyRule10Capabilities, LostWhileRunningTheyAreMissedByNameAndWhatWasThereStays) {
  Leaf leaf;
  const TemporaryDirectory state;
  leaf.leaf.run([&] {
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    EXPECT_TRUE(agent.installs(two_pins()));
    set_net_admin(false);
    NodePlan moved = plan(2, {pin("p1", "10.2.1.2", "up2"), pin("p2", "10.3.1.2", "up2")});
    agent.programmer->want(moved);
    EXPECT_TRUE(agent.run_until(
        [&] { return agent.state().version.generation == 2 && !agent.state().failed.empty(); }));
    EXPECT_NE(agent.state().failed.at(0).reason.find("Operation not permitted"), std::string::npos)
        << agent.state().failed.at(0).reason;
    EXPECT_NE(agent.state().digest, digest(moved.pins));
    set_net_admin(true);
    EXPECT_EQ(leaf.pins(), 2U);
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up1");
    EXPECT_TRUE(agent.run_until([&] { return agent.state().failed.empty(); }));
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up2");
  });
}

}  // namespace
}  // namespace heddle::lab
