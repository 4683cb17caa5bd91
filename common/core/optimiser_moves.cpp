// Why each moved unit moved, told by the loads of the links that it left.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/core/optimiser_model.h"

namespace heddle {
namespace {

bool same_way(const Path& a, const Path& b) {
  return a.from == b.from && a.up == b.up && a.to == b.to;
}

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

class Reasons {
 public:
  Reasons(const Model& model, const Routing& from, const Routing& to)
      : model_(model),
        before_(model.resources().size(), 0),
        after_(before_),
        arrived_(before_.size(), kNone) {
    for (std::size_t s = 0; s < from.size(); ++s) {
      count(from[s], before_);
      count(to[s], after_);
      if (to[s].crosses_core() && !same_way(from[s], to[s])) {
        const auto subflow = static_cast<std::uint32_t>(s);
        arrived_[uplink_of(to[s]).value] = subflow;
        arrived_[downlinks_of(to[s]).value] = subflow;
      }
    }
  }

  std::string explain(const Path& from, const Path& to) const {
    if (!from.crosses_core())
      return "the other way in is gone";
    const LinkState& links = *model_.problem().links;
    const Topology& topology = model_.topology();
    if (!links.up(topology.uplink(from.up)))
      return fmt::format("{} is down", topology.link_name(topology.uplink(from.up)));
    const ResourceId up = uplink_of(from), down = downlinks_of(from);
    if (model_.resources()[down.value].lanes == 0)
      return fmt::format("{} is down", name(down, from));
    const LeafId from_leaf = topology[from.up].leaf;
    if (!model_.leads(from_leaf, {.cable = from.up, .spine = topology[from.up].spine},
                      topology[from.to].leaf))
      return fmt::format("routing no longer offers {} to {}", name(up, from),
                         topology[topology[from.to].leaf].name);

    // The more crowded of the two links that it left, as far as it left them.
    ResourceId left = up;
    if (to.crosses_core() && up == uplink_of(to))
      left = down;
    else if (!(to.crosses_core() && down == downlinks_of(to)) &&
             before_[down.value] - after_[down.value] > before_[up.value] - after_[up.value])
      left = down;
    const int was = before_[left.value], is = after_[left.value];
    if (is < was)
      return fmt::format("off {}: {} elephant{}, now {}", name(left, from), was,
                         was == 1 ? "" : "s", is);
    const std::uint32_t successor = arrived_[left.value];
    if (successor == kNone)
      return fmt::format("off {}", name(left, from));
    const FlowDemand& flow = model_.demand_of(successor);
    return fmt::format("leaves {} to {} > {}", name(left, from), nic(flow.source),
                       nic(flow.destination));
  }

 private:
  ResourceId uplink_of(const Path& path) const { return model_.uplink(path.up); }
  ResourceId downlinks_of(const Path& path) const {
    const Topology& topology = model_.topology();
    return model_.downlinks(topology[path.up].spine, topology[path.to].leaf);
  }
  void count(const Path& path, std::vector<int>& counts) const {
    if (!path.routable() || !path.crosses_core())
      return;
    ++counts[uplink_of(path).value];
    ++counts[downlinks_of(path).value];
  }
  std::string name(ResourceId resource, const Path& path) const {
    const Topology& topology = model_.topology();
    if (resource == uplink_of(path))
      return topology.link_name(topology.uplink(path.up));
    return fmt::format("{}-{}", topology[topology[path.up].spine].name,
                       topology[topology[path.to].leaf].name);
  }
  std::string nic(NicId id) const {
    const Topology::Nic& found = model_.topology()[id];
    return model_.topology()[found.host].name + "/" + found.name;
  }

  const Model& model_;
  std::vector<int> before_;  // subflows by resource
  std::vector<int> after_;
  std::vector<std::uint32_t> arrived_;  // by resource: a subflow that came to it
};

}  // namespace

std::vector<Move> list_moves(const Model& model, const Routing& from, const Routing& to) {
  std::vector<Move> moves;
  const auto moved = [&](std::uint32_t s) {
    return from[s].routable() && to[s].routable() && !same_way(from[s], to[s]);
  };
  bool any = false;
  for (std::uint32_t s = 0; s < from.size() && !any; ++s)
    any = moved(s);
  if (!any)
    return moves;
  const Reasons reasons(model, from, to);
  for (const Model::Unit& unit : model.units()) {
    const auto members = model.members(unit);
    const auto found = std::ranges::find_if(members, moved);
    if (found == members.end())
      continue;
    moves.push_back({.subflow = members.front(),
                     .from = from[*found],
                     .to = to[*found],
                     .reason = reasons.explain(from[*found], to[*found])});
  }
  return moves;
}

}  // namespace heddle
