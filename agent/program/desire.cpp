#include "agent/program/desire.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "agent/program/prerequisites.h"

namespace heddle {
namespace {

class Desiring {
 public:
  explicit Desiring(const DesireInput& input) : in_(input) {
    for (const PinRoute& route : in_.segments.routes)
      segment_tables_.insert(route.table);
    for (const NextHop& next_hop : in_.segments.next_hops)
      ids_in_use_.insert(next_hop.id);
    note_shared_tables();
    tables_in_use_ = segment_tables_;
    for (const PinRoute& route : in_.installed.routes) {
      tables_in_use_.insert(route.table);
      if (route.destination.is_unspecified())
        next_hop_of_table_[route.table] = {route.next_hop, route.destination.family};
    }
    for (const TableRule& rule : in_.record.rules)
      note_table(rule);
    for (const TableRule& rule : in_.installed.rules)
      note_table(rule);
    // Also what no rule leads to any more: the table must not become another next hop's.
    for (const MarkedFlow& flow : in_.installed.marks)
      tables_in_use_.insert(flow.mark);
    for (const NextHop& next_hop : in_.installed.next_hops) {
      ids_in_use_.insert(next_hop.id);
      NextHop way = next_hop;
      way.id = 0;
      installed_ids_.try_emplace(std::move(way), next_hop.id);
    }
    for (const Prefix& prefix : in_.never_touch)
      for (const std::uint32_t index : in_.view.ways_into(prefix))
        if (const Link* const link = in_.view.link(index))
          spared_.try_emplace({link->name, prefix.address.family}, &prefix);
  }

  void take(std::size_t position) {
    const Pin& pin = in_.pins[position];
    if (const Prefix* const forbidden = never_touched(pin.unit))
      return refuse(
          position, Errc::permission,
          fmt::format("this node's configuration says never to touch {}", to_string(*forbidden)));
    if (destination_of(pin.unit).family == Family::v6 && !in_.unfit_for_ipv6.empty())
      return refuse(position, Errc::unsupported, std::string(in_.unfit_for_ipv6));
    if (in_.enforcer == Enforcer::flow_marks)
      return take_marked(position, pin);
    if (is_of_hosts(in_.enforcer))
      return take_own(position, pin);
    const auto* const unit = std::get_if<ByPortAndDestination>(&pin.unit);
    const auto* const route = std::get_if<PortTableRoute>(&pin.target);
    if (unit != nullptr && route != nullptr)
      return take_route(position, *unit, *route);
    refuse(position, Errc::unsupported,
           "port tables hold destinations by ingress port, and nothing else");
  }

  Desire finish() && {
    result_.tables.next_hops = in_.segments.next_hops;
    result_.tables.routes.insert(result_.tables.routes.end(), in_.segments.routes.begin(),
                                 in_.segments.routes.end());
    result_.tables.rules = in_.segments.rules;
    for (const auto& [way, id] : next_hops_) {
      result_.tables.next_hops.push_back(way);
      result_.tables.next_hops.back().id = id;
    }
    for (const auto& [leads_to, table] : mark_tables_) {
      const auto& [next_hop, family] = leads_to;
      result_.tables.routes.push_back(
          {.table = table, .destination = any_of(family), .next_hop = next_hop});
      result_.tables.rules.push_back({.in_port = {}, .table = table, .family = family});
    }
    if (!result_.tables.marks.empty())
      make_mark_table();
    result_.tables.rules.insert(result_.tables.rules.end(), port_rules_.begin(), port_rules_.end());
    sort(result_.tables.next_hops);
    sort(result_.tables.routes);
    sort(result_.tables.rules);
    sort(result_.tables.marks);
    result_.unresolved.assign(unresolved_.begin(), unresolved_.end());
    return std::move(result_);
  }

 private:
  using HopAndFamily = std::pair<std::uint32_t, Family>;  // a next hop's id

