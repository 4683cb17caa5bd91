// What was decided: plans, their differences, the reason for a flow's path, the off switch.
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

struct WantedFlow {
  IpAddress source;
  IpAddress destination;
  std::optional<std::uint16_t> port;
};

// "10.1.1.2", "10.1.1.2:51986", "[fd00::1]:51986".
Result<WantedFlow> parse_flow(std::span<const std::string> words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    std::size_t begin = 0;
    while ((begin = word.find_first_not_of(' ', begin)) != std::string::npos) {
      const std::size_t end = std::min(word.find(' ', begin), word.size());
      parts.push_back(word.substr(begin, end - begin));
      begin = end;
    }
  }
  if (parts.size() != 2)
    return fail(Errc::invalid_argument,
                "a flow is named by its source and its destination: 10.1.1.2 10.2.1.2");
  WantedFlow wanted;
  std::string source = parts[0];
  const std::size_t colon = source.rfind(':');
  const bool bracketed = source.starts_with('[');
  if (colon != std::string::npos &&
      (bracketed ? source[colon - 1] == ']' : source.find(':') == colon)) {
    std::uint16_t port = 0;
    const char* end = source.data() + source.size();
    const auto [rest, error] = std::from_chars(source.data() + colon + 1, end, port);
    if (error != std::errc() || rest != end)
      return fail(Errc::invalid_argument, fmt::format("'{}' has no valid port", source));
    wanted.port = port;
    source.resize(colon);
  }
  if (bracketed && source.ends_with(']'))
    source = source.substr(1, source.size() - 2);
  const auto from = IpAddress::parse(source);
  if (!from)
    return tl::unexpected(from.error());
  const auto to = IpAddress::parse(parts[1]);
  if (!to)
    return tl::unexpected(to.error());
  wanted.source = *from;
  wanted.destination = *to;
  return wanted;
}

std::vector<std::uint32_t> count_elephants(const NetworkView& view, const Unit& without) {
  std::vector<std::uint32_t> counts(view.topology.link_count());
  for (std::size_t s = 0; s < view.routing.size(); ++s) {
    const Path& path = view.routing[s];
    if (!path.crosses_core() || std::ranges::binary_search(without.subflows, s))
      continue;
    ++counts[view.topology.uplink(path.up).value];
    if (path.down.valid())
      ++counts[view.topology.downlink(path.down).value];
  }
  return counts;
}

// Every other way, with the elephants that are on its busiest link already.
Json alternatives(const NetworkView& view, const Unit& unit, const Path& path) {
  const std::vector<std::uint32_t> counts = count_elephants(view, unit);
  Json list = Json::array();
  for (const CableId cable : view.topology[unit.leaf].cables) {
    const Path other = path_through(view.topology, path.from, cable, path.to);
    if (cable == path.up || !usable(view.planning.problem, other))
      continue;
    LinkId busiest = view.topology.uplink(cable);
    if (other.down.valid()) {
      const LinkId down = view.topology.downlink(other.down);
      if (counts[down.value] > counts[busiest.value])
        busiest = down;
    }
    list.push_back({{"path", to_string(view.topology, other)},
                    {"bottleneck", view.topology.link_name(busiest)},
                    {"elephants", counts[busiest.value]}});
  }
  return list;
}

const Pin* find_pin(const NetworkView& view, const std::string& node, const SteeringUnit& unit) {
  if (view.record == nullptr)
    return nullptr;
  const auto part = view.record->plan.nodes.find(node);
  if (part == view.record->plan.nodes.end())
    return nullptr;
  const auto pin = std::ranges::find(part->second.pins, unit, &Pin::unit);
  return pin == part->second.pins.end() ? nullptr : &*pin;
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

Result<std::string> explain_json(const NetworkView& view, std::span<const std::string> flow) {
  const Result<WantedFlow> wanted = parse_flow(flow);
  if (!wanted)
    return tl::unexpected(wanted.error());
  std::size_t subflow = 0;
  for (std::size_t i = 0; i < view.planning.flow_of.size(); ++i) {
    const PredictedFlow& predicted = view.prediction.flows[view.planning.flow_of[i]];
    const FlowDemand& demand = view.planning.problem.demand.flows[i];
    for (std::uint32_t q = 0; q < demand.subflows; ++q, ++subflow) {
      const FlowKey& key = predicted.subflows[view.planning.subflow_of[subflow]];
      if (key.source != wanted->source || key.destination != wanted->destination ||
          (wanted->port && key.source_port != *wanted->port))
        continue;
      const Unit& unit = view.planning.units[view.planning.problem.unit_of_subflow[subflow]];
      const Path& path = view.routing[subflow];
      const std::string& node = view.topology[unit.leaf].name;
      const Pin* pin = find_pin(view, node, unit.steering);
      const auto since = pin != nullptr ? view.since(node, unit.steering) : std::nullopt;
      std::string reason = pin != nullptr ? pin->reason : "not pinned: left to ECMP";
      if (path.routable() && !path.crosses_core())
        reason = "both ends are on one leaf";
      return dump(
          {{"flow", fmt::format("{} {}", to_string(key.source), to_string(key.destination))},
           {"job", view.prediction.jobs[demand.job.value].name},
           {"path", to_string(view.topology, path)},
           {"since", since ? Json(iso(*since)) : Json()},
           {"reason", reason},
           {"alternatives", path.crosses_core() ? alternatives(view, unit, path) : Json::array()}});
    }
  }
  for (const auto& [key, seen] : view.flows.subflows())
    if (key.source == wanted->source && key.destination == wanted->destination &&
        (!wanted->port || key.source_port == *wanted->port))
      return dump(
          {{"flow", fmt::format("{} {}", to_string(key.source), to_string(key.destination))},
           {"job", nullptr},
           {"path", seen.observed_up.valid()
                        ? Json(to_string(view.topology, Path{.from = seen.entry,
                                                             .up = seen.observed_up,
                                                             .down = {},
                                                             .to = seen.entry}))
                        : Json("unobservable")},
           {"since", nullptr},
           {"reason", seen.elephant
                          ? "an elephant that no plan has placed yet, or whose path nobody sees"
                          : "a mouse: too small to be worth a path of its own, left to ECMP"},
           {"alternatives", Json::array()}});
  return fail(Errc::not_found,
              fmt::format("no flow from {} to {} is seen", to_string(wanted->source),
                          to_string(wanted->destination)));
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
