// Why: of a flow's path, and of a job's speed.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>

#include "coordinator/optimise/diagnosis.h"
#include "coordinator/serve/answers.h"
#include "coordinator/serve/json.h"

namespace heddle {

namespace {

// Counters that tell of queues and losses, not of work done.
constexpr std::array<std::string_view, 9> kCongestion{
    "tx_wait",        "cnp_sent",        "cnp_handled",     "ecn_marked", "pause_sent",
    "pause_received", "out_of_sequence", "sequence_errors", "timeouts"};
// An efficiency this near to what is possible is what is possible.
constexpr double kAsGood = 0.995;

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

// The link of a path with the most elephants beside this flow's own.
LinkId busiest(const Topology& topology, const Path& path,
               const std::vector<std::uint32_t>& counts) {
  const LinkId up = topology.uplink(path.up);
  if (!path.down.valid())
    return up;
  const LinkId down = topology.downlink(path.down);
  return counts[down.value] > counts[up.value] ? down : up;
}

Json busiest_link(const NetworkView& view, const Path& path,
                  const std::vector<std::uint32_t>& counts) {
  if (!path.crosses_core())
    return nullptr;
  const LinkId link = busiest(view.topology, path, counts);
  return {{"link", view.topology.link_name(link)}, {"elephants", counts[link.value]}};
}

// Every other way, with the elephants that are on its busiest link already.
Json alternatives(const NetworkView& view, const Unit& unit, const Path& path,
                  const std::vector<std::uint32_t>& counts) {
  Json list = Json::array();
  for (const CableId cable : view.topology[view.topology[path.up].leaf].cables) {
    const Path other = path_through(view.topology, path.from, cable, path.to);
    if (cable == path.up || !usable(view.planning.problem, other) ||
        !can_lead(view.planning, unit, other))
      continue;
    const LinkId link = busiest(view.topology, other, counts);
    list.push_back({{"path", to_string(view.topology, other)},
                    {"bottleneck", view.topology.link_name(link)},
                    {"elephants", counts[link.value]}});
  }
  return list;
}

// A switch looks every packet's route up; a host's RDMA hardware does so once, when a queue pair is
// connected, and wraps nothing in segments.
const char* applies(const PinTarget& target) {
  if (std::holds_alternative<HostRoute>(target))
    return "to queue pairs made from then on on RDMA hardware, at once to what the kernel sends";
  if (std::holds_alternative<SegmentList>(target))
    return "at once to what the kernel sends; RDMA hardware does not take it";
  return "at once";
}

// Those of a port's counters that tell of congestion, a second. None: unobservable.
Json per_second(const HostPort& port) {
  const double seconds = std::chrono::duration<double>(port.length).count();
  Json counts = Json::object();
  for (const PortCount& count : port.counts)
    if (std::ranges::find(kCongestion, count.name) != kCongestion.end() && seconds > 0)
      counts[count.name] = static_cast<double>(count.value) / seconds;
  return counts;
}

// What a node reports of its port; nullptr where its agent is not there to report.
const HostPort* reported_port(const NetworkView& view, const std::string& node,
                              const std::string& name) {
  const AgentState* const agent = view.broadcast.find(node);
  return agent != nullptr && agent->connected ? view.flows.host_ports().find(node, name) : nullptr;
}

// What the leaves' ports on a path counted, in the order of the packets.
void add_leaf_ports(const NetworkView& view, const Path& path, Json& list) {
  if (!path.routable())
    return;
  struct Place {
    LeafId leaf;
    std::string port;
    const char* end;
  };
  const auto& from = view.topology[path.from];
  const auto& to = view.topology[path.to];
  std::vector<Place> places{{from.leaf, from.leaf_port, "from the host"}};
  if (path.up.valid())
    places.push_back({from.leaf, view.topology[path.up].leaf_port, "uplink"});
  if (path.down.valid())
    places.push_back({to.leaf, view.topology[path.down].leaf_port, "downlink"});
  places.push_back({to.leaf, to.leaf_port, "to the host"});
  for (const Place& place : places) {
    const std::string& leaf = view.topology[place.leaf].name;
    if (const HostPort* const port = reported_port(view, leaf, place.port))
      list.push_back({{"node", leaf},
                      {"port", place.port},
                      {"end", place.end},
                      {"per_second", per_second(*port)}});
  }
}

// What the ports at both ends of a flow counted in their last interval, a second, and those of the
// leaves on its path. Ports of which nothing is reported are left out: that is not zero (safety
// rule 7).
Json congestion(const NetworkView& view, const FlowDemand& flow, const Path& path) {
  Json list = Json::array();
  for (const NicId id : {flow.source, flow.destination}) {
    const auto& nic = view.topology[id];
    const std::string& host = view.topology[nic.host].name;
    const HostPort* const port = reported_port(view, host, nic.name);
    if (port == nullptr || port->hidden || port->counts.empty())
      continue;
    list.push_back({{"node", host},
                    {"port", nic.name},
                    {"end", id == flow.source ? "source" : "destination"},
                    {"per_second", per_second(*port)}});
  }
  add_leaf_ports(view, path, list);
  return list;
}

const Pin* find_pin(const NetworkView& view, const std::string& node, const SteeringUnit& unit) {
  return view.record == nullptr ? nullptr : find_pin(view.record->plan, node, unit);
}

// Why a pin's node does not hold it, by its own word; nothing if it says nothing of the kind.
Json trouble(const NetworkView& view, const std::string& node, const SteeringUnit& unit) {
  const AgentState* const agent = view.broadcast.find(node);
  if (agent == nullptr)
    return nullptr;
  const auto failure = std::ranges::find(agent->failed, unit, &PinFailure::unit);
  return failure == agent->failed.end() ? Json() : Json(failure->reason);
}

// Every pin on the flow's way, from the host on.
Json pins_of(const NetworkView& view, const Unit& unit, const FlowDemand& flow, const Path& path) {
  std::vector<PinKey> keys;
  const PinKey own{unit.node, unit.steering};
  const PinKey entry{view.topology[flow.source].host,
                     ByDestination{view.topology[flow.destination].address}};
  if (entry != own)
    keys.push_back(entry);
  keys.push_back(own);
  if (const auto at_spine = spine_pin(view.planning, path))
    keys.push_back(*at_spine);
  Json list = Json::array();
  for (const PinKey& key : keys) {
    const std::string& node = view.topology.name_of(key.node);
    const Pin* pin = find_pin(view, node, key.unit);
    if (pin == nullptr)
      continue;
    const auto since = view.since(node, key.unit);
    list.push_back({{"node", node},
                    {"unit", to_string(pin->unit)},
                    {"target", to_string(pin->target)},
                    {"since", since ? Json(iso(*since)) : Json()},
                    {"applies", applies(pin->target)},
                    {"reason", pin->reason},
                    {"trouble", trouble(view, node, key.unit)}});
  }
  return list;
}

// The slowest flow of a job and the link that holds it up, as JSON.
Json slowest_json(const NetworkView& view, const Diagnosis& found) {
  const PlanningProblem& planning = view.planning;
  const PredictedFlow& predicted = view.prediction.flows[planning.flow_of[found.flow]];
  const FlowKey& key = predicted.subflows[planning.subflow_of[found.subflow]];
  const Unit& unit = planning.units[planning.problem.unit_of_subflow[found.subflow]];
  const Path& path = view.routing[found.subflow];
  const auto seen = view.flows.subflows().find(key);
  const std::string& node = view.topology.name_of(unit.node);
  return {{"flow", fmt::format("{} {}", to_string(key.source), to_string(key.destination))},
          {"source_port", key.source_port},
          {"path", to_string(view.topology, path)},
          {"pinned", find_pin(view, node, unit.steering) != nullptr},
          {"steered_by", unit.pinnable ? Json(node) : Json()},
          {"rate_bps", found.rate.bits_per_second},
          {"needed_bps", found.needed.bits_per_second},
          {"observed_bps", seen == view.flows.subflows().end()
                               ? Json()
                               : rate(view.flows.rate(seen->second, view.now))}};
}

// What the leaf's port at a link counted of congestion. Nothing where nobody reports that (safety
// rule 7).
Json counted_at(const NetworkView& view, LinkId link) {
  const Topology::LeafEnd end = view.topology.leaf_end(link);
  const std::string& leaf = view.topology[end.leaf].name;
  const HostPort* const port = reported_port(view, leaf, end.port);
  Json counts = port != nullptr ? per_second(*port) : Json();
  return {{"node", leaf},
          {"port", end.port},
          {"per_second", counts.empty() ? Json() : std::move(counts)}};
}

Json bottleneck_json(const NetworkView& view, const Diagnosis& found) {
  if (!found.bottleneck)
    return nullptr;
  std::vector<std::uint32_t> job_of;
  for (const FlowDemand& flow : view.planning.problem.demand.flows)
    job_of.insert(job_of.end(), flow.subflows, flow.job.value);
  std::map<std::string, std::uint32_t> by_job;
  for (const std::uint32_t subflow : found.sharing)
    ++by_job[view.prediction.jobs[job_of[subflow]].name];
  Json sharing = Json::array();
  for (const auto& [job, subflows] : by_job)
    sharing.push_back({{"job", job}, {"subflows", subflows}});
  return {{"link", view.topology.link_name(*found.bottleneck)},
          {"in_core", view.topology.is_core(*found.bottleneck)},
          {"capacity_bps", view.topology.capacity(*found.bottleneck).bits_per_second},
          {"observed_bps", rate(view.links.rate(*found.bottleneck))},
          {"counted", counted_at(view, *found.bottleneck)},
          {"subflows", found.sharing.size() + 1},
          {"sharing", std::move(sharing)}};
}

// The answer to "why is my job slow?" in a sentence.
std::string verdict(const NetworkView& view, const std::string& job,
                    std::optional<double> efficiency, const std::optional<Diagnosis>& found,
                    double alone, std::optional<double> bound) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", share * 100.0); };
  if (!found)
    return "none of its flows that are known needs the network";
  if (!efficiency)
    return "not every one of its flows is seen on its path, so its efficiency is not known";
  if (*efficiency >= kAsGood)
    return "the network does not slow it: it gets what its NICs allow";
  if (!found->bottleneck)
    return "its slowest flow has no live path";
  const std::string link = view.topology.link_name(*found->bottleneck);
  if (!view.topology.is_core(*found->bottleneck))
    return fmt::format("the port {} is full: no routing changes that", link);
  if (*efficiency >= alone * kAsGood)
    return fmt::format(
        "{} is full, and no routing could do better: alone in the fabric it would "
        "get {}",
        link, percent(alone));
  const Unit& unit = view.planning.units[view.planning.problem.unit_of_subflow[found->subflow]];
  if (!unit.pinnable)
    return view.disabled_jobs.contains(job)
               ? fmt::format("{} is full, and the job is switched off", link)
               : fmt::format("{} is full, and {} does not steer its slowest flow", link,
                             view.topology.name_of(unit.node));
  // Its being the worst job makes the bound its own.
  if (bound && view.efficiency && *efficiency <= view.efficiency->worst + 1e-9 &&
      *efficiency >= *bound * kAsGood)
    return fmt::format("{} is full, and no routing could lift the worst-off job above {}", link,
                       percent(*bound));
  return fmt::format(
      "{} is full; another routing could give it up to {}, but none was found that "
      "is worth its moves",
      link, percent(alone));
}

}  // namespace

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
      const std::string& node = view.topology.name_of(unit.node);
      const std::vector<std::uint32_t> counts = count_elephants(view, unit);
      const Pin* pin = find_pin(view, node, unit.steering);
      const auto since = pin != nullptr ? view.since(node, unit.steering) : std::nullopt;
      std::string reason = pin != nullptr ? pin->reason : "not pinned: left to ECMP";
      if (path.routable() && !path.crosses_core())
        reason = "both ends are on one leaf";
      return dump(
          {{"flow", fmt::format("{} {}", to_string(key.source), to_string(key.destination))},
           {"job", view.prediction.jobs[demand.job.value].name},
           {"path", describe(view.planning, path)},
           {"since", since ? Json(iso(*since)) : Json()},
           {"reason", reason},
           {"applies", pin != nullptr ? Json(applies(pin->target)) : Json()},
           {"pins", pins_of(view, unit, demand, path)},
           {"bottleneck", busiest_link(view, path, counts)},
           {"alternatives",
            path.crosses_core() ? alternatives(view, unit, path, counts) : Json::array()},
           {"congestion", congestion(view, demand, path)}});
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
           {"applies", nullptr},
           {"pins", Json::array()},
           {"bottleneck", nullptr},
           {"alternatives", Json::array()},
           {"congestion", Json::array()}});
  return fail(Errc::not_found,
              fmt::format("no flow from {} to {} is seen", to_string(wanted->source),
                          to_string(wanted->destination)));
}

