// heddle beside a real routing daemon: FRR's zebra and bgpd, one pair for each switch, run `main`.
// They must not notice heddle, and heddle must follow what they withdraw.
#include <linux/netlink.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/lab/each_way.h"
#include "tests/lab/others.h"

namespace heddle::lab {
namespace {

constexpr const char* kPrograms = "/usr/lib/frr/";

// One switch's routing daemon, eBGP with each neighbour over both families.
class Router {
 public:
  Router(const NetNamespace& where, int number, const std::vector<std::string>& neighbours,
         const std::string& network)
      : where_(where) {
    // The daemons give up root before they write here.
    EXPECT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
    std::ofstream(folder_.path() + "/zebra.conf") << "frr defaults datacenter\n";
    std::ofstream bgp(folder_.path() + "/bgpd.conf");
    bgp << "frr defaults datacenter\nrouter bgp " << 65000 + number << "\n bgp router-id 10.0.0."
        << number << "\n no bgp ebgp-requires-policy\n no bgp network import-check\n"
        << " bgp bestpath as-path multipath-relax\n";  // each spine is an AS of its own
    for (const std::string& neighbour : neighbours)
      bgp << " neighbor " << neighbour << " remote-as external\n neighbor " << neighbour
          << " timers connect 1\n";
    for (const Family family : {Family::v4, Family::v6}) {
      const bool v6 = family == Family::v6;
      bgp << " address-family " << (v6 ? "ipv6" : "ipv4") << " unicast\n";
      for (const std::string& neighbour : neighbours) {
        const bool is_v6 = neighbour.find(':') != std::string::npos;
        bgp << (is_v6 == v6 ? "  neighbor " : "  no neighbor ") << neighbour << " activate\n";
      }
      if (!network.empty())
        bgp << "  network " << (v6 ? "fd00:" + network + "::/32" : "10." + network + ".0.0/16")
            << "\n";
      bgp << " exit-address-family\n";
    }
    bgp.close();
    start("zebra");
    start("bgpd");
  }

  std::string show(const std::string& what) const {
    return shown(where_, "vtysh --vty_socket " + folder_.path() + " -c '" + what + "'");
  }
  // What zebra holds and has done: its next hop groups with their numbers, and how often it wrote
  // to the kernel. Without the ages, which grow.
  std::string zebra() const {
    std::string text;
    std::istringstream lines(show("show nexthop-group rib") + show("show zebra dplane"));
    for (std::string line; std::getline(lines, line);)
      text += line.find("Uptime") == std::string::npos ? line + "\n" : "";
    return text;
  }

 private:
  void start(const std::string& program) {
    const std::string& at = folder_.path();
    children_.push_back(
        must(Child::start({.words = {kPrograms + program, "-f", at + "/" + program + ".conf", "-i",
                                     at + "/" + program + ".pid", "-z", at + "/zserv.api",
                                     "--vty_socket", at, "-P", "0"},
                           .space = &where_,
                           .log = at + "/" + program + ".log"})));
    // It listens for people once it is at work.
    const std::string socket = at + "/" + program + ".vty";
    shown(where_, "for i in $(seq 200); do test -S " + socket +
                      " && exit 0; sleep 0.05; done; cat " + at + "/*.log; exit 1");
  }

  const NetNamespace& where_;
  TemporaryDirectory folder_;
  std::vector<Child> children_;
};

// leaf1 and leaf2 behind two spines; p1 and p2 are leaf1's ports to hosts.
struct Fabric {
  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace spine1 = must(NetNamespace::create(unique_namespace_name("spine1")));
  NetNamespace spine2 = must(NetNamespace::create(unique_namespace_name("spine2")));
  NetNamespace far = must(NetNamespace::create(unique_namespace_name("far")));
  NetNamespace hosts = must(NetNamespace::create(unique_namespace_name("hosts")));
  std::vector<std::unique_ptr<Router>> routers;

