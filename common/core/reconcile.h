// Desired against installed steering tables (design, section 6): which changes make the kernel
// agree with the plan, in which order. Pure values and one pure function; the agent reads what is
// installed and applies the answer. Any thread; nothing is kept.
//
// The enforcers share these rows. Port tables: a rule by ingress port, and in its table a route for
// each destination. Flow marks: a map from flows to marks, a rule by mark for each next hop, and in
// its table one route for everything. Host routes and SRv6: as port tables, with one rule for what
// the node sends itself, whose ingress port is "lo". The segments of a node: a rule by ingress port
// for each port, all to one table, and in it a route for each segment.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/core/address.h"
#include "common/core/plan.h"

namespace heddle {

// What a node does with packets for an SRv6 segment of its own.
struct SegmentAction {
  SegmentBehaviour behaviour{};
  IpAddress own_address{};  // delivers_v4: the address of the node that they are handed to
  auto operator<=>(const SegmentAction&) const = default;
};

// One nexthop object. It never changes under its id: another gateway is another object, so that a
// route moves by one atomic replace and what others may have built on an object does not move with
// it.
struct NextHop {
  std::uint32_t id{};
  std::uint32_t ifindex{};  // the kernel's index
  IpAddress gateway;        // may be of the other family (IPv4 over IPv6 link-local)
  bool onlink{};
  std::vector<IpAddress> segments{};      // packets are wrapped, and visit these in their order
  std::optional<SegmentAction> action{};  // in the place of a gateway
  auto operator<=>(const NextHop&) const = default;
};

// "DESTINATION nhid NEXT_HOP" in one of our tables.
struct PinRoute {
  std::uint32_t table{};
  IpAddress destination;  // unspecified: every one of its family, for what a mark leads here
  std::uint32_t next_hop{};
  std::optional<IpAddress> source{};  // of packets that the node itself sends without choosing one
  auto operator<=>(const PinRoute&) const = default;
};

// "iif IN_PORT lookup TABLE" or "fwmark TABLE lookup TABLE", at the priority that is configured as
// ours.
struct TableRule {
  std::string in_port;  // empty: by mark, which is the number of the table
  std::uint32_t table{};
  Family family{};  // of the packets; each family has tables of its own under the same numbers
  auto operator<=>(const TableRule&) const = default;
};

// Packets of a flow, as they come in by a host's port, get a mark.
struct MarkedFlow {
  ByQueuePair flow;
  std::uint32_t mark{};  // the number of the table that they are looked up in
  auto operator<=>(const MarkedFlow&) const = default;
};

// The kernel's object that holds the marks: a table of packet rules, with its map and its set of
// ports. `damaged`: ours, but not as it should be; it is made again.
enum class MarkTable : std::uint8_t { none, damaged, whole };

// Everything that heddle keeps in a kernel. Each list is sorted; (table, destination), id and flow
// are unique.
struct SteeringTables {
  std::vector<NextHop> next_hops{};
  std::vector<PinRoute> routes{};
  std::vector<TableRule> rules{};
  MarkTable mark_table{};
  bool former_mark_table{};  // one that an earlier version made; its ports and marks are below, too
  std::vector<std::string> mark_ports{};  // by which packets come in that may be marked
  std::vector<MarkedFlow> marks{};

  bool empty() const { return *this == SteeringTables{}; }
  bool operator==(const SteeringTables&) const = default;
};

struct AddNextHop {
  NextHop next_hop;
  bool operator==(const AddNextHop&) const = default;
};
struct RemoveNextHop {
  std::uint32_t id{};
  bool operator==(const RemoveNextHop&) const = default;
};
struct AddRoute {
  PinRoute route;
  bool operator==(const AddRoute&) const = default;
};
struct MoveRoute {  // an existing route of ours, to another next hop, in one step
  PinRoute route;
  bool operator==(const MoveRoute&) const = default;
};
struct RemoveRoute {
  PinRoute route;
  bool operator==(const RemoveRoute&) const = default;
};
struct AddRule {
  TableRule rule;
  bool operator==(const AddRule&) const = default;
};
struct RemoveRule {
  TableRule rule;
  bool operator==(const RemoveRule&) const = default;
};
// All of it in one transaction: no packet meets half of it, and if one part fails, none is done.
struct ChangeMarks {
  bool drop_table{};
  bool drop_former{};
  bool make_table{};  // after the drops
  std::vector<std::string> ports_on{};
  std::vector<std::string> ports_off{};
  std::vector<MarkedFlow> on{};
  std::vector<MarkedFlow> moved{};  // to these marks
  std::vector<ByQueuePair> off{};

  bool empty() const { return *this == ChangeMarks{}; }
  bool operator==(const ChangeMarks&) const = default;
};
using Action = std::variant<AddNextHop, RemoveNextHop, AddRoute, MoveRoute, RemoveRoute, AddRule,
                            RemoveRule, ChangeMarks>;

std::string to_string(
    const Action& action);  // "route 10.2.1.2 in table 18800 to next hop 188000001"

// `make` first, then read back, then `sweep`: what a route or a mark may still lean on goes last.
struct Reconciliation {
  // Unwanted routes off (their traffic goes to `main`), next hops, routes, rules on, marks.
  std::vector<Action> make;
  // Unwanted rules, routes of marks, then next hops that nothing uses any more.
  std::vector<Action> sweep;
  bool empty() const { return make.empty() && sweep.empty(); }
};

// The least actions that turn `installed` into `desired`. `installed` is what was read back and is
// ours; it may hold what `desired` could not: the same rule twice. Linear in the sizes.
Reconciliation reconcile(const SteeringTables& desired, const SteeringTables& installed);

}  // namespace heddle
