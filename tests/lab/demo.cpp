#include "tests/lab/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "tests/lab/cluster.h"
#include "tests/lab/console.h"
#include "tests/lab/demo_stages.h"
#include "tests/lab/pin_watch.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr int kReferenceIterations = 8;
constexpr int kDrawIterations = 3;
constexpr int kProbesPerSecond = 200;  // beside each flow: an outage is known to 5 ms
constexpr Duration kCompute = 50ms;
constexpr Duration kStep = 21ms;  // that one step of the ring takes at full rate
constexpr Duration kPatience = 30s;

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// One less than spines splits evenly over all that are left when one dies.
int queue_pairs_of(const DemoOptions& options) {
  if (options.queue_pairs != 0)
    return options.queue_pairs;
  return options.enforcer == LeafMode::flow_marks ? std::min(16, options.fabric.spines - 1) : 1;
}

// RoCE's packets of 4,096 octets leave room for 80 octets around them.
DemoOptions with_underlay(DemoOptions options) {
  if (options.enforcer == LeafMode::segments) {
    options.fabric.segments = true;
    options.fabric.mtu = 4300;
  }
  return options;
}

}  // namespace

std::vector<ClusterJob> place_jobs(const FabricSpec& spec, unsigned seed) {
  // Every leaf gives half of its hosts to each job, which ones by the seed. A ring goes round all
  // leaves, once for every host it has on each, so that each of its edges crosses the core.
  std::mt19937 random(seed);
  std::vector<int> leaves(static_cast<std::size_t>(spec.leaves));
  std::iota(leaves.begin(), leaves.end(), 1);
  std::shuffle(leaves.begin(), leaves.end(), random);
  std::map<int, std::vector<int>> hosts;
  for (const int leaf : leaves) {
    hosts[leaf].resize(static_cast<std::size_t>(spec.hosts));
    std::iota(hosts[leaf].begin(), hosts[leaf].end(), 1);
    std::shuffle(hosts[leaf].begin(), hosts[leaf].end(), random);
  }
  std::vector<ClusterJob> jobs{{"ring-a", {}}, {"ring-b", {}}};
  const int first = (spec.hosts + 1) / 2;
  for (int round = 0; round < spec.hosts; ++round)
    for (const int leaf : leaves)
      jobs[round < first ? 0 : 1].hosts.push_back(
          NodeName::host(leaf, hosts[leaf][static_cast<std::size_t>(round)]));
  return jobs;
}

Stage::Stage(const DemoOptions& options)
    : options_(with_underlay(options)),
      queue_pairs_(queue_pairs_of(options)),
      random_(options.seed),
      jobs_(place_jobs(options.fabric, options.seed)) {
  for (const ClusterJob& job : jobs_) {
    DemoJob entry;
    entry.name = job.name;
    result_.jobs.push_back(std::move(entry));
  }
}

std::vector<std::string> Stage::holders() const {
  std::vector<std::string> nodes = node_names(options_.fabric);
  std::erase_if(nodes, [&](const std::string& node) {
    return node.starts_with("spine") || node.starts_with("leaf") == by_segments();
  });
  return nodes;
}

Result<void> Stage::raise() {
  const FabricSpec& spec = options_.fabric;
  if (const auto removed = Fabric::tear_down(spec.prefix); removed && *removed > 0)
    console_.say(fmt::format("removed what an earlier run left: {} pieces", *removed));
  const Time begin = boot_now();
  auto fabric = Fabric::raise(spec);
  if (!fabric)
    return tl::unexpected(fabric.error());
  fabric_.emplace(std::move(*fabric));
  console_.say(
      fmt::format("raised {} leaves x {} spines x {} hosts a leaf at {:.0f} Mbit/s: {} "
                  "namespaces in {:.0f} ms",
                  spec.leaves, spec.spines, spec.hosts, spec.rate.bits_per_second / 1e6,
                  list_namespaces(spec.prefix).size(), milliseconds(boot_now() - begin)));
  auto routing = Routing::start(*fabric_, options_.routing_delay);
  if (!routing)
    return tl::unexpected(routing.error());
  routing_ = std::move(*routing);
  std::vector<PinWatch::Node> watched;
  for (const std::string& node : holders())
    watched.push_back({node, &fabric_->space(node)});
  auto watch = PinWatch::start(watched);
  if (!watch)
    return tl::unexpected(watch.error());
  watch_ = std::move(*watch);
  return {};
}

