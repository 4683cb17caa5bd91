// The port to the kernel's routing state: values as the kernel reports them, and the few things
// that are asked of it. agent/netlink stands behind it. All calls from the event loop's thread;
// none blocks longer than one exchange with the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/core/address.h"
#include "common/core/messages.h"
#include "common/core/reconcile.h"
#include "common/core/result.h"

namespace heddle {

// What is configured as ours. Nothing outside is ever touched (safety rule 1).
struct RoutingRanges {
  std::uint8_t protocol{205};  // 188 and most numbers near it are assigned (OSPF, BGP, ...)
  std::uint32_t table_base{18800};
  std::uint32_t table_count{512};
  std::uint32_t rule_priority{1880};
  // FRR numbers its next hops onwards from the highest that it sees, except from those above about
  // 430 million, which are its protocols': below, its next one would lie among ours.
  std::uint32_t nexthop_base{1880000000};
  std::uint32_t nexthop_count{4096};

  bool owns_table(std::uint32_t table) const { return table - table_base < table_count; }
  bool owns_next_hop(std::uint32_t id) const { return id - nexthop_base < nexthop_count; }
  // The table of packet rules (family inet) that marks flows. Marks are the numbers of our tables.
  std::string mark_table() const { return "heddle-" + std::to_string(protocol); }
  bool operator==(const RoutingRanges&) const = default;
};

struct Link {
  std::uint32_t index{};
  std::string name;
  bool up{};  // administratively
  bool carrier{};
  bool resolves{true};     // false: the link needs no neighbours (NOARP)
  std::uint32_t master{};  // the bridge, VRF or bond it belongs to; 0: none
  std::string master_kind;
  bool ipv6{true};          // IPv6 is on there
  std::uint32_t mtu{};      // 0: not told
  std::string switch_id{};  // of the ASIC that forwards for it; empty: the kernel does itself
  bool operator==(const Link&) const = default;
};

struct Hop {
  std::uint32_t ifindex{};
  std::optional<IpAddress> gateway;  // none: the destination itself is on the link
  bool onlink{};
  bool operator==(const Hop&) const = default;
};

struct KernelNextHop {
  std::uint32_t id{};
  std::uint8_t protocol{};
  std::optional<Hop> hop;              // none: a group or a blackhole
  std::vector<std::uint32_t> members;  // of a group
  std::vector<IpAddress> segments{};   // that wrapped packets visit
  std::optional<SegmentAction> action{};
  bool other_encapsulation{};  // of a kind that is never ours
  bool blackhole{};
  bool operator==(const KernelNextHop&) const = default;
};

// The ingress port of what a node sends itself, in rules.
inline constexpr const char* kOwnPackets = "lo";

// The metric of a route for which none was asked.
constexpr std::uint32_t usual_metric(Family family) {
  return family == Family::v4 ? 0 : 1024;
}

// A route of any table and of either family.
struct KernelRoute {
  std::uint32_t table{};
  Prefix destination;
  std::uint8_t tos{};
  bool some_sources{};  // holds for packets from some network only (IPv6)
  std::uint8_t protocol{};
  std::uint32_t metric{};
  bool unicast{true};  // false: blackhole, unreachable, throw and so on
  bool offloaded{};    // the kernel says that hardware has it
  bool offload_failed{};
  std::uint32_t next_hop_id{};             // 0: the hops are its own
  std::vector<Hop> hops;                   // more than one: a legacy multipath route
  std::optional<IpAddress> local_address;  // what the node sends by it comes from there; on a
                                           // connected route: this node's address on that network
  bool operator==(const KernelRoute&) const = default;
};

struct KernelRule {
  std::uint32_t priority{};
  std::uint8_t protocol{};
  std::uint32_t table{};
  std::string in_port;
  std::uint32_t mark{};
  bool plain{};  // nothing but "iif IN_PORT lookup TABLE" or "fwmark MARK lookup TABLE"
  Family family{};
  bool operator==(const KernelRule&) const = default;
};

// The table of packet rules that has our name, and what is in it.
struct KernelMarkTable {
  bool is_signed{};                  // carries our signature
  bool whole{};                      // marks flows as we would have it do
  std::vector<std::string> foreign;  // other things in it, named for people
  std::vector<std::string> ports;
  std::vector<MarkedFlow> flows;
  bool operator==(const KernelMarkTable&) const = default;
};

enum class Resolution : std::uint8_t { resolved, pending, failed };

struct Neighbour {
  std::uint32_t ifindex{};
  IpAddress address;
  Resolution state{};
  bool operator==(const Neighbour&) const = default;
};

struct InterfaceSettings {
  std::uint32_t ifindex{};
  bool strict_reverse_path{};             // rp_filter = 1, by the interface or by "all"
  bool ignore_routes_with_linkdown{};     // IPv4's
  bool ignore_routes_with_linkdown_v6{};  // IPv6 has no reverse-path filter of the kernel's
  bool operator==(const InterfaceSettings&) const = default;
};

struct KernelState {
  std::vector<Link> links;
  std::vector<KernelNextHop> next_hops;
  std::vector<KernelRoute> routes;
  std::vector<KernelRule> rules;
  std::vector<Neighbour> neighbours;
  std::vector<InterfaceSettings> settings;
  std::optional<KernelMarkTable> mark_table;
  std::optional<KernelMarkTable> former_mark_table;  // as an earlier version made it: family ip
  // What is allowed now does not include to read them: they are as they were when last seen.
  bool marks_hidden{};
  bool forwards_ipv6{true};
  bool inconsistent{};  // the tables changed faster than they could be read: read again soon
};

// Notifications. Changes that we made ourselves are not among them.
struct LinkEvent {
  Link link;
  bool removed{};
};
struct RouteEvent {
  enum class Kind : std::uint8_t { added, appended, replaced, removed };
  KernelRoute route;
  Kind kind{};
};
struct NextHopEvent {
  KernelNextHop next_hop;
  bool removed{};
};
struct RuleEvent {
  KernelRule rule;
  bool removed{};
};
struct NeighbourEvent {
  Neighbour neighbour;
  bool removed{};
};
struct SettingsEvent {};  // some interface's settings changed
struct MarkEvent {};      // somebody changed the table of marks
struct EventsLost {};     // the kernel dropped notifications: read everything again
using KernelEvent = std::variant<LinkEvent, RouteEvent, NextHopEvent, RuleEvent, NeighbourEvent,
                                 SettingsEvent, MarkEvent, EventsLost>;

struct ActionFailure {
  std::size_t action{};  // its position
  int error{};           // errno
  std::string message;   // the kernel's words where it gives any
};

// Which way a RoCE packet would go that came in by a port, or that the node itself sends.
struct Lookup {
  std::uint32_t in_ifindex{};  // 0: the node's own
  std::uint32_t mark{};
  IpAddress source;  // unspecified: left open
  IpAddress destination;
};
struct LookupAnswer {
  int error{};  // errno; 0: the rest holds
  std::uint32_t table{};
  std::uint32_t next_hop_id{};
};

class RouteKernel {
 public:
  virtual ~RouteKernel() = default;

