// What if, and why: asked of a whole cluster in one process, where the promise of a preview is held
// against what then happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

// Two rings over four leaves with four spines: hosts 1 to 3 of each leaf, and host 4.
class Preview : public ::testing::Test {
 protected:
  explicit Preview(std::uint64_t seed = 20250305) : cluster(4, 4, 4, seed) {
    ring(1, 3);
    ring(4, 4);
  }
  void ring(int first, int last) {
    const int hosts = last - first + 1;
    for (int i = 0; i < 4 * hosts; ++i) {
      const int j = (i + 1) % (4 * hosts);
      cluster.flows.push_back({i % 4 + 1, first + i / 4, j % 4 + 1, first + j / 4});
    }
  }
  void settle() {
    cluster.start();
    ASSERT_TRUE(cluster.await(10s, [&] {
      return cluster.converged() && cluster.installed_pins() == cluster.flows.size();
    })) << cluster.installed_pins();
    cluster.advance(2s);
  }
  json preview(std::vector<std::string> arguments) {
    const auto reply = cluster.ask("plan preview", std::move(arguments));
    EXPECT_TRUE(reply);
    EXPECT_EQ(reply->exit_code, 0) << reply->error;
    return reply->exit_code == 0 ? json::parse(reply->json) : json();
  }
  static std::map<std::string, double> promised(const json& preview) {
    std::map<std::string, double> jobs;
    for (const json& job : preview["jobs"])
      jobs[job["name"]] = job["then"];
    return jobs;
  }
  void cut_spine(int spine) {
    for (int leaf = 1; leaf <= 4; ++leaf)
      cluster.cut(leaf, spine);
  }

  FakeCluster cluster;
};

// All that a preview could have changed.
std::string state_of(FakeCluster& cluster) {
  const auto reply = cluster.ask("status");
  json status = json::parse(reply->json);
  status.erase("uptime_s");
  std::string state = status.dump();
  state += fmt::format(" epoch {} {} plans {} changes {} events {}", cluster.store.epoch,
                       to_string(cluster.reign->version()), cluster.history.plans.size(),
                       cluster.changes(), cluster.history.events.size());
  for (const char* command : {"agents", "flows", "jobs", "links", "plan show", "job list"})
    state += cluster.ask(command)->json;
  return state;
}

TEST_F(Preview, ChangesNothing) {
  settle();
  // No time passes between these, so that nothing else can change anything either.
  const std::string before = state_of(cluster);
  const std::size_t logged = cluster.log.size();
  preview({"--down", "spine3"});
  preview({"--down", "leaf1-spine2", "--scheme", "greedy"});
  preview({"--up", "spine1"});
  preview({"--jobs", "jobs: [{name: new, hosts: [h1-1, h2-1]}]"});
  preview({});
  EXPECT_EQ(state_of(cluster), before);
  EXPECT_EQ(cluster.log.size(), logged);
  EXPECT_TRUE(cluster.audit.records.empty()) << "a question";
}

TEST_F(Preview, PromisesExactlyWhatThenHappensWhenASpineIsLost) {
  settle();
  const json said = preview({"--down", "spine3"});
  const PlanVersion before = cluster.coordinator->record()->plan.version;
  cut_spine(3);
  ASSERT_TRUE(
      cluster.await(2s, [&] { return cluster.coordinator->record()->plan.version > before; }));
  const PlanRecord& record = *cluster.coordinator->record();
  EXPECT_EQ(promised(said), record.by_job);
  EXPECT_DOUBLE_EQ(said["then"]["worst"], record.worst);
  EXPECT_DOUBLE_EQ(said["then"]["mean"], record.mean);
  ASSERT_EQ(said["moves"].size(), record.moves.size());
  for (std::size_t i = 0; i < record.moves.size(); ++i) {
    EXPECT_EQ(said["moves"][i]["flow"], record.moves[i].flow);
    EXPECT_EQ(said["moves"][i]["from"], record.moves[i].from);
    EXPECT_EQ(said["moves"][i]["to"], record.moves[i].to);
  }
  // And not only on paper: what the flows then get.
  ASSERT_TRUE(cluster.await(2s, [&] { return cluster.converged(); }));
  const double got = cluster.measured().worst;
  EXPECT_DOUBLE_EQ(said["then"]["worst"], got);
  EXPECT_LT(got, 1.0) << "the failure costs something, or this test is of nothing";
  std::printf("worst %.3f promised, %.3f had, %zu moves\n", said["then"]["worst"].get<double>(),
              got, record.moves.size());
}

