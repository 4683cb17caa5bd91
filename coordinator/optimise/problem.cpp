#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/core/check.h"
#include "coordinator/optimise/planning.h"

namespace heddle {

namespace {

// Which attachment of the destination a flow arrives at: one on the source's own leaf if there is
// one (it needs no core), else the first.
AttachmentId exit_of(const Topology& topology, AttachmentId entry, NicId destination) {
  for (const AttachmentId id : topology[destination].attachments)
    if (topology[id].leaf == topology[entry].leaf)
      return id;
  return topology[destination].attachments.front();
}

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

const Pin* find_pin(const RoutePlan& plan, const std::string& node, const SteeringUnit& unit) {
  const auto part = plan.nodes.find(node);
  if (part == plan.nodes.end())
    return nullptr;
  const std::vector<Pin>& pins = part->second.pins;
  const auto pin = std::ranges::lower_bound(pins, unit, {}, &Pin::unit);
  return pin != pins.end() && pin->unit == unit ? &*pin : nullptr;
}

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
  }

  void add(std::uint32_t index) {
    const FlowDemand& demand = input_.prediction->demand.flows[index];
    const PredictedFlow& flow = input_.prediction->flows[index];
    const AttachmentId entry = flow.entry;
    const AttachmentId exit = exit_of(topology_, entry, demand.destination);
    const LeafId leaf = topology_[entry].leaf;
    const bool local = leaf == topology_[exit].leaf;
    const std::optional<Granularity> steering = granularity_at(input_, leaf);
    const bool steered =
        !local && steering &&
        !input_.disabled_jobs.contains(input_.prediction->jobs[demand.job.value].name);
    std::uint32_t placed = 0;
    for (std::uint32_t i = 0; i < demand.subflows; ++i) {
      const Path observed = local ? Path{.from = entry, .up = {}, .down = {}, .to = exit}
                            : flow.observed[i].valid()
                                ? path_through(topology_, entry, flow.observed[i], exit)
                                : Path{};
      const SteeringUnit unit = unit_of(
          topology_, steering.value_or(Granularity::port_and_destination), entry, flow.subflows[i]);
      const bool ours = steered && !input_.refused.contains({leaf, unit}) &&
                        !touches(topology_, input_.never_touch, {leaf, unit});
      Path current = observed;
      // An agent that is still to be heard tells nobody where its flows run; its pins do.
      const bool held = ours || (!local && input_.unheard.contains(leaf));
      bool pinned = false;
      if (const Pin* pin = held ? find_pin(*input_.present, topology_[leaf].name, unit) : nullptr)
        if (const auto cable = pinned_cable(topology_, leaf, *pin);
            cable && !fails(leaf, unit, *cable)) {
          current = path_through(topology_, entry, *cable, exit);
          pinned = ours && current.routable();
        }
      if (!ours && !current.routable()) {
        ++result_.unplaced;
        result_.incomplete[demand.job.value] = true;
        continue;
      }
      // What is not ours is not moved as one either: each subflow is a unit of its own.
      const std::uint32_t number =
          ours ? pinnable_unit(key_of(*steering, leaf, entry, demand, flow.subflows[i]),
                               topology_[exit].leaf, unit)
               : add_unit({.node = leaf, .to = topology_[exit].leaf, .steering = unit});
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
    result_.flow_of.push_back(index);
  }

  PlanningProblem finish() {
    for (Unit& unit : result_.units)
      unit.pinned =
          unit.pinned && usable(result_.problem, result_.problem.current[unit.subflows[0]]);
    return std::move(result_);
  }

 private:
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

  static UnitKey key_of(Granularity granularity, NodeId node, AttachmentId entry,
                        const FlowDemand& demand, const FlowKey& flow) {
    UnitKey key{.node = node, .entry = {}, .source = {}, .destination = demand.destination};
    if (granularity == Granularity::port_and_destination)
      key.entry = entry;
    if (granularity == Granularity::queue_pair) {
      key.source = demand.source;
      key.source_port = flow.source_port;
    }
    return key;
  }

  std::uint32_t pinnable_unit(const UnitKey& key, LeafId to, const SteeringUnit& steering) {
    const auto [place, added] = numbers_.try_emplace(key, 0);
    if (added)
      place->second =
          add_unit({.node = key.node, .to = to, .steering = steering, .pinnable = true});
    return place->second;
  }

  const PlanningInput& input_;
  const Topology& topology_;
  PlanningProblem result_;
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

// Why a routing may not become a plan; empty if it may.
std::string fault(const PlanningProblem& planning, const Routing& routing) {
  const Problem& problem = planning.problem;
  if (routing.size() != problem.current.size())
    return "it does not place every subflow";
  for (const Unit& unit : planning.units) {
    const Path& path = routing[unit.subflows.front()];
    for (const std::uint32_t subflow : unit.subflows) {
      if (problem.fixed[subflow] ? routing[subflow] != problem.current[subflow]
                                 : routing[subflow].up != path.up)
        return fmt::format("it tears {} apart or moves what is not ours", to_string(unit.steering));
    }
    if (unit.pinnable && path.crosses_core() &&
        NodeId((*problem.topology)[path.up].leaf) != unit.node)
      return fmt::format("it lets {} enter the core at another leaf", to_string(unit.steering));
    if (unit.pinnable && path.routable() && !usable(problem, path))
      return fmt::format("it leads {} over a link that is down or withdrawn",
                         to_string(unit.steering));
  }
  return {};
}

Candidate judge(const PlanningProblem& planning, std::string scheme, Routing routing) {
  const Problem& problem = planning.problem;
  Candidate candidate{.scheme = std::move(scheme), .routing = std::move(routing)};
  candidate.efficiency = evaluate(*problem.topology, *problem.links, problem.demand,
                                  candidate.routing, problem.residual);
  for (const Unit& unit : planning.units) {
    const std::uint32_t first = unit.subflows.front();
    candidate.moves +=
        unit.pinnable && candidate.routing[first].up != problem.current[first].up ? 1 : 0;
  }
  return candidate;
}

// The routing in which all stay where they are; empty if one of them cannot.
Routing stay(const PlanningProblem& planning) {
  Routing routing = planning.problem.current;
  for (const Unit& unit : planning.units) {
    if (!unit.pinnable)
      continue;
    // Subflows of one unit may have been hashed to different uplinks; one pin cannot keep both.
    const Path& path = routing[unit.subflows.front()];
    if (!path.routable() || !usable(planning.problem, path))
      return {};
    for (const std::uint32_t subflow : unit.subflows)
      if (routing[subflow].up != path.up)
        return {};
  }
  return routing;
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

std::optional<CableId> pinned_cable(const Topology& topology, NodeId node, const Pin& pin) {
  const auto* leaf = std::get_if<LeafId>(&node);
  if (leaf == nullptr)
    return std::nullopt;
  if (const auto* route = std::get_if<PortTableRoute>(&pin.target))
    return topology.cable_at(*leaf, route->out_port);
  if (const auto* route = std::get_if<HostRoute>(&pin.target))
    return topology.cable_at(*leaf, route->out_port);
  if (const auto* mark = std::get_if<FlowMark>(&pin.target))
    return topology.cable_at(*leaf, mark->out_port);
  return std::nullopt;
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
  const auto* leaf = std::get_if<LeafId>(&pin.node);
  if (leaf == nullptr)
    return false;
  if (const auto* port = std::get_if<ByPortAndDestination>(&pin.unit)) {
    const auto attachment = topology.attachment_at(*leaf, port->in_port);
    return attachment && behind(*attachment);
  }
  return std::ranges::any_of(topology[*leaf].attachments, behind);
}

std::set<PinKey> demanded_units(const PlanningInput& input) {
  const Topology& topology = *input.topology;
  std::set<PinKey> units;
  for (const PredictedFlow& flow : input.prediction->flows) {
    const LeafId leaf = topology[flow.entry].leaf;
    const Granularity granularity =
        granularity_at(input, leaf).value_or(Granularity::port_and_destination);
    for (const FlowKey& key : flow.subflows)
      units.insert({leaf, unit_of(topology, granularity, flow.entry, key)});
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

Candidates make_candidates(const PlanningProblem& planning, const Optimiser& optimiser,
                           std::uint64_t seed) {
  Candidates result;
  const auto consider = [&](std::string scheme, Routing routing) {
    if (const std::string why = fault(planning, routing); !why.empty()) {
      result.notes.push_back(fmt::format("{} was not used: {}", scheme, why));
      return;
    }
    result.list.push_back(judge(planning, std::move(scheme), std::move(routing)));
  };
  if (planning.units.empty())
    return result;

  if (Routing routing = stay(planning); !routing.empty())
    consider("stay", std::move(routing));

  // Repair: what is pinned and can stay is held fast, and the rest is placed around it.
  const bool something_new = std::ranges::any_of(
      planning.units, [](const Unit& unit) { return unit.pinnable && !unit.pinned; });
  if (something_new) {
    Problem held = planning.problem;
    for (const Unit& unit : planning.units)
      for (const std::uint32_t subflow : unit.subflows)
        held.fixed[subflow] = !unit.pinnable || unit.pinned;
    const auto greedy = make_optimiser("greedy");
    HEDDLE_CHECK(greedy != nullptr);
    Placement placement = greedy->place(held, seed);
    consider("repair", std::move(placement.routing));
  }

  Placement placement = optimiser.place(planning.problem, seed);
  result.notes.insert(result.notes.end(), placement.notes.begin(), placement.notes.end());
  consider(std::string(optimiser.name()), std::move(placement.routing));
  return result;
}

}  // namespace heddle
