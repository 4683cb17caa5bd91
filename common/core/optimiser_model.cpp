#include "common/core/optimiser_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/core/check.h"

namespace heddle {

Model::Model(const Problem& problem) : problem_(problem) {
  HEDDLE_CHECK(problem.topology != nullptr && problem.links != nullptr);
  number_subflows();
  find_resources();
  load_fixed();
  find_units();
}

void Model::number_subflows() {
  const Demand& demand = problem_.demand;
  flow_of_.reserve(demand.subflow_count());
  for (std::uint32_t f = 0; f < demand.flows.size(); ++f) {
    first_subflow_.push_back(static_cast<std::uint32_t>(flow_of_.size()));
    flow_of_.insert(flow_of_.end(), demand.flows[f].subflows, f);
  }
  const std::size_t n = flow_of_.size();
  HEDDLE_CHECK(problem_.unit_of_subflow.empty() || problem_.unit_of_subflow.size() == n);
  HEDDLE_CHECK(problem_.current.empty() || problem_.current.size() == n);
  HEDDLE_CHECK(problem_.fixed.empty() || problem_.fixed.size() == n);
  HEDDLE_CHECK(problem_.ways.empty() || problem_.ways.size() == demand.flows.size());
  HEDDLE_CHECK(std::ranges::is_sorted(problem_.forbidden));
}

void Model::find_resources() {
  const Topology& fabric = topology();
  const LinkState& links = *problem_.links;
  const auto left = [&](LinkId link) {
    const double taken =
        problem_.residual.empty() ? 0.0 : problem_.residual[link.value].bits_per_second;
    return std::max(0.0, fabric.capacity(link).bits_per_second - taken);
  };
  spine_of_.reserve(fabric.cables().size());
  first_uplink_.reserve(fabric.leaves().size() * (fabric.spines().size() + 1));
  for (const Topology::Cable& cable : fabric.cables())
    spine_of_.push_back(cable.spine);
  resources_.resize(fabric.cables().size() + fabric.spines().size() * fabric.leaves().size());
  uplinks_.resize(fabric.leaves().size());
  for (std::uint32_t c = 0; c < fabric.cables().size(); ++c) {
    const CableId cable{c};
    const Topology::Cable& ends = fabric[cable];
    if (links.up(fabric.uplink(cable))) {
      resources_[c] = {.capacity = left(fabric.uplink(cable)), .lanes = 1};
      uplinks_[ends.leaf.value].push_back({.cable = cable, .spine = ends.spine});
    }
    if (links.up(fabric.downlink(cable))) {
      // Hashing loads parallel cables alike, so the narrowest decides; capacity holds it until all
      // are seen.
      Resource& bundle = resources_[downlinks(ends.spine, ends.leaf).value];
      const double own = left(fabric.downlink(cable));
      bundle.capacity = bundle.lanes == 0 ? own : std::min(bundle.capacity, own);
      ++bundle.lanes;
    }
  }
  for (Resource& resource : resources_)
    resource.capacity *= resource.lanes;
  for (auto& list : uplinks_) {
    std::ranges::stable_sort(list, {}, &Uplink::spine);
    auto next = list.begin();
    for (std::uint32_t s = 0; s <= fabric.spines().size(); ++s) {
      while (next != list.end() && next->spine.value < s)
        ++next;
      first_uplink_.push_back(static_cast<std::uint32_t>(next - list.begin()));
    }
  }
}

void Model::load_fixed() {
  if (problem_.fixed.empty() || problem_.current.empty())
    return;
  for (std::uint32_t s = 0; s < subflows(); ++s) {
    const Path& path = problem_.current[s];
    if (!is_fixed(s) || !path.routable())
      continue;
    placed_.push_back({.subflow = s, .path = path});
    if (!path.crosses_core())
      continue;
    ++resources_[uplink(path.up).value].fixed;
    ++resources_[downlinks(spine_of(path.up), topology()[path.to].leaf).value].fixed;
  }
}

std::string Model::nic_name(NicId nic) const {
  if (nic.value >= topology().nics().size())
    return "a NIC that the fabric does not have";
  const Topology::Nic& found = topology()[nic];
  return topology()[found.host].name + "/" + found.name;
}

// The ways of one subflow: pairs of live attachments between which the core has a path, or one pair
// on one leaf. None: why_unplaced() tells the reason.
void Model::find_ways(std::uint32_t subflow, std::vector<Way>& ways) const {
  const FlowDemand& flow = demand_of(subflow);
  const LinkState& links = *problem_.links;
  ways.clear();
  const std::size_t nics = topology().nics().size();
  if (flow.source.value >= nics || flow.destination.value >= nics ||
      flow.source == flow.destination || !std::isfinite(flow.weight) || flow.weight <= 0.0)
    return;
  const FlowWay* given = way_of(subflow);
  for (const AttachmentId from : topology()[flow.source].attachments) {
    if (!links.up(topology().nic_tx(from)) || (given != nullptr && given->from != from))
      continue;
    for (const AttachmentId to : topology()[flow.destination].attachments) {
      if (!links.up(topology().nic_rx(to)) || (given != nullptr && given->to != to))
        continue;
      const Way way{.from = from,
                    .to = to,
                    .from_leaf = topology()[from].leaf,
                    .to_leaf = topology()[to].leaf,
                    .uplinks = given != nullptr ? given->uplinks : FlowWay::kEveryUplink};
      if (way.from_leaf == way.to_leaf) {
        ways.assign(1, way);  // no other way can be better than one that needs no core
        return;
      }
      if (std::ranges::any_of(uplinks(way.from_leaf), [&](const Uplink& up) {
            return leads(way.from_leaf, up, way.to_leaf) && reaches(way, up.cable);
          }))
        ways.push_back(way);
    }
  }
}

std::string Model::why_unplaced(std::uint32_t subflow) const {
  const FlowDemand& flow = demand_of(subflow);
  for (const NicId nic : {flow.source, flow.destination})
    if (nic.value >= topology().nics().size() || topology()[nic].attachments.empty())
      return fmt::format("{} is in no leaf", nic_name(nic));
  if (flow.source == flow.destination)
    return fmt::format("{} sends to itself", nic_name(flow.source));
  if (!std::isfinite(flow.weight) || flow.weight <= 0.0)
    return fmt::format("{} > {} has the weight {}, which is not positive and finite",
                       nic_name(flow.source), nic_name(flow.destination), flow.weight);
  const AttachmentId from = live_attachment(flow.source, {}, true);
  const AttachmentId to = live_attachment(flow.destination, {}, false);
  if (!from.valid() || !to.valid())
    return fmt::format("{} has no live port",
                       nic_name(from.valid() ? flow.destination : flow.source));
  const Topology::Leaf& leaf = topology()[topology()[from].leaf];
  if (uplinks(topology()[from].leaf).empty())
    return fmt::format("{} has no live uplink", leaf.name);
  return fmt::format("no live path from {} to {}", leaf.name, topology()[topology()[to].leaf].name);
}

void Model::find_units() {
  std::vector<std::uint32_t> order(subflows());
  std::iota(order.begin(), order.end(), 0U);
  const auto unit_of = [this](std::uint32_t s) {
    return problem_.unit_of_subflow.empty() ? flow_of_[s] : problem_.unit_of_subflow[s];
  };
  // Units in the order of their first subflows when they are flows; by number when they are given.
  if (!std::ranges::is_sorted(order, {}, unit_of))
    std::ranges::stable_sort(order, {}, unit_of);
  members_.reserve(order.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && unit_of(order[end]) == unit_of(order[begin]))
      ++end;
    make_unit(std::span(order).subspan(begin, end - begin));
    begin = end;
  }
}

