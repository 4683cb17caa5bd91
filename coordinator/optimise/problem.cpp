#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/core/check.h"
#include "coordinator/optimise/planning.h"

namespace heddle {

namespace {

SteeringUnit unit_of(const Topology& topology, Granularity granularity, AttachmentId entry,
                     const FlowKey& key) {
  switch (granularity) {
    case Granularity::destination:
      return ByDestination{key.destination};
    case Granularity::queue_pair:
      return ByQueuePair{key.source, key.destination, key.source_port};
    case Granularity::port_and_destination:
      break;
  }
  return ByPortAndDestination{topology[entry].leaf_port, key.destination};
}

std::optional<Granularity> granularity_at(const PlanningInput& input, NodeId node) {
  const auto known = input.steering.find(node);
  return known == input.steering.end() ? std::nullopt : std::optional(known->second);
}

// Who steers a flow: where its pin would be, how finely, and which uplinks it can be led to.
struct Steerer {
  NodeId node;
  Granularity granularity{};
  std::uint32_t uplinks{FlowWay::kEveryUplink};
  bool may{};
};

// Collects the problem flow by flow.
class Builder {
 public:
  explicit Builder(const PlanningInput& input) : input_(input), topology_(*input.topology) {
    Problem& problem = result_.problem;
    problem.topology = input.topology;
    problem.links = input.links;
    problem.forbidden = input.forbidden;
    problem.demand.jobs = input.prediction->demand.jobs;
    result_.incomplete.resize(problem.demand.jobs.size());
    result_.draining = input.draining;
    result_.refused = input.refused;
    result_.never_touch = input.never_touch;
    for (std::uint32_t s = 0; s < topology_.spines().size(); ++s)
      result_.picks_downlink.push_back(granularity_at(input, SpineId{s}) ==
                                       Granularity::port_and_destination);
    if (!input.segments.senders.empty())
      find_spines();
    shared_ = shared_destinations(input);
    entries_ = choose_entries(input, shared_);
    result_.entries = std::move(entries_.entries);
  }

  void add(std::uint32_t index) {
    const FlowDemand& demand = input_.prediction->demand.flows[index];
    const PredictedFlow& flow = input_.prediction->flows[index];
    const AttachmentId entry = entries_.of_flow[index];
    const AttachmentId exit = exit_of(input_, entry, demand.destination);
    const LeafId leaf = topology_[entry].leaf;
    const bool local = leaf == topology_[exit].leaf;
    const Steerer steerer = steerer_of(demand, leaf);
    std::uint32_t placed = 0;
    for (std::uint32_t i = 0; i < demand.subflows; ++i) {
      // What was seen on another leaf's uplink was seen before the host chose this one.
      const CableId seen = flow.observed[i].valid() && topology_[flow.observed[i]].leaf == leaf
                               ? flow.observed[i]
                               : CableId{};
      const Path observed = local          ? Path{.from = entry, .up = {}, .down = {}, .to = exit}
                            : seen.valid() ? way_through(steerer, entry, seen, exit)
                                           : Path{};
      const SteeringUnit unit = unit_of(topology_, steerer.granularity, entry, flow.subflows[i]);
      const bool ours = !local && steerer.may && !input_.refused.contains({steerer.node, unit}) &&
                        !touches(topology_, input_.never_touch, {steerer.node, unit});
      Path current = observed;
      // An agent that is still to be heard tells nobody where its flows run; its pins do.
      const bool held = ours || (!local && input_.unheard.contains(steerer.node));
      bool pinned = false;
      if (const Pin* pin =
              held ? find_pin(*input_.present, topology_.name_of(steerer.node), unit) : nullptr)
        if (const auto cable = cable_of(steerer.node, leaf, *pin);
            cable && !fails(steerer.node, unit, *cable)) {
          current = way_through(steerer, entry, *cable, exit);
          pinned = ours && current.routable();
        }
      if (ours)
        current.down = chosen_downlink(current);
      if (!ours && !current.routable()) {
        ++result_.unplaced;
        result_.incomplete[demand.job.value] = true;
        continue;
      }
      // What is not ours is not moved as one either: each subflow is a unit of its own.
      const std::uint32_t number =
          ours ? pinnable_unit(key_of(steerer, entry, demand, flow.subflows[i]),
                               topology_[exit].leaf, unit, steerer.uplinks)
               : add_unit({.node = steerer.node, .to = topology_[exit].leaf, .steering = unit});
      Unit& info = result_.units[number];
      info.subflows.push_back(static_cast<std::uint32_t>(result_.problem.current.size()));
      info.pinned = info.pinned || pinned;
      result_.problem.current.push_back(current);
      result_.problem.fixed.push_back(!ours);
      result_.problem.unit_of_subflow.push_back(number);
      result_.subflow_of.push_back(i);
      ++placed;
    }
    if (placed == 0)
      return;
    result_.problem.demand.flows.push_back(demand);
    result_.problem.demand.flows.back().subflows = placed;
    result_.problem.ways.push_back({.from = entry, .to = exit, .uplinks = steerer.uplinks});
    result_.flow_of.push_back(index);
  }

