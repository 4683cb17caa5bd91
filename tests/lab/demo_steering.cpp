// The second half of the demonstration: what heddle does, and what comes after failures.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/lab/demo_stages.h"
#include "tests/lab/marks_seen.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr int kHeddleIterations = 8;
constexpr int kReturnIterations = 4;
constexpr Duration kPatience = 30s;
// A flow that has moved stays for a second; what can still be better comes with the next plan.
constexpr Duration kRest = 1700ms;
// A full packet of RoCE: Ethernet, IPv4 and UDP before it. And what is put around it for two
// segments: IPv6, the routing header and the segments.
constexpr int kOnTheWire = 14 + 20 + 8 + static_cast<int>(kBthSize + kPayload + kIcrcSize);
constexpr int kWrapping = 40 + 8 + 2 * 16;
// After so long a probe that has not come does not come.
constexpr Duration kDrain = 300ms;
double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

bool is_pin(const TableEvent& event) {
  return event.protocol == kPinProtocol;
}

}  // namespace

Result<Stage::Converged> Stage::await_plan(std::uint64_t generation, int links_down, Time event,
                                           const std::string& what) {
  std::uint64_t before = 0;
  auto status = cluster_->await(
      [&](const ClusterStatus& now) {
        const bool settled = now.generation > generation && now.converged == now.agents &&
                             now.links_down == links_down && now.generation == before;
        before = now.generation;
        return settled;
      },
      kPatience, what);
  if (!status)
    return tl::unexpected(status.error());
  Converged converged{*status, event};
  for (const TableEvent& seen : watch_->since(event))
    if (is_pin(seen))
      converged.last_change = seen.at;
  if (auto counted = count_moves(generation, *status); !counted)
    return tl::unexpected(counted.error());
  generation_ = status->generation;
  return converged;
}

Result<void> Stage::await_rest() {
  std::uint64_t newest = generation_;
  Time since = boot_now();
  const auto status = cluster_->await(
      [&](const ClusterStatus& now) {
        if (now.generation != newest || now.converged != now.agents)
          since = boot_now();
        newest = now.generation;
        return boot_now() - since > kRest;
      },
      kPatience, "the plan to come to rest");
  if (!status)
    return tl::unexpected(status.error());
  if (auto counted = count_moves(generation_, *status); !counted)
    return counted;
  generation_ = status->generation;
  return {};
}

// Every plan since the one that was known; some of them may never have been the last word for long.
Result<void> Stage::count_moves(std::uint64_t from, const ClusterStatus& now) {
  for (std::uint64_t generation = from + 1; generation <= now.generation; ++generation) {
    const auto plan = cluster_->plan(fmt::format("{}.{}", now.epoch, generation));
    if (!plan)
      return tl::unexpected(plan.error());
    result_.moves += plan->moves;
    console_.more(fmt::format("plan {}: {} pins, {} flows moved ({})", plan->version, plan->pins,
                              plan->moves, plan->reason));
  }
  return {};
}

Result<void> Stage::steer() {
  traffic_->run();
  // Flows of earlier draws are forgotten first; meanwhile the jobs are seen to run as in their
  // draw.
  const Time begin = boot_now();
  auto measured = measure(2);
  if (!measured)
    return tl::unexpected(measured.error());
  show("still ECMP:", *measured);
  const int flows = static_cast<int>(traffic_->pairs().size());
  auto seen = cluster_->await(
      [&](const ClusterStatus& now) { return now.elephants == flows && boot_now() - begin > 3s; },
      kPatience, "the coordinator to know the flows");
  if (!seen)
    return tl::unexpected(seen.error());
  console_.say(fmt::format("the coordinator sees {} elephants", seen->elephants));

  const Time enabled = boot_now();
  quiet_since_ = enabled;
  if (auto on = cluster_->ask({"enable", "--all"}); !on)
    return tl::unexpected(on.error());
  auto converged = await_plan(seen->generation, 0, enabled, "a plan to be installed everywhere");
  if (!converged)
    return tl::unexpected(converged.error());
  if (converged->status.disabled != 0 || converged->status.programming < cluster_->programming())
    return fail(Errc::timeout, fmt::format("not every {} is steering", holder()));
  const auto plan = cluster_->plan();
  if (!plan)
    return tl::unexpected(plan.error());
  console_.say(fmt::format(
      "enabled; plan {} with {} pins is read back from every {} after {:.0f} ms", plan->version,
      plan->pins, holder(), milliseconds(converged->last_change - enabled)));
  if (auto rested = await_rest(); !rested)
    return rested;
  measured = hold_to_promise(kHeddleIterations, &DemoJob::heddle, &DemoJob::promised, "heddle:");
  if (!measured)
    return tl::unexpected(measured.error());
  for (std::size_t job = 0; job < jobs_.size(); ++job)
    result_.jobs[job].heddle_ms = measured->milliseconds[job];
  return {};
}

Result<Stage::Measured> Stage::hold_to_promise(int iterations, double DemoJob::*reached,
                                               double DemoJob::*promised, const std::string& what) {
  auto measured = measure(iterations);
  if (!measured)
    return measured;
  const auto of_plan = promises();
  if (!of_plan)
    return tl::unexpected(of_plan.error());
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    result_.jobs[job].*reached = efficiency(job, *measured);
    result_.jobs[job].*promised = (*of_plan)[job];
  }
  show(what, *measured);
  return measured;
}

