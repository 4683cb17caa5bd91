// What is: status, agents, jobs, links.
#include <algorithm>
#include <map>

#include "coordinator/serve/answers.h"
#include "coordinator/serve/json.h"

namespace heddle {

namespace {

const char* name_of(Role role) {
  switch (role) {
    case Role::host:
      return "host";
    case Role::leaf:
      return "leaf";
    case Role::spine:
      return "spine";
    case Role::cli:
      return "cli";
  }
  return "unknown";
}

const char* name_of(Granularity granularity) {
  switch (granularity) {
    case Granularity::destination:
      return "destination";
    case Granularity::port_and_destination:
      return "port-and-destination";
    case Granularity::queue_pair:
      return "queue-pair";
  }
  return "unknown";
}

const char* name_of(SegmentBehaviour behaviour) {
  switch (behaviour) {
    case SegmentBehaviour::transit:
      return "leads on";
    case SegmentBehaviour::delivers_v4:
      return "delivers IPv4";
    case SegmentBehaviour::delivers_v6:
      return "delivers IPv6";
  }
  return "unknown";
}

// What the processes behind each job's flows work for, by their machines' word.
std::vector<Json> labels_by_job(const NetworkView& view) {
  std::vector<std::map<std::pair<std::string, std::string>, std::uint64_t>> subflows(
      view.prediction.jobs.size());
  for (std::size_t i = 0; i < view.prediction.flows.size(); ++i)
    for (const FlowKey& key : view.prediction.flows[i].subflows)
      if (const auto flow = view.flows.subflows().find(key);
          flow != view.flows.subflows().end() && !flow->second.label.empty())
        ++subflows[view.prediction.demand.flows[i].job.value]
                  [{flow->second.label, flow->second.label_origin}];
  std::vector<Json> labels(subflows.size(), Json::array());
  for (std::size_t j = 0; j < subflows.size(); ++j)
    for (const auto& [label, count] : subflows[j])
      labels[j].push_back({{"label", label.first}, {"origin", label.second}, {"subflows", count}});
  return labels;
}

}  // namespace

std::string status_json(const NetworkView& view) {
  std::size_t connected = 0;
  std::size_t programming = 0;
  std::size_t disabled = 0;
  std::size_t converged = 0;
  for (const auto& [name, agent] : view.broadcast.agents()) {
    connected += agent.connected ? 1 : 0;
    programming += view.broadcast.steering(name, view.now) ? 1 : 0;
    disabled += agent.disabled || view.broadcast.disabled().contains(name) ? 1 : 0;
    converged += agent.connected && view.broadcast.converged(agent) ? 1 : 0;
  }
  std::size_t elephants = 0;
  for (const auto& [key, flow] : view.flows.subflows())
    elephants += flow.elephant ? 1 : 0;
  std::size_t down = 0;
  for (std::uint32_t i = 0; i < view.topology.link_count(); ++i)
    down += view.links.state().up(LinkId{i}) ? 0 : 1;
  const bool known = view.efficiency && !view.efficiency->by_job.empty();
  const std::optional<double> bound = view.bound();
  Json json{
      {"version", view.software},
      {"epoch", view.version.epoch},
      {"generation", view.version.generation},
      {"agents",
       {{"total", view.broadcast.agents().size()},
        {"connected", connected},
        {"programming", programming},
        {"disabled", disabled},
        {"converged", converged}}},
      {"jobs", view.prediction.jobs.size()},
      {"flows", {{"elephants", elephants}, {"mice", view.flows.subflows().size() - elephants}}},
      {"links", {{"total", view.topology.link_count()}, {"down", down}}},
      {"efficiency",
       {{"worst", known ? Json(view.efficiency->worst) : Json()},
        {"mean", known ? Json(view.efficiency->mean) : Json()}}},
      {"bound", bound ? Json(*bound) : Json()},
      {"history",
       {{"state", view.history.ok ? "ok" : "degraded"},
        {"reason", view.history.reason},
        {"written", view.history.written},
        {"dropped", view.history.dropped}}},
      {"last_plan", nullptr},
      {"uptime_s", std::chrono::duration<double>(view.uptime).count()},
  };
  if (view.record != nullptr)
    json["last_plan"] = {{"wall", iso(view.record->wall)},
                         {"version", to_string(view.record->plan.version)},
                         {"reason", view.record->reason},
                         {"moves", view.record->moves.size()}};
  return dump(json);
}

std::string agents_json(const NetworkView& view) {
  Json agents = Json::array();
  for (const auto& [name, agent] : view.broadcast.agents()) {
    Json failed = Json::array();
    for (const PinFailure& failure : agent.failed)
      failed.push_back({{"unit", to_string(failure.unit)},
                        {"code", to_string(failure.code)},
                        {"reason", failure.reason}});
    Json enforcers = Json::array();
    for (const EnforcerCapability& one : agent.enforcers)
      enforcers.push_back({{"name", one.name},
                           {"granularity", name_of(one.granularity)},
                           {"usable", one.usable},
                           {"reason", one.reason}});
    Json sources = Json::array();
    for (const SourceCapability& one : agent.sources)
      sources.push_back({{"name", one.name}, {"usable", one.usable}, {"reason", one.reason}});
    Json segments = Json::array();
    for (const LocalSegment& one : agent.segments)
      segments.push_back(
          {{"address", to_string(one.address)}, {"behaviour", name_of(one.behaviour)}});
    const std::optional<PinStates>& states = agent.pin_states;
    Json age;  // null where none has reported
    if (agent.last_report)
      age = milliseconds(view.now - *agent.last_report);
    agents.push_back({{"name", name},
                      {"role", name_of(agent.role)},
                      {"mode", agent.mode == Mode::program ? "program" : "observe"},
                      {"connected", agent.connected},
                      {"disabled", agent.disabled || view.broadcast.disabled().contains(name)},
                      {"version", to_string(agent.installed)},
                      {"planned_version", to_string(view.broadcast.part_of(name).version)},
                      {"converged", view.broadcast.converged(agent)},
                      {"installed", states ? states->installed : agent.installed_pins},
                      {"offloaded", states && states->hardware ? Json(states->offloaded) : Json()},
                      {"effective", states ? Json(states->effective) : Json()},
                      {"failed", std::move(failed)},
                      {"conflict", agent.conflict},
                      {"software", agent.software},
                      {"enforcers", std::move(enforcers)},
                      {"sources", std::move(sources)},
                      {"segments", std::move(segments)},
                      {"last_report_age_ms", std::move(age)},
                      {"reports_lost", agent.reports_lost},
                      {"apply_ms", milliseconds(agent.apply_time)}});
  }
  return dump({{"agents", std::move(agents)}});
}

std::string jobs_json(const NetworkView& view) {
  std::vector<std::uint32_t> flows(view.prediction.jobs.size());
  for (const FlowDemand& flow : view.prediction.demand.flows)
    ++flows[flow.job.value];
  std::vector<Json> labels = labels_by_job(view);
  Json jobs = Json::array();
  std::set<std::string> seen;
  for (std::size_t j = 0; j < view.prediction.jobs.size(); ++j) {
    const PredictedJob& job = view.prediction.jobs[j];
    seen.insert(job.name);
    const bool judged = view.efficiency && j < view.judged.size() && view.judged[j];
    jobs.push_back({{"name", job.name},
                    {"declared", job.declared},
                    {"disabled", view.disabled_jobs.contains(job.name)},
                    {"hosts", job.hosts},
                    {"labels", std::move(labels[j])},
                    {"flows", flows[j]},
                    {"efficiency", judged ? Json(view.efficiency->by_job[j]) : Json()},
                    // Without a period the weights are no bytes of an iteration, and no time
                    // follows from them.
                    {"communication_ms", judged && job.weights_known && job.period
                                             ? milliseconds(view.efficiency->communication[j])
                                             : Json()},
                    {"period_ms", milliseconds(job.period)}});
  }
  for (const JobDeclaration& declared : view.declared)
    if (!seen.contains(declared.name))
      jobs.push_back({{"name", declared.name},
                      {"declared", true},
                      {"disabled", view.disabled_jobs.contains(declared.name)},
                      {"hosts", declared.hosts},
                      {"labels", Json::array()},
                      {"flows", 0},
                      {"efficiency", nullptr},
                      {"communication_ms", nullptr},
                      {"period_ms", nullptr}});
  return dump({{"jobs", std::move(jobs)}});
}

std::string links_json(const NetworkView& view) {
  std::vector<std::uint32_t> elephants(view.topology.link_count());
  for (const Path& path : view.routing) {
    if (!path.routable())
      continue;
    ++elephants[view.topology.nic_tx(path.from).value];
    ++elephants[view.topology.nic_rx(path.to).value];
    if (path.up.valid())
      ++elephants[view.topology.uplink(path.up).value];
    if (path.down.valid())
      ++elephants[view.topology.downlink(path.down).value];
  }
  Json links = Json::array();
  for (std::uint32_t i = 0; i < view.topology.link_count(); ++i) {
    const LinkId link{i};
    links.push_back({{"name", view.topology.link_name(link)},
                     {"up", view.links.state().up(link)},
                     {"capacity_bps", view.topology.capacity(link).bits_per_second},
                     {"rate_bps", rate(view.links.rate(link))},
                     {"elephants", elephants[i]}});
  }
  return dump({{"links", std::move(links)}});
}

std::string declarations_json(std::span<const JobDeclaration> declared) {
  Json jobs = Json::array();
  for (const JobDeclaration& job : declared)
    jobs.push_back({{"name", job.name}, {"hosts", job.hosts}});
  return dump({{"jobs", std::move(jobs)}});
}

}  // namespace heddle