void Model::make_unit(std::span<const std::uint32_t> subflows) {
  Unit unit{.first_member = static_cast<std::uint32_t>(members_.size()),
            .first_way = static_cast<std::uint32_t>(ways_.size())};
  bool shares_ways = false;  // with the unit before, as queue pairs of one flow do
  std::vector<Way> ways;
  for (const std::uint32_t s : subflows) {
    if (is_fixed(s))
      continue;
    const bool again = flow_of_[s] == flow_in_hand_;
    if (!again) {
      find_ways(s, ways_in_hand_);
      flow_in_hand_ = flow_of_[s];
      unit_in_hand_ = {};
    }
    if (ways_in_hand_.empty()) {
      note(why_unplaced(s), 1);
      continue;
    }
    if (ways_in_hand_.front().from_leaf == ways_in_hand_.front().to_leaf) {
      placed_.push_back({.subflow = s,
                         .path = {.from = ways_in_hand_.front().from,
                                  .up = {},
                                  .down = {},
                                  .to = ways_in_hand_.front().to}});
      continue;
    }
    if (members_.size() == unit.first_member) {
      shares_ways = unit_in_hand_.end_way > unit_in_hand_.first_way;
      ways = ways_in_hand_;
    } else if (!again) {
      shares_ways = false;
      std::erase_if(ways, [&](const Way& way) {
        return std::ranges::none_of(ways_in_hand_, [&](const Way& other) {
          return other.from_leaf == way.from_leaf && other.to_leaf == way.to_leaf &&
                 other.uplinks == way.uplinks;
        });
      });
    }
    members_.push_back(s);
  }
  unit.end_member = static_cast<std::uint32_t>(members_.size());
  if (unit.size() == 0)
    return;
  if (ways.empty()) {
    note("a steering unit whose subflows have no pair of leaves in common", unit.size());
    members_.resize(unit.first_member);
    return;
  }
  if (shares_ways) {
    unit.first_way = unit_in_hand_.first_way;
    unit.end_way = unit_in_hand_.end_way;
  } else {
    ways_.insert(ways_.end(), ways.begin(), ways.end());
    unit.end_way = static_cast<std::uint32_t>(ways_.size());
  }
  // Only a unit of one flow has just this flow's ways.
  const bool of_one_flow = flow_of_[members_[unit.first_member]] == flow_in_hand_;
  unit_in_hand_ = of_one_flow ? unit : Unit{};
  units_.push_back(unit);
}

