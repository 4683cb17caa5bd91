#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "coordinator/optimise/planning.h"

namespace heddle {

std::vector<std::uint32_t> count_elephants(const Topology& topology, const Routing& routing) {
  std::vector<std::uint32_t> counts(topology.link_count());
  for (const Path& path : routing) {
    if (!path.crosses_core())
      continue;
    ++counts[topology.uplink(path.up).value];
    if (path.down.valid())
      ++counts[topology.downlink(path.down).value];
  }
  return counts;
}

namespace {

class Reasons {
 public:
  Reasons(const PlanningInput& input, const Problem& problem, const Routing& routing)
      : input_(input),
        problem_(problem),
        topology_(*problem.topology),
        before_(count_elephants(topology_, problem.current)),
        after_(count_elephants(topology_, routing)) {}

  std::string moved(const Path& from, const Path& to) const {
    if (!from.crosses_core())
      return fmt::format("placed on {}: {} there", link(to),
                         elephants(after_[busiest(to, after_)]));
    if (!problem_.links->up(topology_.uplink(from.up)))
      return fmt::format("{} is down", topology_.link_name(topology_.uplink(from.up)));
    if (from.down.valid() && !problem_.links->up(topology_.downlink(from.down)))
      return fmt::format("{} is down", topology_.link_name(topology_.downlink(from.down)));
    if (input_.draining.contains(from.up))
      return fmt::format("{} is drained", topology_.link_name(topology_.uplink(from.up)));
    if (from.down.valid() && input_.draining.contains(from.down))
      return fmt::format("{} is drained", topology_.link_name(topology_.downlink(from.down)));
    if (!usable(problem_, from))
      return fmt::format("routing no longer leads to {} by {}",
                         topology_[topology_[from.to].leaf].name, to_string(topology_, from));
    const std::uint32_t worst = busiest(from, before_);
    return fmt::format("off {}: {}, now {}", topology_.link_name({worst}),
                       elephants(before_[worst]), after_[worst]);
  }

  std::string kept(const Path& path) const {
    return fmt::format("stays on {}: {} there", link(path),
                       elephants(after_[busiest(path, after_)]));
  }

 private:
  static std::string elephants(std::uint32_t n) {
    return fmt::format("{} elephant{}", n, n == 1 ? "" : "s");
  }
  std::uint32_t busiest(const Path& path, const std::vector<std::uint32_t>& counts) const {
    const std::uint32_t up = topology_.uplink(path.up).value;
    if (!path.down.valid())
      return up;
    const std::uint32_t down = topology_.downlink(path.down).value;
    return counts[down] > counts[up] ? down : up;
  }
  std::string link(const Path& path) const { return topology_.link_name({busiest(path, after_)}); }

