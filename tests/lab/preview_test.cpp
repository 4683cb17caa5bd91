// What a preview promises, held against what real kernels then do: a spine is cut for which it was
// asked before.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/lab/cluster.h"
#include "tests/lab/expect.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr Duration kPatience = 30s;
constexpr double kWithin = 0.05;
constexpr int kIterations = 15;

// Two jobs of two hosts each, which never pause, over two leaves and two spines: with both spines a
// job has a spine to itself, with one they share it.
class PreviewInTheLab : public ::testing::Test {
 protected:
  PreviewInTheLab() {
    spec.leaves = 2;
    spec.spines = 2;
    spec.hosts = 2;
    spec.prefix = "hp-";
    (void)Fabric::tear_down(spec.prefix);
    fabric.emplace(must(Fabric::raise(spec)));
    routing = must(Routing::start(*fabric, 100ms));
    cluster =
        must(Cluster::prepare(*fabric, {.programs = HEDDLE_BINARY_DIR, .jobs = jobs, .lease = 5s}));
    must(cluster->start_coordinator());
    must(cluster->start_agents());
    must(cluster->await([](const ClusterStatus& now) { return now.connected == 6; }, kPatience,
                        "all agents"));
    std::vector<TrafficHost> hosts;
    for (int leaf = 1; leaf <= 2; ++leaf)
      for (int host = 1; host <= 2; ++host)
        hosts.push_back({NodeName::host(leaf, host), host_address(leaf, host),
                         &fabric->space(NodeName::host(leaf, host))});
    traffic = must(Traffic::start(hosts));
    for (const ClusterJob& job : jobs)
      must(traffic->add_job({.name = job.name,
                             .pattern = Pattern::ring_all_reduce,
                             .hosts = job.hosts,
                             .message_bytes = 36 * kPayload,
                             .compute = {}}));
    must(traffic->connect(7));
    traffic->run();
  }

  // Of each job the median of its iterations' communication: what a stalled processor does to one
  // of them is not the network's doing.
  std::map<std::string, double> milliseconds() {
    const Time begin = boot_now();
    must(traffic->await_iterations(kIterations, begin, kPatience));
    std::map<std::string, double> median;
    for (const ClusterJob& job : jobs) {
      std::vector<double> times;
      for (const Iteration& iteration : traffic->iterations(job.name))
        if (iteration.begin >= begin)
          times.push_back(
              std::chrono::duration<double, std::milli>(iteration.communication).count());
      std::ranges::nth_element(times,
                               times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
      median[job.name] = times[times.size() / 2];
    }
    return median;
  }
  // Every leaf holds a plan that promises both jobs something.
  PlanView settled(int links_down) {
    PlanView plan;
    must(cluster->await(
        [&](const ClusterStatus& now) {
          if (now.converged != now.agents || now.links_down != links_down || now.elephants != 4)
            return false;
          plan = must(cluster->plan());
          return plan.efficiency.size() == jobs.size() && plan.pins == 4;
        },
        kPatience, "a plan to be installed everywhere"));
    return plan;
  }

  const std::vector<ClusterJob> jobs{{"A", {"h1-1", "h2-1"}}, {"B", {"h1-2", "h2-2"}}};
  FabricSpec spec;
  std::optional<Fabric> fabric;
  std::unique_ptr<Routing> routing;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Traffic> traffic;
};

TEST_F(PreviewInTheLab, PromisesWithinFivePercentWhatALostSpineThenCosts) {
  const PlanView before = settled(0);
  for (const auto& [job, efficiency] : before.efficiency)
    ASSERT_EQ(efficiency, 1.0) << job;
  const auto whole = milliseconds();

  const std::string generation = must(cluster->plan()).version;
  const json preview = json::parse(must(cluster->ask({"plan", "preview", "--down", "spine2"})));
  EXPECT_EQ(must(cluster->plan()).version, generation) << "it changed something";
  ASSERT_EQ(preview["jobs"].size(), jobs.size());

  must(fabric->cut_spine(2));
  const PlanView after = settled(4);
  const auto less = milliseconds();
  for (const json& job : preview["jobs"]) {
    const std::string name = job["name"];
    const double promised = job["then"];
    const double had = whole.at(name) / less.at(name);
    std::printf("job %s: %.1f ms, with a spine less %.1f ms: efficiency %.3f, promised %.3f\n",
                name.c_str(), whole.at(name), less.at(name), had, promised);
    EXPECT_NEAR(had, promised, kWithin * promised) << name;
    EXPECT_DOUBLE_EQ(promised, after.efficiency.at(name)) << name;
    EXPECT_LT(promised, 1.0) << "the failure costs something, or this test is of nothing";
  }
}

}  // namespace
}  // namespace heddle::lab