Result<void> Stage::start_heddle() {
  auto cluster = Cluster::prepare(*fabric_, {.programs = options_.programs,
                                             .jobs = jobs_,
                                             .lease = kLease,
                                             .outlives_us = options_.keep,
                                             .leaf_mode = options_.enforcer});
  if (!cluster)
    return tl::unexpected(cluster.error());
  cluster_ = std::move(*cluster);
  if (auto started = cluster_->start_coordinator(); !started)
    return started;
  if (auto started = cluster_->start_agents(); !started)
    return started;
  const int agents = cluster_->agents();
  auto up = cluster_->await([&](const ClusterStatus& now) { return now.connected == agents; },
                            kPatience, "all agents");
  if (!up)
    return tl::unexpected(up.error());
  // Observing but not steering, so that ECMP is measured under the same load of the machine.
  if (auto off = cluster_->ask({"disable", "--all"}); !off)
    return tl::unexpected(off.error());
  up = cluster_->await([&](const ClusterStatus& now) { return now.disabled == agents; }, kPatience,
                       "the agents to confirm that they are disabled");
  if (!up)
    return tl::unexpected(up.error());
  console_.say(fmt::format(
      "started a coordinator and {} agents (CURVE); `heddle disable --all` until ECMP is measured",
      agents));
  return {};
}

Result<void> Stage::start_traffic() {
  const FabricSpec& spec = options_.fabric;
  std::vector<TrafficHost> hosts;
  for (int leaf = 1; leaf <= spec.leaves; ++leaf) {
    for (int host = 1; host <= spec.hosts; ++host) {
      const std::string name = NodeName::host(leaf, host);
      hosts.push_back({name, host_address(leaf, host), &fabric_->space(name)});
    }
  }
  auto traffic = Traffic::start(hosts);
  if (!traffic)
    return tl::unexpected(traffic.error());
  traffic_ = std::move(*traffic);
  const double packets =
      spec.rate.bits_per_second / 8 * std::chrono::duration<double>(kStep).count() / kPayload;
  // Each queue pair carries an equal share, in whole packets.
  const double share = std::round(std::max(8.0, packets) / queue_pairs_);
  const auto bytes = static_cast<std::uint32_t>(share * queue_pairs_) * kPayload;
  console_.say("each ring goes round the leaves, so that every one of its edges crosses the core");
  for (const ClusterJob& job : jobs_) {
    auto added = traffic_->add_job({.name = job.name,
                                    .pattern = Pattern::ring_all_reduce,
                                    .hosts = job.hosts,
                                    .message_bytes = bytes,
                                    .compute = kCompute,
                                    .queue_pairs = queue_pairs_});
    if (!added)
      return added;
    console_.say(
        fmt::format("job {}: ring all-reduce of {} hosts, {} steps of {} KiB over {} queue pair{}",
                    console_.strong(job.name), job.hosts.size(), 2 * (job.hosts.size() - 1),
                    bytes / 1024, queue_pairs_, queue_pairs_ == 1 ? "" : "s"));
    console_.more(fmt::format("{}", fmt::join(job.hosts, " > ")));
  }
  return {};
}

std::vector<Stage::PortBytes> Stage::uplink_bytes() {
  std::vector<PortBytes> all;
  for (int leaf = 1; leaf <= options_.fabric.leaves; ++leaf) {
    PortBytes bytes;
    if (const auto links = fabric_->netlink(NodeName::leaf(leaf)).links())
      for (const LinkSeen& link : *links)
        if (link.name.starts_with("up"))
          bytes[link.name] = link.tx_bytes;
    all.push_back(std::move(bytes));
  }
  return all;
}

Result<Stage::Measured> Stage::measure(int iterations) {
  const Time begin = boot_now();
  const CpuTime cpu = CpuTime::read();
  const auto before = uplink_bytes();
  if (auto done = traffic_->await_iterations(iterations, begin, kPatience); !done)
    return tl::unexpected(done.error());
  const auto after = uplink_bytes();
  const double seconds = std::chrono::duration<double>(boot_now() - begin).count();
  Measured measured;
  const double idle = idle_percent(cpu, CpuTime::read());
  result_.idle_percent = std::min(result_.idle_percent, idle);
  measured.idle = idle;
  for (const ClusterJob& job : jobs_) {
    // The median: what a stalled processor does to one iteration is not the network's doing.
    std::vector<double> times;
    for (const Iteration& iteration : traffic_->iterations(job.name))
      if (iteration.begin >= begin)
        times.push_back(milliseconds(iteration.communication));
    measured.milliseconds.push_back(median(std::move(times)));
  }
  for (std::size_t leaf = 0; leaf < before.size(); ++leaf) {
    std::string line;
    for (const auto& [port, bytes] : after[leaf]) {
      const double rate = static_cast<double>(bytes - before[leaf].at(port)) * 8 / seconds;
      line += fmt::format("{:4.0f}", 100 * rate / options_.fabric.rate.bits_per_second);
    }
    measured.uplinks.push_back(std::move(line));
  }
  return measured;
}

