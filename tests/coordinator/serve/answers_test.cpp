// What is not known, as JSON. The answers about a running network are tested with a whole cluster
// (../cluster_test.cpp).
#include "coordinator/serve/answers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::address;
using testing::delta;
using testing::wire_key;

class Memory final : public EpochStore {
 public:
  Result<std::uint64_t> load_epoch() override { return 0; }
  Result<void> store_epoch(std::uint64_t) override { return {}; }
};
class Nowhere final : public MessagePort {
 public:
  Result<void> send(const std::string&, const Message&) override { return {}; }
};

class AnswersTest : public ::testing::Test {
 protected:
  NetworkView view() {
    return {.topology = topology,
            .flows = flows,
            .links = links,
            .broadcast = broadcast,
            .declared = {},
            .disabled_jobs = disabled_jobs,
            .prediction = prediction,
            .planning = planning,
            .routing = routing,
            .efficiency = efficiency,
            .judged = judged,
            .bound = [] { return std::optional<double>(); },
            .record = nullptr,
            .since = [](const std::string&, const SteeringUnit&) -> std::optional<WallTime> {
              return std::nullopt;
            },
            .history = {.ok = true, .reason = ""},
            .version = {1, 0},
            .software = "test",
            .now = Time(100s),
            .uptime = 1s};
  }

  Topology topology{testing::small_fabric(2, 2, 2)};
  FlowTable flows{topology, {}};
  LinkTable links{topology};
  Memory store;
  Nowhere port;
  Reign reign{*Reign::begin(store)};
  Broadcast broadcast{{}, reign, port, [](const Notice&) {}};
  std::set<std::string> disabled_jobs;
  Prediction prediction;
  PlanningProblem planning;
  Routing routing;
  std::optional<Efficiency> efficiency;
  std::vector<bool> judged;
};

TEST_F(AnswersTest, SafetyRule7WhatNobodySeesIsNullOrUnobservableAndNeverZero) {
  flows.add(
      "h1-1",
      testing::report_of(1, Time(0s), 1s, {delta(wire_key(address(1, 1), address(2, 1)), 4096)}),
      Time(1s));
  const json flow = json::parse(flows_json(view()))["flows"][0];
  EXPECT_TRUE(flow["rate_bps"].is_null()) << "its last report is 99 seconds old";
  EXPECT_TRUE(flow["message_length"].is_null());
  EXPECT_TRUE(flow["job"].is_null());
  EXPECT_TRUE(flow["label"].is_null());
  EXPECT_TRUE(flow["label_origin"].is_null());
  EXPECT_TRUE(flow["bytes_error"].is_null()) << "counted";
  EXPECT_EQ(flow["observed_path"], "unobservable");
  EXPECT_EQ(flow["planned_path"], "ecmp");
  EXPECT_EQ(flow["seen_by"], json::array({"h1-1"}));

  const json link = json::parse(links_json(view()))["links"][0];
  EXPECT_TRUE(link["rate_bps"].is_null());
  const json status = json::parse(status_json(view()));
  EXPECT_TRUE(status["efficiency"]["worst"].is_null());
  EXPECT_TRUE(status["last_plan"].is_null());
  EXPECT_TRUE(status["bound"].is_null());
}

TEST_F(AnswersTest, ShowWhatAFlowWorksForAndHowFarAnEstimateMayBeOff) {
  FlowDelta seen = delta(wire_key(address(1, 1), address(2, 1)), 4096);
  seen.label = "slurm:1234.0";
  seen.label_origin = "cgroup";
  seen.bytes_error = {250};
  flows.add("h1-1", testing::report_of(1, Time(0s), 1s, {seen}), Time(1s));
  const json flow = json::parse(flows_json(view()))["flows"][0];
  EXPECT_EQ(flow["label"], "slurm:1234.0");
  EXPECT_EQ(flow["label_origin"], "cgroup on h1-1");
  EXPECT_EQ(flow["bytes_error"], 250);

  prediction.jobs.resize(1);
  prediction.flows.resize(1);
  prediction.flows[0].subflows = {key_of(seen.key)};
  prediction.demand.flows.resize(1);
  prediction.demand.flows[0].job = JobId{0};
  const json job = json::parse(jobs_json(view()))["jobs"][0];
  EXPECT_EQ(job["labels"], json::parse(R"([{"label":"slurm:1234.0","origin":"cgroup",
                                            "subflows":1}])"));
}

