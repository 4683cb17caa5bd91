// What was decided: plans, their differences, the off switch.
#include <algorithm>
#include <charconv>

#include "coordinator/serve/answers.h"
#include "coordinator/serve/json.h"

namespace heddle {

namespace {

Json pin_json(const std::string& node, const Pin& pin) {
  return {{"node", node},
          {"unit", to_string(pin.unit)},
          {"target", to_string(pin.target)},
          {"reason", pin.reason}};
}

}  // namespace

std::string plan_json(const PlanRecord& record) {
  Json by_job = Json::object();
  for (const auto& [name, efficiency] : record.by_job)
    by_job[name] = efficiency;
  Json pins = Json::array();
  for (const auto& [node, part] : record.plan.nodes)
    for (const Pin& pin : part.pins)
      pins.push_back(pin_json(node, pin));
  Json moves = Json::array();
  for (const MoveRecord& move : record.moves)
    moves.push_back(
        {{"flow", move.flow}, {"from", move.from}, {"to", move.to}, {"reason", move.reason}});
  const bool judged = !record.by_job.empty();
  return dump({{"version", to_string(record.plan.version)},
               {"wall", iso(record.wall)},
               {"reason", record.reason},
               {"efficiency",
                {{"worst", judged ? Json(record.worst) : Json()},
                 {"mean", judged ? Json(record.mean) : Json()},
                 {"by_job", std::move(by_job)}}},
               {"pins", std::move(pins)},
               {"moves", std::move(moves)}});
}

std::string plan_diff_json(const RoutePlan& from, const RoutePlan& to) {
  Json set = Json::array();
  Json removed = Json::array();
  std::set<std::string> nodes;
  for (const auto& [node, part] : from.nodes)
    nodes.insert(node);
  for (const auto& [node, part] : to.nodes)
    nodes.insert(node);
  const auto part_of = [](const RoutePlan& plan, const std::string& node) {
    const auto part = plan.nodes.find(node);
    return part == plan.nodes.end() ? NodePlan{.node = node, .version = plan.version, .pins = {}}
                                    : part->second;
  };
  for (const std::string& node : nodes) {
    const PlanDiff change = diff(part_of(from, node), part_of(to, node));
    for (const Pin& pin : change.set)
      set.push_back(pin_json(node, pin));
    for (const SteeringUnit& unit : change.removed)
      removed.push_back({{"node", node}, {"unit", to_string(unit)}});
  }
  return dump({{"from", to_string(from.version)},
               {"to", to_string(to.version)},
               {"set", std::move(set)},
               {"removed", std::move(removed)}});
}

std::string switched_json(std::span<const SwitchedNode> nodes) {
  Json list = Json::array();
  for (const SwitchedNode& node : nodes)
    list.push_back(
        {{"name", node.name}, {"disabled", node.disabled}, {"confirmed", node.confirmed}});
  return dump({{"nodes", std::move(list)}});
}

Result<PlanVersion> parse_version(const std::string& text) {
  PlanVersion version;
  const char* end = text.data() + text.size();
  const auto [dot, epoch_error] = std::from_chars(text.data(), end, version.epoch);
  if (epoch_error == std::errc() && dot != end && *dot == '.') {
    const auto [rest, error] = std::from_chars(dot + 1, end, version.generation);
    if (error == std::errc() && rest == end)
      return version;
  }
  return fail(Errc::invalid_argument,
              fmt::format("'{}' is no plan version; they look like 3.17", text));
}

}  // namespace heddle