double Stage::efficiency(std::size_t job, const Measured& measured) const {
  return result_.jobs[job].unshaped_ms / measured.milliseconds[job];
}

void Stage::show(const std::string& what, const Measured& measured) {
  std::string line = what;
  for (std::size_t job = 0; job < jobs_.size(); ++job)
    line += fmt::format("  {} {:.0f} ms {}", jobs_[job].name, measured.milliseconds[job],
                        console_.share(efficiency(job, measured)));
  console_.say(line);
  std::string loads;
  for (std::size_t leaf = 0; leaf < measured.uplinks.size(); ++leaf)
    loads += fmt::format("  leaf{}{}", leaf + 1, measured.uplinks[leaf]);
  console_.more(fmt::format("uplinks, % of rate:{}", loads));
}

Result<void> Stage::measure_reference() {
  if (auto done = fabric_->unshape_core(); !done)
    return done;
  if (auto connected = traffic_->connect(options_.seed); !connected)
    return connected;
  traffic_->probe(kProbesPerSecond);
  traffic_->run();
  auto measured = measure(kReferenceIterations);
  if (!measured)
    return tl::unexpected(measured.error());
  if (auto done = traffic_->finish(kPatience); !done)
    return done;
  std::string line = "uplinks unshaped: communication in an iteration";
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    result_.jobs[job].unshaped_ms = measured->milliseconds[job];
    line += fmt::format("  {} {:.1f} ms", jobs_[job].name, measured->milliseconds[job]);
  }
  console_.say(line);
  return fabric_->shape_core();
}

Result<void> Stage::measure_ecmp() {
  std::vector<std::pair<double, unsigned>> worst_by_seed;
  for (int draw = 0; draw < options_.draws; ++draw) {
    const unsigned seed = options_.seed * 1000 + static_cast<unsigned>(draw) + 1;
    if (auto connected = traffic_->connect(seed); !connected)
      return connected;
    traffic_->run();
    auto measured = measure(kDrawIterations);
    if (!measured)
      return tl::unexpected(measured.error());
    if (auto done = traffic_->finish(kPatience); !done)
      return done;
    double worst = 1;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      result_.jobs[job].ecmp_draws.push_back(efficiency(job, *measured));
      worst = std::min(worst, efficiency(job, *measured));
    }
    worst_by_seed.emplace_back(worst, seed);
    show(fmt::format("ECMP draw {:2}:", draw + 1), *measured);
  }
  for (DemoJob& job : result_.jobs) {
    job.ecmp_median = median(job.ecmp_draws);
    job.ecmp_median_ms = job.unshaped_ms / job.ecmp_median;
    console_.say(fmt::format("ECMP, median of {} draws: {} {}", options_.draws, job.name,
                             console_.share(job.ecmp_median)));
  }
  // The jobs run on as in the draw in the middle.
  std::sort(worst_by_seed.begin(), worst_by_seed.end());
  return traffic_->connect(worst_by_seed[(worst_by_seed.size() - 1) / 2].second);
}

Result<DemoResult> Stage::play() {
  const auto steps = {
      std::pair{"The fabric", &Stage::raise},
      std::pair{"heddle", &Stage::start_heddle},
      std::pair{"Training traffic", &Stage::start_traffic},
      std::pair{"What the jobs reach when the core is no bottleneck", &Stage::measure_reference},
      std::pair{"ECMP", &Stage::measure_ecmp},
      std::pair{"heddle observes, plans and programs", &Stage::steer},
      std::pair{"A spine dies at its near end", &Stage::fail_near},
      std::pair{"A cable beyond a spine dies", &Stage::fail_far},
      std::pair{"Everything comes back", &Stage::come_back},
      std::pair{"The coordinator ends", &Stage::lose_coordinator},
  };
  result_.idle_percent = 100;
  for (const auto& [title, step] : steps) {
    console_.title(title);
    if (auto done = (this->*step)(); !done) {
      save_logs();
      return tl::unexpected(done.error());
    }
  }
  finish();
  save_logs();
  if (options_.keep)
    if (auto done = hand_over(); !done)
      return tl::unexpected(done.error());
  return result_;
}

void Stage::save_logs() const {
  if (options_.logs.empty() || !cluster_)
    return;
  std::error_code error;
  std::filesystem::create_directories(options_.logs, error);
  std::filesystem::copy(cluster_->folder() / "log", options_.logs,
                        std::filesystem::copy_options::overwrite_existing, error);
  if (error)
    fmt::print(stderr, "saving the logs: {}\n", error.message());
}

Result<DemoResult> run_demo(const DemoOptions& options) {
  Stage stage(options);
  return stage.play();
}

}  // namespace heddle::lab
