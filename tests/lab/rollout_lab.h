// heddle switched on and off on a real fabric with two jobs running: what the tests of roll-outs,
// of the off switch and of drains share. One thread; each test raises a fabric of its own and needs
// root. Only for *_test.cpp files.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/lab/cluster.h"
#include "tests/lab/demo_stages.h"
#include "tests/lab/expect.h"
#include "tests/lab/fabric.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"
#include "tests/tree.h"

namespace heddle::lab {

using namespace std::chrono_literals;
using json = nlohmann::json;

inline constexpr unsigned kSeed = 7;
inline constexpr Duration kCompute = 300ms;  // long enough that reports see the pauses
inline constexpr Duration kReports = 100ms;
inline constexpr Duration kPeriod = 250ms;
inline constexpr Duration kDrain = 300ms;

// A fabric with two jobs running, and heddle on it.
class RolloutLab : public ::testing::Test {
 protected:
  static constexpr const char* kLines =
      "dwell_s: 1\nquiet_wait_s: 2\ndrained_mbps: 1\nrollout:\n  mode: {}\n  baseline_s: 6\n"
      "  converge_s: 5\n  efficiency_loss: 0.25\n  iteration_growth: 0.25\n  unobservable: pass\n";

  void start(const std::string& mode, Duration compute = kCompute) {
    (void)Fabric::tear_down("hr-");
    fabric.emplace(must(Fabric::raise({.prefix = "hr-"})));
    routing = must(Routing::start(*fabric, 50ms));
    jobs = place_jobs(fabric->spec(), kSeed);
    cluster = must(Cluster::prepare(*fabric, {.programs = HEDDLE_BINARY_DIR,
                                              .jobs = jobs,
                                              .report_interval = kReports,
                                              .period = kPeriod,
                                              .lease = 5s,
                                              .flow_memory = 4s,
                                              .coordinator_lines = fmt::format(kLines, mode)}));
    configured();
    must(cluster->start_coordinator());
    must(cluster->start_agents());
    const int agents = fabric->spec().leaves * (1 + fabric->spec().hosts);
    must(cluster->await([&](const ClusterStatus& now) { return now.connected == agents; }, 30s,
                        "all agents"));
    std::vector<TrafficHost> hosts;
    for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf)
      for (int host = 1; host <= fabric->spec().hosts; ++host)
        hosts.push_back({.name = NodeName::host(leaf, host),
                         .address = host_address(leaf, host),
                         .space = &fabric->space(NodeName::host(leaf, host))});
    traffic = must(Traffic::start(hosts));
    for (const ClusterJob& job : jobs)
      must(traffic->add_job({.name = job.name,
                             .pattern = Pattern::ring_all_reduce,
                             .hosts = job.hosts,
                             .message_bytes = 65536,
                             .compute = compute}));
    must(traffic->connect(kSeed));
    traffic->run();
    must(cluster->await([&](const ClusterStatus& now) { return now.elephants == 16; }, 30s,
                        "the coordinator to know the flows"));
  }
  // The configuration is written, and nothing is started yet.
  virtual void configured() {}
  void TearDown() override {
    if (!HasFailure() || !cluster)
      return;
    std::ifstream log(cluster->folder() / "log" / "mgmt.log");
    std::cerr << log.rdbuf();
  }
  json ask(std::vector<std::string> words) {
    return json::parse(must(cluster->ask(std::move(words))));
  }
  // What an operator sees, printed for the guide.
  void show(const std::string& words) {
    const auto shown =
        must(capture({.words = {"/bin/sh", "-c",
                                fmt::format("{}/heddle --config {} {}", HEDDLE_BINARY_DIR,
                                            cluster->command_line_config().string(), words)},
                      .space = &fabric->space("mgmt"),
                      .log = {}},
                     10s));
    EXPECT_EQ(shown.status, 0) << shown.errors;
    std::cout << "$ heddle " << words << "\n" << shown.text << "\n";
  }
  json rollout() { return ask({"rollout", "status"}); }
  // Looks at the roll-out until it is so; its last answer.
  json await_rollout(const std::function<bool(const json&)>& condition, Duration patience) {
    json seen;
    for (const Time end = boot_now() + patience; boot_now() < end;
         std::this_thread::sleep_for(50ms)) {
      auto answer = cluster->ask({"rollout", "status"});
      if (!answer)
        continue;  // between two lives of the coordinator
      seen = json::parse(*answer);
      if (condition(seen))
        return seen;
    }
    ADD_FAILURE() << "waited in vain: " << seen;
    return seen;
  }
  json await_wave(std::size_t wave, const std::string& state, Duration patience) {
    return await_rollout(
        [&](const json& now) {
          return now["waves"].size() >= wave && now["waves"][wave - 1]["state"] == state;
        },
        patience);
  }
  int pins_of(int leaf) { return must(count_pins(fabric->netlink(NodeName::leaf(leaf)))); }
  int pins() {
    int all = 0;
    for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf)
      all += pins_of(leaf);
    return all;
  }
  // Packets of jobs that were sent and never came: exact, as nothing is on its way. The jobs go on.
  std::uint64_t lost_for_good() {
    must(traffic->finish(20s));
    std::uint64_t sum = 0;
    for (const HostReport& host : traffic->hosts())
      sum += host.lost;
    traffic->run();
    return sum;
  }
  void write_waves(const std::string& text) {
    std::ofstream(cluster->folder() / "waves.yaml") << text;
  }
  // Ends the coordinator in the moment in which it has stored that the wave is in that state, as a
  // machine that loses its power; what its disk then says of the wave. Each state lasts for a
  // period at least, as it is left by the next look at it.
  std::string kill_when_stored(std::size_t wave, const std::string& state, Duration patience) {
    const std::filesystem::path folder = cluster->folder() / "state" / "coordinator";
    const int watch = ::inotify_init1(IN_CLOEXEC);
    ::inotify_add_watch(watch, folder.c_str(), IN_MOVED_TO);
    const Time end = boot_now() + patience;
    std::string seen = stored_state(folder / "rollout", wave);
    while (seen != state && boot_now() < end) {
      pollfd changed{.fd = watch, .events = POLLIN, .revents = 0};
      if (::poll(&changed, 1, 1000) > 0) {
        alignas(inotify_event) char events[4096];
        (void)!::read(watch, events, sizeof(events));
      }
      seen = stored_state(folder / "rollout", wave);
    }
    cluster->kill_coordinator();
    ::close(watch);
    return stored_state(folder / "rollout", wave);
  }
  static std::string stored_state(const std::filesystem::path& file, std::size_t wave) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("wave ") && --wave == 0)
        return line.substr(5, line.find(' ', 5) - 5);
    return "none";
  }
  // As a machine that loses its power, then started again, until it answers.
  void kill_coordinator() {
    cluster->kill_coordinator();
    must(cluster->start_coordinator());
    await_rollout([](const json&) { return true; }, 10s);
  }
  // The spine that the pins of a leaf lead to.
  int pinned_spine(int leaf) {
    Netlink& net = fabric->netlink(NodeName::leaf(leaf));
    for (const NexthopSeen& hop : must(net.nexthops()))
      for (int spine = 1; spine <= fabric->spec().spines; ++spine)
        if (hop.protocol == kPinProtocol &&
            hop.out_index == net.index_of(fmt::format("up{}", spine)))
          return spine;
    throw std::runtime_error("the leaf has no pin");
  }
  double mean_ms(const std::string& job, Time since) {
    double sum = 0;
    int count = 0;
    for (const Iteration& one : traffic->iterations(job))
      if (one.begin >= since) {
        sum += std::chrono::duration<double, std::milli>(one.communication).count();
        ++count;
      }
    return count == 0 ? 0 : sum / count;
  }

  // Of that iteration in the middle which a stalled processor does not touch.
  double median_ms(const std::string& job, Time since) {
    std::vector<double> times;
    for (const Iteration& one : traffic->iterations(job))
      if (one.begin >= since)
        times.push_back(std::chrono::duration<double, std::milli>(one.communication).count());
    std::ranges::sort(times);
    return times.empty() ? 0 : times[times.size() / 2];
  }
  double under_way_ms(const std::string& job) {
    return std::chrono::duration<double, std::milli>(traffic->under_way(job)).count();
  }

  std::optional<Fabric> fabric;
  std::unique_ptr<Routing> routing;
  std::vector<ClusterJob> jobs;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Traffic> traffic;
};

}  // namespace heddle::lab