  Fabric() {
    for (const NetNamespace* one : {&leaf, &spine1, &spine2, &far})
      shown(*one,
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 "
            "net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1 "
            "net.ipv6.conf.default.accept_dad=0 net.ipv4.conf.all.rp_filter=0 "
            "net.ipv4.conf.default.rp_filter=0");
    cable(leaf, "up1", spine1, "down1", "101:1");
    cable(leaf, "up2", spine2, "down1", "101:2");
    cable(far, "up1", spine1, "down2", "102:1");
    cable(far, "up2", spine2, "down2", "102:2");
    cable(leaf, "p1", hosts, "h1", "1:1");
    cable(leaf, "p2", hosts, "h2", "1:2");
    const auto at = [](const std::string& network, int end) {
      const auto [a, b] = split(network);
      return std::vector<std::string>{fmt::format("10.{}.{}.{}", a, b, end),
                                      fmt::format("fd00:{}:{}::{}", a, b, end)};
    };
    const auto both = [](std::vector<std::string> some, const std::vector<std::string>& more) {
      some.insert(some.end(), more.begin(), more.end());
      return some;
    };
    router(leaf, 1, both(at("101:1", 2), at("101:2", 2)), "1");
    router(far, 2, both(at("102:1", 2), at("102:2", 2)), "2");
    router(spine1, 11, both(at("101:1", 1), at("102:1", 1)), "");
    router(spine2, 12, both(at("101:2", 1), at("102:2", 1)), "");
  }
  void router(const NetNamespace& where, int number, const std::vector<std::string>& neighbours,
              const std::string& network) {
    routers.push_back(std::make_unique<Router>(where, number, neighbours, network));
  }
  const Router& leaf_router() const { return *routers.front(); }

  static std::pair<std::string, std::string> split(const std::string& network) {
    const std::size_t colon = network.find(':');
    return {network.substr(0, colon), network.substr(colon + 1)};
  }
  static void cable(const NetNamespace& a, const std::string& near, const NetNamespace& b,
                    const std::string& other, const std::string& network) {
    const auto [x, y] = split(network);
    shown(a, fmt::format("ip link add {} type veth peer name {} netns {} && ip link set {} up && "
                         "ip address add 10.{}.{}.1/30 dev {} && "
                         "ip address add fd00:{}:{}::1/126 dev {} nodad",
                         near, other, b.name(), near, x, y, near, x, y, near));
    shown(b, fmt::format("ip link set {} up && ip address add 10.{}.{}.2/30 dev {} && "
                         "ip address add fd00:{}:{}::2/126 dev {} nodad",
                         other, x, y, other, x, y, other));
  }
  // Both spines offer what is behind the other leaf, in both families.
  bool converged() const {
    for (const char* network : {"-4 route show 10.2.0.0/16", "-6 route show fd00:2::/32"}) {
      const std::string route = shown(leaf, std::string("ip ") + network);
      if (route.find("up1") == std::string::npos || route.find("up2") == std::string::npos)
        return false;
    }
    return true;
  }
  std::string ours() const {
    return shown(leaf,
                 "ip nexthop show proto 205; ip -4 route show table all proto 205; "
                 "ip -6 route show table all proto 205; ip -4 rule show prio 1880; "
                 "ip -6 rule show prio 1880; nft list tables");
  }
};

// When a routing table or next hop of a namespace changed for the first time since it was made.
class FirstChange {
 public:
  FirstChange(const NetNamespace& where, const Clock& clock)
      : clock_(clock), fd_(must(where.socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE))) {
    sockaddr_nl address{};  // unbound, it would be told nothing
    address.nl_family = AF_NETLINK;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    for (const int group : {RTNLGRP_NEXTHOP, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE})
      EXPECT_EQ(::setsockopt(fd_, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group), 0);
    thread_ = std::thread([this] {
      pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
      while (!stop_ && ::poll(&readable, 1, 100) <= 0) {
      }
      at_ = clock_.now();
    });
  }
  ~FirstChange() {
    if (thread_.joinable())
      end();
    ::close(fd_);
  }
  FirstChange(const FirstChange&) = delete;
  FirstChange& operator=(const FirstChange&) = delete;
  Time end() {
    stop_ = true;
    thread_.join();
    return at_;
  }