  // Pins come in order, and what follows from them mostly, too.
  template <class T>
  static void sort(std::vector<T>& values) {
    if (!std::ranges::is_sorted(values))
      std::ranges::sort(values);
  }

  static IpAddress any_of(Family family) {
    IpAddress any;
    any.family = family;
    return any;
  }

  // A table that several ports lead to is no port's own: segments that were there before are
  // configured no more, or cannot be there now, and their rules are still to go.
  void note_shared_tables() {
    std::map<std::uint32_t, std::string_view> port_of;
    for (const auto* rules : {&in_.record.rules, &in_.installed.rules})
      for (const TableRule& rule : *rules)
        if (const auto [at, is_new] = port_of.try_emplace(rule.table, rule.in_port);
            !is_new && at->second != rule.in_port)
          segment_tables_.insert(rule.table);
  }

  void note_table(const TableRule& rule) {
    if (segment_tables_.contains(rule.table))
      return;
    if (!rule.in_port.empty())
      table_of_[rule.in_port] = rule.table;
    tables_in_use_.insert(rule.table);
  }

  const Prefix* never_touched(const SteeringUnit& unit) const {
    const auto* const flow = std::get_if<ByQueuePair>(&unit);
    // A port's table moves whatever comes in there, whoever sent it.
    if (const auto* const port = std::get_if<ByPortAndDestination>(&unit))
      if (const auto behind = spared_.find({port->in_port, port->destination.family});
          behind != spared_.end())
        return behind->second;
    const auto found = std::ranges::find_if(in_.never_touch, [&](const Prefix& prefix) {
      return prefix.contains(destination_of(unit)) ||
             (flow != nullptr && prefix.contains(flow->source));
    });
    return found == in_.never_touch.end() ? nullptr : &*found;
  }

  void take_route(std::size_t position, const ByPortAndDestination& unit,
                  const PortTableRoute& target) {
    if (unit.in_port == target.out_port)
      return refuse(position, Errc::invalid_argument,
                    fmt::format("what comes in by {} must not go back by it", unit.in_port));
    const auto table = table_for(unit.in_port);
    if (!table)
      return refuse(position, table.error().code, table.error().message);
    const Family family = unit.destination.family;
    if (family == Family::v4 || in_.view.link(unit.in_port)->ipv6)
      port_rules_.insert({.in_port = unit.in_port, .table = *table, .family = family});
    if (const auto hop = offered(position, target.out_port, unit.destination))
      hold(position, {.table = *table, .destination = unit.destination}, *hop);
  }

  // What the node itself sends, by destination.
  void take_own(std::size_t position, const Pin& pin) {
    const auto* const unit = std::get_if<ByDestination>(&pin.unit);
    const auto* const route = std::get_if<HostRoute>(&pin.target);
    const auto* const list = std::get_if<SegmentList>(&pin.target);
    const bool by_segments = in_.enforcer == Enforcer::srv6;
    if (unit == nullptr || (by_segments ? list == nullptr : route == nullptr))
      return refuse(position, Errc::unsupported,
                    by_segments ? "SRv6 holds destinations by lists of segments, and nothing else"
                                : "host routes hold destinations by uplink, and nothing else");
    const auto table = table_for(kOwnPackets);
    if (!table)
      return refuse(position, table.error().code, table.error().message);
    const Family family = unit->destination.family;
    if (family == Family::v4 || in_.view.link(kOwnPackets)->ipv6)
      port_rules_.insert({.in_port = kOwnPackets, .table = *table, .family = family});
    const auto way = by_segments ? offered_by_segments(position, *list)
                                 : offered(position, route->out_port, unit->destination);
    // What has no address yet gets the one that it would have without the pin: its peers know it.
    if (way)
      hold(position,
           {.table = *table,
            .destination = unit->destination,
            .source = in_.view.source_for(unit->destination)},
           *way);
  }