Result<std::string> job_explain_json(const NetworkView& view, const std::string& name) {
  const auto job = std::ranges::find(view.prediction.jobs, name, &PredictedJob::name);
  if (job == view.prediction.jobs.end()) {
    const bool declared =
        std::ranges::find(view.declared, name, &JobDeclaration::name) != view.declared.end();
    return fail(Errc::not_found,
                declared ? fmt::format("no elephant of job '{}' is seen", name)
                         : fmt::format("there is no job '{}'; 'heddle jobs' lists them", name));
  }
  const JobId id{static_cast<std::uint32_t>(job - view.prediction.jobs.begin())};
  const std::optional<Diagnosis> found = diagnose(view.planning, view.routing, id);
  const bool judged = view.efficiency && id.value < view.judged.size() && view.judged[id.value];
  std::optional<double> efficiency;
  if (judged)
    efficiency = view.efficiency->by_job[id.value];
  const double alone = found ? bounds_of(view.planning).by_job[id.value] : 1.0;
  const std::optional<double> bound = view.bound();
  return dump(
      {{"job", name},
       {"declared", job->declared},
       {"disabled", view.disabled_jobs.contains(name)},
       {"hosts", job->hosts},
       {"efficiency", efficiency ? Json(*efficiency) : Json()},
       {"alone", found ? Json(alone) : Json()},
       {"bound", bound ? Json(*bound) : Json()},
       {"verdict", verdict(view, name, efficiency, found, alone, bound)},
       {"slowest", found ? slowest_json(view, *found) : Json()},
       {"bottleneck", found ? bottleneck_json(view, *found) : Json()},
       {"congestion", found ? congestion(view, view.planning.problem.demand.flows[found->flow],
                                         view.routing[found->subflow])
                            : Json::array()}});
}

}  // namespace heddle