  PlanningProblem finish() {
    for (Unit& unit : result_.units) {
      const Path& path = result_.problem.current[unit.subflows[0]];
      unit.pinned = unit.pinned && usable(result_.problem, path) && can_lead(result_, unit, path);
    }
    return std::move(result_);
  }

 private:
  // One cable stands for all that a leaf has to a spine: the first that lives. A list of segments
  // names the spine, and the leaf hashes over the cables to it.
  void find_spines() {
    UplinkSet set{.cables = std::vector<bool>(topology_.cables().size(), false), .spread = true};
    for (std::uint32_t l = 0; l < topology_.leaves().size(); ++l)
      for (const auto& [spine, segment] : input_.segments.spines)
        if (const CableId cable = stands_for({l}, spine); cable.valid())
          set.cables[cable.value] = true;
    result_.problem.uplink_sets.push_back(std::move(set));
  }
  CableId stands_for(LeafId leaf, SpineId spine) const {
    for (const CableId id : topology_.cables_between(leaf, spine))
      if (input_.links->up(topology_.uplink(id)))
        return id;
    return {};
  }

  // Where both could, the host steers and its leaf does not: what comes to the leaf is addressed to
  // the spine's segment, so that no pin for the flow's destination ever meets it there.
  Steerer steerer_of(const FlowDemand& demand, LeafId leaf) const {
    const bool enabled =
        !input_.disabled_jobs.contains(input_.prediction->jobs[demand.job.value].name);
    const HostId host = topology_[demand.source].host;
    const SteeringUnit wrapping = ByDestination{topology_[demand.destination].address};
    if (enabled && wrapped(input_, shared_, demand))
      return {.node = host, .granularity = Granularity::destination, .uplinks = 0, .may = true};
    // Its pin may still be there, whatever its agent says when it comes back.
    const Pin* pin = input_.unheard.contains(host)
                         ? find_pin(*input_.present, topology_.name_of(host), wrapping)
                         : nullptr;
    if (pin != nullptr && std::holds_alternative<SegmentList>(pin->target))
      return {.node = host, .granularity = Granularity::destination};
    const auto granularity = granularity_at(input_, leaf);
    return {.node = leaf,
            .granularity = granularity.value_or(Granularity::port_and_destination),
            .may = enabled && granularity};
  }

  Path way_through(const Steerer& steerer, AttachmentId from, CableId up, AttachmentId to) const {
    if (!std::holds_alternative<HostId>(steerer.node))
      return path_through(topology_, from, up, to);
    const LeafId leaf = topology_[from].leaf;
    const SpineId spine = topology_[up].spine;
    const CableId first = stands_for(leaf, spine);
    Path path = path_through(topology_, from, first.valid() ? first : up, to);
    path.spread = path.routable();
    return path;
  }

  // The uplink of the flow's leaf that a pin leads over.
  std::optional<CableId> cable_of(NodeId node, LeafId leaf, const Pin& pin) const {
    const auto* list = std::get_if<SegmentList>(&pin.target);
    if (list == nullptr)
      return pinned_cable(topology_, node, pin);
    const auto spine = spine_of(input_.segments.spines, *list);
    const CableId cable = spine ? stands_for(leaf, *spine) : CableId{};
    return cable.valid() ? std::optional(cable) : std::nullopt;
  }

  // The downlink that the spine's pin leads by; else as the path says.
  CableId chosen_downlink(const Path& path) const {
    const auto chosen = spine_pin(result_, path);
    const Pin* pin =
        chosen ? find_pin(*input_.present, topology_.name_of(chosen->node), chosen->unit) : nullptr;
    const auto cable = pin != nullptr ? pinned_cable(topology_, chosen->node, *pin) : std::nullopt;
    return cable && topology_[*cable].leaf == topology_[path.to].leaf &&
                   input_.links->up(topology_.downlink(*cable))
               ? *cable
               : path.down;
  }

  bool fails(NodeId node, const SteeringUnit& unit, CableId cable) const {
    if (input_.failing.empty())
      return false;
    const auto known = input_.failing.find({node, unit});
    return known != input_.failing.end() && known->second == cable;
  }

