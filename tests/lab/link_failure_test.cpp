// How long the loss of a cable is felt, over twenty of them: until traffic is on another path,
// which is the kernel's and the agents' doing alone, and until a new plan that is as good as any is
// installed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/lab/cluster.h"
#include "tests/lab/expect.h"
#include "tests/lab/pin_watch.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr int kFailures = 20;
constexpr int kLeaves = 2;
constexpr int kSpines = 4;
constexpr int kHosts = 4;  // of a leaf: a spine for each
constexpr int kPins = kLeaves * kHosts;
constexpr int kProbesPerSecond = 1000;  // beside each flow: an outage is known to 2 ms
constexpr double kTrafficBackMs = 10;
constexpr double kReplannedMs = 200;
constexpr Duration kRoutingDelay = 50ms;
constexpr Duration kPatience = 30s;
// What was sent so long before the failure was no longer on its way.
constexpr Duration kInQueues = 100ms;

double in_ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string spread(const std::vector<double>& values) {
  return fmt::format("median {:.1f} ms, {:.1f} to {:.1f}", median(values),
                     *std::ranges::min_element(values), *std::ranges::max_element(values));
}

// Four jobs of two hosts each, which never pause, over two leaves and four spines.
class LinkFailure : public ::testing::Test {
 protected:
  LinkFailure() {
    spec.leaves = kLeaves;
    spec.spines = kSpines;
    spec.hosts = kHosts;
    spec.prefix = "hf-";
    (void)Fabric::tear_down(spec.prefix);
    fabric.emplace(must(Fabric::raise(spec)));
    routing = must(Routing::start(*fabric, kRoutingDelay));
    watch = must(PinWatch::start({{NodeName::leaf(1), &fabric->space(NodeName::leaf(1))},
                                  {NodeName::leaf(2), &fabric->space(NodeName::leaf(2))}}));
    std::vector<TrafficHost> hosts;
    std::vector<ClusterJob> jobs;
    for (int host = 1; host <= kHosts; ++host) {
      jobs.push_back({fmt::format("job{}", host), {}});
      for (int leaf = 1; leaf <= kLeaves; ++leaf) {
        const std::string name = NodeName::host(leaf, host);
        jobs.back().hosts.push_back(name);
        hosts.push_back({name, host_address(leaf, host), &fabric->space(name)});
      }
    }
    cluster = must(
        Cluster::prepare(*fabric, {.programs = HEDDLE_BINARY_DIR,
                                   .jobs = jobs,
                                   .lease = 120s,
                                   .coordinator_lines = "rollout: {mode: off}\ndwell_s: 0\n"}));
    must(cluster->start_coordinator());
    must(cluster->start_agents());
    traffic = must(Traffic::start(hosts));
    for (const ClusterJob& job : jobs)
      must(traffic->add_job({.name = job.name,
                             .pattern = Pattern::ring_all_reduce,
                             .hosts = job.hosts,
                             .message_bytes = 36 * kPayload,
                             .compute = {}}));
    must(traffic->connect(7));
    traffic->run();
    settled(0, 0);
    traffic->probe(kProbesPerSecond);
  }

  // Every leaf holds a plan newer than that, which knows of so many cables down, and nothing newer
  // comes; it is as good as one can be on the spines that are left between the two leaves.
  std::uint64_t settled(std::uint64_t newer_than, int cables_down) {
    const int spines_left = kSpines - cables_down;
    const int worst_share = (kHosts + spines_left - 1) / spines_left;
    std::uint64_t before = 0;
    PlanView plan;
    must(cluster->await(
        [&](const ClusterStatus& now) {
          const bool calm = now.generation > newer_than && now.generation == before &&
                            now.connected == now.agents && now.converged == now.agents &&
                            now.links_down == 2 * cables_down && now.elephants == kPins;
          before = now.generation;
          if (!calm)
            return false;
          plan = must(cluster->plan());
          return plan.pins == kPins && plan.efficiency.size() == kHosts &&
                 std::ranges::all_of(plan.efficiency, [&](const auto& job) {
                   return job.second >= 1.0 / worst_share - 1e-9;
                 });
        },
        kPatience, "an optimal plan to be installed everywhere"));
    return before;
  }

