// Flows, whose they are and who sees them; and what the ports of hosts send besides.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

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

// What a flow works for, and who says so: "cgroup on h1-2".
struct Label {
  Json text;
  Json origin;
};

Label label(const std::string& text, const std::string& origin, const std::string& node) {
  if (text.empty())
    return {};
  return {text, origin + " on " + node};
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

// The queue pair that sends it, and its process.
struct Sender {
  Json node;
  Json qpn;
  Json pid;
  Json peer;
  Label label;
};

Sender sender_of(const InferredFlow& flow, Json peer) {
  const OpenQueuePair& pair = flow.pair;
  return {flow.node, pair.qpn, number_or_null(pair.pid), std::move(peer),
          label(pair.label, pair.label_origin, flow.node)};
}

// `open`: the queue pairs whose own machine does not know the peer, and which are this flow's.
Sender sender_of(const Subflow& flow, const std::vector<const InferredFlow*>& open) {
  // Packets that somebody sees confirm what was only inferred.
  const char* const peer = name_of(flow.sightings.empty() ? flow.sender.peer : PeerOrigin::wire);
  const Label own = label(flow.label, flow.label_origin, flow.label_node);
  if (flow.sender.qpn != 0)
    return {flow.sender.node, flow.sender.qpn, number_or_null(flow.sender.pid), peer, own};
  if (open.size() != 1)
    return {Json(), Json(), Json(), peer, own};
  Sender sender = sender_of(*open.front(), peer);
  if (!own.text.is_null())
    sender.label = own;
  return sender;
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
      {"label", sender.label.text},
      {"label_origin", sender.label.origin},
      {"message_length", flow.message_length.value > 0 ? Json(flow.message_length.value) : Json()},
      {"period_ms", milliseconds(flow.period)},
      {"planned_path",
       has_path && (pinned || local) ? Json(to_string(view.topology, *plan->path)) : Json("ecmp")},
      {"observed_path", observed},
      {"pinned", pinned},
      {"seen_by", std::move(seen_by)},
      {"sources", sources_of(flow)}};
}

// Open queue pairs, by the flows whose packets somebody sees and which can only be theirs.
class Confirmed {
 public:
  Confirmed(const FlowTable& table, const JoinedPairs& joined) {
    for (const auto& [key, flow] : joined.flows)
      if (table.subflows().contains(key))
        add(key, flow);
    if (joined.flows.empty() && joined.alone.empty())
      return;
    std::map<FlowKey, std::vector<FlowKey>> by_sender;
    for (const auto& [key, flow] : table.subflows()) {
      if (flow.sender.qpn == 0)
        by_sender[without_destination(key)].push_back(key);
      else  // also one whose own machine knew its peer until a moment ago
        known_.emplace(flow.sender.node, flow.sender.qpn, key.dest_qpn, flow.sender.pid);
    }
    // Of one whose other end nobody reports, the packets show where it is, if only one place comes
    // into question.
    for (const InferredFlow& flow : joined.alone) {
      const auto seen = by_sender.find(without_destination(flow.key));
      if (seen != by_sender.end() && seen->second.size() == 1)
        add(seen->second.front(), flow);
    }
  }

  std::vector<const InferredFlow*> of(const FlowKey& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? std::vector<const InferredFlow*>{} : found->second;
  }
  bool contains(const InferredFlow& flow) const {
    return pairs_.contains({flow.node, flow.pair.qpn, flow.pair.address}) ||
           known_.contains({flow.node, flow.pair.qpn, flow.pair.remote_qpn, flow.pair.pid});
  }

 private:
  static FlowKey without_destination(FlowKey key) {
    key.destination = {};
    return key;
  }
  void add(const FlowKey& key, const InferredFlow& flow) {
    by_key_[key].push_back(&flow);
    pairs_.emplace(flow.node, flow.pair.qpn, flow.pair.address);
  }

  std::map<FlowKey, std::vector<const InferredFlow*>> by_key_;
  std::set<std::tuple<std::string, std::uint32_t, IpAddress>> pairs_;
  // Node, queue pair, the other end's, process.
  std::set<std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>> known_;
};

// Queue pairs that are on no wire that somebody sees: what follows from both ends, and those whose
// other end nobody reports.
Json open_rows(const NetworkView& view, const JoinedPairs& joined, const Confirmed& confirmed) {
  Json rows = Json::array();
  const auto add = [&](const InferredFlow& open, Json peer) {
    Subflow flow;
    flow.key = open.key;
    Json row = flow_row(view, flow, nullptr, sender_of(open, std::move(peer)));
    row["sources"] = Json::array({open.node + ":rdma"});
    rows.push_back(std::move(row));
    return std::prev(rows.end());
  };
  // Of several that one may be, one row is enough.
  std::set<std::tuple<std::string, std::uint32_t, IpAddress>> shown;
  for (const auto& [key, open] : joined.flows) {
    if (confirmed.contains(open) ||
        !shown.emplace(open.node, open.pair.qpn, open.pair.address).second)
      continue;
    const auto row = add(open, "inferred");
    if (open.ambiguous)
      (*row)["destination"] = "unobservable";
  }
  for (const InferredFlow& open : joined.alone) {
    if (confirmed.contains(open))
      continue;
    const auto row = add(open, Json());
    (*row)["destination"] = "unobservable";
    (*row)["source_port"] = Json();  // what its driver makes of the numbers, nobody has seen
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
  const JoinedPairs joined = view.flows.joined_pairs();
  const Confirmed confirmed(view.flows, joined);
  Json flows = Json::array();
  for (const auto& [key, flow] : view.flows.subflows()) {
    const auto place = planned.find(key);
    flows.push_back(flow_row(view, flow, place == planned.end() ? nullptr : &place->second,
                             sender_of(flow, confirmed.of(key))));
  }
  Json more = open_rows(view, joined, confirmed);
  for (Json& row : more)
    flows.push_back(std::move(row));
  return dump({{"flows", std::move(flows)},
               {"ports", host_ports(view)},
               {"untracked", view.flows.untracked()}});
}

}  // namespace heddle
