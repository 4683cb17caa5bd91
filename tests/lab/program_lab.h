// One leaf for the tests of the programming stage: uplinks up1 and so on, two host ports p1 and p2,
// `main` by nexthop objects as a routing daemon would write it, and an agent's programming half
// without the agent around it. The other ends of all cables are in one namespace. One thread.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "agent/netlink/netlink_kernel.h"
#include "agent/program/lease.h"
#include "agent/program/ownership.h"
#include "agent/program/programmer.h"
#include "common/core/plan.h"
#include "common/runtime/system_clock.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"
#include "tests/lab/process.h"

namespace heddle::lab {

// The tests write every address as one of IPv4. Where they are about IPv6, each stands for one of
// IPv6: 10.A.B.C for fd00:A:B::C, and a network for the one of the same places.
inline Family tested_family = Family::v4;

// Where the tests are about segments, each uplink's spine has one, which `main` offers by that
// uplink alone.
inline bool segments_tested = false;

inline IpAddress ip(const std::string& text) {
  const IpAddress v4 = must(IpAddress::parse(text));
  if (tested_family == Family::v4)
    return v4;
  const auto& o = v4.octets;
  return must(IpAddress::parse(fmt::format("fd00:{}:{}::{}", o[1], o[2], o[3])));
}
inline int length_of(int v4_length) {
  if (tested_family == Family::v4)
    return v4_length;
  return v4_length <= 24 ? 2 * v4_length : v4_length + 96;
}
inline Prefix net(const std::string& text) {
  const std::size_t slash = text.find('/');
  return {.address = ip(text.substr(0, slash)),
          .length = static_cast<std::uint8_t>(length_of(std::stoi(text.substr(slash + 1))))};
}
// "main does not offer up1 for 10.2.1.2", in the family of the test.
inline std::string say(std::string text) {
  if (tested_family == Family::v4)
    return text;
  static const std::regex kAddress(R"(10\.\d+\.\d+\.\d+)");
  for (std::smatch found; std::regex_search(text, found, kAddress);)
    text = found.prefix().str() + to_string(ip(found.str())) + found.suffix().str();
  return text;
}

// What bind, sendto and the like take.
struct SocketAddress {
  SocketAddress(const std::string& text, std::uint16_t port) {
    const IpAddress address = ip(text);
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    storage.ss_family = address.family == Family::v4 ? AF_INET : AF_INET6;
    v4->sin_port = htons(port);  // at the same place in both
    void* const where = address.family == Family::v4 ? static_cast<void*>(&v4->sin_addr)
                                                     : static_cast<void*>(&v6->sin6_addr);
    std::memcpy(where, address.octets.data(), address.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  sockaddr_storage storage{};
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/heddle-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline constexpr int kUplinks = 3;
inline constexpr std::uint32_t kGroup = 100;
inline constexpr std::uint8_t kOther = 99;  // another program's protocol number

struct Leaf {
  int uplinks;
  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace beyond = must(NetNamespace::create(unique_namespace_name("beyond")));
  Netlink at_leaf = must(Netlink::open(leaf));
  Netlink at_beyond = must(Netlink::open(beyond));

  explicit Leaf(int how_many = kUplinks) : uplinks(how_many) {
    for (const char* setting : {"net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter"})
      must(leaf.set_sysctl(setting, "0"));
    must(leaf.set_sysctl("net/ipv4/ip_forward", "1"));
    must(leaf.set_sysctl("net/ipv6/conf/all/forwarding", "1"));
    // IPv6 forgets the addresses of a link that is set down; the far ends are to come back whole.
    must(beyond.set_sysctl("net/ipv6/conf/all/keep_addr_on_down", "1"));
    must(beyond.set_sysctl("net/ipv6/conf/default/keep_addr_on_down", "1"));
    // While an address is tried for duplicates, for a second, nobody asks from it or answers.
    for (const NetNamespace* space : {&leaf, &beyond})
      for (const char* which : {"all", "default"})
        must(space->set_sysctl(fmt::format("net/ipv6/conf/{}/accept_dad", which), "0"));
    for (int s = 1; s <= uplinks; ++s)
      cable(uplink(s), "s" + std::to_string(s), network(s));
    for (int p = 1; p <= 2; ++p)
      cable("p" + std::to_string(p), "h" + std::to_string(p), "10.1." + std::to_string(p));
    if (segments_tested)
      give_way_to_segments();
    write_main();
  }

  static std::string uplink(int s) { return "up" + std::to_string(s); }
  static std::string network(int s) { return "10.101." + std::to_string(s); }
  static IpAddress gateway(int s) { return ip(network(s) + ".2"); }
  // Of the spine behind an uplink, and of whatever is the destination.
  static IpAddress segment(int s) { return must(IpAddress::parse(fmt::format("fc00:5:{}::1", s))); }
  static IpAddress last_segment() { return must(IpAddress::parse("fc00:9::1")); }
  static IpAddress segment_gateway(int s, int end) {
    return must(IpAddress::parse(fmt::format("fd00:102:{}::{}", s, end)));
  }
  // Of IPv6, whatever family is tested.
  void give_way_to_segments() {
    for (int s = 1; s <= uplinks; ++s)
      give_way_to_segment(s);
  }
  void give_way_to_segment(int s) {
    at_leaf.add_address(uplink(s), segment_gateway(s, 1), 64);
    at_beyond.add_address("s" + std::to_string(s), segment_gateway(s, 2), 64);
    must(at_leaf.commit());
    must(at_beyond.commit());
  }

  // What the routing daemon writes: a next hop for each uplink, a group of them, two networks
  // behind it.
  void write_main() {
    std::vector<std::uint32_t> all;
    for (int s = 1; s <= uplinks; ++s) {
      at_leaf.set_nexthop(static_cast<std::uint32_t>(s), gateway(s), uplink(s));
      all.push_back(static_cast<std::uint32_t>(s));
    }
    at_leaf.set_group(kGroup, all);
    for (int s = 1; s <= uplinks && segments_tested; ++s)
      at_leaf.add_route({.destination = Prefix::host(segment(s)),
                         .gateway = segment_gateway(s, 2),
                         .device = uplink(s)});
    for (const char* network : {"10.2.0.0/16", "10.3.0.0/16"})
      at_leaf.add_route({.destination = net(network), .nexthop_id = kGroup});
    must(at_leaf.commit());
  }

  void commit() { must(at_leaf.commit()); }

  void cable(const std::string& near, const std::string& far, const std::string& network) {
    at_leaf.add_veth(near, at_beyond, far);
    at_leaf.set_up(near);
    at_leaf.add_address(near, ip(network + ".1"), length_of(30));
    must(at_leaf.commit());
    at_beyond.set_up(far);
    at_beyond.add_address(far, ip(network + ".2"), length_of(30));
    must(at_beyond.commit());
  }

  void set_far_end(int s, bool up) {
    at_beyond.set_up("s" + std::to_string(s), up);
    must(at_beyond.commit());
  }

  // In the kernel, seen by other eyes than the agent's.
  std::vector<RouteSeen> pinned_routes() {
    std::vector<RouteSeen> result;
    for (const RouteSeen& route : must(at_leaf.routes(tested_family))) {
      if (RoutingRanges{}.owns_table(route.table))
        result.push_back(route);
    }
    return result;
  }
  std::vector<NexthopSeen> pin_next_hops() {
    std::vector<NexthopSeen> result;
    for (const NexthopSeen& next_hop : must(at_leaf.nexthops())) {
      if (RoutingRanges{}.owns_next_hop(next_hop.id))
        result.push_back(next_hop);
    }
    return result;
  }
  std::vector<RuleSpec> pin_rules() {
    std::vector<RuleSpec> result;
    for (const RuleSpec& rule : must(at_leaf.rules(tested_family))) {
      if (rule.priority == RoutingRanges{}.rule_priority)
        result.push_back(rule);
    }
    return result;
  }
  // As nft shows it; empty if it is not there.
  std::string mark_table() {
    const Output shown = must(capture(
        {.words = {"/usr/sbin/nft", "-n", "list", "table", "inet", RoutingRanges{}.mark_table()},
         .space = &leaf,
         .log = {}},
        std::chrono::seconds{10}));
    return shown.status == 0 ? shown.text : std::string{};
  }
  void nft(const std::string& command) {
    const Output done =
        must(capture({.words = {"/usr/sbin/nft", command}, .space = &leaf, .log = {}},
                     std::chrono::seconds{10}));
    ASSERT_EQ(done.status, 0) << command << ": " << done.errors;
  }
  // Routes to one destination, and flows with a mark.
  std::size_t pins() {
    std::size_t count = 0;
    for (const RouteSeen& route : pinned_routes())
      count += route.destination.length == 0 ? 0 : 1;
    const std::string marks = mark_table();
    for (std::size_t at = 0; (at = marks.find(" : 0x", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  bool nothing_pinned() {
    return pinned_routes().empty() && pin_next_hops().empty() && pin_rules().empty() &&
           mark_table().empty();
  }
  // The uplink that a pin for this destination leads to, of what comes in by this port; empty if
  // there is none.
  std::string pinned_to(const std::string& port, const std::string& destination) {
    for (const RuleSpec& rule : pin_rules()) {
      if (rule.in_port == port)
        return led_to(rule.table, Prefix::host(ip(destination)));
      if (rule.in_port == kOwnPackets)
        return led_to(rule.table, Prefix::host(ip(as_own(port, destination))));
    }
    return marked_to(behind(port), destination, kSourcePort);
  }
  std::string marked_to(const std::string& source, const std::string& destination, int port) {
    const std::string marks = mark_table();
    const std::string flow = say(fmt::format("{} . {} . {} : ", source, destination, port));
    const std::size_t at = marks.find(flow);
    if (at == std::string::npos)
      return {};
    const auto mark =
        static_cast<std::uint32_t>(std::stoul(marks.substr(at + flow.size(), 10), nullptr, 16));
    for (const RuleSpec& rule : pin_rules()) {
      if (rule.in_port.empty() && rule.table == mark)
        return led_to(mark, Prefix{.address = any(), .length = 0});
    }
    return {};
  }

  // A host's pins are by destination alone: the destination of p2's is another one.
  static std::string as_own(const std::string& port, const std::string& destination) {
    return port == "p2" && destination.starts_with("10.2.") ? "10.3." + destination.substr(5)
                                                            : destination;
  }

  static constexpr std::uint16_t kSourcePort = 51986;
  // The host's address: "10.1.2.2" behind p2.
  static std::string behind(const std::string& port) { return "10.1." + port.substr(1) + ".2"; }

 private:
  static IpAddress any() {
    IpAddress address;
    address.family = tested_family;
    return address;
  }
  std::string led_to(std::uint32_t table, const Prefix& destination) {
    for (const RouteSeen& route : pinned_routes()) {
      if (route.table != table || route.destination != destination)
        continue;
      for (const NexthopSeen& next_hop : pin_next_hops()) {
        for (int s = 1; s <= uplinks && next_hop.id == route.nexthop_id; ++s) {
          if (next_hop.out_index == at_leaf.index_of(uplink(s)))
            return uplink(s);
        }
      }
    }
    return {};
  }
};

inline Pin pin(const std::string& port, const std::string& destination, const std::string& uplink) {
  return {.unit = ByPortAndDestination{.in_port = port, .destination = ip(destination)},
          .target = PortTableRoute{.out_port = uplink},
          .reason = {}};
}

inline Pin mark(const std::string& source, const std::string& destination,
                std::uint16_t source_port, const std::string& uplink) {
  return {.unit =
              ByQueuePair{
                  .source = ip(source), .destination = ip(destination), .source_port = source_port},
          .target = FlowMark{.out_port = uplink},
          .reason = {}};
}

inline Pin own_pin(const std::string& destination, PinTarget target) {
  return {.unit = ByDestination{ip(destination)}, .target = std::move(target), .reason = {}};
}

inline NodePlan plan(std::uint64_t generation, std::vector<Pin> pins) {
  std::sort(pins.begin(), pins.end(), [](const Pin& a, const Pin& b) { return a.unit < b.unit; });
  return {
      .node = "leaf1", .version = {.epoch = 1, .generation = generation}, .pins = std::move(pins)};
}

// What stands between the programmer and its kernel and store; the default passes everything on.
struct Wrap {
  std::function<std::unique_ptr<RouteKernel>(RouteKernel&)> kernel{};
  std::function<std::unique_ptr<OwnershipStore>(OwnershipStore&)> store{};
};

inline ProgramConfig programming(Enforcer enforcer = Enforcer::port_tables) {
  return {.mode = Mode::program,
          .uplinks = {"up*"},
          .host_ports = {"p*"},
          .ranges = {},
          .enforcer = enforcer};
}

// The programming half of an agent. Its directories outlive it, as those of a service do.
struct Agent {
  Agent(const Leaf& where, const std::string& state_dir, int event_buffer_bytes = 4 << 20,
        const Wrap& wrap = {}, const ProgramConfig& config = programming())
      : Agent(where.leaf, state_dir, config, event_buffer_bytes, wrap) {}
  Agent(const NetNamespace& where, const std::string& state_dir, const ProgramConfig& config,
        int event_buffer_bytes = 4 << 20, const Wrap& wrap = {}) {
    const InNamespace inside(where);
    kernel = must(NetlinkKernel::open({.ranges = {},
                                       .event_buffer_bytes = event_buffer_bytes,
                                       .marks = config.enforcer == Enforcer::flow_marks,
                                       .segments = config.enforcer == Enforcer::srv6}));
    if (wrap.kernel)
      wrapped_kernel = wrap.kernel(*kernel);
    store = std::make_unique<OwnershipFile>(state_dir, must(current_boot_id()));
    if (wrap.store)
      wrapped_store = wrap.store(*store);
    programmer = std::make_unique<Programmer>(
        wrapped_kernel ? *wrapped_kernel : static_cast<RouteKernel&>(*kernel),
        wrapped_store ? *wrapped_store : static_cast<OwnershipStore&>(*store), clock, config);
    kernel->on_event([this](const KernelEvent& event) {
      ++events;
      programmer->kernel_changed(event);
    });
    must(programmer->start());
  }

  // The agent's loop: events and deadlines, until `reached`, looked at after each step. False on
  // time-out.
  bool run_until(const std::function<bool()>& reached,
                 Duration patience = std::chrono::seconds{10}) {
    const Time end = clock.now() + patience;
    for (;;) {
      for (;;) {
        const auto due = programmer->next_deadline();
        if (!due || *due > clock.now())
          break;
        if (auto news = programmer->step())
          acknowledged = *std::move(news);
        if (reached())
          return true;
      }
      if (reached())
        return true;
      const Time now = clock.now();
      if (now >= end)
        return false;
      const Time until = std::min(end, programmer->next_deadline().value_or(end));
      pollfd readable{.fd = kernel->fd(), .events = POLLIN, .revents = 0};
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now);
      ::poll(&readable, 1, static_cast<int>(wait.count()));
      kernel->ready();
    }
  }
  // Until every pin of the plan is acknowledged as installed.
  bool installs(NodePlan wanted) {
    const std::size_t pins = wanted.pins.size();
    const PlanVersion version = wanted.version;
    programmer->want(std::move(wanted));
    const bool done = run_until([&] {
      return acknowledged && acknowledged->version == version && acknowledged->installed == pins &&
             acknowledged->failed.empty();
    });
    if (!done) {
      fmt::print("not installed: {} of {}; conflict: {}\n", state().installed, pins,
                 state().conflict);
      for (const PinFailure& failure : state().failed)
        fmt::print("{}: {}\n", to_string(failure.unit), failure.reason);
    }
    return done;
  }
  // Until nothing is due before some later check.
  void settle() {
    run_until([&] {
      const auto due = programmer->next_deadline();
      return !due || *due > clock.now() + std::chrono::seconds{5};
    });
  }
  Acknowledgement state() const { return programmer->state(); }

  SystemClock clock;
  std::unique_ptr<NetlinkKernel> kernel;
  std::unique_ptr<RouteKernel> wrapped_kernel;
  std::unique_ptr<OwnershipFile> store;
  std::unique_ptr<OwnershipStore> wrapped_store;
  std::unique_ptr<Programmer> programmer;
  std::optional<Acknowledgement> acknowledged;
  std::size_t events{};
};

inline double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace heddle::lab
