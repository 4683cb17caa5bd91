// By which attachment hosts that can choose send to each destination: what enters by each
// attachment and each leaf is balanced before the rest is placed.
#include <algorithm>
#include <map>

#include "coordinator/optimise/planning.h"

namespace heddle {

namespace {

// What a change must take off the busier of two attachments: new queue pairs alone follow it on
// RDMA hardware.
constexpr double kWorthMoving = 0.95;
constexpr int kRounds = 4;

struct Group {
  HostId host;
  NicId destination;
  std::vector<std::uint32_t> flows{};  // of the prediction
  std::uint32_t subflows{};
  std::vector<AttachmentId> options{};
  AttachmentId before{};
  AttachmentId chosen{};
};

// Where a flow enters whose host is not told: where it is seen, or by another port if that is dead.
AttachmentId entry_of(const PlanningInput& input, const FlowDemand& flow, AttachmentId seen) {
  const Topology& topology = *input.topology;
  if (!input.links->up(topology.nic_tx(seen)))
    for (const AttachmentId id : topology[flow.source].attachments)
      if (input.links->up(topology.nic_tx(id)))
        return id;
  return seen;
}

class Chooser {
 public:
  Chooser(const PlanningInput& input, const SharedDestinations& shared)
      : input_(input), topology_(*input.topology), shared_(shared) {
    network_.topology = input.topology;
    network_.links = input.links;
    network_.forbidden = input.forbidden;
    by_attachment_.resize(topology_.attachments().size());
    by_leaf_.resize(topology_.leaves().size());
    for (std::uint32_t l = 0; l < topology_.leaves().size(); ++l) {
      double capacity = 0;
      for (const CableId id : topology_[LeafId{l}].cables)
        if (input.links->up(topology_.uplink(id)))
          capacity += topology_.capacity(topology_.uplink(id)).bits_per_second;
      capacity_of_leaf_.push_back(capacity);
    }
  }

  EntryChoice choose() {
    EntryChoice result;
    const auto& flows = input_.prediction->flows;
    for (std::uint32_t i = 0; i < flows.size(); ++i) {
      const FlowDemand& demand = input_.prediction->demand.flows[i];
      result.of_flow.push_back(entry_of(input_, demand, flows[i].entry));
      if (!gather(i))
        add(result.of_flow.back(), demand.destination, demand.subflows);
    }
    if (groups_.empty())
      return result;
    place();
    for (int round = 0; round < kRounds && improve(); ++round) {
    }
    for (const auto& [key, group] : groups_) {
      for (const std::uint32_t flow : group.flows)
        result.of_flow[flow] = group.chosen;
      result.entries.push_back({.host = group.host,
                                .destination = group.destination,
                                .chosen = group.chosen,
                                .before = group.before,
                                .flow = group.flows.front(),
                                .beside = by_attachment_[group.chosen.value]});
    }
    return result;
  }

 private:
  // Whether the host chooses for the flow.
  bool gather(std::uint32_t index) {
    const FlowDemand& demand = input_.prediction->demand.flows[index];
    const PredictedFlow& flow = input_.prediction->flows[index];
    const HostId host = topology_[demand.source].host;
    const PinKey pin{host, ByDestination{topology_[demand.destination].address}};
    if (!input_.host_routes.contains(host) || shared_.contains({host, demand.destination}) ||
        wrapped(input_, shared_, demand) || input_.refused.contains(pin) ||
        input_.disabled_jobs.contains(input_.prediction->jobs[demand.job.value].name) ||
        touches(topology_, input_.never_touch, pin))
      return false;
    const auto [place, added] = groups_.try_emplace({host, demand.destination});
    Group& group = place->second;
    if (added) {
      group.host = host;
      group.destination = demand.destination;
      for (const AttachmentId id : topology_[demand.source].attachments)
        if (leads(id, demand.destination))
          group.options.push_back(id);
      if (!std::ranges::all_of(group.options, [this](AttachmentId id) { return drained(id); }))
        std::erase_if(group.options, [this](AttachmentId id) { return drained(id); });
      group.before = present(pin);
    }
    if (topology_[demand.source].attachments.size() < 2 || group.options.empty()) {
      groups_.erase(place);
      return false;
    }
    // Where it is seen tells something only if its leaf saw it.
    if (!group.before.valid() &&
        std::ranges::any_of(flow.observed, [](CableId id) { return id.valid(); }))
      group.before = flow.entry;
    group.flows.push_back(index);
    group.subflows += demand.subflows;
    return true;
  }

  AttachmentId present(const PinKey& pin) const {
    const HostId host = std::get<HostId>(pin.node);
    const Pin* const found = find_pin(*input_.present, topology_[host].name, pin.unit);
    const auto* route = found == nullptr ? nullptr : std::get_if<HostRoute>(&found->target);
    return route == nullptr
               ? AttachmentId{}
               : topology_.attachment_at(host, route->out_port).value_or(AttachmentId{});
  }

