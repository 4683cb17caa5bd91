// Whole clusters in one process. Seeds are printed, and a run repeats exactly.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

// Four leaves, four spines, four hosts a leaf, one ring through all of them: every leaf sends four
// flows into the core and receives four, so that one path each is possible and the efficiency can
// be 1.
class Cluster : public ::testing::Test {
 protected:
  Cluster() : cluster(4, 4, 4, kSeed) { cluster.ring(4, 4); }
  static constexpr std::uint64_t kSeed = 20250305;

  void settle() {
    ASSERT_TRUE(cluster.await(
        10s,
        [&] { return cluster.converged() && cluster.installed_pins() == cluster.flows.size(); }))
        << cluster.installed_pins() << " pins";
  }

  FakeCluster cluster;
};

TEST_F(Cluster, BringsARingFromHashedPathsToItsIdeal) {
  const double before = cluster.measured().worst;
  cluster.start();
  settle();
  EXPECT_LT(before, 0.6);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  EXPECT_DOUBLE_EQ(cluster.coordinator->record()->worst, 1.0) << "what the plan promised";
  std::printf("hashed %.2f, planned %.2f, after %lld ms\n", before, cluster.measured().worst,
              static_cast<long long>(cluster.took / 1ms));
}

TEST_F(Cluster, ConvergesOverAChannelThatLosesAndReordersMessages) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    FakeCluster lossy(4, 4, 4, seed);
    lossy.ring(4, 4);
    lossy.loss = 0.3;
    lossy.longest_delay = 80ms;
    lossy.reorders = true;
    lossy.start();
    lossy.advance(8s);
    lossy.cut(1, 2);
    lossy.advance(2s);
    lossy.cut(1, 2, true);
    ASSERT_TRUE(lossy.await(60s,
                            [&] {
                              return lossy.converged() && lossy.installed_pins() == 16U &&
                                     lossy.measured().worst == 1.0;
                            }))
        << "seed " << seed << ": " << lossy.installed_pins() << " pins, worst "
        << lossy.measured().worst;
    std::printf("seed %llu: 30 %% lost, converged %lld ms after the link returned\n",
                static_cast<unsigned long long>(seed), static_cast<long long>(lossy.took / 1ms));
  }
}

// The far end of a cut cable is known by what other leaves' routing withdraws, which only changes
// of links tell. All of these are lost; reports show it.
TEST_F(Cluster, AsksForAChangeOfLinksThatWasLost) {
  cluster.start();
  settle();
  cluster.advance(1s);
  std::uint64_t asked = 0;
  for (const auto& [name, agent] : cluster.agents)
    asked += agent.link_requests;
  EXPECT_EQ(asked, 0U) << "nothing was lost so far";
  cluster.loss = 1;
  cluster.cut(1, 2);
  cluster.advance(1ms);
  cluster.loss = 0;
  const FakeAgent& far = cluster.agents.at("leaf3");
  ASSERT_TRUE(cluster.await(2 * cluster.settings.broadcast.report_interval + 500ms,
                            [&] {
                              return far.link_requests > 0 && cluster.converged() &&
                                     cluster.measured().worst == 0.5;
                            }))
      << far.link_requests << " requests, worst " << cluster.measured().worst;
  cluster.advance(3 * cluster.settings.broadcast.report_interval);
  EXPECT_EQ(far.link_requests, 1U) << "once is enough";
}