  // What counts as ours in the calls that follow: while pins of an earlier configuration are there,
  // its protocol and ranges. Wrappers pass it on; a fake may ignore it.
  virtual void use(const RoutingRanges& /*ranges*/) {}

  // Errc::permission without CAP_NET_ADMIN, Errc::unsupported without nexthop objects, policy
  // rules, or marks of flows where these are to be made.
  virtual Result<void> probe() = 0;
  // From here on the kernel's notifications come in as events. Before the first read(), so that
  // none is missed.
  virtual Result<void> subscribe() = 0;
  // All of it. Errc::kernel or Errc::timeout; a dump that the kernel calls inconsistent is
  // repeated.
  virtual Result<KernelState> read() = 0;
  // Rules, next hops, the table of marks, and the routes that carry our protocol number in any
  // table: the cheap read back.
  virtual Result<KernelState> read_ours() = 0;
  // In order, in as few exchanges as possible; goes on after a failure and returns all of them.
  virtual Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) = 0;
  // One answer for each, in order.
  virtual Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) = 0;
  // Makes the kernel ask for a neighbour's address; the answer is an event.
  virtual void resolve(std::uint32_t ifindex, const IpAddress& address) = 0;
};

// Carrier and counters of this node's ports, for reports.
class PortSource {
 public:
  virtual ~PortSource() = default;
  virtual Result<std::vector<PortStatus>> ports() = 0;
};

}  // namespace heddle
