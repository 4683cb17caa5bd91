#include "tests/lab/cluster.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr const char* kCoordinator = "coordinator";
constexpr const char* kOperator = "operator";
constexpr const char* kManagement = "mgmt";

std::string endpoint() {
  return fmt::format("tcp://{}:7117", to_string(management_address(kManagement)));
}

Result<void> write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file)
    return fail(Errc::io, fmt::format("cannot write {}", path.string()));
  return {};
}

long long milliseconds(Duration duration) {
  return duration / 1ms;
}

// The form of an answer is checked as it is read; what is not as promised is an error with the
// text.
template <class Read>
auto read_json(const std::string& text, Read&& read) -> Result<std::invoke_result_t<Read, Json&>> {
  try {
    Json json = Json::parse(text);
    return read(json);
  } catch (const Json::exception& error) {
    return fail(Errc::parse, fmt::format("heddle's answer: {}: {}", error.what(), text));
  }
}

}  // namespace

std::string_view enforcer_name(LeafMode mode) {
  switch (mode) {
    case LeafMode::flow_marks:
      return "flow-marks";
    case LeafMode::segments:
      return "srv6";
    default:
      return "port-tables";
  }
}

Cluster::Cluster(Fabric& fabric, ClusterSpec spec)
    : fabric_(fabric), spec_(std::move(spec)), folder_(fabric.work_folder()) {
  for (const std::string& node : node_names(fabric.spec()))
    if (spec_.leaf_mode == LeafMode::segments || !node.starts_with("spine"))
      nodes_.push_back(node);
}

Result<std::unique_ptr<Cluster>> Cluster::prepare(Fabric& fabric, ClusterSpec spec) {
  std::unique_ptr<Cluster> cluster(new Cluster(fabric, std::move(spec)));
  for (const char* folder : {"keys", "authorised", "state", "run", "log"}) {
    std::error_code error;
    std::filesystem::create_directories(cluster->folder_ / folder, error);
    if (error)
      return fail(Errc::io, fmt::format("{}: {}", cluster->folder_.string(), error.message()));
  }
  if (auto made = cluster->make_keys(); !made)
    return tl::unexpected(made.error());
  if (auto written = cluster->write_configuration(); !written)
    return tl::unexpected(written.error());
  return cluster;
}

Cluster::~Cluster() {
  // All are asked first and waited for then: one after the other would take as long as the sum.
  for (auto& [node, child] : agents_)
    if (child.pid() > 0)
      ::kill(child.pid(), SIGTERM);
  agents_.clear();
}

Result<void> Cluster::make_keys() {
  std::vector<std::string> names = nodes_;
  names.insert(names.end(), {kCoordinator, kOperator});
  for (const std::string& name : names) {
    auto made = capture(
        {.words = {spec_.programs / "heddle", "keygen", "--dir", (folder_ / "keys").string(), name},
         .log = {}},
        10s);
    if (!made)
      return tl::unexpected(made.error());
    if (made->status != 0)
      return fail(Errc::io, fmt::format("heddle keygen: {}", made->errors));
    if (name == kCoordinator)
      continue;
    std::error_code error;
    std::filesystem::copy_file(folder_ / "keys" / (name + ".pub"),
                               folder_ / "authorised" / (name + ".pub"), error);
    if (error)
      return fail(Errc::io, fmt::format("authorising {}: {}", name, error.message()));
  }
  return {};
}

std::string Cluster::coordinator_yaml() const {
  // An elephant is what keeps up a twentieth of a link, or announces more than a few packets.
  const double elephant_mbps = fabric_.spec().rate.bits_per_second / 1e6 / 20;
  return fmt::format(
      "fabric: {0}/fabric.yaml\njobs: {0}/jobs.yaml\nlisten: {1}\nkey: {0}/keys/{2}\n"
      "authorised_keys: {0}/authorised\nstate_dir: {0}/state/{2}\nperiod_ms: {3}\n"
      "report_interval_ms: {4}\nlease_s: {5}\nflow_memory_s: {6}\nelephant_mbps: {7}\n"
      "elephant_message_bytes: 32768\nlog_level: info\n{8}",
      folder_.string(), endpoint(), kCoordinator, milliseconds(spec_.period),
      milliseconds(spec_.report_interval), spec_.lease / 1s, spec_.flow_memory / 1s, elephant_mbps,
      spec_.coordinator_lines);
}