TEST_F(Cluster, InstallsANewPlanEverywhereWithin500MillisecondsOfALinkEvent) {
  cluster.longest_delay = 20ms;
  cluster.start();
  settle();
  cluster.advance(3s);
  const PlanVersion before = cluster.coordinator->record()->plan.version;
  cluster.cut(1, 2);
  const auto uses_cut_cable = [&] {
    for (const FlowSpec& flow : cluster.flows)
      for (const auto& [name, agent] : cluster.agents)
        for (const Pin& pin : agent.installed) {
          const auto* route = std::get_if<PortTableRoute>(&pin.target);
          const bool from_leaf1 = name == "leaf1";
          const bool to_leaf1 =
              destination_of(pin.unit) == address(1, flow.to) && flow.to_leaf == 1;
          if (route != nullptr && route->out_port == "up2" && (from_leaf1 || to_leaf1))
            return true;
        }
    return false;
  };
  ASSERT_TRUE(cluster.await(500ms, [&] {
    return cluster.coordinator->record()->plan.version > before && cluster.converged() &&
           !uses_cut_cable();
  }));
  std::printf("replanned and installed after %lld ms\n",
              static_cast<long long>(cluster.took / 1ms));
  // Three spines for four flows: two share, and half is the best that one path each can give.
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 0.5);
  EXPECT_TRUE(cluster.logged("leaf1-spine2 down"));

  cluster.cut(1, 2, true);
  EXPECT_TRUE(cluster.await(1s, [&] { return cluster.measured().worst == 1.0; }));
}

TEST_F(Cluster, MovesNothingWhileNothingChanges) {
  // Two seconds of sending, three of silence, as iterations with a compute pause.
  cluster.sending = [](Time now) { return now.time_since_epoch() % 5s < 2s; };
  cluster.start();
  settle();
  cluster.advance(10s);
  const PlanVersion version = cluster.coordinator->record()->plan.version;
  const std::uint64_t changes = cluster.changes();
  cluster.advance(60s);
  EXPECT_EQ(cluster.coordinator->record()->plan.version, version);
  EXPECT_EQ(cluster.changes(), changes);
}

TEST_F(Cluster, PinsOnlyWhatIsNewWhenAJobArrives) {
  const std::vector<FlowSpec> all = cluster.flows;
  // Hosts 1 and 2 of every leaf first: flows among them alone.
  std::erase_if(cluster.flows, [](const FlowSpec& flow) { return flow.from > 2 || flow.to > 2; });
  const std::size_t first = cluster.flows.size();
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == first; }));
  cluster.advance(2s);
  std::map<std::string, std::vector<Pin>> before;
  for (const auto& [name, agent] : cluster.agents)
    before[name] = agent.installed;
  cluster.flows.push_back({1, 3, 2, 3});
  ASSERT_TRUE(cluster.await(
      10s, [&] { return cluster.converged() && cluster.installed_pins() == first + 1; }));
  for (const auto& [name, agent] : cluster.agents)
    for (const Pin& pin : before[name])
      EXPECT_TRUE(std::ranges::any_of(
          agent.installed,
          [&](const Pin& now) { return now.unit == pin.unit && now.target == pin.target; }))
          << name << " moved " << to_string(pin.unit);
}

TEST_F(Cluster, DropsThePinsOfFlowsThatEnded) {
  cluster.start();
  settle();
  cluster.flows.clear();
  EXPECT_TRUE(cluster.await(15s, [&] { return cluster.installed_pins() == 0; }));
}

// Long before the next period.
TEST_F(Cluster, PlansAtOnceWhenAnAgentSaysThatItCanNoLongerSteer) {
  cluster.settings.period = 2s;
  cluster.start();
  settle();
  FakeAgent& leaf = cluster.agents.at("leaf2");
  const auto says_hello = [&](bool can) {
    leaf.can_steer = can;
    leaf.welcomed = false;
    leaf.hello_at = cluster.clock.now();
  };
  says_hello(false);
  EXPECT_TRUE(cluster.await(100ms, [&] { return leaf.installed.empty(); }));
  EXPECT_NE(cluster.coordinator->record()->reason.find("leaf2 can no longer steer"),
            std::string::npos)
      << cluster.coordinator->record()->reason;
  says_hello(true);
  EXPECT_TRUE(cluster.await(100ms, [&] { return leaf.installed.size() == 4; }));
}