  const PlanningInput& input_;
  const Problem& problem_;
  const Topology& topology_;
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> after_;
};

PinTarget target_of(const SteeringUnit& unit, const std::string& port) {
  if (std::holds_alternative<ByDestination>(unit))
    return HostRoute{port};
  if (std::holds_alternative<ByQueuePair>(unit))
    return FlowMark{port};
  return PortTableRoute{port};
}

// A pin of the present plan that no flow in demand asks for may stay if its link can still carry
// it.
bool may_linger(const PlanningInput& input, NodeId node, const Pin& pin) {
  const Topology& topology = *input.topology;
  const auto cable = pinned_cable(topology, node, pin);
  const auto nic = topology.find_nic(destination_of(pin.unit));
  if (!cable || !nic || !input.steering.contains(node) ||
      input.refused.contains({node, pin.unit}) ||
      touches(topology, input.never_touch, {node, pin.unit}))
    return false;
  Problem problem;
  problem.topology = input.topology;
  problem.links = input.links;
  problem.forbidden = input.forbidden;
  const auto& attachments = topology[topology[*cable].leaf].attachments;
  return !attachments.empty() && usable(problem, path_through(topology, attachments.front(), *cable,
                                                              topology[*nic].attachments.front()));
}

bool same_pins(const std::vector<Pin>& a, const std::vector<Pin>& b) {
  return std::ranges::equal(
      a, b, [](const Pin& x, const Pin& y) { return x.unit == y.unit && x.target == y.target; });
}

const Pin* find_pin(const std::vector<Pin>& pins, const SteeringUnit& unit) {
  const auto pin = std::ranges::lower_bound(pins, unit, {}, &Pin::unit);
  return pin != pins.end() && pin->unit == unit ? &*pin : nullptr;
}

}  // namespace

PlanAndMoves make_plan(const PlanningInput& input, const PlanningProblem& planning,
                       const Routing& routing, PlanVersion version, bool keep_unknown) {
  static const std::vector<Pin> kNone;
  const Topology& topology = *input.topology;
  const Reasons reasons(input, planning.problem, routing);
  const auto present_pins = [&](const std::string& node) -> const std::vector<Pin>& {
    const auto part = input.present->nodes.find(node);
    return part == input.present->nodes.end() ? kNone : part->second.pins;
  };

  std::vector<std::uint32_t> flow_of_subflow;  // in the prediction
  for (std::size_t i = 0; i < planning.flow_of.size(); ++i)
    flow_of_subflow.insert(flow_of_subflow.end(), planning.problem.demand.flows[i].subflows,
                           planning.flow_of[i]);

  std::set<PinKey> demanded;
  if (keep_unknown)
    demanded = demanded_units(input);
  PlanAndMoves result;
  result.plan.version = version;
  std::map<NodeId, std::vector<Pin>> pins;
  for (const Unit& unit : planning.units) {
    const std::uint32_t first = unit.subflows.front();
    const Path& path = routing[first];
    if (!unit.pinnable || !path.crosses_core() || !usable(planning.problem, path))
      continue;
    const Path& from = planning.problem.current[first];
    Pin pin{.unit = unit.steering,
            .target = target_of(unit.steering, topology[path.up].leaf_port),
            .reason = {}};
    const bool moved = from.up != path.up;
    const Pin* before = find_pin(present_pins(topology.name_of(unit.node)), unit.steering);
    pin.reason = moved                                               ? reasons.moved(from, path)
                 : before != nullptr && before->target == pin.target ? before->reason
                                                                     : reasons.kept(path);
    if (moved) {
      const FlowKey& key =
          input.prediction->flows[flow_of_subflow[first]].subflows[planning.subflow_of[first]];
      result.moves.push_back(
          {.flow = fmt::format("{} {}", to_string(key.source), to_string(key.destination)),
           .from = from.crosses_core() ? to_string(topology, from) : "ecmp",
           .to = to_string(topology, path),
           .reason = pin.reason});
    }
    pins[unit.node].push_back(std::move(pin));
  }

  for (const NodeId node : topology.nodes()) {
    const std::string& name = topology.name_of(node);
    if (input.unheard.contains(node)) {
      const auto part = input.present->nodes.find(name);
      if (part == input.present->nodes.end())
        continue;
      NodePlan kept = part->second;
      // What may no longer be touched is let go before anything else is known of the node.
      if (std::erase_if(kept.pins, [&](const Pin& pin) {
            return touches(topology, input.never_touch, {node, pin.unit});
          }) > 0) {
        kept.version = version;
        result.changed = true;
      }
      result.plan.nodes[name] = std::move(kept);
      continue;
    }
    const std::vector<Pin>& before = present_pins(name);
    std::vector<Pin> now = std::move(pins[node]);
    std::ranges::sort(now, {}, &Pin::unit);
    if (keep_unknown) {
      for (const Pin& pin : before)
        if (!demanded.contains({node, pin.unit}) && may_linger(input, node, pin))
          now.push_back(pin);
      std::ranges::sort(now, {}, &Pin::unit);
    }
    const auto part = input.present->nodes.find(name);
    const bool same = part != input.present->nodes.end() ? same_pins(before, now) : now.empty();
    if (same && part == input.present->nodes.end())
      continue;
    result.changed = result.changed || !same;
    result.plan.nodes[name] = {
        .node = name, .version = same ? part->second.version : version, .pins = std::move(now)};
  }
  return result;
}

}  // namespace heddle