// Every cable of leaf 1 and of leaf 3, each in a cluster of its own, and its return.
TEST_F(Preview, PromisesExactlyWhatThenHappensWhenACableIsLostAndReturns) {
  for (const int leaf : {1, 3})
    for (int spine = 1; spine <= 4; ++spine) {
      SCOPED_TRACE(fmt::format("leaf{}-spine{}", leaf, spine));
      FakeCluster one(4, 4, 4, static_cast<std::uint64_t>(10 * leaf + spine));
      one.flows = cluster.flows;
      one.start();
      ASSERT_TRUE(one.await(
          10s, [&] { return one.converged() && one.installed_pins() == one.flows.size(); }));
      one.advance(2s);
      const std::string name = fmt::format("leaf{}-spine{}", leaf, spine);
      for (const bool alive : {false, true}) {
        const auto reply = one.ask("plan preview", {alive ? "--up" : "--down", name});
        ASSERT_EQ(reply->exit_code, 0) << reply->error;
        const json said = json::parse(reply->json);
        const PlanVersion before = one.coordinator->record()->plan.version;
        one.cut(leaf, spine, alive);
        ASSERT_FALSE(said["moves"].empty()) << "each of its cables is used, or is to be used again";
        ASSERT_TRUE(
            one.await(2s, [&] { return one.coordinator->record()->plan.version > before; }));
        EXPECT_EQ(promised(said), one.coordinator->record()->by_job);
        EXPECT_EQ(said["moves"].size(), one.coordinator->record()->moves.size());
        ASSERT_TRUE(one.await(2s, [&] { return one.converged(); }));
        EXPECT_DOUBLE_EQ(said["then"]["worst"], one.measured().worst);
        one.advance(2s);
      }
    }
}

TEST_F(Preview, SaysWhoGainsAndWhoLoses) {
  settle();
  const json said = preview({"--down", "spine3", "--down", "spine4"});
  EXPECT_EQ(said["assumed"]["down"], json({"spine3", "spine4"}));
  EXPECT_EQ(said["now"]["worst"], 1.0);
  EXPECT_EQ(said["then"]["worst"], 0.5) << "two spines for four flows of each leaf";
  EXPECT_EQ(said["then"]["bound"], 0.5);
  ASSERT_EQ(said["jobs"].size(), 2U);
  for (const json& job : said["jobs"])
    EXPECT_EQ(job["change"], "loses") << job;
  EXPECT_FALSE(said["moves"].empty());
  for (const json& move : said["moves"])
    EXPECT_TRUE(move["to"] == "spine1" || move["to"] == "spine2") << move;

  cut_spine(4);
  cluster.advance(3s);
  const json back = preview({"--up", "spine4"});
  EXPECT_EQ(back["then"]["worst"], 1.0);
  EXPECT_TRUE(
      std::ranges::any_of(back["jobs"], [](const json& job) { return job["change"] == "gains"; }));
}

// A job that is still to come, on hosts that are busy: the jobs that run now pay for it.
TEST_F(Preview, PlansForAJobThatIsNotSeenYet) {
  settle();
  const json said = preview({"--jobs", "jobs: [{name: next, hosts: [h1-1, h3-1]}]"});
  EXPECT_EQ(said["assumed"]["jobs"], json({"next"}));
  ASSERT_EQ(said["jobs"].size(), 3U);
  const auto next =
      std::ranges::find_if(said["jobs"], [](const json& job) { return job["name"] == "next"; });
  ASSERT_NE(next, said["jobs"].end());
  EXPECT_EQ((*next)["change"], "new");
  EXPECT_TRUE((*next)["now"].is_null());
  EXPECT_TRUE((*next)["then"].is_number());
  // Both of its flows are placed. Nobody loses by the NICs that it shares: those limit the ideal,
  // too.
  const std::string flow = to_string(address(1, 1)) + " " + to_string(address(3, 1));
  EXPECT_TRUE(std::ranges::any_of(said["moves"], [&](const json& move) {
    return move["flow"] == flow && move["from"] == "ecmp";
  })) << said["moves"];
}