// Nobody sees where the flows of a leaf run whose agent is away: no promise can be made for the
// job.
TEST_F(Cluster, SafetyRule7PromisesNothingForAJobOfWhichFlowsAreNotSeen) {
  cluster.start();
  cluster.agents.at("leaf3").hello_at = Time::max();
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.installed_pins() == 12; }));
  const json status = json::parse(cluster.ask("status")->json);
  EXPECT_TRUE(status["efficiency"]["worst"].is_null()) << status["efficiency"];
  EXPECT_TRUE(status["efficiency"]["mean"].is_null());
  const json plan = json::parse(cluster.ask("plan show")->json);
  EXPECT_TRUE(plan["efficiency"]["worst"].is_null()) << plan["efficiency"];
  EXPECT_TRUE(plan["efficiency"]["by_job"].empty());
  EXPECT_TRUE(json::parse(cluster.ask("jobs")->json)["jobs"][0]["efficiency"].is_null());
}

// Every leaf sends four flows into the core; one that cannot use an uplink shares another.
TEST_F(Cluster, PlacesFlowsElsewhereWhosePinsFail) {
  FakeAgent& leaf = cluster.agents.at("leaf1");
  leaf.broken_port = "up2";
  cluster.start();
  settle();
  EXPECT_EQ(leaf.installed.size(), 4U);
  EXPECT_EQ(cluster.coordinator->record()->worst, cluster.measured().worst) << "promised, kept";
  leaf.broken_port.clear();
  EXPECT_TRUE(cluster.await(15s, [&] { return cluster.measured().worst == 1.0; }))
      << "it is tried again";
}

TEST_F(Cluster, SafetyRule9AnotherCoordinatorInOurEpochIsNoticedAndLeftBehind) {
  cluster.start();
  settle();
  const std::uint64_t epoch = cluster.reign->version().epoch;
  FakeAgent& agent = cluster.agents.at("leaf2");
  agent.highest = agent.plan->version = {epoch, 999};
  cluster.reconnect();
  ASSERT_TRUE(cluster.await(5s, [&] { return cluster.converged(); }));
  EXPECT_EQ(cluster.reign->version().epoch, epoch + 1);
  EXPECT_TRUE(cluster.logged(fmt::format("leaf2 holds plan {}.999", epoch)));
  EXPECT_TRUE(cluster.logged("another coordinator rules"));
}

TEST_F(Cluster, SafetyRule8ABrokenHistoryDoesNotTouchRouting) {
  cluster.history.broken = true;
  cluster.start();
  settle();
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  const json status = json::parse(cluster.ask("status")->json);
  EXPECT_EQ(status["history"]["state"], "degraded");
  EXPECT_EQ(status["history"]["reason"], "No space left on device");
  EXPECT_TRUE(cluster.logged("the history is degraded"));
  // A disk that hangs answers nothing: the question is answered without it.
  const auto old = cluster.ask("plan show", {"1.900"});
  ASSERT_TRUE(old);
  EXPECT_EQ(old->exit_code, 1);
  EXPECT_FALSE(old->error.empty());
  cluster.cut(1, 2);
  EXPECT_TRUE(cluster.await(500ms, [&] { return cluster.measured().worst == 0.5; }));
}

TEST_F(Cluster, LeavesARackAloneWhoseAgentOnlyObserves) {
  cluster.agents.at("leaf3").mode = Mode::observe;
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 12; }));
  cluster.advance(3s);
  EXPECT_TRUE(cluster.agents.at("leaf3").installed.empty());
}

TEST_F(Cluster, NamesAKeyOfNoNodeThatGivesCommandsOnce) {
  cluster.start();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(cluster.ask("status", {}, "leaf9")->exit_code, 0);
  EXPECT_EQ(std::ranges::count_if(cluster.log,
                                  [](const std::string& line) {
                                    return line.find("the key 'leaf9', of no node") !=
                                           std::string::npos;
                                  }),
            1);
}

TEST_F(Cluster, AnAgentsKeyGivesNoCommands) {
  cluster.start();
  settle();
  const auto refused = cluster.ask("disable", {"--all"}, "leaf1");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 1);
  EXPECT_EQ(cluster.installed_pins(), 16U);
  EXPECT_EQ(cluster.ask("status", {}, "ann")->exit_code, 0);
}

