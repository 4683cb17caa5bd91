// Who may give which command, and what the audit log has of it.
#include "coordinator/access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "coordinator/file_audit_log.h"
#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

class AccessOfACluster : public ::testing::Test {
 protected:
  AccessOfACluster() : cluster(2, 2, 1, 1) {
    cluster.ring(2, 1);
    cluster.start();
    cluster.advance(3s);
    cluster.audit.records.clear();
  }
  const std::vector<AuditRecord>& records() const { return cluster.audit.records; }

  FakeCluster cluster;
};

TEST_F(AccessOfACluster, AViewerAsksEverythingAndChangesNothing) {
  for (const char* command : {"status", "agents", "flows", "jobs", "links", "job list", "plan log",
                              "fabric check", "rollout status", "drain status"}) {
    const auto reply = cluster.ask(command, {}, "wall", KeyRole::viewer_key);
    ASSERT_TRUE(reply) << command;
    EXPECT_EQ(reply->exit_code, 0) << command << ": " << reply->error;
  }
  EXPECT_TRUE(records().empty()) << "questions are not on record";
  // Whatever is not known to be a question is an operator's, so a new command too.
  for (const auto& [command, arguments] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"disable", {"--all"}},
           {"enable", {"--all"}},
           {"job declare", {"a", "h1-1", "h2-1"}},
           {"job remove", {"a"}},
           {"a command of a later version", {}}}) {
    const auto reply = cluster.ask(command, arguments, "wall", KeyRole::viewer_key);
    ASSERT_TRUE(reply) << command;
    EXPECT_EQ(reply->exit_code, 1) << command;
    EXPECT_NE(reply->error.find("'wall' is a viewer's"), std::string::npos) << reply->error;
    ASSERT_FALSE(records().empty());
    EXPECT_EQ(records().back().key, "wall");
    EXPECT_EQ(records().back().role, KeyRole::viewer_key);
    EXPECT_EQ(records().back().command, command);
    EXPECT_TRUE(records().back().outcome.starts_with("refused: ")) << records().back().outcome;
  }
  EXPECT_EQ(records().size(), 5U);
  EXPECT_TRUE(cluster.store.operators.disabled_nodes.empty());
  EXPECT_TRUE(cluster.store.operators.jobs.empty());
}

TEST_F(AccessOfACluster, AnAgentsKeyGivesNoCommand) {
  for (const auto& [key, role] :
       {std::pair("leaf1", KeyRole::unstated), std::pair("leaf1", KeyRole::agent_key),
        std::pair("leaf9", KeyRole::agent_key)}) {
    const auto reply = cluster.ask("status", {}, key, role);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->exit_code, 1);
    EXPECT_NE(reply->error.find("may not give commands"), std::string::npos) << reply->error;
  }
  // The first two are the same refusal.
  EXPECT_EQ(records().size(), 2U);
}

TEST_F(AccessOfACluster, WhatAnOperatorOrdersIsOnRecordWithItsOutcome) {
  ASSERT_EQ(
      cluster.ask("job declare", {"a", "h1-1", "h2-1"}, "alice", KeyRole::operator_key)->exit_code,
      0);
  ASSERT_EQ(records().size(), 1U);
  EXPECT_EQ(records()[0].key, "alice");
  EXPECT_EQ(records()[0].role, KeyRole::operator_key);
  EXPECT_EQ(records()[0].command, "job declare");
  EXPECT_EQ(records()[0].arguments, (std::vector<std::string>{"a", "h1-1", "h2-1"}));
  EXPECT_EQ(records()[0].outcome, "done");

  ASSERT_NE(cluster.ask("job remove", {"b"}, "alice", KeyRole::operator_key)->exit_code, 0);
  EXPECT_EQ(records().back().outcome, "failed: no job 'b' is declared");

  // The off switch waits for the agents: what was ordered is written before they have answered.
  ASSERT_EQ(cluster.ask("disable", {"--all"}, "alice", KeyRole::operator_key)->exit_code, 0);
  ASSERT_EQ(records().size(), 4U);
  EXPECT_EQ(records()[2].outcome, "ordered");
  EXPECT_EQ(records()[3].outcome, "done");
  EXPECT_LT(records()[2].wall, records()[3].wall);
}

// By the layout of earlier versions the folder says nothing: then it is as it was.
TEST_F(AccessOfACluster, AKeyWithoutARoleIsAnOperatorsUnlessANodeHasItsName) {
  EXPECT_EQ(cluster.ask("job declare", {"a", "h1-1", "h2-1"}, "alice")->exit_code, 0);
  EXPECT_EQ(cluster.ask("job remove", {"a"}, "leaf2")->exit_code, 1);
  ASSERT_EQ(records().size(), 2U);
  EXPECT_EQ(records()[0].role, KeyRole::operator_key);
  EXPECT_EQ(records()[1].role, KeyRole::agent_key);
}