TEST_F(AnswersTest, ExplainsWhyAMouseHasNoPath) {
  flows.add("leaf1",
            testing::report_of(1, Time(0s), 1s,
                               {delta(wire_key(address(1, 1), address(2, 1)), 4096, "up2")}),
            Time(1s));
  const std::vector<std::string> words{"10.1.1.2", "10.2.1.2"};
  const Result<std::string> answer = explain_json(view(), words);
  ASSERT_TRUE(answer) << answer.error().message;
  const json why = json::parse(*answer);
  EXPECT_EQ(why["path"], "spine2");
  EXPECT_NE(why["reason"].get<std::string>().find("mouse"), std::string::npos);
}

TEST_F(AnswersTest, TellsAFlowThatIsNotSeenFromAWordThatIsNoFlow) {
  const auto code = [&](std::vector<std::string> words) {
    return explain_json(view(), words).error().code;
  };
  EXPECT_EQ(code({"10.1.1.2 10.2.1.2"}), Errc::not_found);
  EXPECT_EQ(code({"10.1.1.2:50000", "10.2.1.2"}), Errc::not_found);
  EXPECT_EQ(code({"10.1.1.2:x", "10.2.1.2"}), Errc::invalid_argument);
  EXPECT_EQ(code({"10.1.1.2"}), Errc::invalid_argument);
  EXPECT_EQ(code({}), Errc::invalid_argument);
}

TEST(PlanVersions, AreReadAsTheyAreWritten) {
  EXPECT_EQ(parse_version("3.17"), (PlanVersion{3, 17}));
  for (const char* text : {"", "3", "3.", ".17", "3.17.1", "3.x", "-1.2", "99999999999999999999.1"})
    EXPECT_FALSE(parse_version(text)) << text;
}

TEST(PlanDiffs, NameWhatIsSetAndWhatIsRemoved) {
  const Pin first{ByPortAndDestination{"p1", address(2, 1)}, PortTableRoute{"up1"}, "a"};
  const Pin moved{first.unit, PortTableRoute{"up2"}, "b"};
  const Pin other{ByPortAndDestination{"p2", address(2, 2)}, PortTableRoute{"up1"}, "c"};
  RoutePlan from, to;
  from.version = {1, 1};
  to.version = {1, 2};
  from.nodes["leaf1"] = {"leaf1", {1, 1}, {first, other}};
  to.nodes["leaf1"] = {"leaf1", {1, 2}, {moved}};
  const json change = json::parse(plan_diff_json(from, to));
  ASSERT_EQ(change["set"].size(), 1U);
  EXPECT_EQ(change["set"][0]["target"], "via up2");
  EXPECT_EQ(change["set"][0]["reason"], "b");
  ASSERT_EQ(change["removed"].size(), 1U);
  EXPECT_EQ(change["removed"][0]["unit"], to_string(other.unit));
}