  std::uint32_t add_unit(Unit unit) {
    result_.units.push_back(std::move(unit));
    return static_cast<std::uint32_t>(result_.units.size() - 1);
  }

  // A steering unit by its numbers, which compare faster than names and addresses.
  struct UnitKey {
    NodeId node;
    AttachmentId entry;  // not valid where the agent does not tell ports apart
    NicId source;        // likewise
    NicId destination;
    std::uint16_t source_port{};
    auto operator<=>(const UnitKey&) const = default;
  };

  static UnitKey key_of(const Steerer& steerer, AttachmentId entry, const FlowDemand& demand,
                        const FlowKey& flow) {
    UnitKey key{.node = steerer.node, .entry = {}, .source = {}, .destination = demand.destination};
    if (steerer.granularity == Granularity::port_and_destination)
      key.entry = entry;
    if (steerer.granularity == Granularity::queue_pair) {
      key.source = demand.source;
      key.source_port = flow.source_port;
    }
    return key;
  }

  std::uint32_t pinnable_unit(const UnitKey& key, LeafId to, const SteeringUnit& steering,
                              std::uint32_t uplinks) {
    const auto [place, added] = numbers_.try_emplace(key, 0);
    if (added)
      place->second = add_unit(
          {.node = key.node, .to = to, .steering = steering, .pinnable = true, .uplinks = uplinks});
    return place->second;
  }

