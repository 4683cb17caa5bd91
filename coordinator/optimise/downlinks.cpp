// Which of the parallel cables to a leaf a spine takes, where its agent can choose: else it hashes.
#include <algorithm>
#include <map>

#include "coordinator/optimise/planning.h"

namespace heddle {

namespace {

// What one pin of the spine moves: all that comes in by one uplink for one destination.
struct Group {
  CableId up;
  NicId destination;
  auto operator<=>(const Group&) const = default;
};

class Lanes {
 public:
  Lanes(const PlanningProblem& planning, Routing& routing)
      : planning_(planning), topology_(*planning.problem.topology), routing_(routing) {
    load_.resize(topology_.cables().size());
  }

  void choose(bool keep) {
    for (std::uint32_t s = 0; s < routing_.size(); ++s)
      if (chosen_by_spine(s))
        members_[{routing_[s].up, topology_[routing_[s].to].nic}].push_back(s);
      else if (routing_[s].crosses_core() && routing_[s].down.valid())
        load_[routing_[s].down.value] += 1;
    std::vector<std::pair<const Group*, const std::vector<std::uint32_t>*>> open;
    for (const auto& [group, members] : members_)
      if (const CableId known = present(members); keep && known.valid())
        put(members, known);
      else
        open.emplace_back(&group, &members);
    std::ranges::stable_sort(open, std::greater{},
                             [](const auto& one) { return one.second->size(); });
    for (const auto& [group, members] : open)
      put(*members, best(*members));
  }

 private:
  bool chosen_by_spine(std::uint32_t s) const {
    return planning_.units[planning_.problem.unit_of_subflow[s]].pinnable &&
           spine_pin(planning_, routing_[s]).has_value();
  }
  std::vector<CableId> lanes(const Path& path) const {
    std::vector<CableId> live;
    for (const CableId id :
         topology_.cables_between(topology_[path.to].leaf, topology_[path.up].spine))
      if (planning_.problem.links->up(topology_.downlink(id)))
        live.push_back(id);
    const auto drained = [&](CableId id) { return planning_.draining.contains(id); };
    if (!std::ranges::all_of(live, drained))
      std::erase_if(live, drained);
    return live;
  }
  // Where a pin of the spine leads them now, if they come in as before and it still can.
  CableId present(const std::vector<std::uint32_t>& members) const {
    for (const std::uint32_t s : members) {
      const Path& before = planning_.problem.current[s];
      if (before.up != routing_[s].up || !before.down.valid())
        continue;
      const std::vector<CableId> live = lanes(routing_[s]);
      if (std::ranges::find(live, before.down) != live.end())
        return before.down;
    }
    return {};
  }
  double busy(CableId lane, std::size_t more) const {
    return (load_[lane.value] + static_cast<double>(more)) /
           topology_.capacity(topology_.downlink(lane)).bits_per_second;
  }
  // The least busy one; of equals where they are now, then the first.
  CableId best(const std::vector<std::uint32_t>& members) const {
    const CableId now = present(members);
    CableId least = now;
    for (const CableId lane : lanes(routing_[members.front()]))
      if (!least.valid() || busy(lane, members.size()) < busy(least, members.size()))
        least = lane;
    return least;
  }
  void put(const std::vector<std::uint32_t>& members, CableId lane) {
    for (const std::uint32_t s : members)
      routing_[s].down = lane;
    if (lane.valid())
      load_[lane.value] += static_cast<double>(members.size());
  }

  const PlanningProblem& planning_;
  const Topology& topology_;
  Routing& routing_;
  std::map<Group, std::vector<std::uint32_t>> members_;
  std::vector<double> load_;  // by cable: subflows on its downlink
};

}  // namespace

Routing with_downlinks(const PlanningProblem& planning, Routing routing, bool keep) {
  if (std::ranges::find(planning.picks_downlink, true) != planning.picks_downlink.end())
    Lanes(planning, routing).choose(keep);
  return routing;
}

std::optional<PinKey> spine_pin(const PlanningProblem& planning, const Path& path) {
  if (!path.crosses_core() || path.spread)
    return std::nullopt;
  const Topology& topology = *planning.problem.topology;
  const SpineId spine = topology[path.up].spine;
  if (!planning.picks_downlink[spine.value] ||
      topology.cables_between(topology[path.to].leaf, spine).size() < 2)
    return std::nullopt;
  const PinKey pin{spine, ByPortAndDestination{topology[path.up].spine_port,
                                               topology[topology[path.to].nic].address}};
  if (planning.refused.contains(pin) || touches(topology, planning.never_touch, pin))
    return std::nullopt;
  return pin;
}

std::string describe(const PlanningProblem& planning, const Path& path) {
  const Topology& topology = *planning.problem.topology;
  std::string text = to_string(topology, path);
  if (path.crosses_core() && path.down.valid() && spine_pin(planning, path))
    text += " by " + topology.link_name(topology.downlink(path.down));
  return text;
}

}  // namespace heddle