 private:
  const Clock& clock_;
  int fd_;
  std::atomic<bool> stop_{};
  Time at_{};
  std::thread thread_;
};

class Frr : public EachEnforcer {
 protected:
  static std::unique_ptr<Agent> start_agent(const Fabric& fabric, const TemporaryDirectory& state) {
    return std::make_unique<Agent>(fabric.leaf, state.path(), config());
  }
  static NodePlan pins_over(const char* one, const char* other, std::uint64_t generation) {
    // A host has no ports: the other pin is its own, too, and for another network if it were p2's.
    const char* const second = is_of_hosts(GetParam().enforcer) ? "p1" : "p2";
    return plan(generation, {pin("p1", "10.2.1.2", one), pin(second, "10.2.1.3", other)});
  }
};
using SafetyRule1BesideFrr = Frr;
using SafetyRule12BesideFrr = Frr;
INSTANTIATE_TEST_SUITE_P(, SafetyRule1BesideFrr, every_enforcer_and_hosts(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule12BesideFrr, every_enforcer_and_hosts(), name_of_case);

TEST_P(SafetyRule1BesideFrr, ZebraKeepsAllOfItsStateThroughOurWholeLife) {
  const Fabric fabric;
  const TemporaryDirectory state;
  auto agent = start_agent(fabric, state);
  agent->programmer->want(pins_over("up1", "up2", 1));
  // As soon as BGP has brought the other leaf's network by both spines.
  ASSERT_TRUE(
      agent->run_until([&] { return agent->state().installed == 2; }, std::chrono::seconds{30}))
      << shown(fabric.leaf, "ip nexthop; ip route; ip -6 route");
  ASSERT_TRUE(agent->run_until([&] { return fabric.converged(); }));
  ASSERT_TRUE(agent->installs(plan(2, {})));
  agent->settle();
  const std::string kernel = state_of_others(fabric.leaf);
  const std::string zebra = fabric.leaf_router().zebra();
  ASSERT_NE(kernel.find("proto 11"), std::string::npos) << "zebra's next hops: " << kernel;
  ASSERT_NE(kernel.find("proto 186"), std::string::npos) << "bgpd's routes: " << kernel;
  ASSERT_NE(zebra.find("Route updates:"), std::string::npos) << zebra;
  const auto unnoticed = [&](const char* after) {
    EXPECT_EQ(state_of_others(fabric.leaf), kernel) << after;
    EXPECT_EQ(fabric.leaf_router().zebra(), zebra) << after;
  };
  ASSERT_TRUE(agent->installs(pins_over("up1", "up2", 3)));
  unnoticed("installed");
  ASSERT_TRUE(agent->installs(pins_over("up2", "up1", 4)));
  unnoticed("moved");
  agent.reset();  // as by kill -9: it does nothing at its end
  unnoticed("killed");
  agent = start_agent(fabric, state);
  ASSERT_TRUE(agent->installs(pins_over("up2", "up2", 5)));
  unnoticed("restarted");
  agent->programmer->want_nothing("flushed");
  ASSERT_TRUE(agent->run_until([&] { return agent->acknowledged->installed == 0; }));
  agent->settle();
  unnoticed("flushed");
  EXPECT_EQ(fabric.ours(), "");
}

TEST_P(SafetyRule12BesideFrr, APinGoesWhenBgpWithdrawsWhatItsSpineNoLongerReaches) {
  const Fabric fabric;
  const TemporaryDirectory state;
  auto agent = start_agent(fabric, state);
  agent->programmer->want(pins_over("up1", "up2", 1));
  ASSERT_TRUE(
      agent->run_until([&] { return agent->state().installed == 2; }, std::chrono::seconds{60}));
  agent->settle();
  FirstChange main(fabric.leaf, agent->clock);
  const Time cut = agent->clock.now();
  shown(fabric.far, "ip link set up1 down");  // to spine1; leaf1 keeps its carrier
  ASSERT_TRUE(
      agent->run_until([&] { return agent->state().installed == 1; }, std::chrono::seconds{30}));
  const Time gone = agent->clock.now();
  const Time withdrawn = main.end();
  ASSERT_EQ(agent->state().failed.size(), 1U);
  EXPECT_EQ(agent->state().failed[0].reason, say("main does not offer up1 for 10.2.1.2"));
  const double after = milliseconds(gone - withdrawn);
  std::printf(
      "[ measured ] cable beyond the spine cut: bgp has withdrawn it after %.1f ms, the pin is "
      "gone %.1f ms later\n",
      milliseconds(withdrawn - cut), after);
  EXPECT_GE(withdrawn, cut);
  EXPECT_LT(after, 100.0);
  shown(fabric.far, "ip link set up1 up");
  EXPECT_TRUE(
      agent->run_until([&] { return agent->state().installed == 2; }, std::chrono::seconds{60}));
}

}  // namespace
}  // namespace heddle::lab
