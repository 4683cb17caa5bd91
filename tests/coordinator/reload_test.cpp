// A configuration that is read again while the coordinator runs: what holds at once, and what waits
// for a restart.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "coordinator/config.h"
#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

class Reload : public ::testing::Test {
 protected:
  Reload() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-reload-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~Reload() override { std::filesystem::remove_all(folder); }
  CoordinatorConfig load(const std::string& text) {
    std::ofstream(folder / "c.yaml") << text;
    auto config = load_coordinator_config(folder / "c.yaml");
    EXPECT_TRUE(config) << config.error().message;
    return config.value_or(CoordinatorConfig{});
  }
  std::filesystem::path folder;
};

TEST_F(Reload, NamesTheKeysThatWaitForARestart) {
  const std::string base = "fabric: f.yaml\n";
  const CoordinatorConfig now = load(base);
  EXPECT_TRUE(needs_restart(now, load(base)).empty());
  for (const auto& [key, value] : {std::pair("listen", "tcp://127.0.0.1:9"),
                                   {"plain", "true"},
                                   {"key", "/x"},
                                   {"authorised_keys", "/x"},
                                   {"state_dir", "/x"},
                                   {"history_days", "9"},
                                   {"optimiser", "greedy"}})
    EXPECT_EQ(needs_restart(now, load(base + key + ": " + value + "\n")),
              std::vector<std::string>{key});
  EXPECT_EQ(needs_restart(now, load("fabric: g.yaml\n")), std::vector<std::string>{"fabric"});
  for (const char* line :
       {"jobs: /x", "period_ms: 77", "report_interval_ms: 77", "lease_s: 7", "flow_memory_s: 7",
        "hysteresis: 0.5", "elephant_mbps: 7", "elephant_message_bytes: 7", "log_level: debug"})
    EXPECT_TRUE(needs_restart(now, load(base + line + "\n")).empty()) << line;
}

class ReloadOfACluster : public ::testing::Test {
 protected:
  ReloadOfACluster() : cluster(2, 2, 2, 7) { cluster.ring(2, 2); }
  void settle() {
    cluster.start();
    ASSERT_TRUE(cluster.await(10s, [&] {
      return cluster.converged() && cluster.installed_pins() == cluster.flows.size();
    }));
  }
  FakeCluster cluster;
};

TEST_F(ReloadOfACluster, TellsAgentsTheNewLeaseAndMovesNothing) {
  settle();
  const std::uint64_t changes = cluster.changes();
  const PlanVersion version = cluster.coordinator->record()->plan.version;
  CoordinatorSettings next = cluster.settings;
  next.broadcast.lease = 3s;
  cluster.coordinator->reconfigure(next, {});
  cluster.advance(2s);
  for (const auto& [name, agent] : cluster.agents)
    if (agent.role == Role::leaf) {
      ASSERT_TRUE(agent.lease_over) << name;
      EXPECT_LE(*agent.lease_over, cluster.clock.now() + 3s) << name;
    }
  EXPECT_EQ(cluster.changes(), changes);
  EXPECT_EQ(cluster.coordinator->record()->plan.version, version);
}

TEST_F(ReloadOfACluster, TakesTheJobFileAsItIsNow) {
  settle();
  const auto listed = [&] { return cluster.ask("job list")->json; };
  EXPECT_EQ(listed(), R"({"jobs":[]})");
  cluster.coordinator->reconfigure(cluster.settings, {{.name = "a", .hosts = {"h1-1", "h2-1"}}});
  EXPECT_EQ(listed(), R"({"jobs":[{"name":"a","hosts":["h1-1","h2-1"]}]})");
  cluster.coordinator->reconfigure(cluster.settings, {});
  EXPECT_EQ(listed(), R"({"jobs":[]})");
}

TEST_F(ReloadOfACluster, CountsElephantsByTheNewThreshold) {
  settle();
  CoordinatorSettings next = cluster.settings;
  next.flows.elephant_rate = Rate{1e15};
  next.flows.elephant_message = {std::uint64_t{1} << 40};
  next.flows.memory = 1s;
  cluster.coordinator->reconfigure(next, {});
  EXPECT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 0; }));
}

}  // namespace
}  // namespace heddle::testing