TEST_F(Cluster, AnswersEveryQuestionInTheFormThatTheCommandLineReads) {
  cluster.start();
  settle();
  cluster.advance(1s);
  const json status = json::parse(cluster.ask("status")->json);
  EXPECT_EQ(status["agents"]["total"], 20);
  EXPECT_EQ(status["agents"]["connected"], 20);
  EXPECT_EQ(status["agents"]["programming"], 4);
  EXPECT_EQ(status["agents"]["converged"], 20);
  EXPECT_EQ(status["jobs"], 1);
  EXPECT_EQ(status["flows"]["elephants"], 16);
  EXPECT_EQ(status["links"], (json{{"total", 64}, {"down", 0}}));
  EXPECT_EQ(status["efficiency"]["worst"], 1.0);
  EXPECT_EQ(status["history"]["state"], "ok");

  const json flows = json::parse(cluster.ask("flows")->json)["flows"];
  ASSERT_EQ(flows.size(), 16U);
  for (const json& flow : flows) {
    EXPECT_TRUE(flow["pinned"]) << flow;
    EXPECT_EQ(flow["planned_path"], flow["observed_path"]) << flow;
    EXPECT_EQ(flow["job"], "auto-h1-1");
    EXPECT_NEAR(flow["rate_bps"].get<double>(), 25e6, 1e3);
    EXPECT_EQ(flow["seen_by"].size(), 2U);
    EXPECT_TRUE(flow["message_length"].is_null()) << "none was seen, which is not zero";
  }

  const json jobs = json::parse(cluster.ask("jobs")->json)["jobs"];
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0]["hosts"].size(), 16U);
  EXPECT_EQ(jobs[0]["efficiency"], 1.0);

  const json links = json::parse(cluster.ask("links")->json)["links"];
  ASSERT_EQ(links.size(), 64U);
  EXPECT_EQ(links[0]["name"], "leaf1-spine1");
  EXPECT_EQ(links[0]["elephants"], 1);

  const json agents = json::parse(cluster.ask("agents")->json)["agents"];
  ASSERT_EQ(agents.size(), 20U);
  EXPECT_EQ(agents.back()["name"], "leaf4");
  EXPECT_EQ(agents.back()["installed"], 4);
  EXPECT_TRUE(agents.back()["offloaded"].is_null()) << "no ASIC forwards";
  EXPECT_EQ(agents.back()["effective"], 4);
  EXPECT_EQ(agents.back()["apply_ms"], 1.0);
  EXPECT_EQ(agents.back()["enforcers"][0]["granularity"], "port-and-destination");
}

TEST_F(Cluster, ExplainsThatAPinIsNotHeldByWhatItsNodeSays) {
  cluster.start();
  settle();
  FakeAgent& leaf = cluster.agents.at("leaf1");
  const auto pin = std::ranges::find_if(leaf.installed, [](const Pin& one) {
    return destination_of(one.unit) == IpAddress::v4(10, 2, 1, 2);
  });
  ASSERT_NE(pin, leaf.installed.end());
  // Not of the kind after which the flow is placed elsewhere.
  leaf.troubles = {{pin->unit, Errc::not_found, "main does not offer up1 for 10.2.1.2"}};
  cluster.reconnect();
  EXPECT_TRUE(cluster.await(5s, [&] {
    const json why = json::parse(cluster.ask("plan explain", {"10.1.1.2 10.2.1.2"})->json);
    return why["pins"][0]["trouble"] == "main does not offer up1 for 10.2.1.2";
  }));
}

