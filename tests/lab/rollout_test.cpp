// Switched on with care, on a real fabric: a roll-out over four racks under traffic, with a wave
// that is made bad on purpose and a coordinator killed in each state; the off switch; a drain. The
// programs are the real ones. Needs root.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/lab/cluster.h"
#include "tests/lab/demo_stages.h"
#include "tests/lab/expect.h"
#include "tests/lab/fabric.h"
#include "tests/lab/pin_watch.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;

constexpr unsigned kSeed = 7;
constexpr Duration kCompute = 300ms;  // long enough that reports see the pauses
constexpr Duration kReports = 100ms;
constexpr Duration kPeriod = 250ms;
constexpr Duration kDrain = 300ms;

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

  double under_way_ms(const std::string& job) {
    return std::chrono::duration<double, std::milli>(traffic->under_way(job)).count();
  }

  std::optional<Fabric> fabric;
  std::unique_ptr<Routing> routing;
  std::vector<ClusterJob> jobs;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Traffic> traffic;
};

// Three waves: rack 1, racks 2 and 3, rack 4. The first is good, over a coordinator that is killed
// in each of its states. In the second, an uplink of leaf 2 is shaped down after it was enabled; it
// is turned back by itself. Repaired, it is tried again, and all is enabled.
TEST_F(RolloutLab, SafetyRule11AWaveMadeBadIsRolledBackByItsGateAndAGoodOneIsKept) {
  start("required");
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(pins(), 0) << "agents may program, and nobody has enabled their racks";
  write_waves(
      "soak_s: 6\nwaves:\n  - racks: [rack1]\n  - racks: [rack2, rack3]\n  - racks: [rack4]\n");
  ask({"rollout", "start", "--waves", (cluster->folder() / "waves.yaml").string()});

  await_wave(1, "pending", 5s);
  kill_coordinator();
  // It is short; what is hit for certain is that its pins may or may not be there yet.
  const json enabled = await_rollout(
      [](const json& now) {
        return now["waves"].size() == 3 && now["waves"][0]["state"] != "pending";
      },
      40s);
  std::cout << "killed while wave 1 was " << enabled["waves"][0]["state"] << "\n";
  kill_coordinator();
  await_wave(1, "soaking", 40s);
  EXPECT_GT(pins_of(1), 0);
  EXPECT_EQ(pins_of(2) + pins_of(3) + pins_of(4), 0);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4);
  kill_coordinator();
  await_rollout(
      [](const json& now) { return now["waves"].size() == 3 && now["waves"][0]["soaked_s"] >= 4; },
      40s);
  show("rollout status");
  await_wave(1, "good", 40s);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4);
  kill_coordinator();

  ask({"rollout", "pause"});
  kill_coordinator();
  EXPECT_EQ(await_rollout([](const json&) { return true; }, 10s)["phase"], "paused");
  ask({"rollout", "resume"});
  const json soaking = await_wave(2, "soaking", 40s);
  EXPECT_EQ(soaking["phase"], "running");
  EXPECT_GT(pins_of(2), 0);
  std::this_thread::sleep_for(2s);
  show("rollout status");
  // One uplink that a pin of leaf 2 uses, at a sixth of its rate.
  const int spine = pinned_spine(2);
  const Time slow = boot_now();
  must(fabric->shape_uplink(2, spine, Rate{4e6}));
  const json back = await_wave(2, "rolled-back", 15s);
  const double took = std::chrono::duration<double>(boot_now() - slow).count();
  // Of the slowed iterations, which are the periods now.
  double period = kCompute / 1ms;
  for (const ClusterJob& job : jobs)
    period = std::max(period, std::chrono::duration<double, std::milli>(kCompute).count() +
                                  std::max(mean_ms(job.name, slow), under_way_ms(job.name)));
  std::cout << fmt::format(
      "rolled back {:.2f} s after leaf2-spine{} was slowed, a period then being {:.2f} s: {}\n",
      took, spine, period / 1000, back["why"].get<std::string>());
  EXPECT_LT(took * 1000, 2 * period);
  EXPECT_EQ(back["phase"], "stopped");
  show("rollout status");
  show("plan log --last 4");
  const Time end = boot_now() + 5s;
  while (pins_of(2) + pins_of(3) > 0 && boot_now() < end)
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(pins_of(2) + pins_of(3), 0);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4) << "the good wave stays";
  kill_coordinator();
  const json after = await_rollout(
      [](const json& now) {
        return now["racks"].size() == 4 && now["racks"][0]["confirmed"] == true;
      },
      20s);
  EXPECT_EQ(after["phase"], "stopped");
  EXPECT_EQ(after["waves"][1]["state"], "rolled-back");
  EXPECT_EQ(after["racks"][0]["pins"], 4);
  EXPECT_EQ(pins_of(2) + pins_of(3), 0) << "a restart enables nothing again";

  must(fabric->shape_uplink(2, spine, fabric->spec().rate));
  std::this_thread::sleep_for(3s);
  ask({"rollout", "resume"});
  await_wave(3, "good", 90s);
  EXPECT_EQ(rollout()["phase"], "done");
  kill_coordinator();
  EXPECT_EQ(await_rollout([](const json&) { return true; }, 10s)["phase"], "done");
  for (int leaf = 1; leaf <= 4; ++leaf)
    EXPECT_GT(pins_of(leaf), 0) << leaf;
}

