#include "coordinator/decide/drain.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

Result<DrainScope> scope_of(const Topology& topology, const DrainTarget& target) {
  DrainScope scope;
  const auto nothing = [&] {
    return fail(Errc::not_found,
                fmt::format("the fabric has no {} '{}'", target.kind, target.name));
  };
  if (target.kind == "spine") {
    const auto spine = topology.find_spine(target.name);
    if (!spine)
      return nothing();
    scope.cables.insert(topology[*spine].cables.begin(), topology[*spine].cables.end());
  } else if (target.kind == "cable") {
    for (std::uint32_t i = 0; i < topology.cables().size(); ++i)
      if (topology.link_name(topology.uplink({i})) == target.name ||
          topology.link_name(topology.downlink({i})) == target.name)
        scope.cables.insert({i});
    if (scope.cables.empty())
      return nothing();
  } else if (target.kind == "leaf" || target.kind == "rack") {
    for (std::uint32_t i = 0; i < topology.leaves().size(); ++i)
      if (target.kind == "leaf" ? topology[LeafId{i}].name == target.name
                                : topology[LeafId{i}].rack == target.name) {
        scope.leaves.insert({i});
        scope.cables.insert(topology[LeafId{i}].cables.begin(), topology[LeafId{i}].cables.end());
      }
    if (scope.leaves.empty())
      return nothing();
  } else {
    return fail(
        Errc::invalid_argument,
        fmt::format("'{}' cannot be drained; a spine, leaf, cable or rack can", target.kind));
  }
  for (const CableId id : scope.cables) {
    scope.links.push_back(topology.uplink(id));
    scope.links.push_back(topology.downlink(id));
  }
  for (const LeafId leaf : scope.leaves)
    for (const AttachmentId id : topology[leaf].attachments) {
      scope.links.push_back(topology.nic_tx(id));
      scope.links.push_back(topology.nic_rx(id));
    }
  return scope;
}

std::vector<Forbidden> keep_away_from(const Topology& topology, const std::set<CableId>& cables) {
  std::vector<Forbidden> all;
  if (cables.empty())
    return all;
  const auto count = static_cast<std::uint32_t>(topology.leaves().size());
  for (std::uint32_t from = 0; from < count; ++from)
    for (std::uint32_t to = 0; to < count; ++to) {
      if (from == to)
        continue;
      std::vector<Forbidden> pair;
      std::size_t ways = 0;
      for (const CableId up : topology[LeafId{from}].cables) {
        const auto down = topology.cables_between({to}, topology[up].spine);
        if (down.empty())
          continue;
        ++ways;
        // Over parallel cables the spine's hash chooses, so one that is drained closes them all.
        if (cables.contains(up) ||
            std::ranges::any_of(down, [&](CableId id) { return cables.contains(id); }))
          pair.push_back({{from}, {to}, up});
      }
      if (pair.size() < ways)
        all.insert(all.end(), pair.begin(), pair.end());
    }
  std::ranges::sort(all);
  return all;
}

}  // namespace heddle