TEST_F(Preview, RefusesWhatItDoesNotKnow) {
  settle();
  const auto code = [&](std::vector<std::string> arguments) {
    return cluster.ask("plan preview", std::move(arguments))->exit_code;
  };
  EXPECT_EQ(code({"--down", "spine9"}), 4);
  EXPECT_NE(cluster.reply->error.find("no leaf, spine, host or link 'spine9'"), std::string::npos);
  EXPECT_EQ(code({"--down"}), 2);
  EXPECT_EQ(code({"spine3"}), 2);
  EXPECT_EQ(code({"--scheme", "best"}), 2);
  EXPECT_NE(cluster.reply->error.find("greedy"), std::string::npos) << "it says which there are";
  EXPECT_EQ(code({"--scheme", "annealing"}), 2) << "the agents would wait for seconds";
  EXPECT_EQ(code({"--jobs", "jobs: [{name: a, hosts: [nobody, h1-1]}]"}), 2);
}

class Why : public Preview {
 protected:
  json explained(const std::string& job) {
    const auto reply = cluster.ask("jobs explain", {job});
    EXPECT_EQ(reply->exit_code, 0) << reply->error;
    return reply->exit_code == 0 ? json::parse(reply->json) : json();
  }
  std::string job_of_host(const std::string& host) {
    const json jobs = json::parse(cluster.ask("jobs")->json);
    for (const json& job : jobs["jobs"])
      for (const json& member : job["hosts"])
        if (member == host)
          return job["name"];
    return "none";
  }
};

TEST_F(Why, AJobThatTheNetworkDoesNotSlowIsToldSo) {
  settle();
  const json why = explained(job_of_host("h1-4"));
  EXPECT_EQ(why["efficiency"], 1.0);
  EXPECT_EQ(why["bound"], 1.0);
  EXPECT_EQ(why["verdict"], "the network does not slow it: it gets what its NICs allow");
  for (const json& port : why["congestion"])
    EXPECT_TRUE(port["per_second"].empty()) << "nothing is counted, which is not zero: " << port;
}

// Two spines are gone: each of the two that are left carries two flows of every leaf.
TEST_F(Why, ASlowJobIsToldWhatHoldsItUpAndThatNoRoutingCouldDoBetter) {
  settle();
  cut_spine(3);
  cut_spine(4);
  ASSERT_TRUE(cluster.await(3s, [&] { return cluster.measured().worst == 0.5; }));
  cluster.advance(1s);
  const std::string job = job_of_host("h1-1");
  const json why = explained(job);
  EXPECT_EQ(why["efficiency"], 0.5);
  EXPECT_EQ(why["bound"], 0.5);
  EXPECT_NE(why["verdict"].get<std::string>().find("no routing could"), std::string::npos)
      << why["verdict"];
  ASSERT_TRUE(why["slowest"].is_object());
  EXPECT_DOUBLE_EQ(why["slowest"]["rate_bps"], why["slowest"]["needed_bps"].get<double>() / 2);
  EXPECT_TRUE(why["slowest"]["pinned"].get<bool>());
  ASSERT_TRUE(why["bottleneck"].is_object());
  EXPECT_TRUE(why["bottleneck"]["in_core"].get<bool>());
  EXPECT_EQ(why["bottleneck"]["subflows"], 2);
  ASSERT_EQ(why["bottleneck"]["sharing"].size(), 1U);
  EXPECT_EQ(why["bottleneck"]["sharing"][0]["subflows"], 1);

  // Nothing is counted in this fabric; then the leaf at that link reports pauses of its ports.
  const json counted = why["bottleneck"]["counted"];
  EXPECT_TRUE(counted["per_second"].is_null()) << "unobservable, which is not zero: " << counted;
  const std::string leaf = counted["node"];
  Report report;
  report.number = 1'000'000;
  report.length = 500ms;
  report.ports = cluster.agents.at(leaf).ports;
  for (PortStatus& port : report.ports)
    port.counts = {{"pause_received", port.name == counted["port"] ? 15U : 1U, false}};
  const std::string route = cluster.coordinator->broadcast().find(leaf)->route;
  cluster.coordinator->received({.route = route, .node = leaf, .key_name = leaf},
                                {.node = leaf, .sequence = 1, .message = report});
  EXPECT_EQ(
      explained(job)["bottleneck"]["counted"],
      json(
          {{"node", leaf}, {"port", counted["port"]}, {"per_second", {{"pause_received", 30.0}}}}));
}