LeafMode Cluster::mode_of(const std::string& node) const {
  const auto other = spec_.leaves.find(node);
  return other == spec_.leaves.end() ? spec_.leaf_mode : other->second;
}

bool Cluster::programs(const std::string& node) const {
  const LeafMode mode = mode_of(node);
  return mode != LeafMode::observe && node.starts_with("leaf") != (mode == LeafMode::segments);
}

int Cluster::programming() const {
  return static_cast<int>(
      std::ranges::count_if(nodes_, [&](const std::string& node) { return programs(node); }));
}

std::string Cluster::agent_yaml(const std::string& node) const {
  const bool leaf = node.starts_with("leaf");
  const bool spine = node.starts_with("spine");
  const bool programs = this->programs(node);
  std::string yaml = fmt::format(
      "node: {1}\nrole: {2}\nmode: {3}\ncoordinator:\n  endpoint: {4}\n"
      "  public_key: {0}/keys/{5}.pub\nkey: {0}/keys/{1}\nstate_dir: {0}/state/{1}\n"
      "run_dir: {0}/run/{1}\nreport_interval_ms: {6}\nlease_s: {7}\nlog_level: info\n",
      folder_.string(), node,
      leaf    ? "leaf"
      : spine ? "spine"
              : "host",
      programs ? "program" : "observe", endpoint(), kCoordinator,
      milliseconds(spec_.report_interval), spec_.lease / 1s);
  yaml += leaf    ? "uplinks: [\"up*\"]\nhost_ports: [\"p*\"]\n"
          : spine ? "uplinks: [\"d*\"]\nhost_ports: [\"d*\"]\n"
                  : "uplinks: [\"eth0\"]\nhost_ports: []\n";
  if (!programs)
    return yaml;
  if (!spine)
    yaml += fmt::format("enforcer: {}\n", enforcer_name(mode_of(node)));
  if (const auto segment = segment_of(node))
    yaml += fmt::format("srv6: {{sid: \"{}\"}}\n", to_string(*segment));
  return yaml + fmt::format(
                    "routing:\n  protocol: {}\n  table_base: {}\n  table_count: {}\n"
                    "  rule_priority: 1880\n  nexthop_base: 1880000000\n  nexthop_count: 4096\n",
                    kPinProtocol, kPinTableBase, kPinTableCount);
}

Result<void> Cluster::write_configuration() {
  std::string jobs = spec_.jobs.empty() ? "jobs: []\n" : "jobs:\n";
  for (const ClusterJob& job : spec_.jobs)
    jobs += fmt::format("  - {{name: {}, hosts: [{}]}}\n", job.name, fmt::join(job.hosts, ", "));
  std::map<std::string, std::string> files{
      {"fabric.yaml", fabric_yaml(fabric_.spec())},
      {"jobs.yaml", jobs},
      {"coordinator.yaml", coordinator_yaml()},
      {"heddle.yaml", fmt::format("coordinator: {1}\nkey: {0}/keys/{2}\n"
                                  "server_key: {0}/keys/{3}.pub\n",
                                  folder_.string(), endpoint(), kOperator, kCoordinator)}};
  for (const std::string& node : nodes_)
    files[node + ".yaml"] = agent_yaml(node);
  for (const auto& [name, text] : files)
    if (auto written = write_file(folder_ / name, text); !written)
      return written;
  return {};
}

Result<Child> Cluster::start(const std::string& program, const std::string& node,
                             const std::string& config) {
  auto child = Child::start({.words = {spec_.programs / program, "--config", folder_ / config},
                             .space = &fabric_.space(node),
                             .log = folder_ / "log" / (node + ".log"),
                             .outlives_us = spec_.outlives_us});
  if (!child)
    return child;
  if (auto noted = fabric_.remember_process(child->pid(), fmt::format("{} {}", program, node));
      !noted)
    return tl::unexpected(noted.error());
  return child;
}

Result<void> Cluster::start_coordinator() {
  auto child = start("heddle-coordinator", kManagement, "coordinator.yaml");
  if (!child)
    return tl::unexpected(child.error());
  coordinator_ = std::move(*child);
  return {};
}

Result<void> Cluster::start_agents() {
  for (const std::string& node : nodes_) {
    auto child = start("heddle-agent", node, node + ".yaml");
    if (!child)
      return tl::unexpected(child.error());
    agents_.emplace(node, std::move(*child));
  }
  return {};
}

int Cluster::stop_coordinator() {
  if (!coordinator_)
    return 0;
  const int status = coordinator_->stop(SIGTERM, 5s);
  coordinator_.reset();
  return status;
}