TEST_F(AnswersTest, SafetyRule7ShowAQueuePairWhoseBytesNobodySees) {
  FlowDelta pair = delta(wire_key(address(1, 1), address(2, 1), 51986, 200), 0);
  pair.unobservable = true;
  pair.local_qpn = 178;
  pair.pid = 197;
  pair.peer = PeerOrigin::cm;
  pair.source = "rdma";
  Report report = testing::report_of(1, Time(98s), 1s, {pair}, {{"eth0", true, 1000, 0}});
  flows.add("h1-1", report, Time(99s));
  report.number = 2;
  report.begin = Time(99s);
  report.ports[0].tx_bytes = 2'001'000;
  flows.add("h1-1", report, Time(100s));
  const json answer = json::parse(flows_json(view()));
  ASSERT_EQ(answer["flows"].size(), 1U);
  const json flow = answer["flows"][0];
  EXPECT_EQ(flow["bytes"], "unobservable");
  EXPECT_EQ(flow["rate_bps"], "unobservable");
  EXPECT_EQ(flow["local_qpn"], 178);
  EXPECT_EQ(flow["pid"], 197);
  EXPECT_EQ(flow["sender"], "h1-1");
  EXPECT_EQ(flow["peer"], "rdma_cm");
  EXPECT_EQ(flow["sources"], json::array({"h1-1:rdma"}));
  // 2 MB in a second, and no flow to explain them.
  const json sends = answer["ports"][0];
  EXPECT_EQ(sends["node"], "h1-1");
  EXPECT_EQ(sends["rate_bps"], 16e6);
  EXPECT_EQ(sends["explained_bps"], 0.0);
  EXPECT_EQ(sends["unexplained_bps"], 16e6);
}

TEST_F(AnswersTest, MarkWhatBothEndsQueuePairsImplyAsInferredUntilTrafficConfirmsIt) {
  Report one = testing::report_of(1, Time(99s), 1s, {});
  one.queue_pairs = {{address(1, 1), 178, 200, 11, "slurm:5.0", "cgroup"}};
  Report other = testing::report_of(1, Time(99s), 1s, {});
  other.queue_pairs = {{address(2, 1), 200, 178, 22}};
  flows.add("h1-1", one, Time(100s));
  flows.add("h2-1", other, Time(100s));
  json rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["source"], "10.1.1.2");
  EXPECT_EQ(rows[0]["destination"], "10.2.1.2");
  EXPECT_EQ(rows[0]["source_port"], 51986);
  EXPECT_EQ(rows[0]["dest_qpn"], 200);
  EXPECT_EQ(rows[0]["local_qpn"], 178);
  EXPECT_EQ(rows[0]["pid"], 11);
  EXPECT_EQ(rows[0]["peer"], "inferred");
  EXPECT_EQ(rows[0]["bytes"], "unobservable");
  EXPECT_EQ(rows[0]["label"], "slurm:5.0");
  EXPECT_EQ(rows[0]["label_origin"], "cgroup on h1-1");

  // A leaf sees packets of that key.
  flows.add(
      "leaf1",
      testing::report_of(1, Time(99s), 1s,
                         {delta(wire_key(address(1, 1), address(2, 1), 51986, 200), 4096, "up1")}),
      Time(100s));
  rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["peer"], "wire");
  EXPECT_EQ(rows[0]["bytes"], 4096);
  EXPECT_EQ(rows[0]["local_qpn"], 178);
  EXPECT_EQ(rows[0]["sender"], "h1-1");
  EXPECT_EQ(rows[0]["label"], "slurm:5.0") << "the leaf knows of none";
  EXPECT_EQ(rows[1]["peer"], "inferred") << "the other direction";
}