  // A route without its next hop, and the way that it is to lead.
  void hold(std::size_t position, PinRoute route, const NextHop& way) {
    const PinRoute* const present = installed(route.table, route.destination);
    const bool answers = resolved(position, way);
    if (!answers && !may_wait(way, present == nullptr ? 0 : present->next_hop))
      return;
    const auto id = next_hop_for(way);
    if (!id)
      return refuse(position, Errc::kernel, "no next hop id is left in the configured range");
    route.next_hop = *id;
    result_.tables.routes.push_back(route);
    if (answers)
      result_.held.push_back({.pin = position, .route = route});
  }

  void take_marked(std::size_t position, const Pin& pin) {
    const auto* const flow = std::get_if<ByQueuePair>(&pin.unit);
    const auto* const mark = std::get_if<FlowMark>(&pin.target);
    if (flow != nullptr && mark != nullptr && flow->source.family == flow->destination.family)
      return take_mark(position, *flow, *mark);
    refuse(position, Errc::unsupported, "flow marks hold flows by queue pair, and nothing else");
  }

  void take_mark(std::size_t position, const ByQueuePair& flow, const FlowMark& target) {
    const auto hop = offered(position, target.out_port, flow.destination);
    if (!hop)
      return;
    const bool answers = resolved(position, *hop);
    if (!answers && !may_wait(*hop, next_hop_of(flow)))
      return;
    const auto id = next_hop_for(*hop);
    if (!id)
      return refuse(position, Errc::kernel, "no next hop id is left in the configured range");
    const auto table = mark_table_for({*id, flow.destination.family});
    if (!table)
      return refuse(position, Errc::kernel, "no table is left in the configured range");
    const MarkedFlow marked{.flow = flow, .mark = *table};
    result_.tables.marks.push_back(marked);
    if (answers)
      result_.held.push_back({.pin = position,
                              .route = {.table = *table,
                                        .destination = any_of(flow.destination.family),
                                        .next_hop = *id},
                              .mark = marked});
  }

  // The hop by which `main` offers a destination through a port now (rule 12).
  std::optional<NextHop> offered(std::size_t position, const std::string& out_port,
                                 const IpAddress& destination) {
    const auto out = uplink(out_port);
    if (!out) {
      refuse(position, out.error().code, out.error().message);
      return std::nullopt;
    }
    if (destination.family == Family::v6 && !(*out)->ipv6) {
      refuse(position, Errc::not_found,
             fmt::format("IPv6 is off on {} (net.ipv6.conf.{}.disable_ipv6)", out_port, out_port));
      return std::nullopt;
    }
    const auto hop = in_.view.offer(destination, (*out)->index);
    if (hop && hop->gateway)
      return way_by(*hop);
    ++result_.withdrawn;
    refuse(position, Errc::not_found,
           fmt::format("main does not offer {} for {}", out_port, to_string(destination)));
    return std::nullopt;
  }

  // The way to the first segment (rule 12), by whichever uplink `main` offers it: what is wrapped
  // is looked up again, so the uplink decides only with whose carrier the pin goes.
  std::optional<NextHop> offered_by_segments(std::size_t position, const SegmentList& list) {
    const auto is_v6 = [](const IpAddress& segment) { return segment.family == Family::v6; };
    if (list.segments.empty() || !std::ranges::all_of(list.segments, is_v6)) {
      refuse(position, Errc::invalid_argument, "segments are addresses of IPv6");
      return std::nullopt;
    }
    std::optional<NextHop> way;
    std::string lack;
    for (const auto& [index, link] : in_.view.links()) {
      if (!in_.view.is_uplink(index))
        continue;
      const auto hop = in_.view.offer(list.segments.front(), index);
      if (!hop || !hop->gateway)
        continue;
      if (std::string why = lacks_room(link, list.segments.size()); !why.empty()) {
        lack = std::move(why);
        continue;
      }
      NextHop candidate = way_by(*hop);
      candidate.segments = list.segments;
      if (!way || installed_ids_.contains(candidate))
        way = std::move(candidate);
    }
    if (!way && !lack.empty()) {
      refuse(position, Errc::unsupported, std::move(lack));
    } else if (!way) {
      ++result_.withdrawn;
      refuse(position, Errc::not_found,
             fmt::format("main offers no way to the segment {}", to_string(list.segments.front())));
    }
    return way;
  }

