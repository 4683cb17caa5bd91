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

  // Of a spine's pin.
  std::string leads(const Path& path) const {
    const std::uint32_t down = topology_.downlink(path.down).value;
    return fmt::format("leads on by {}: {} there", topology_.link_name({down}),
                       elephants(after_[down]));
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

PinTarget target_of(const PlanningInput& input, const Unit& unit, const Path& path) {
  const Topology& topology = *input.topology;
  const auto* to = std::get_if<ByDestination>(&unit.steering);
  if (to != nullptr && std::holds_alternative<HostId>(unit.node)) {
    const NicId nic = topology[path.to].nic;
    return SegmentList{{input.segments.spines.at(topology[path.up].spine),
                        input.segments.hosts.at({topology[nic].host, to->destination.family})}};
  }
  const std::string& port = topology[path.up].leaf_port;
  if (to != nullptr)
    return HostRoute{port};
  if (std::holds_alternative<ByQueuePair>(unit.steering))
    return FlowMark{port};
  return PortTableRoute{port};
}

// A pin of the present plan that no flow in demand asks for may stay if its link can still carry
// it.
bool may_linger(const PlanningInput& input, const Problem& problem, NodeId node, const Pin& pin) {
  const Topology& topology = *input.topology;
  const auto nic = topology.find_nic(destination_of(pin.unit));
  if (!nic || !input.steering.contains(node) || input.refused.contains({node, pin.unit}) ||
      touches(topology, input.never_touch, {node, pin.unit}))
    return false;
  if (const auto* host = std::get_if<HostId>(&node)) {
    if (const auto* list = std::get_if<SegmentList>(&pin.target))
      return input.segments.senders.contains(*host) && spine_of(input.segments.spines, *list) &&
             std::ranges::any_of(input.segments.hosts, [&](const auto& known) {
               return known.first.first == topology[*nic].host &&
                      known.second == list->segments.back();
             });
    const auto* route = std::get_if<HostRoute>(&pin.target);
    const auto entry = route != nullptr ? topology.attachment_at(*host, route->out_port)
                                        : std::optional<AttachmentId>();
    return entry && input.host_routes.contains(*host) && input.links->up(topology.nic_tx(*entry)) &&
           !input.unreached.contains({*entry, *nic});
  }
  const auto cable = pinned_cable(topology, node, pin);
  if (!cable)
    return false;
  if (std::holds_alternative<SpineId>(node))
    return input.links->up(topology.downlink(*cable));
  const auto& attachments = topology[topology[*cable].leaf].attachments;
  return !attachments.empty() && usable(problem, path_through(topology, attachments.front(), *cable,
                                                              topology[*nic].attachments.front()));
}

bool same_pins(const std::vector<Pin>& a, const std::vector<Pin>& b) {
  return std::ranges::equal(
      a, b, [](const Pin& x, const Pin& y) { return x.unit == y.unit && x.target == y.target; });
}

// Collects the pins of all nodes, each with its reason, and what they move.
class Maker {
 public:
  Maker(const PlanningInput& input, const PlanningProblem& planning, const Routing& routing)
      : input_(input),
        planning_(planning),
        topology_(*input.topology),
        routing_(routing),
        reasons_(input, planning.problem, routing) {
    for (std::size_t i = 0; i < planning.flow_of.size(); ++i)
      flow_of_subflow_.insert(flow_of_subflow_.end(), planning.problem.demand.flows[i].subflows,
                              planning.flow_of[i]);
  }

  const std::vector<Pin>& present(const std::string& node) const {
    static const std::vector<Pin> kNone;
    const auto part = input_.present->nodes.find(node);
    return part == input_.present->nodes.end() ? kNone : part->second.pins;
  }

  void add(const Unit& unit) {
    const std::uint32_t first = unit.subflows.front();
    const Path& path = routing_[first];
    if (!unit.pinnable || !path.crosses_core() || !usable(planning_.problem, path) ||
        !can_lead(planning_, unit, path))
      return;
    const Path& from = planning_.problem.current[first];
    Pin pin{.unit = unit.steering, .target = target_of(input_, unit, path), .reason = {}};
    const bool moved = differs(topology_, from, path);
    const Pin* before = find_pin(present(topology_.name_of(unit.node)), unit.steering);
    const std::string gone = before == nullptr ? std::string() : lost_segment(*before);
    pin.reason = moved && !gone.empty()                              ? gone
                 : moved                                             ? reasons_.moved(from, path)
                 : before != nullptr && before->target == pin.target ? before->reason
                                                                     : reasons_.kept(path);
    if (moved) {
      const FlowKey& key =
          input_.prediction->flows[flow_of_subflow_[first]].subflows[planning_.subflow_of[first]];
      moves.push_back(
          {.flow = fmt::format("{} {}", to_string(key.source), to_string(key.destination)),
           .from = from.crosses_core() ? describe(planning_, from) : "ecmp",
           .to = describe(planning_, path),
           .reason = pin.reason});
    }
    if (const auto at_spine = spine_pin(planning_, path); at_spine && path.down.valid())
      // Several units may come in together: one pin leads them all.
      spine_pins_.try_emplace(*at_spine, path);
    pins[unit.node].push_back(std::move(pin));
  }

  void add(const Entry& entry) {
    Pin pin{.unit = ByDestination{topology_[entry.destination].address},
            .target = HostRoute{topology_[entry.chosen].host_port},
            .reason = {}};
    const std::string& leaf = topology_[topology_[entry.chosen].leaf].name;
    const Pin* before = find_pin(present(topology_[entry.host].name), pin.unit);
    const bool moved = entry.before.valid() && entry.before != entry.chosen;
    if (!moved && before != nullptr && before->target == pin.target)
      pin.reason = before->reason;
    else
      pin.reason = fmt::format("{} {}: {} elephant{} there", moved ? "goes over to" : "enters by",
                               topology_.link_name(topology_.nic_tx(entry.chosen)), entry.beside,
                               entry.beside == 1 ? "" : "s");
    if (moved) {
      const FlowKey& key = input_.prediction->flows[entry.flow].subflows.front();
      moves.push_back(
          {.flow = fmt::format("{} {}", to_string(key.source), to_string(key.destination)),
           .from = topology_[topology_[entry.before].leaf].name,
           .to = leaf,
           .reason = pin.reason});
    }
    pins[entry.host].push_back(std::move(pin));
  }

  void finish() {
    for (const auto& [key, path] : spine_pins_) {
      Pin pin{.unit = key.unit,
              .target = PortTableRoute{topology_[path.down].spine_port},
              .reason = {}};
      const Pin* before = find_pin(present(topology_.name_of(key.node)), key.unit);
      pin.reason =
          before != nullptr && before->target == pin.target ? before->reason : reasons_.leads(path);
      pins[key.node].push_back(std::move(pin));
    }
  }

  std::map<NodeId, std::vector<Pin>> pins;
  std::vector<FlowMove> moves;

 private:
  // Why a list of segments leads nowhere any more; empty if it does.
  std::string lost_segment(const Pin& pin) const {
    const auto* list = std::get_if<SegmentList>(&pin.target);
    return list == nullptr || spine_of(input_.segments.spines, *list)
               ? std::string()
               : fmt::format("no agent of a spine tells of the segment {} any more",
                             to_string(list->segments.front()));
  }

  const PlanningInput& input_;
  const PlanningProblem& planning_;
  const Topology& topology_;
  const Routing& routing_;
  const Reasons reasons_;
  std::vector<std::uint32_t> flow_of_subflow_;  // in the prediction
  std::map<PinKey, Path> spine_pins_;
};

}  // namespace

PlanAndMoves make_plan(const PlanningInput& input, const PlanningProblem& planning,
                       const Routing& routing, PlanVersion version, bool keep_unknown) {
  const Topology& topology = *input.topology;
  Maker maker(input, planning, routing);
  for (const Entry& entry : planning.entries)
    maker.add(entry);
  for (const Unit& unit : planning.units)
    maker.add(unit);
  maker.finish();

  std::set<PinKey> demanded;
  if (keep_unknown)
    demanded = demanded_units(input);
  PlanAndMoves result;
  result.plan.version = version;
  result.moves = std::move(maker.moves);
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
    const std::vector<Pin>& before = maker.present(name);
    std::vector<Pin> now;
    if (const auto made = maker.pins.find(node); made != maker.pins.end())
      now = std::move(made->second);
    if (keep_unknown)
      for (const Pin& pin : before)
        if (!demanded.contains({node, pin.unit}) && may_linger(input, planning.problem, node, pin))
          now.push_back(pin);
    std::ranges::sort(now, {}, &Pin::unit);
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