  // The host can name it, and it lives and leads there.
  bool leads(AttachmentId id, NicId destination) const {
    const Topology::Attachment& entry = topology_[id];
    if (topology_.attachment_at(topology_[entry.nic].host, entry.host_port) != id ||
        !input_.links->up(topology_.nic_tx(id)) || input_.unreached.contains({id, destination}))
      return false;
    const AttachmentId exit = exit_of(input_, id, destination);
    if (topology_[exit].leaf == entry.leaf)
      return true;
    return std::ranges::any_of(topology_[entry.leaf].cables, [&](CableId up) {
      return usable(network_, path_through(topology_, id, up, exit));
    });
  }

  // Its leaf is: all the ways on from there are.
  bool drained(AttachmentId id) const {
    return std::ranges::all_of(topology_[topology_[id].leaf].cables,
                               [this](CableId up) { return input_.draining.contains(up); });
  }

  bool crosses(AttachmentId entry, NicId destination) const {
    return topology_[exit_of(input_, entry, destination)].leaf != topology_[entry].leaf;
  }
  void add(AttachmentId entry, NicId destination, std::int64_t subflows) {
    by_attachment_[entry.value] += static_cast<std::uint32_t>(subflows);
    if (crosses(entry, destination))
      by_leaf_[topology_[entry].leaf.value] += static_cast<std::uint32_t>(subflows);
  }
  // Subflows for each bit a second of the port, or of the leaf's uplinks together if that is more.
  double busy(AttachmentId entry, std::uint32_t more_here, std::uint32_t more_in_core) const {
    const std::uint32_t leaf = topology_[entry].leaf.value;
    const double port = (by_attachment_[entry.value] + more_here) /
                        topology_.capacity(topology_.nic_tx(entry)).bits_per_second;
    return capacity_of_leaf_[leaf] <= 0
               ? port
               : std::max(port, (by_leaf_[leaf] + more_in_core) / capacity_of_leaf_[leaf]);
  }
  double busy_with(AttachmentId entry, const Group& group) const {
    return busy(entry, group.subflows, crosses(entry, group.destination) ? group.subflows : 0);
  }
  AttachmentId least_busy(const Group& group) const {
    return *std::ranges::min_element(group.options, {},
                                     [&](AttachmentId id) { return busy_with(id, group); });
  }

  // What is somewhere stays, if it can; then the rest, largest first.
  void place() {
    std::vector<Group*> rest;
    for (auto& [key, group] : groups_)
      if (std::ranges::find(group.options, group.before) != group.options.end()) {
        group.chosen = group.before;
        add(group.chosen, group.destination, group.subflows);
      } else {
        rest.push_back(&group);
      }
    std::ranges::stable_sort(rest, std::greater{}, &Group::subflows);
    for (Group* group : rest) {
      group->chosen = least_busy(*group);
      add(group->chosen, group->destination, group->subflows);
    }
  }

  // One move for each that gains by it; whether there was one.
  bool improve() {
    bool moved = false;
    for (auto& [key, group] : groups_) {
      const double present = busy(group.chosen, 0, 0);
      add(group.chosen, group.destination, -static_cast<std::int64_t>(group.subflows));
      if (const AttachmentId other = least_busy(group);
          busy_with(other, group) < present * kWorthMoving) {
        group.chosen = other;
        moved = true;
      }
      add(group.chosen, group.destination, group.subflows);
    }
    return moved;
  }

  const PlanningInput& input_;
  const Topology& topology_;
  const SharedDestinations& shared_;
  Problem network_;  // without flows: to tell which ways can be used
  std::map<std::pair<HostId, NicId>, Group> groups_;
  std::vector<std::uint32_t> by_attachment_;  // subflows
  std::vector<std::uint32_t> by_leaf_;        // those that go on into the core
  std::vector<double> capacity_of_leaf_;      // of its live uplinks
};

}  // namespace

AttachmentId exit_of(const PlanningInput& input, AttachmentId entry, NicId destination) {
  const Topology& topology = *input.topology;
  const LeafId leaf = topology[entry].leaf;
  const auto& attachments = topology[destination].attachments;
  const auto lives = [&](AttachmentId id) { return input.links->up(topology.nic_rx(id)); };
  for (const AttachmentId id : attachments)
    if (topology[id].leaf == leaf && (lives(id) || attachments.size() == 1))
      return id;
  for (const AttachmentId id : attachments)
    if (lives(id) && std::ranges::any_of(topology[leaf].cables, [&](CableId up) {
          return input.links->up(topology.uplink(up)) &&
                 std::ranges::any_of(
                     topology.cables_between(topology[id].leaf, topology[up].spine),
                     [&](CableId down) { return input.links->up(topology.downlink(down)); });
        }))
      return id;
  return attachments.front();
}

EntryChoice choose_entries(const PlanningInput& input, const SharedDestinations& shared) {
  if (!input.host_routes.empty())
    return Chooser(input, shared).choose();
  EntryChoice as_seen;
  for (std::size_t i = 0; i < input.prediction->flows.size(); ++i)
    as_seen.of_flow.push_back(
        entry_of(input, input.prediction->demand.flows[i], input.prediction->flows[i].entry));
  return as_seen;
}

}  // namespace heddle