  const PlanningInput& input_;
  const Topology& topology_;
  PlanningProblem result_;
  SharedDestinations shared_;
  EntryChoice entries_;
  std::map<UnitKey, std::uint32_t> numbers_;
};

bool cable_usable(const Problem& problem, const Path& path) {
  const Topology& topology = *problem.topology;
  if (!problem.links->up(topology.uplink(path.up)))
    return false;
  if (path.down.valid())
    return problem.links->up(topology.downlink(path.down));
  const auto bundle = topology.cables_between(topology[path.to].leaf, topology[path.up].spine);
  return std::ranges::any_of(bundle,
                             [&](CableId id) { return problem.links->up(topology.downlink(id)); });
}

}  // namespace

Path path_through(const Topology& topology, AttachmentId from, CableId up, AttachmentId to) {
  const auto bundle = topology.cables_between(topology[to].leaf, topology[up].spine);
  if (bundle.empty())
    return {};
  return {
      .from = from, .up = up, .down = bundle.size() == 1 ? bundle.front() : CableId{}, .to = to};
}

bool usable(const Problem& problem, const Path& path) {
  if (!path.routable())
    return false;
  if (!path.crosses_core())
    return true;
  const Topology& topology = *problem.topology;
  const Forbidden wanted{topology[path.from].leaf, topology[path.to].leaf, path.up};
  return cable_usable(problem, path) && !std::ranges::binary_search(problem.forbidden, wanted);
}

PlanningProblem make_problem(const PlanningInput& input) {
  Builder builder(input);
  for (std::uint32_t i = 0; i < input.prediction->demand.flows.size(); ++i)
    builder.add(i);
  return builder.finish();
}

bool can_lead(const PlanningProblem& planning, const Unit& unit, const Path& path) {
  return !path.crosses_core() || unit.uplinks == FlowWay::kEveryUplink ||
         planning.problem.uplink_sets[unit.uplinks].cables[path.up.value];
}

bool differs(const Topology& topology, const Path& from, const Path& to) {
  if (from.spread && to.spread)
    return topology[from.up].spine != topology[to.up].spine || from.from != to.from;
  // What the spine chooses is known only where it has a pin.
  return from.from != to.from || from.up != to.up || from.to != to.to ||
         (from.down.valid() && to.down.valid() && from.down != to.down);
}

SharedDestinations shared_destinations(const PlanningInput& input) {
  std::map<std::pair<HostId, NicId>, NicId> sources;
  SharedDestinations shared;
  if (input.segments.senders.empty() && input.host_routes.empty())
    return shared;
  for (const FlowDemand& flow : input.prediction->demand.flows) {
    const std::pair key{(*input.topology)[flow.source].host, flow.destination};
    if (sources.try_emplace(key, flow.source).first->second != flow.source)
      shared.insert(key);
  }
  return shared;
}

std::optional<SpineId> spine_of(const std::map<SpineId, IpAddress>& segments,
                                const SegmentList& list) {
  for (const auto& [spine, segment] : segments)
    if (!list.segments.empty() && list.segments.front() == segment)
      return spine;
  return std::nullopt;
}

bool wrapped(const PlanningInput& input, const SharedDestinations& shared, const FlowDemand& flow) {
  const Topology& topology = *input.topology;
  const HostId host = topology[flow.source].host;
  const IpAddress& destination = topology[flow.destination].address;
  return input.segments.senders.contains(host) && !shared.contains({host, flow.destination}) &&
         !input.segments.spines.empty() &&
         input.segments.hosts.contains({topology[flow.destination].host, destination.family}) &&
         !input.refused.contains({host, ByDestination{destination}}) &&
         !touches(topology, input.never_touch, {host, ByDestination{destination}});
}

std::optional<CableId> pinned_cable(const Topology& topology, NodeId node, const Pin& pin) {
  const std::string* const port = out_port_of(pin.target);
  if (port == nullptr)
    return std::nullopt;
  if (const auto* spine = std::get_if<SpineId>(&node))
    return topology.cable_at(*spine, *port);
  const auto* leaf = std::get_if<LeafId>(&node);
  return leaf != nullptr ? topology.cable_at(*leaf, *port) : std::nullopt;
}

bool touches(const Topology& topology, std::span<const Prefix> prefixes, const PinKey& pin) {
  if (prefixes.empty())
    return false;
  const auto within = [&](const IpAddress& address) {
    return std::ranges::any_of(prefixes,
                               [&](const Prefix& prefix) { return prefix.contains(address); });
  };
  const auto behind = [&](AttachmentId id) { return within(topology[topology[id].nic].address); };
  if (within(destination_of(pin.unit)))
    return true;
  if (const auto* flow = std::get_if<ByQueuePair>(&pin.unit))
    return within(flow->source);
  if (const auto* host = std::get_if<HostId>(&pin.node))
    return std::ranges::any_of(topology[*host].nics,
                               [&](NicId nic) { return within(topology[nic].address); });
  const auto* port_of = std::get_if<ByPortAndDestination>(&pin.unit);
  const auto* spine = std::get_if<SpineId>(&pin.node);
  if (spine != nullptr) {
    const auto cable =
        port_of != nullptr ? topology.cable_at(*spine, port_of->in_port) : std::optional<CableId>();
    return cable && std::ranges::any_of(topology[topology[*cable].leaf].attachments, behind);
  }
  const auto* leaf = std::get_if<LeafId>(&pin.node);
  if (port_of != nullptr) {
    const auto attachment = topology.attachment_at(*leaf, port_of->in_port);
    return attachment && behind(*attachment);
  }
  return std::ranges::any_of(topology[*leaf].attachments, behind);
}

std::set<PinKey> demanded_units(const PlanningInput& input) {
  const Topology& topology = *input.topology;
  std::set<PinKey> units;
  for (std::size_t i = 0; i < input.prediction->flows.size(); ++i) {
    const PredictedFlow& flow = input.prediction->flows[i];
    const FlowDemand& demand = input.prediction->demand.flows[i];
    const IpAddress& destination = topology[demand.destination].address;
    for (const AttachmentId entry : topology[demand.source].attachments) {
      const LeafId leaf = topology[entry].leaf;
      const Granularity granularity =
          granularity_at(input, leaf).value_or(Granularity::port_and_destination);
      for (const FlowKey& key : flow.subflows)
        units.insert({leaf, unit_of(topology, granularity, entry, key)});
      for (const CableId cable : topology[leaf].cables)
        if (input.steering.contains(topology[cable].spine))
          units.insert({topology[cable].spine,
                        ByPortAndDestination{topology[cable].spine_port, destination}});
    }
    if (const HostId host = topology[demand.source].host; input.steering.contains(host))
      units.insert({host, ByDestination{destination}});
  }
  return units;
}

std::vector<bool> judged_jobs(const PlanningProblem& planning, const Routing& routing) {
  const Demand& demand = planning.problem.demand;
  std::vector<bool> judged(demand.jobs.size());
  for (const FlowDemand& flow : demand.flows)
    judged[flow.job.value] = !planning.incomplete[flow.job.value];
  std::size_t subflow = 0;
  for (const FlowDemand& flow : demand.flows)
    for (std::uint32_t i = 0; i < flow.subflows; ++i, ++subflow)
      if (subflow >= routing.size() || !routing[subflow].routable())
        judged[flow.job.value] = false;
  return judged;
}

std::optional<Efficiency> of_judged(Efficiency efficiency, const std::vector<bool>& judged) {
  const auto jobs = static_cast<double>(std::ranges::count(judged, true));
  if (jobs == 0)
    return std::nullopt;
  efficiency.worst = 1.0;
  efficiency.mean = 0.0;
  for (std::size_t j = 0; j < judged.size(); ++j)
    if (judged[j]) {
      efficiency.worst = std::min(efficiency.worst, efficiency.by_job[j]);
      efficiency.mean += efficiency.by_job[j] / jobs;
    }
  return efficiency;
}

}  // namespace heddle