TEST_F(RolloutLab, DisableAllUnderLoadIsReadBackInUnderASecondAlsoWithoutACoordinator) {
  start("off");
  // A plan without pins comes first, where no flow has shown itself yet.
  must(cluster->await(
      [&](const ClusterStatus& now) { return now.converged == now.agents && pins() > 0; }, 30s,
      "pins to be installed"));
  const Time begin = boot_now();
  const json nodes = ask({"disable", "--all"})["nodes"];
  const auto took = std::chrono::duration<double, std::milli>(boot_now() - begin).count();
  EXPECT_EQ(pins(), 0);
  EXPECT_EQ(nodes.size(), 20U);
  for (const json& node : nodes)
    EXPECT_TRUE(node["confirmed"]) << node;
  std::cout << fmt::format("disable --all read back from {} nodes after {:.0f} ms\n", nodes.size(),
                           took);
  EXPECT_LT(took, 1000);

  ask({"enable", "--all"});
  const Time again = boot_now() + 20s;
  while (pins() == 0 && boot_now() < again)
    std::this_thread::sleep_for(50ms);
  ASSERT_GT(pins(), 0);
  cluster->kill_coordinator();
  const Time dead = boot_now();
  std::vector<std::thread> machines;
  for (int leaf = 1; leaf <= 4; ++leaf)
    machines.emplace_back([&, leaf] {
      const auto done =
          capture({.words = {HEDDLE_AGENT, "disable", "--config",
                             (cluster->folder() / fmt::format("leaf{}.yaml", leaf)).string()},
                   .space = &fabric->space(NodeName::leaf(leaf)),
                   .log = {}},
                  10s);
      EXPECT_TRUE(done && done->status == 0) << (done ? done->errors : done.error().message);
    });
  for (std::thread& machine : machines)
    machine.join();
  const auto alone = std::chrono::duration<double, std::milli>(boot_now() - dead).count();
  EXPECT_EQ(pins(), 0);
  std::cout << fmt::format("heddle-agent disable on 4 leaves without a coordinator: {:.0f} ms\n",
                           alone);
  EXPECT_LT(alone, 1000);
}

TEST_F(RolloutLab, ADrainedSpineIsEmptyAndItsLinksCanBeCutWithoutALoss) {
  start("off");
  must(cluster->await(
      [&](const ClusterStatus& now) { return now.converged == now.agents && pins() > 0; }, 30s,
      "pins to be installed"));
  must(traffic->await_iterations(2, boot_now(), 20s));
  const std::uint64_t lost = lost_for_good();
  must(traffic->await_iterations(1, boot_now(), 20s));
  traffic->probe(100);
  const Time begin = boot_now();
  ask({"drain", "--spine", "spine2"});
  json seen;
  for (const Time end = boot_now() + 15s; boot_now() < end; std::this_thread::sleep_for(100ms)) {
    seen = ask({"drain", "status"})["drains"][0];
    if (seen["state"] == "empty")
      break;
  }
  EXPECT_EQ(seen["state"], "empty") << seen;
  show("drain status");
  std::cout << fmt::format("spine2 is empty {:.1f} s after the order: {}\n",
                           std::chrono::duration<double>(boot_now() - begin).count(),
                           seen["links"].dump());
  must(traffic->await_iterations(2, boot_now(), 20s));
  std::this_thread::sleep_for(kDrain);
  const ProbeCounts moved = traffic->probes_between(begin, boot_now() - kDrain);
  EXPECT_EQ(moved.lost, 0U) << "of " << moved.sent;
  EXPECT_EQ(lost_for_good(), lost);
  must(traffic->await_iterations(1, boot_now(), 20s));

  const Time cut = boot_now();
  must(fabric->cut_spine(2));
  must(traffic->await_iterations(3, boot_now(), 20s));
  std::this_thread::sleep_for(kDrain);
  const ProbeCounts after = traffic->probes_between(cut - 50ms, boot_now() - kDrain);
  EXPECT_EQ(after.lost, 0U) << "of " << after.sent;
  // Acknowledgements are small flows that ECMP hashes: those on a cable that is cut are lost, and
  // their flows repeat what had arrived. Of what jobs send nothing may be lost.
  EXPECT_EQ(lost_for_good(), lost);
  std::cout << fmt::format(
      "probes lost while it was drained {} of {}, when it was cut {} of {}; packets of jobs: 0\n",
      moved.lost, moved.sent, after.lost, after.sent);
  must(fabric->restore_spine(2));
  ask({"undrain", "--spine", "spine2"});
}

}  // namespace
}  // namespace heddle::lab