Result<std::vector<double>> Stage::promises() {
  const auto plan = cluster_->plan();
  if (!plan)
    return tl::unexpected(plan.error());
  std::vector<double> promised;
  for (const ClusterJob& job : jobs_) {
    const auto found = plan->efficiency.find(job.name);
    promised.push_back(found == plan->efficiency.end() ? 0 : found->second);
  }
  return promised;
}

Result<void> Stage::come_back() {
  const Time repaired = boot_now();
  if (auto done = fabric_->restore_spine(dead_spine_); !done)
    return done;
  if (auto done = fabric_->restore_cable(dead_cable_.first, dead_cable_.second); !done)
    return done;
  const auto routed = routing_->await(RoutingEvent::Kind::restored, options_.fabric.leaves + 1,
                                      repaired, std::chrono::seconds(5));
  if (!routed)
    return tl::unexpected(routed.error());
  auto converged = await_plan(generation_, 0, repaired, "a plan that uses everything");
  if (!converged)
    return tl::unexpected(converged.error());
  console_.say(fmt::format("spine and cable are back; new plan installed after {:.0f} ms",
                           milliseconds(converged->last_change - repaired)));
  if (auto rested = await_rest(); !rested)
    return rested;
  if (auto held = hold_to_promise(kReturnIterations, &DemoJob::returned,
                                  &DemoJob::returned_promised, "whole again:");
      !held)
    return tl::unexpected(held.error());
  return {};
}

// Every pin in the kernels of those who hold them. Marks are asked for when nothing else is left:
// they go first.
int Stage::pins_left() {
  int left = 0;
  for (const std::string& node : holders())
    left += count_pins(fabric_->netlink(node)).value_or(1);
  for (int leaf = 1; leaf <= options_.fabric.leaves && left == 0; ++leaf) {
    const auto marked = marked_flows(fabric_->space(NodeName::leaf(leaf)));
    left += marked ? static_cast<int>(marked->size()) : 1;
  }
  return left;
}

Result<void> Stage::lose_coordinator() {
  const Time stopped = boot_now();
  if (const int status = cluster_->stop_coordinator(); status != 0)
    result_.complaints.push_back(fmt::format("the coordinator ended with status {}", status));
  console_.say(fmt::format("the coordinator is stopped; the lease is {} s", kLease / 1s));
  auto gone = watch_->await(
      stopped, [&](const std::vector<TableEvent>&) { return pins_left() == 0; }, kLease + 5s);
  result_.pins_left = pins_left();
  result_.lease_limit_ms = milliseconds(kLease);
  result_.lease_ms = milliseconds(boot_now() - stopped);
  if (gone)
    console_.say(fmt::format("after {:.1f} s no pin is left in any {}'s tables",
                             result_.lease_ms / 1000, holder()));
  auto measured = measure(2);
  if (!measured)
    return tl::unexpected(measured.error());
  show("on ECMP again:", *measured);
  return {};
}

void Stage::finish() {
  expect_no_loss(quiet_since_, boot_now());
  (void)traffic_->finish(kPatience);
  traffic_->probe(0);
  std::this_thread::sleep_for(kDrain);
  for (const auto& [from, to] : quiet_) {
    const ProbeCounts counts = traffic_->probes_between(from, to);
    result_.probes_sent += counts.sent;
    result_.packets_lost += counts.lost;
    result_.packets_reordered += counts.reordered;
  }
  for (const HostReport& host : traffic_->hosts()) {
    result_.hosts.push_back({.name = host.name,
                             .transmitted = host.transmitted,
                             .retransmitted = host.retransmitted,
                             .lost = host.lost,
                             .reordered = host.reordered,
                             .icrc_checked = host.icrc.checked,
                             .icrc_wrong = host.icrc.wrong});
    if (host.icrc.wrong > 0)
      result_.complaints.push_back(
          fmt::format("{} received {} packets with a wrong ICRC", host.name, host.icrc.wrong));
  }
  for (const std::string& complaint : routing_->complaints())
    result_.complaints.push_back(fmt::format("routing: {}", complaint));
  if (watch_->overruns() > 0)
    result_.complaints.push_back("the watch on the tables lost notifications");
  result_.seconds = console_.seconds();
  const int flows = options_.fabric.hosts;  // out of each leaf, and into it
  const int spines = options_.fabric.spines;
  result_.full_rate_possible = splitting_bound(queue_pairs_, flows, spines) == 1;
  result_.queue_pairs = queue_pairs_;
  if (by_segments())
    result_.wire_share = share_of_wire(kOnTheWire, kWrapping);
  result_.after_failure_bound = splitting_bound(queue_pairs_, flows, spines - 1);
}

// The daemons run on, with a coordinator again, and another process plays the routing protocol.
Result<void> Stage::hand_over() {
  traffic_.reset();
  routing_.reset();
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto routing = Child::start(
      {.words = {self.parent_path() / "heddle-lab", "routing"}, .log = {}, .outlives_us = true});
  if (!routing)
    return tl::unexpected(routing.error());
  routing->release();
  if (auto started = cluster_->start_coordinator(); !started)
    return started;
  cluster_->release();
  fabric_->keep();
  console_.title("The fabric stays up");
  console_.more(fmt::format("ip netns exec hd-mgmt {} --config {} status",
                            (options_.programs / "heddle").string(),
                            cluster_->command_line_config().string()));
  const std::string lab = (self.parent_path() / "heddle-lab").string();
  console_.more(fmt::format("{} traffic | cut leaf4-spine2 | restore leaf4-spine2 | status", lab));
  console_.more(fmt::format("{} down", lab));
  return {};
}

}  // namespace heddle::lab