TEST_F(Why, AJobWhoseLeafIsOffIsToldThatNobodySteersIt) {
  settle();
  const std::string job = job_of_host("h1-1");
  ASSERT_EQ(cluster.ask("disable", {"--all"})->exit_code, 0);
  ASSERT_TRUE(cluster.await(3s, [&] { return cluster.installed_pins() == 0; }));
  cluster.advance(2s);
  ASSERT_LT(cluster.measured().worst, 1.0);
  const json why = explained(job);
  EXPECT_NE(why["verdict"].get<std::string>().find("does not steer its slowest flow"),
            std::string::npos)
      << why["verdict"];
  EXPECT_TRUE(why["slowest"]["steered_by"].is_null());
}

TEST_F(Why, AnUnknownJobIsNotFound) {
  settle();
  EXPECT_EQ(cluster.ask("jobs explain", {"nobody"})->exit_code, 4);
  EXPECT_EQ(cluster.ask("jobs explain", {})->exit_code, 2);
}

TEST_F(Why, ShowsWhatThePortsAtBothEndsCount) {
  settle();
  const json before = explained(job_of_host("h1-4"));
  ASSERT_TRUE(before["slowest"].is_object());
  // The host's agent reports what its port counted in half a second.
  const auto nic = *cluster.topology.find_nic(address(1, 4));
  const std::string port = cluster.topology[nic].name;
  Report report;
  report.number = 1'000'000;
  report.length = 500ms;
  report.rdma_ports = {
      {.device = "mlx5_0",
       .port = 1,
       .netdev = port,
       .guid = 1,
       .hidden = false,
       .counts = {
           {"cnp_handled", 50, false}, {"pause_received", 10, false}, {"tx_bytes", 5, false}}}};
  // The last report of a host is what counts, so no time passes before the question.
  const std::string route = cluster.coordinator->broadcast().find("h1-4")->route;
  cluster.coordinator->received({.route = route, .node = "h1-4", .key_name = "h1-4"},
                                {.node = "h1-4", .sequence = 1, .message = report});
  const json flow = json::parse(
      cluster.ask("plan explain", {to_string(address(1, 4)) + " " + to_string(address(2, 4))})
          ->json);
  ASSERT_EQ(flow["congestion"].size(), 5U) << "the other end reports nothing, which is not zero";
  EXPECT_EQ(flow["congestion"][0]["node"], "h1-4");
  EXPECT_EQ(flow["congestion"][0]["end"], "source");
  EXPECT_EQ(flow["congestion"][0]["per_second"],
            json({{"cnp_handled", 100.0}, {"pause_received", 20.0}}));
  const std::vector<std::string> way{"from the host", "uplink", "downlink", "to the host"};
  for (std::size_t i = 0; i < way.size(); ++i) {
    EXPECT_EQ(flow["congestion"][i + 1]["end"], way[i]);
    EXPECT_EQ(flow["congestion"][i + 1]["node"], i < 2 ? "leaf1" : "leaf2");
    EXPECT_TRUE(flow["congestion"][i + 1]["per_second"].empty()) << "unobservable there";
  }
  EXPECT_EQ(flow["applies"], "at once");
  EXPECT_EQ(flow["bottleneck"]["elephants"], 0) << "beside this flow's own";
}

TEST_F(Why, StatusKnowsTheBound) {
  settle();
  EXPECT_EQ(json::parse(cluster.ask("status")->json)["bound"], 1.0);
  cut_spine(1);
  cluster.advance(1s);
  // ceil(4 flows / 3 spines) = 2 on one link.
  EXPECT_EQ(json::parse(cluster.ask("status")->json)["bound"], 0.5);
}

}  // namespace
}  // namespace heddle::testing
