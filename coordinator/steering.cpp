// What may be steered just now, and by whom: what agents tell of themselves, and what their pins
// came to.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"

namespace heddle {

namespace {

// How long after its start a coordinator waits for the agents that pins' segments belong to: longer
// than they take to connect, and short, as nothing else takes flows off a spine that has died.
constexpr Duration kComeBack = std::chrono::seconds(3);

}  // namespace

std::map<NodeId, Granularity> Coordinator::steering() const {
  std::map<NodeId, Granularity> nodes;
  for (const auto& [name, agent] : broadcast_.agents())
    if (const auto node = topology_.find_node(name); node && may_steer(*node))
      if (const auto granularity = broadcast_.steering(name, parts_.clock.now()))
        nodes.emplace(*node, *granularity);
  return nodes;
}

// After a restart agents come back one by one. What the others hold stays as it is until their
// lease has run out, when there is nothing left to keep.
std::set<NodeId> Coordinator::unheard() const {
  std::set<NodeId> nodes;
  if (parts_.clock.now() - started_ >= settings_.broadcast.lease)
    return nodes;
  for (const NodeId node : topology_.nodes()) {
    const std::string& name = topology_.name_of(node);
    if (may_steer(node) && broadcast_.find(name) == nullptr &&
        !broadcast_.disabled().contains(name))
      nodes.insert(node);
  }
  // Hosts that came back before the spines that their pins lead over.
  if (record_ && parts_.clock.now() - started_ < kComeBack)
    for (const auto& [name, part] : record_->plan.nodes)
      if (const auto host = topology_.find_host(name))
        if (std::ranges::any_of(part.pins, [this](const Pin& pin) {
              const auto* list = std::get_if<SegmentList>(&pin.target);
              return list != nullptr && !spine_of(spine_segments_, *list);
            }))
          nodes.insert(*host);
  return nodes;
}

std::map<SpineId, IpAddress> Coordinator::spine_segments() const {
  std::map<SpineId, IpAddress> known;
  for (std::uint32_t i = 0; i < topology_.spines().size(); ++i)
    for (const LocalSegment& one : broadcast_.segments(topology_[SpineId{i}].name))
      if (one.behaviour == SegmentBehaviour::transit)
        known.try_emplace({i}, one.address);
  return known;
}

Segments Coordinator::segments() const {
  Segments known{.senders = {}, .spines = spine_segments(), .hosts = {}};
  for (const auto& [name, agent] : broadcast_.agents()) {
    const auto host = topology_.find_host(name);
    if (!host)
      continue;
    for (const LocalSegment& one : broadcast_.segments(name))
      if (one.behaviour != SegmentBehaviour::transit)
        known.hosts.try_emplace(
            {*host, one.behaviour == SegmentBehaviour::delivers_v4 ? Family::v4 : Family::v6},
            one.address);
    if (may_steer(*host) && broadcast_.holds_by(name, "srv6", parts_.clock.now()))
      known.senders.insert(*host);
  }
  return known;
}

std::set<HostId> Coordinator::host_routes() const {
  std::set<HostId> hosts;
  for (const auto& [name, agent] : broadcast_.agents())
    if (const auto host = topology_.find_host(name);
        host && may_steer(*host) && broadcast_.holds_by(name, "host-routes", parts_.clock.now()))
      hosts.insert(*host);
  return hosts;
}

// A segment whose agent is lost, or switched off, is one that packets may die at: what is led there
// is led elsewhere at once.
void Coordinator::watch_segments() {
  std::map<SpineId, IpAddress> now = spine_segments();
  if (now == spine_segments_)
    return;
  for (const auto& [spine, segment] : spine_segments_)
    if (const auto known = now.find(spine); known == now.end() || known->second != segment)
      plan_soon(fmt::format("{} no longer tells of its segment", topology_[spine].name));
  for (const auto& [spine, segment] : now)
    if (!spine_segments_.contains(spine))
      plan_soon(fmt::format("{} tells of its segment", topology_[spine].name));
  spine_segments_ = std::move(now);
}

// A pin that fails carries nothing, whatever the plan says. It is given up for as long as a lease
// lasts, so that it is not tried again with every plan. Where nothing may be programmed at all
// (a conflict, the off switch), the ways are not to blame.
void Coordinator::note_failures(const std::string& node) {
  const auto place = topology_.find_node(node);
  const AgentState* agent = broadcast_.find(node);
  if (!place || agent == nullptr || agent->disabled || !agent->conflict.empty())
    return;
  const NodePlan part = broadcast_.part_of(node);
  if (agent->installed != part.version)
    return;
  std::set<SteeringUnit> failed;
  std::set<SteeringUnit> not_offered;
  // What `main` does not offer is told as a withdrawal, which ends with the first offer; the agent
  // then installs the pin by itself. That goes for ports; no withdrawal tells of a segment.
  for (const PinFailure& failure : agent->failed)
    if (failure.code == Errc::permission)
      refused_.insert({*place, failure.unit});
    else if (failure.code == Errc::not_found)
      not_offered.insert(failure.unit);
    else
      failed.insert(failure.unit);
  const Time until = parts_.clock.now() + settings_.broadcast.lease;
  for (const Pin& pin : part.pins) {
    if (!std::holds_alternative<LeafId>(*place)) {
      if (failed.contains(pin.unit) ||
          (std::holds_alternative<SegmentList>(pin.target) && not_offered.contains(pin.unit)))
        failing_[{*place, pin.unit}] = {std::nullopt, until};
      continue;
    }
    const auto cable = pinned_cable(topology_, *place, pin);
    if (cable && failed.contains(pin.unit))
      failing_[{*place, pin.unit}] = {*cable, until};
    else if (const auto known = failing_.find({*place, pin.unit});
             known != failing_.end() && known->second.cable == cable)
      failing_.erase(known);
  }
}

PlanningInput Coordinator::planning_input() const {
  static const RoutePlan kNothing;
  std::vector<Forbidden> forbidden = links_.forbidden();
  std::set<CableId> drained = draining();
  const std::vector<Forbidden> kept_off = keep_away_from(topology_, drained);
  forbidden.insert(forbidden.end(), kept_off.begin(), kept_off.end());
  std::map<NodeId, Granularity> steers = steering();
  std::set<NodeId> not_heard = unheard();
  Segments known = segments();
  for (const NodeId node : not_heard)
    if (const auto* host = std::get_if<HostId>(&node)) {
      known.senders.erase(*host);
      steers.erase(node);
    }
  std::map<PinKey, CableId> failing;
  std::set<PinKey> refused = refused_;
  for (const auto& [pin, failure] : failing_) {
    if (!failure.cable) {
      refused.insert(pin);
      continue;
    }
    failing[pin] = *failure.cable;
    if (const auto nic = topology_.find_nic(destination_of(pin.unit)))
      for (const AttachmentId id : topology_[*nic].attachments)
        forbidden.push_back({topology_[*failure.cable].leaf, topology_[id].leaf, *failure.cable});
  }
  std::ranges::sort(forbidden);
  forbidden.erase(std::unique(forbidden.begin(), forbidden.end()), forbidden.end());
  return {.topology = &topology_,
          .links = &links_.state(),
          .forbidden = std::move(forbidden),
          .prediction = &prediction_,
          .steering = std::move(steers),
          .unheard = std::move(not_heard),
          .failing = std::move(failing),
          .disabled_jobs = disabled_jobs(),
          .never_touch = settings_.never_touch,
          .refused = std::move(refused),
          .segments = std::move(known),
          .host_routes = host_routes(),
          .unreached = links_.unreached(),
          .draining = std::move(drained),
          .present = record_ ? &record_->plan : &kNothing};
}

}  // namespace heddle