void Cluster::kill_coordinator() {
  if (coordinator_)
    coordinator_->stop(SIGKILL, 5s);
  coordinator_.reset();
}

void Cluster::hold_coordinator(bool held) {
  if (coordinator_)
    ::kill(coordinator_->pid(), held ? SIGSTOP : SIGCONT);
}

void Cluster::release() {
  if (coordinator_)
    coordinator_->release();
  for (auto& [node, child] : agents_)
    child.release();
}

std::optional<std::string> Cluster::casualty() {
  const auto words = [&](const std::string& who, int status) {
    return fmt::format("{} ended with status {}; see {}/log/{}.log", who, status, folder_.string(),
                       who);
  };
  if (coordinator_)
    if (const auto status = coordinator_->wait(0ms))
      return words(kManagement, *status);
  for (auto& [node, child] : agents_)
    if (const auto status = child.wait(0ms))
      return words(node, *status);
  return std::nullopt;
}

Result<std::string> Cluster::ask(std::vector<std::string> words) {
  std::vector<std::string> all{spec_.programs / "heddle", "--config", command_line_config(),
                               "--json"};
  all.insert(all.end(), words.begin(), words.end());
  auto output = capture({.words = all, .space = &fabric_.space(kManagement), .log = {}}, 10s);
  if (!output)
    return tl::unexpected(output.error());
  if (output->status != 0)
    return fail(Errc::io, fmt::format("heddle {}: {}{}", fmt::join(words, " "), output->errors,
                                      output->text));
  return output->text;
}

Result<ClusterStatus> Cluster::status() {
  auto text = ask({"status"});
  if (!text)
    return tl::unexpected(text.error());
  return read_json(*text, [](const Json& json) {
    ClusterStatus status;
    status.epoch = json.at("epoch");
    status.generation = json.at("generation");
    const Json& agents = json.at("agents");
    status.agents = agents.at("total");
    status.connected = agents.at("connected");
    status.programming = agents.at("programming");
    status.disabled = agents.at("disabled");
    status.converged = agents.at("converged");
    status.elephants = json.at("flows").at("elephants");
    status.links_down = json.at("links").at("down");
    return status;
  });
}

Result<PlanView> Cluster::plan(const std::string& version) {
  std::vector<std::string> words{"plan", "show"};
  if (!version.empty())
    words.push_back(version);
  auto text = ask(words);
  if (!text)
    return tl::unexpected(text.error());
  return read_json(*text, [](const Json& json) {
    PlanView plan;
    plan.version = json.at("version");
    plan.reason = json.at("reason");
    plan.pins = static_cast<int>(json.at("pins").size());
    plan.moves = static_cast<int>(json.at("moves").size());
    for (const auto& [job, efficiency] : json.at("efficiency").at("by_job").items())
      plan.efficiency[job] = efficiency.get<double>();
    return plan;
  });
}

Result<ClusterStatus> Cluster::await(const std::function<bool(const ClusterStatus&)>& condition,
                                     Duration patience, const std::string& what) {
  const Time end = boot_now() + patience;
  while (true) {
    auto now = status();
    if (now && condition(*now))
      return now;
    if (const auto dead = casualty())
      return fail(Errc::io, *dead);
    if (boot_now() > end) {
      if (!now)
        return now;
      return fail(Errc::timeout,
                  fmt::format("waited in vain for {}: {} of {} agents connected, {} converged, "
                              "{} elephants, generation {}",
                              what, now->connected, now->agents, now->converged, now->elephants,
                              now->generation));
    }
    std::this_thread::sleep_for(100ms);
  }
}

Result<int> count_pins(Netlink& net) {
  const auto routes = net.routes();
  const auto rules = net.rules();
  const auto hops = net.nexthops();
  if (!routes || !rules || !hops)
    return fail(Errc::kernel, "the tables cannot be read");
  const auto ours = [](const auto& entry) { return entry.protocol == kPinProtocol; };
  // Next hops by lo are segments of the node itself, which are no pins and outlive them.
  const int lo = net.index_of("lo");
  return static_cast<int>(std::count_if(routes->begin(), routes->end(), ours) +
                          std::count_if(rules->begin(), rules->end(), ours) +
                          std::ranges::count_if(*hops, [&](const NexthopSeen& hop) {
                            return ours(hop) && hop.out_index != lo;
                          }));
}

}  // namespace heddle::lab