// Whose other end nobody reports: it may send as much as it likes, to wherever.
TEST_F(AnswersTest, SafetyRule7ListAQueuePairWhosePeerNobodyKnowsUntilSomebodyDoes) {
  Report one = testing::report_of(1, Time(99s), 1s, {});
  one.queue_pairs = {{address(1, 1), 178, 200, 11, "k8s:uid", "cgroup"}};
  flows.add("h1-1", one, Time(100s));
  json rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["source"], "10.1.1.2");
  EXPECT_EQ(rows[0]["source_port"], nullptr);
  EXPECT_EQ(rows[0]["destination"], "unobservable");
  EXPECT_EQ(rows[0]["peer"], nullptr);
  EXPECT_EQ(rows[0]["dest_qpn"], 200);
  EXPECT_EQ(rows[0]["local_qpn"], 178);
  EXPECT_EQ(rows[0]["pid"], 11);
  EXPECT_EQ(rows[0]["sender"], "h1-1");
  EXPECT_EQ(rows[0]["label"], "k8s:uid");
  EXPECT_EQ(rows[0]["rate_bps"], "unobservable");
  EXPECT_EQ(rows[0]["bytes"], "unobservable");
  EXPECT_EQ(rows[0]["sources"], json::array({"h1-1:rdma"}));

  // An agent that could not look says nothing of it.
  Report blind = testing::report_of(2, Time(100s), 1s, {});
  blind.gap = true;
  flows.add("h1-1", blind, Time(101s));
  EXPECT_EQ(json::parse(flows_json(view()))["flows"].size(), 1U);

  // A leaf sees packets that only this queue pair can have sent.
  const WireKey seen = wire_key(address(1, 1), address(2, 1), 51986, 200);
  flows.add("leaf1", testing::report_of(1, Time(99s), 1s, {delta(seen, 4096, "up1")}), Time(101s));
  rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 1U) << "one flow, not two";
  EXPECT_EQ(rows[0]["destination"], "10.2.1.2");
  EXPECT_EQ(rows[0]["peer"], "wire");
  EXPECT_EQ(rows[0]["bytes"], 4096);
  EXPECT_EQ(rows[0]["local_qpn"], 178);
  EXPECT_EQ(rows[0]["sender"], "h1-1");
  EXPECT_EQ(rows[0]["label"], "k8s:uid");

  // Then its own machine knows, too.
  FlowDelta known = delta(seen, 0);
  known.unobservable = true;
  known.local_qpn = 178;
  known.pid = 11;
  known.peer = PeerOrigin::kernel;
  flows.add("h1-1", testing::report_of(3, Time(101s), 1s, {known}), Time(102s));
  rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["local_qpn"], 178);

  // And does no more, as when the kernel's table of connections has forgotten it.
  one.number = 4;
  flows.add("h1-1", one, Time(103s));
  rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["destination"], "10.2.1.2");
}

// The other end's machine knows whom it is connected to.
TEST_F(AnswersTest, InferThePeerFromAnEndThatIsKnown) {
  Report open = testing::report_of(1, Time(99s), 1s, {});
  open.queue_pairs = {{address(1, 1), 178, 200, 11}};
  flows.add("h1-1", open, Time(100s));
  FlowDelta back = delta(wire_key(address(2, 1), address(1, 1), 51986, 178), 0);
  back.unobservable = true;
  back.local_qpn = 200;
  back.peer = PeerOrigin::kernel;
  flows.add("h2-1", testing::report_of(1, Time(99s), 1s, {back}), Time(100s));
  const json rows = json::parse(flows_json(view()))["flows"];
  ASSERT_EQ(rows.size(), 2U) << "one for each direction";
  EXPECT_EQ(rows[1]["sender"], "h1-1");
  EXPECT_EQ(rows[1]["destination"], "10.2.1.2");
  EXPECT_EQ(rows[1]["peer"], "inferred");
}

TEST_F(AnswersTest, SafetyRule7GuessNoPeerAmongSeveral) {
  const auto pairs = [](const IpAddress& own, std::uint32_t qpn, std::uint32_t remote) {
    Report report = testing::report_of(1, Time(99s), 1s, {});
    report.queue_pairs = {{own, qpn, remote, 1}};
    return report;
  };
  flows.add("h1-1", pairs(address(1, 1), 178, 200), Time(100s));
  flows.add("h2-1", pairs(address(2, 1), 200, 178), Time(100s));
  flows.add("h2-2", pairs(address(2, 2), 200, 178), Time(100s));
  std::size_t of_h1 = 0;
  const json answer = json::parse(flows_json(view()));
  for (const json& row : answer["flows"])
    if (row["sender"] == "h1-1") {
      ++of_h1;
      EXPECT_EQ(row["destination"], "unobservable");
    }
  EXPECT_EQ(of_h1, 1U);
}

}  // namespace
}  // namespace heddle