bool Model::forbidden(LeafId from, CableId up, LeafId to) const {
  return std::ranges::binary_search(problem_.forbidden,
                                    Forbidden{.from = from, .to = to, .up = up});
}

bool Model::allows(const Unit& unit, const Choice& choice) const {
  if (choice.way < unit.first_way || choice.way >= unit.end_way)
    return false;
  const Way& way = ways_[choice.way];
  return topology()[choice.up].leaf == way.from_leaf &&
         resources_[uplink(choice.up).value].lanes > 0 && reaches(way, choice.up) &&
         leads(way.from_leaf, {.cable = choice.up, .spine = spine_of(choice.up)}, way.to_leaf);
}

Model::Choice Model::current(const Unit& unit) const {
  if (problem_.current.empty())
    return {};
  const Path& path = problem_.current[members_[unit.first_member]];
  if (!path.routable() || !path.crosses_core())
    return {};
  for (std::uint32_t w = unit.first_way; w < unit.end_way; ++w) {
    const Choice choice{.way = w, .up = path.up};
    if (ways_[w].from == path.from && ways_[w].to == path.to && allows(unit, choice))
      return choice;
  }
  return {};
}

// The NIC's first live attachment, on that leaf if one is named.
AttachmentId Model::live_attachment(NicId nic, LeafId leaf, bool sending) const {
  for (const AttachmentId a : topology()[nic].attachments) {
    const LinkId link = sending ? topology().nic_tx(a) : topology().nic_rx(a);
    if ((!leaf.valid() || topology()[a].leaf == leaf) && problem_.links->up(link))
      return a;
  }
  return {};
}

Path Model::path(const Unit& unit, std::uint32_t subflow, const Choice& choice) const {
  if (!choice.placed())
    return {};
  const Way& way = ways_[choice.way];
  const FlowDemand& flow = demand_of(subflow);
  const FlowDemand& first = demand_of(members_[unit.first_member]);
  Path path{.from = way.from, .up = choice.up, .down = {}, .to = way.to};
  if (const FlowWay* given = way_of(subflow)) {
    path.from = given->from;
    path.to = given->to;
  } else {
    if (flow.source != first.source)
      path.from = live_attachment(flow.source, way.from_leaf, true);
    if (flow.destination != first.destination)
      path.to = live_attachment(flow.destination, way.to_leaf, false);
  }
  // Over one live cable the spine has nothing to choose; over several the choice is its hash's.
  const SpineId spine = spine_of(choice.up);
  path.spread = way.uplinks != FlowWay::kEveryUplink && problem_.uplink_sets[way.uplinks].spread;
  if (resources_[downlinks(spine, way.to_leaf).value].lanes == 1)
    for (const CableId cable : topology().cables_between(way.to_leaf, spine))
      if (problem_.links->up(topology().downlink(cable)))
        path.down = cable;
  return path;
}

Routing Model::base() const {
  Routing routing(subflows());
  for (const Placed& placed : placed_)
    routing[placed.subflow] = placed.path;
  return routing;
}

Routing Model::routing(std::span<const Choice> choices) const {
  HEDDLE_CHECK(choices.size() == units_.size());
  Routing routing = base();
  for (std::size_t u = 0; u < units_.size(); ++u)
    for (const std::uint32_t s : members(units_[u]))
      routing[s] = path(units_[u], s, choices[u]);
  return routing;
}

Placement Model::place(std::span<const Choice> choices) const {
  return place(routing(choices));
}

Placement Model::place(Routing routing) const {
  Placement placement;
  placement.routing = std::move(routing);
  if (!problem_.current.empty())
    placement.moves = list_moves(*this, problem_.current, placement.routing);
  for (const auto& [text, subflows] : notes_)
    placement.notes.push_back(subflows == 1 ? text
                                            : fmt::format("{} ({} subflows)", text, subflows));
  return placement;
}

}  // namespace heddle
