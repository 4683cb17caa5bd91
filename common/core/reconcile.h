// Desired against installed port tables (design, section 6): which changes make the kernel agree
// with the plan, in which order. Pure values and one pure function; the agent reads what is
// installed and applies the answer. Any thread; nothing is kept.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/core/address.h"

namespace heddle {

// One nexthop object. It never changes under its id: another gateway is another object, so that a
// route moves by one atomic replace and what others may have built on an object does not move with
// it.
struct NextHop {
  std::uint32_t id{};
  std::uint32_t ifindex{};  // the kernel's index
  IpAddress gateway;        // may be of the other family (IPv4 over IPv6 link-local)
  bool onlink{};
  auto operator<=>(const NextHop&) const = default;
};

// "DESTINATION nhid NEXT_HOP" in one port's table.
struct PinRoute {
  std::uint32_t table{};
  IpAddress destination;
  std::uint32_t next_hop{};
  auto operator<=>(const PinRoute&) const = default;
};

// "iif IN_PORT lookup TABLE", at the priority that is configured as ours.
struct PortRule {
  std::string in_port;
  std::uint32_t table{};
  auto operator<=>(const PortRule&) const = default;
};

// Everything that heddle keeps in a kernel. Each list is sorted; (table, destination) and id are
// unique.
struct PortTables {
  std::vector<NextHop> next_hops{};
  std::vector<PinRoute> routes{};
  std::vector<PortRule> rules{};

  bool empty() const { return next_hops.empty() && routes.empty() && rules.empty(); }
  bool operator==(const PortTables&) const = default;
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
  PortRule rule;
  bool operator==(const AddRule&) const = default;
};
struct RemoveRule {
  PortRule rule;
  bool operator==(const RemoveRule&) const = default;
};
using Action =
    std::variant<AddNextHop, RemoveNextHop, AddRoute, MoveRoute, RemoveRoute, AddRule, RemoveRule>;

std::string to_string(
    const Action& action);  // "route 10.2.1.2 in table 18800 to next hop 188000001"

// `make` first, then read back, then `sweep`: what a route may still lean on goes last.
struct Reconciliation {
  std::vector<Action>
      make;  // unwanted routes off (their traffic goes to `main`), next hops, routes, rules on
  std::vector<Action> sweep;  // unwanted rules, then next hops that nothing uses any more
  bool empty() const { return make.empty() && sweep.empty(); }
};

// The least actions that turn `installed` into `desired`. `installed` is what was read back and is
// ours; it may hold what `desired` could not: the same rule twice. Linear in the sizes.
Reconciliation reconcile(const PortTables& desired, const PortTables& installed);

}  // namespace heddle