  int pins_held() {
    int held = 0;
    for (int leaf = 1; leaf <= kLeaves; ++leaf)
      for (const RouteSeen& route : must(fabric->netlink(NodeName::leaf(leaf)).routes()))
        held += route.protocol == kPinProtocol ? 1 : 0;
    return held;
  }

  FabricSpec spec;
  std::optional<Fabric> fabric;
  std::unique_ptr<Routing> routing;
  std::unique_ptr<PinWatch> watch;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Traffic> traffic;
};

TEST_F(LinkFailure, PutsTrafficOnAnotherPathWithoutTheCoordinatorInTenMilliseconds) {
  cluster->hold_coordinator(true);
  std::vector<double> near;  // flows whose own leaf lost the cable
  std::vector<double> far;   // those whose leaf has to be told by routing
  for (int failure = 0; failure < kFailures; ++failure) {
    const int spine = 1 + failure % kSpines;
    const Time cut = boot_now();
    must(fabric->cut_cable(1, spine));
    must(routing->await(RoutingEvent::Kind::withdrawn, 1, cut, kPatience));
    must(traffic->await_iterations(2, boot_now(), kPatience));
    Duration longest_near{};
    Duration longest_far{};
    for (const FlowOutage& outage :
         traffic->probe_outages(cut - kInQueues, boot_now() - kInQueues)) {
      Duration& longest = outage.source.starts_with("h1-") ? longest_near : longest_far;
      longest = std::max(longest, outage.end - cut);
    }
    EXPECT_GT(longest_near + longest_far, Duration::zero())
        << "no flow felt the failure of the cable to spine " << spine;
    near.push_back(in_ms(longest_near));
    far.push_back(in_ms(longest_far));
    const Time repaired = boot_now();
    must(fabric->restore_cable(1, spine));
    must(routing->await(RoutingEvent::Kind::restored, 1, repaired, kPatience));
    // The agents put the pins back by themselves.
    must(watch->await(
        repaired, [&](const auto&) { return pins_held() == kPins; }, kPatience));
  }
  cluster->hold_coordinator(false);
  fmt::print("[ measured ] traffic back after a leaf lost a cable, of {} losses: {}\n", kFailures,
             spread(near));
  fmt::print("[ measured ] and towards that leaf, with {:.0f} ms of routing: {}\n",
             in_ms(kRoutingDelay), spread(far));
  EXPECT_LT(median(near), kTrafficBackMs);
}

TEST_F(LinkFailure, HasANewOptimalPlanInstalledInTwoHundredMilliseconds) {
  std::vector<double> replanned;
  std::uint64_t generation = settled(0, 0);
  for (int failure = 0; failure < kFailures; ++failure) {
    const int spine = 1 + failure % kSpines;
    const Time cut = boot_now();
    must(fabric->cut_cable(1, spine));
    generation = settled(generation, 1);
    Time last_change = cut;
    for (const TableEvent& event : watch->since(cut))
      if (event.protocol == kPinProtocol)
        last_change = event.at;
    EXPECT_GT(last_change, cut) << "no pin changed with the failure of the cable to spine "
                                << spine;
    replanned.push_back(in_ms(last_change - cut));
    must(fabric->restore_cable(1, spine));
    generation = settled(generation, 0);
  }
  EXPECT_EQ(watch->overruns(), 0);
  fmt::print("[ measured ] optimal plan installed after the loss of a cable, of {} losses: {}\n",
             kFailures, spread(replanned));
  EXPECT_LT(median(replanned), kReplannedMs);
}

}  // namespace
}  // namespace heddle::lab
