#include "agent/program/claims.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

constexpr std::size_t kMostNamed = 8;

class Sorting {
 public:
  Sorting(const RoutingRanges& ranges, const Ownership& record)
      : ranges_(ranges), record_(record) {}

  void take(const KernelNextHop& n) {
    for (const std::uint32_t member : n.members)
      lend(member);
    const bool in_range = ranges_.owns_next_hop(n.id);
    const bool marked = n.protocol == ranges_.protocol;
    if (in_range && marked && n.hop && n.hop->gateway && record_.owns_next_hop(n.id)) {
      claims.ours.next_hops.push_back({.id = n.id,
                                       .ifindex = n.hop->ifindex,
                                       .gateway = *n.hop->gateway,
                                       .onlink = n.hop->onlink});
    } else if (in_range || marked) {
      foreign([&] { return fmt::format("nexthop id {} proto {}", n.id, n.protocol); }, in_range,
              marked);
    }
  }

  void take(const KernelRule& r) {
    const bool in_range = r.priority == ranges_.rule_priority || ranges_.owns_table(r.table);
    const bool marked = r.protocol == ranges_.protocol;
    PortRule rule{.in_port = r.in_port, .table = r.table};
    if (marked && r.plain && r.priority == ranges_.rule_priority && ranges_.owns_table(r.table) &&
        record_.owns_rule(rule)) {
      claims.ours.rules.push_back(std::move(rule));
    } else if (in_range || marked) {
      foreign(
          [&] {
            return fmt::format("rule pref {}{}{} lookup {} proto {}", r.priority,
                               r.in_port.empty() ? "" : " iif ", r.in_port, r.table, r.protocol);
          },
          in_range, marked);
    }
  }

  void take(const KernelRoute& r) {
    const bool in_range = ranges_.owns_table(r.table);
    const bool marked = r.protocol == ranges_.protocol;
    if (in_range && marked && r.unicast && r.destination.length == 32 && r.metric == 0 &&
        r.tos == 0 && record_.owns_route(r.table, r.destination.address)) {
      const PinRoute route{
          .table = r.table, .destination = r.destination.address, .next_hop = r.next_hop_id};
      claims.ours.routes.push_back(route);
      if (r.offload_failed)
        claims.refused_by_hardware.push_back(route);
      return;
    }
    lend(r.next_hop_id);
    if (in_range || marked || ranges_.owns_next_hop(r.next_hop_id))
      foreign(
          [&] {
            return fmt::format("route {} table {} proto {}{}", to_string(r.destination), r.table,
                               r.protocol,
                               r.next_hop_id == 0 ? "" : fmt::format(" nhid {}", r.next_hop_id));
          },
          in_range, marked);
  }

  Claims finish() && {
    sort(claims.ours.next_hops);
    sort(claims.ours.routes);
    sort(claims.ours.rules);
    sort(claims.refused_by_hardware);
    sort(claims.lent);
    return std::move(claims);
  }

  Claims claims;

 private:
  template <class T>
  static void sort(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
  }
  void lend(std::uint32_t id) {
    if (ranges_.owns_next_hop(id) && record_.owns_next_hop(id))
      claims.lent.push_back(id);
  }
  template <class Describe>
  void foreign(Describe describe, bool in_range, bool marked) {
    ++claims.foreign_count;
    if (claims.foreign.size() == kMostNamed)
      return;
    const char* const why = !marked     ? "lies in our ranges, but is not of our protocol"
                            : !in_range ? "carries our protocol number outside our ranges"
                                        : "looks like ours, but is not in our record";
    claims.foreign.push_back(fmt::format("{}: {}", describe(), why));
  }

  const RoutingRanges& ranges_;
  const Ownership& record_;
};

}  // namespace

std::string Claims::conflict() const {
  if (foreign.empty())
    return {};
  if (foreign_count == 1)
    return foreign.front();
  return fmt::format("{} (and {} more)", foreign.front(), foreign_count - 1);
}

Claims claim(const KernelState& state, const RoutingRanges& ranges, const Ownership& record) {
  Sorting sorting(ranges, record);
  for (const KernelNextHop& next_hop : state.next_hops)
    sorting.take(next_hop);
  for (const KernelRule& rule : state.rules)
    sorting.take(rule);
  for (const KernelRoute& route : state.routes)
    sorting.take(route);
  return std::move(sorting).finish();
}

}  // namespace heddle