// Somebody who may do nothing must not push the orders out of the log.
TEST_F(AccessOfACluster, RefusalsDoNotFloodTheLog) {
  for (int i = 0; i < 500; ++i)
    cluster.ask("disable", {"--all"}, "wall", KeyRole::viewer_key);
  EXPECT_EQ(records().size(), 1U) << "the same refusal";
  for (int i = 0; i < 500; ++i)
    cluster.ask("disable", {"--node", std::to_string(i)}, "wall", KeyRole::viewer_key);
  EXPECT_EQ(records().size(), 60U);
  EXPECT_NE(records().back().outcome.find("more refusals"), std::string::npos);
  EXPECT_EQ(std::ranges::count_if(
                cluster.log, [](const std::string& line) { return line.starts_with("refused"); }),
            60)
      << "each is kept in the history, too";
  cluster.advance(61s);
  cluster.ask("disable", {"--rack", "r"}, "wall", KeyRole::viewer_key);
  EXPECT_EQ(records().size(), 61U);
}

// Safety rule 9, and a key that is tied to another node: refused and on record.
TEST_F(AccessOfACluster, RefusedAgentsAreOnRecord) {
  const Hello hello = cluster.agents.at("leaf1").hello();
  const auto say = [&](const std::string& route, const std::string& key, KeyRole role,
                       std::uint64_t instance) {
    Hello said = hello;
    said.instance = instance;
    cluster.coordinator->received({.route = route, .node = "leaf1", .key_name = key, .role = role},
                                  {.node = "leaf1", .sequence = 1, .message = said});
  };
  say("a", "leaf2", KeyRole::agent_key, 5);
  say("b", "leaf1", KeyRole::operator_key, 6);
  say("c", "leaf1", KeyRole::agent_key, 7);
  ASSERT_EQ(records().size(), 3U);
  EXPECT_EQ(records()[0].outcome, "refused: the key of 'leaf2' does not speak for 'leaf1'");
  EXPECT_EQ(records()[1].outcome,
            "refused: the key 'leaf1' is of the role 'operator' and speaks for no node");
  EXPECT_TRUE(records()[2].outcome.starts_with("refused: two agents are named leaf1"))
      << records()[2].outcome;
  for (const AuditRecord& record : records())
    EXPECT_EQ(record.arguments, std::vector<std::string>{"leaf1"});
}

class AuditFile : public ::testing::Test {
 protected:
  AuditFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-audit-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~AuditFile() override { std::filesystem::remove_all(folder); }

  static AuditRecord record(int i) {
    return {.wall = WallTime(1700000000s),
            .key = "alice",
            .role = KeyRole::operator_key,
            .command = "disable",
            .arguments = {"--node", fmt::format("n{}", i)},
            .outcome = "done"};
  }
  std::vector<std::string> lines(const std::string& name) const {
    std::ifstream in(folder / name);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);)
      all.push_back(line);
    return all;
  }

  std::filesystem::path folder;
};

TEST_F(AuditFile, HasALineOfJsonForEachRecord) {
  FileAuditLog log(folder / "audit.log", [](const Notice&) {});
  AuditRecord odd = record(1);
  odd.arguments.push_back("a line\nand \"another\"");
  odd.arguments.push_back(std::string(10'000, 'x'));
  log.keep(odd);
  log.keep(record(2));
  ASSERT_EQ(lines("audit.log").size(), 2U);
  const json first = json::parse(lines("audit.log")[0]);
  EXPECT_EQ(first["wall"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(first["key"], "alice");
  EXPECT_EQ(first["role"], "operator");
  EXPECT_EQ(first["command"], "disable");
  EXPECT_EQ(first["arguments"][2], "a line\nand \"another\"");
  EXPECT_LT(lines("audit.log")[0].size(), 1000U) << "nobody fills the log with one command";
  EXPECT_EQ(first["outcome"], "done");
}

TEST_F(AuditFile, IsBoundedAndLosesTheOldestFirst) {
  const std::size_t line = audit_line(record(1)).size() + 1;
  FileAuditLog log(folder / "audit.log", [](const Notice&) {}, {.bytes = 3 * line, .older = 2});
  // 9 records: three in each of three files.
  for (int i = 1; i <= 9; ++i)
    log.keep(record(i));
  EXPECT_EQ(lines("audit.log.2").at(0), audit_line(record(1)));
  EXPECT_EQ(lines("audit.log.1").at(0), audit_line(record(4)));
  EXPECT_EQ(lines("audit.log").at(0), audit_line(record(7)));
  for (int i = 1; i <= 3; ++i)
    log.keep(record(i));
  EXPECT_EQ(lines("audit.log.2").at(0), audit_line(record(4)));
  EXPECT_FALSE(std::filesystem::exists(folder / "audit.log.3"));
}

TEST_F(AuditFile, SaysOnceThatItCannotBeKept) {
  std::vector<std::string> said;
  FileAuditLog log(folder / "gone" / "audit.log",
                   [&](const Notice& notice) { said.push_back(notice.text); });
  log.keep(record(1));
  log.keep(record(2));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("the audit log is not kept"), std::string::npos) << said[0];
  std::filesystem::create_directory(folder / "gone");
  log.keep(record(3));
  log.keep(record(4));
  EXPECT_EQ(said.size(), 2U);
  EXPECT_EQ(lines("gone/audit.log").size(), 2U);
}

}  // namespace
}  // namespace heddle::testing