  static NextHop way_by(const Hop& hop) {
    return {.id = 0, .ifindex = hop.ifindex, .gateway = *hop.gateway, .onlink = hop.onlink};
  }

  // What the flow's mark leads to now; 0: it has none, or that leads nowhere.
  std::uint32_t next_hop_of(const ByQueuePair& flow) const {
    const auto& marks = in_.installed.marks;
    const auto at = std::ranges::lower_bound(marks, flow, {}, &MarkedFlow::flow);
    if (at == marks.end() || at->flow != flow)
      return 0;
    const auto known = next_hop_of_table_.find(at->mark);
    return known == next_hop_of_table_.end() ? 0 : known->second.first;
  }

  // One for each next hop and family; the one that leads there already if there is one.
  std::optional<std::uint32_t> mark_table_for(const HopAndFamily& next_hop) {
    if (const auto known = mark_tables_.find(next_hop); known != mark_tables_.end())
      return known->second;
    std::optional<std::uint32_t> table;
    for (const auto& [number, leads_to] : next_hop_of_table_) {
      if (leads_to == next_hop)
        table = number;
    }
    if (!table)
      table = free_table();
    if (table)
      mark_tables_[next_hop] = *table;
    return table;
  }

  void make_mark_table() {
    result_.tables.mark_table = MarkTable::whole;
    for (const auto& [index, link] : in_.view.links()) {
      // What a spine sends back must not be marked again, whatever the patterns say.
      if (matches_any(in_.host_ports, link.name) && !in_.view.is_uplink(index))
        result_.tables.mark_ports.push_back(link.name);
    }
    std::ranges::sort(result_.tables.mark_ports);
  }

  std::optional<std::uint32_t> free_table() {
    for (std::uint32_t n = 0; n < in_.ranges.table_count; ++n) {
      const std::uint32_t table = in_.ranges.table_base + n;
      if (tables_in_use_.insert(table).second)
        return table;
    }
    return std::nullopt;
  }

  void refuse(std::size_t position, Errc code, std::string reason) {
    result_.not_held.emplace_back(position, Error{.code = code, .message = std::move(reason)});
  }

  // Decided once a port: pins are sorted by it. The rule stays while the plan has pins for the
  // port, held or not: an empty table costs nothing and saves rules coming and going.
  Result<std::uint32_t> table_for(const std::string& port) {
    auto at = ports_.find(port);
    if (at == ports_.end())
      at = ports_.emplace(port, choose_table(port)).first;
    return at->second;
  }

  Result<std::uint32_t> choose_table(const std::string& port) {
    const bool own = is_of_hosts(in_.enforcer) && port == kOwnPackets;
    if (!own && !matches_any(in_.host_ports, port))
      return fail(Errc::invalid_argument,
                  fmt::format("{} is not one of this node's host ports", port));
    if (in_.view.link(port) == nullptr)
      return fail(Errc::not_found, fmt::format("there is no interface {}", port));
    if (const auto kept = table_of_.find(port); kept != table_of_.end())
      return kept->second;
    if (const auto table = free_table())
      return *table;
    return fail(Errc::kernel, "no table is left in the configured range");
  }

  Result<const Link*> uplink(const std::string& port) {
    auto at = out_ports_.find(port);
    if (at == out_ports_.end())
      at = out_ports_.emplace(port, find_uplink(port)).first;
    return at->second;
  }

  Result<const Link*> find_uplink(const std::string& port) const {
    const Link* const out = in_.view.link(port);
    if (!matches_any(in_.uplinks, port))
      return fail(Errc::invalid_argument,
                  fmt::format("{} is not one of this node's uplinks", port));
    if (out == nullptr)
      return fail(Errc::not_found, fmt::format("there is no interface {}", port));
    if (!out->up || !out->carrier)
      return fail(Errc::not_found, fmt::format("{} has no carrier", port));
    return out;
  }