TEST_F(Cluster, ShowsComparesAndExplainsPlans) {
  cluster.start();
  settle();
  const std::string first = to_string(cluster.coordinator->record()->plan.version);
  const json plan = json::parse(cluster.ask("plan show")->json);
  EXPECT_EQ(plan["version"], first);
  EXPECT_EQ(plan["pins"].size(), 16U);
  EXPECT_EQ(plan["efficiency"]["by_job"]["auto-h1-1"], 1.0);
  EXPECT_FALSE(plan["pins"][0]["reason"].get<std::string>().empty());

  cluster.cut(1, 2);
  cluster.advance(300ms);
  const json change = json::parse(cluster.ask("plan diff")->json);
  EXPECT_FALSE(change["set"].empty());
  EXPECT_TRUE(change["removed"].empty());
  const std::string now = to_string(cluster.coordinator->record()->plan.version);
  EXPECT_EQ(json::parse(cluster.ask("plan diff", {first, now})->json)["from"], first);
  EXPECT_EQ(json::parse(cluster.ask("plan show", {first})->json)["pins"].size(), 16U);

  const json why = json::parse(cluster.ask("plan explain", {"10.1.1.2 10.2.1.2"})->json);
  EXPECT_EQ(why["job"], "auto-h1-1");
  EXPECT_NE(why["path"], "spine2");
  EXPECT_EQ(why["alternatives"].size(), 2U) << why;
  EXPECT_TRUE(why["pins"][0]["trouble"].is_null()) << why;
  EXPECT_EQ(cluster.ask("plan explain", {"10.1.1.2:50000", "10.2.1.2"})->exit_code, 0);
  EXPECT_EQ(cluster.ask("plan explain", {"10.1.1.2:50001", "10.2.1.2"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("plan explain", {"10.1.1.2"})->exit_code, 2);
  EXPECT_EQ(cluster.ask("plan explain", {"leaf1 leaf2"})->exit_code, 1);
  EXPECT_EQ(cluster.ask("plan show", {"77.1"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("plan show", {"seven"})->exit_code, 2);
  EXPECT_EQ(cluster.ask("plan fly")->exit_code, 2);
  EXPECT_EQ(cluster.ask("dance")->exit_code, 2);
}

TEST_F(Cluster, KeepsDeclaredJobsAndSaysWhyItRefusesOne) {
  cluster.start({{.name = "file", .hosts = {"h3-1", "h4-1"}, .line = 3}});
  settle();
  ASSERT_EQ(cluster.ask("job declare", {"llama", "h1-1", "h2-1"})->exit_code, 0);
  cluster.advance(1s);
  EXPECT_EQ(json::parse(cluster.ask("job list")->json)["jobs"].size(), 2U);
  const json jobs = json::parse(cluster.ask("jobs")->json)["jobs"];
  EXPECT_TRUE(std::ranges::any_of(jobs, [](const json& job) {
    return job["name"] == "llama" && job["declared"] && job["flows"] == 1;
  })) << jobs;
  EXPECT_EQ(cluster.store.operators.jobs.size(), 1U);
  EXPECT_EQ(cluster.ask("job declare", {"x", "h1-1", "h9-9"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("job declare", {"x", "h1-1"})->exit_code, 2);
  EXPECT_EQ(cluster.ask("job declare", {"a b", "h1-1", "h2-1"})->exit_code, 2);
  EXPECT_EQ(cluster.ask("job declare", {"file", "h1-1", "h2-1"})->exit_code, 1);
  EXPECT_EQ(cluster.ask("job remove", {"file"})->exit_code, 1);
  EXPECT_EQ(cluster.ask("job remove", {"llama"})->exit_code, 0);
  EXPECT_EQ(cluster.ask("job remove", {"llama"})->exit_code, 4);
}

TEST_F(Cluster, TakesACutCableForTheReasonItMovedFlows) {
  cluster.start();
  settle();
  cluster.cut(1, 2);
  cluster.advance(300ms);
  const PlanRecord& record = *cluster.coordinator->record();
  ASSERT_FALSE(record.moves.empty());
  EXPECT_TRUE(std::ranges::any_of(record.moves, [](const MoveRecord& move) {
    return move.from == "spine2" && move.reason == "leaf1-spine2 is down";
  }));
  EXPECT_FALSE(cluster.history.plans.empty());
}

}  // namespace
}  // namespace heddle::testing
