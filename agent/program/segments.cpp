#include "agent/program/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace heddle {
namespace {

IpAddress next_address(IpAddress address) {
  for (std::size_t i = address.size(); i-- > 0;) {
    if (++address.octets[i] != 0)
      break;
  }
  return address;
}

// The address that an installed segment hands IPv4 to, while it is still this node's; else the
// first uplink's.
std::optional<IpAddress> own_ipv4(const SegmentsInput& in) {
  std::vector<IpAddress> own;
  for (const auto& [index, link] : in.view.links()) {
    if (!in.view.is_uplink(index))
      continue;
    if (const auto address = in.view.own_address(index, Family::v4))
      own.push_back(*address);
  }
  for (const NextHop& next_hop : in.installed.next_hops) {
    if (next_hop.action && next_hop.action->behaviour == SegmentBehaviour::delivers_v4 &&
        std::ranges::find(own, next_hop.action->own_address) != own.end())
      return next_hop.action->own_address;
  }
  return own.empty() ? std::nullopt : std::optional(own.front());
}

// Ids from the end of the range, away from those of pins.
std::optional<std::uint32_t> id_for(const NextHop& wanted, const SegmentsInput& in,
                                    std::set<std::uint32_t>& taken) {
  for (const NextHop& present : in.installed.next_hops) {
    NextHop same = present;
    same.id = wanted.id;
    if (same == wanted && taken.insert(present.id).second)
      return present.id;
  }
  const auto installed = [&](std::uint32_t id) {
    return std::ranges::binary_search(in.installed.next_hops, id, {}, &NextHop::id);
  };
  for (std::uint32_t n = in.ranges.nexthop_count; n-- > 0;) {
    const std::uint32_t id = in.ranges.nexthop_base + n;
    if (!installed(id) && taken.insert(id).second)
      return id;
  }
  return std::nullopt;
}

bool of_fabric(const SegmentsInput& in, const Link& link) {
  return link.name != kOwnPackets && link.ipv6 &&
         (matches_any(in.uplinks, link.name) || matches_any(in.host_ports, link.name));
}

}  // namespace

std::vector<LocalSegment> segments_of(Role role, const std::optional<IpAddress>& address) {
  if (!address)
    return {};
  if (role != Role::host)
    return {{SegmentBehaviour::transit, *address}};
  return {{SegmentBehaviour::delivers_v4, *address},
          {SegmentBehaviour::delivers_v6, next_address(*address)}};
}

SegmentTables tables_of_segments(const SegmentsInput& input) {
  SegmentTables result;
  if (input.wanted.empty())
    return result;
  const Link* const lo = input.view.link(kOwnPackets);
  if (lo == nullptr || !lo->up) {
    result.lack = "lo is down; bring it up (ip link set lo up)";
    return result;
  }
  const std::uint32_t table = input.ranges.table_base + input.ranges.table_count - 1;
  SteeringTables& tables = result.tables;
  std::set<std::uint32_t> taken;
  for (const LocalSegment& segment : input.wanted) {
    SegmentAction action{.behaviour = segment.behaviour};
    if (segment.behaviour == SegmentBehaviour::delivers_v4) {
      const auto address = own_ipv4(input);
      if (!address) {
        result.lack = fmt::format(
            "no uplink ({}) has an IPv4 address that the segment {} could deliver to; give it one",
            fmt::join(input.uplinks, ", "), to_string(segment.address));
        continue;
      }
      action.own_address = *address;
    }
    NextHop next_hop{.id = 0, .ifindex = lo->index, .gateway = {}, .action = action};
    const auto id = id_for(next_hop, input, taken);
    if (!id) {
      result.lack = "no next hop id is left in the configured range; make nexthop_count larger";
      continue;
    }
    next_hop.id = *id;
    tables.next_hops.push_back(std::move(next_hop));
    tables.routes.push_back({.table = table, .destination = segment.address, .next_hop = *id});
  }
  if (!tables.routes.empty()) {
    for (const auto& [index, link] : input.view.links()) {
      if (of_fabric(input, link))
        tables.rules.push_back({.in_port = link.name, .table = table, .family = Family::v6});
    }
  }
  std::ranges::sort(tables.next_hops);
  std::ranges::sort(tables.routes);
  std::ranges::sort(tables.rules);
  return result;
}

SteeringTables segments_in(const SteeringTables& installed) {
  SteeringTables result;
  std::set<std::uint32_t> ids;
  std::set<std::uint32_t> tables;
  for (const NextHop& next_hop : installed.next_hops) {
    if (next_hop.action) {
      result.next_hops.push_back(next_hop);
      ids.insert(next_hop.id);
    }
  }
  for (const PinRoute& route : installed.routes) {
    if (ids.contains(route.next_hop)) {
      result.routes.push_back(route);
      tables.insert(route.table);
    }
  }
  for (const TableRule& rule : installed.rules) {
    if (tables.contains(rule.table) && rule.family == Family::v6)
      result.rules.push_back(rule);
  }
  return result;
}

SteeringTables without_segments(const SteeringTables& installed) {
  const SteeringTables segments = segments_in(installed);
  SteeringTables rest = installed;
  const auto belongs_to = [](const auto& all) {
    return [&all](const auto& one) { return std::ranges::binary_search(all, one); };
  };
  std::erase_if(rest.next_hops, belongs_to(segments.next_hops));
  std::erase_if(rest.routes, belongs_to(segments.routes));
  std::erase_if(rest.rules, belongs_to(segments.rules));
  return rest;
}

std::vector<Lookup> lookups_of_segments(const SteeringTables& segments, const MainView& view) {
  std::vector<Lookup> lookups;
  const auto alive = std::ranges::find_if(segments.rules, [&](const TableRule& rule) {
    const Link* const link = view.link(rule.in_port);
    return link != nullptr && link->up && link->carrier;
  });
  if (alive == segments.rules.end())
    return lookups;
  for (const PinRoute& route : segments.routes)
    lookups.push_back({.in_ifindex = view.link(alive->in_port)->index,
                       .mark = 0,
                       .source = {},
                       .destination = route.destination});
  return lookups;
}

std::vector<LocalSegment> segments_in_effect(const SteeringTables& segments,
                                             const std::vector<LookupAnswer>& answers) {
  std::vector<LocalSegment> result;
  for (std::size_t i = 0; i < std::min(answers.size(), segments.routes.size()); ++i) {
    const PinRoute& route = segments.routes[i];
    const auto next_hop = std::ranges::find(segments.next_hops, route.next_hop, &NextHop::id);
    if (answers[i].error == 0 && answers[i].next_hop_id == route.next_hop &&
        next_hop != segments.next_hops.end())
      result.push_back({next_hop->action->behaviour, route.destination});
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace heddle
