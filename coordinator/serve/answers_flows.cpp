// Flows, whose they are and who sees them; and what the ports of hosts send besides.
#include <algorithm>
#include <cmath>
#include <map>

#include "coordinator/serve/answers.h"
#include "coordinator/serve/json.h"

namespace heddle {

namespace {

// Where a subflow is supposed to run, and whether a pin says so.
struct Planned {
  std::string job;
  const Path* path{};
  bool pinned{};
};

std::map<FlowKey, Planned> planned_by_key(const NetworkView& view) {
  std::map<FlowKey, Planned> planned;
  for (std::size_t i = 0; i < view.prediction.flows.size(); ++i)
    for (const FlowKey& key : view.prediction.flows[i].subflows)
      planned[key].job = view.prediction.jobs[view.prediction.demand.flows[i].job.value].name;
  std::vector<std::uint32_t> flow_of;
  for (std::size_t i = 0; i < view.planning.flow_of.size(); ++i)
    flow_of.insert(flow_of.end(), view.planning.problem.demand.flows[i].subflows,
                   view.planning.flow_of[i]);
  for (std::size_t s = 0; s < view.routing.size(); ++s) {
    const FlowKey& key = view.prediction.flows[flow_of[s]].subflows[view.planning.subflow_of[s]];
    const Unit& unit = view.planning.units[view.planning.problem.unit_of_subflow[s]];
    planned[key].path = &view.routing[s];
    planned[key].pinned = unit.pinnable && view.routing[s].crosses_core();
  }
  return planned;
}

// Null where every packet was counted.
Json bytes_error(const Subflow& flow) {
  return flow.bytes_variance > 0 ? Json(std::uint64_t(std::sqrt(flow.bytes_variance))) : Json();
}

// "cgroup on h1-2".
Json label_origin(const Subflow& flow) {
  return flow.label.empty() ? Json() : Json(flow.label_origin + " on " + flow.label_node);
}

const char* name_of(PeerOrigin origin) {
  switch (origin) {
    case PeerOrigin::wire:
      return "wire";
    case PeerOrigin::kernel:
      return "kernel";
    case PeerOrigin::cm:
      return "rdma_cm";
    case PeerOrigin::inferred:
      return "inferred";
  }
  return "unknown";
}

Json number_or_null(std::uint32_t number) {
  return number != 0 ? Json(number) : Json();
}

// The queue pair that sends it. Packets that somebody sees confirm what was only inferred.
struct Sender {
  Json node;
  Json qpn;
  Json pid;
  Json peer;
};

Sender sender_of(const Subflow& flow, const std::multimap<FlowKey, InferredFlow>& inferred) {
  const char* const peer = name_of(flow.sightings.empty() ? flow.sender.peer : PeerOrigin::wire);
  if (flow.sender.qpn != 0)
    return {flow.sender.node, flow.sender.qpn, number_or_null(flow.sender.pid), peer};
  const auto [begin, end] = inferred.equal_range(flow.key);
  if (begin != end && std::next(begin) == end) {
    const InferredFlow& pair = begin->second;
    return {pair.node, pair.qpn, number_or_null(pair.pid), peer};
  }
  return {Json(), Json(), Json(), peer};
}

// "h1-2:ebpf+rdma", the most trusted first.
Json sources_of(const Subflow& flow) {
  Json sources = Json::array();
  for (const Sighting& sighting : flow.sightings)
    sources.push_back(sighting.node + ":" + sighting.source);
  if (sources.empty() && !flow.sender.node.empty())
    sources.push_back(flow.sender.node + ":" + flow.sender.source);
  return sources;
}

Json flow_row(const NetworkView& view, const Subflow& flow, const Planned* plan,
              const Sender& sender) {
  const bool local = plan != nullptr && plan->path != nullptr && !plan->path->crosses_core();
  Json seen_by = Json::array();
  for (const Sighting& sighting : flow.sightings)
    seen_by.push_back(sighting.node);
  std::string observed = "unobservable";
  if (flow.observed_up.valid())
    observed =
        to_string(view.topology,
                  Path{.from = flow.entry, .up = flow.observed_up, .down = {}, .to = flow.entry});
  else if (local)
    observed = "local";
  const bool has_path = plan != nullptr && plan->path != nullptr;
  const bool pinned = plan != nullptr && plan->pinned;
  const bool counted = !flow.sightings.empty();
  return {
      {"source", to_string(flow.key.source)},
      {"destination", to_string(flow.key.destination)},
      {"source_port", flow.key.source_port},
      {"dest_qpn", flow.key.dest_qpn},
      {"local_qpn", sender.qpn},
      {"pid", sender.pid},
      {"sender", sender.node},
      {"peer", sender.peer},
      {"job", plan != nullptr ? Json(plan->job) : Json()},
      {"elephant", flow.elephant},
      {"rate_bps", counted ? rate(view.flows.rate(flow, view.now)) : Json("unobservable")},
      {"bytes", counted ? Json(flow.bytes.value) : Json("unobservable")},
      {"bytes_at_least", flow.reset},
      {"bytes_error", bytes_error(flow)},
      {"label", flow.label.empty() ? Json() : Json(flow.label)},
      {"label_origin", label_origin(flow)},
      {"message_length", flow.message_length.value > 0 ? Json(flow.message_length.value) : Json()},
      {"period_ms", milliseconds(flow.period)},
      {"planned_path",
       has_path && (pinned || local) ? Json(to_string(view.topology, *plan->path)) : Json("ecmp")},
      {"observed_path", observed},
      {"pinned", pinned},
      {"seen_by", std::move(seen_by)},
      {"sources", sources_of(flow)}};
}

// What follows from both ends' queue pairs and is not on any wire that somebody sees.
Json inferred_rows(const NetworkView& view, const std::multimap<FlowKey, InferredFlow>& inferred) {
  Json rows = Json::array();
  // Of several that a queue pair may be, traffic has confirmed one.
  std::set<std::pair<std::string, std::uint32_t>> confirmed;
  for (const auto& [key, pair] : inferred)
    if (view.flows.subflows().contains(key))
      confirmed.emplace(pair.node, pair.qpn);
  for (const auto& [key, pair] : inferred) {
    if (!confirmed.emplace(pair.node, pair.qpn).second)
      continue;
    Subflow flow;
    flow.key = key;
    Json row =
        flow_row(view, flow, nullptr, {pair.node, pair.qpn, number_or_null(pair.pid), "inferred"});
    if (pair.ambiguous)
      row["destination"] = "unobservable";
    row["sources"] = Json::array({pair.node + ":rdma"});
    rows.push_back(std::move(row));
  }
  return rows;
}

// What each port of a host sends, and how much of that the flows that are seen of it explain.
Json host_ports(const NetworkView& view) {
  std::map<std::pair<std::string, std::string>, double> explained;
  for (const auto& [key, flow] : view.flows.subflows()) {
    if (!flow.source.valid())
      continue;
    const Topology::Nic& nic = view.topology[flow.source];
    if (const auto seen = view.flows.rate(flow, view.now))
      explained[{view.topology[nic.host].name, nic.name}] += seen->bits_per_second;
  }
  Json rows = Json::array();
  for (const auto& [key, port] : view.flows.host_ports().ports()) {
    if (!view.topology.find_host(key.first))
      continue;
    const double flows = explained.contains(key) ? explained.at(key) : 0;
    rows.push_back(
        {{"node", key.first},
         {"port", key.second},
         {"device", port.device.empty() ? Json() : Json(port.device)},
         {"hidden", port.hidden},
         {"counted_by", port.by_rdma ? "rdma" : "interface"},
         {"rate_bps", rate(port.sent)},
         {"explained_bps", flows},
         {"unexplained_bps",
          port.sent ? Json(std::max(0.0, port.sent->bits_per_second - flows)) : Json()}});
  }
  return rows;
}

}  // namespace

std::string flows_json(const NetworkView& view) {
  const std::map<FlowKey, Planned> planned = planned_by_key(view);
  const std::multimap<FlowKey, InferredFlow> inferred = view.flows.open_pairs().join();
  Json flows = Json::array();
  for (const auto& [key, flow] : view.flows.subflows()) {
    const auto place = planned.find(key);
    flows.push_back(flow_row(view, flow, place == planned.end() ? nullptr : &place->second,
                             sender_of(flow, inferred)));
  }
  Json more = inferred_rows(view, inferred);
  for (Json& row : more)
    flows.push_back(std::move(row));
  return dump({{"flows", std::move(flows)},
               {"ports", host_ports(view)},
               {"untracked", view.flows.untracked()}});
}

}  // namespace heddle
