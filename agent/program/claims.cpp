#include "agent/program/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

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
    const bool fits =
        n.hop && (n.hop->gateway.has_value() || n.action.has_value()) && !n.other_encapsulation;
    if (in_range && marked && fits && record_.owns_next_hop(n.id)) {
      claims.ours.next_hops.push_back({.id = n.id,
                                       .ifindex = n.hop->ifindex,
                                       .gateway = n.hop->gateway.value_or(IpAddress{}),
                                       .onlink = n.hop->onlink,
                                       .segments = n.segments,
                                       .action = n.action});
    } else if (in_range || marked) {
      foreign([&] { return fmt::format("nexthop id {} proto {}", n.id, n.protocol); }, in_range,
              marked);
    }
  }

  void take(const KernelRule& r) {
    const bool in_range = r.priority == ranges_.rule_priority || ranges_.owns_table(r.table);
    const bool marked = r.protocol == ranges_.protocol;
    TableRule rule{.in_port = r.in_port, .table = r.table, .family = r.family};
    // A rule by mark leads into the table of the mark's number; one by port has no mark.
    const bool fits = r.plain && r.mark == (r.in_port.empty() ? r.table : 0);
    if (marked && fits && r.priority == ranges_.rule_priority && ranges_.owns_table(r.table) &&
        record_.owns_rule(rule)) {
      claims.ours.rules.push_back(std::move(rule));
    } else if (in_range || marked) {
      foreign(
          [&] {
            return fmt::format(
                "{}rule pref {}{}{}{} lookup {} proto {}", r.family == Family::v6 ? "IPv6 " : "",
                r.priority, r.in_port.empty() ? "" : " iif ", r.in_port,
                r.mark == 0 ? "" : fmt::format(" fwmark {}", r.mark), r.table, r.protocol);
          },
          in_range, marked);
    }
  }

  void take(const KernelRoute& r) {
    const bool in_range = ranges_.owns_table(r.table);
    const bool marked = r.protocol == ranges_.protocol;
    const IpAddress& address = r.destination.address;
    // A destination, or all of them for marks.
    const bool fits = (r.destination.length == 8 * address.size() || r.destination.length == 0) &&
                      r.metric == usual_metric(address.family) && r.tos == 0 && !r.some_sources;
    if (in_range && marked && r.unicast && fits &&
        record_.owns_route(r.table, r.destination.address)) {
      const PinRoute route{.table = r.table,
                           .destination = r.destination.address,
                           .next_hop = r.next_hop_id,
                           .source = r.local_address};
      claims.ours.routes.push_back(route);
      if (r.offloaded)
        claims.offloaded.push_back(route);
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

  // Signed by an earlier version. One that others have put something into is left to people.
  void take_former(const KernelMarkTable& t) {
    if (!t.is_signed)
      return;  // another program's, which has only a name like ours in another family
    const std::string name =
        fmt::format("nft table ip {} of an earlier version", ranges_.mark_table());
    const auto owned_port = [&](const std::string& port) { return record_.owns_mark_port(port); };
    const auto owned = [&](const MarkedFlow& marked) { return record_.owns_mark(marked.flow); };
    if (!record_.mark_table) {
      foreign([&] { return name; }, true, true);
    } else if (!t.foreign.empty() || !std::ranges::all_of(t.ports, owned_port) ||
               !std::ranges::all_of(t.flows, owned)) {
      foreign([&] { return fmt::format("something in {}", name); }, true, true);
    } else {
      claims.ours.former_mark_table = true;
      claims.ours.mark_ports.insert(claims.ours.mark_ports.end(), t.ports.begin(), t.ports.end());
      claims.ours.marks.insert(claims.ours.marks.end(), t.flows.begin(), t.flows.end());
    }
  }

  void take(const KernelMarkTable& t) {
    const std::string name = "nft table inet " + ranges_.mark_table();
    if (!t.is_signed || !record_.mark_table) {
      foreign([&] { return name; }, true, t.is_signed);
      return;
    }
    claims.ours.mark_table = t.whole ? MarkTable::whole : MarkTable::damaged;
    for (const std::string& thing : t.foreign) {
      claims.mark_table_lent = true;
      foreign([&] { return fmt::format("{} in {}", thing, name); }, true, true);
    }
    for (const std::string& port : t.ports) {
      if (record_.owns_mark_port(port))
        claims.ours.mark_ports.push_back(port);
      else
        foreign_element(fmt::format("port {} in {}", port, name));
    }
    for (const MarkedFlow& marked : t.flows) {
      if (record_.owns_mark(marked.flow))
        claims.ours.marks.push_back(marked);
      else
        foreign_element(fmt::format("flow {} in {}", to_string(SteeringUnit{marked.flow}), name));
    }
  }

  Claims finish() && {
    sort_unique(claims.ours.mark_ports, std::identity{});
    sort_unique(claims.ours.marks, &MarkedFlow::flow);
    sort(claims.ours.next_hops);
    sort(claims.ours.routes);
    sort(claims.ours.rules);
    sort(claims.offloaded);
    sort(claims.refused_by_hardware);
    sort(claims.lent);
    return std::move(claims);
  }

  Claims claims;

 private:
  // The kernel shows most of it in this order, and to see that is cheaper than to sort again.
  template <class T>
  static void sort(std::vector<T>& values) {
    if (!std::is_sorted(values.begin(), values.end()))
      std::sort(values.begin(), values.end());
  }
  // A former table may hold what the present one holds, too.
  template <class T, class Key>
  static void sort_unique(std::vector<T>& values, Key key) {
    sort(values);
    const auto same = [&](const T& a, const T& b) {
      return std::invoke(key, a) == std::invoke(key, b);
    };
    values.erase(std::unique(values.begin(), values.end(), same), values.end());
  }
  void lend(std::uint32_t id) {
    if (ranges_.owns_next_hop(id) && record_.owns_next_hop(id))
      claims.lent.push_back(id);
  }
  void foreign_element(const std::string& what) {
    claims.mark_table_lent = true;
    foreign([&] { return what; }, true, true);
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
  if (state.mark_table)
    sorting.take(*state.mark_table);
  if (state.former_mark_table)
    sorting.take_former(*state.former_mark_table);
  return std::move(sorting).finish();
}

}  // namespace heddle