  const PinRoute* installed(std::uint32_t table, const IpAddress& destination) const {
    const auto& routes = in_.installed.routes;
    const auto at = std::lower_bound(routes.begin(), routes.end(), std::pair(table, destination),
                                     [](const PinRoute& r, const auto& key) {
                                       return std::tie(r.table, r.destination) <
                                              std::tie(key.first, key.second);
                                     });
    return at != routes.end() && at->table == table && at->destination == destination ? &*at
                                                                                      : nullptr;
  }

  // Rule 6: a pin over a gateway that does not answer is not counted.
  bool resolved(std::size_t position, const NextHop& way) {
    const Resolution state = in_.view.resolution(way.ifindex, way.gateway);
    if (state == Resolution::resolved)
      return true;
    unresolved_.insert({way.ifindex, way.gateway});
    refuse(position, Errc::timeout,
           fmt::format("gateway {} {}", to_string(way.gateway),
                       state == Resolution::failed ? "does not answer" : "is not resolved yet"));
    return false;
  }

  // A gateway that is only being asked for keeps what leans on it, uncounted: a forgotten neighbour
  // is mostly found again at once. One that does not answer loses it.
  bool may_wait(const NextHop& way, std::uint32_t present_next_hop) const {
    const auto existing = installed_ids_.find(way);
    return present_next_hop != 0 && existing != installed_ids_.end() &&
           existing->second == present_next_hop &&
           in_.view.resolution(way.ifindex, way.gateway) == Resolution::pending;
  }

  std::optional<std::uint32_t> next_hop_for(const NextHop& way) {
    const auto known = next_hops_.find(way);
    if (known != next_hops_.end())
      return known->second;
    std::optional<std::uint32_t> id;
    if (const auto existing = installed_ids_.find(way); existing != installed_ids_.end())
      id = existing->second;
    for (std::uint32_t n = 0; !id && n < in_.ranges.nexthop_count; ++n) {
      if (ids_in_use_.insert(in_.ranges.nexthop_base + n).second)
        id = in_.ranges.nexthop_base + n;
    }
    if (id)
      next_hops_[way] = *id;
    return id;
  }

  const DesireInput& in_;
  Desire result_;
  std::set<std::uint32_t> segment_tables_;  // also of former ones
  std::map<std::string, std::uint32_t> table_of_;
  std::set<std::uint32_t> tables_in_use_;
  std::map<std::uint32_t, HopAndFamily> next_hop_of_table_;  // installed, of marks
  std::map<HopAndFamily, std::uint32_t> mark_tables_;        // desired
  std::set<TableRule> port_rules_;
  std::set<std::uint32_t> ids_in_use_;
  std::map<std::pair<std::string, Family>, const Prefix*>
      spared_;  // by port: who is behind it and is never to be touched
  std::map<std::string, Result<std::uint32_t>> ports_;
  std::map<std::string, Result<const Link*>> out_ports_;
  // Next hops whose id is 0, and their ids.
  std::map<NextHop, std::uint32_t> installed_ids_;
  std::map<NextHop, std::uint32_t> next_hops_;
  std::set<std::pair<std::uint32_t, IpAddress>> unresolved_;
};

}  // namespace

Desire desire(const DesireInput& input) {
  Desiring desiring(input);
  for (std::size_t i = 0; i < input.pins.size(); ++i)
    desiring.take(i);
  return std::move(desiring).finish();
}

bool holds(const SteeringTables& installed, const Desire::Held& held) {
  return std::ranges::binary_search(installed.routes, held.route) &&
         (!held.mark || (installed.mark_table == MarkTable::whole &&
                         std::ranges::binary_search(installed.marks, *held.mark)));
}

}  // namespace heddle
