// What a coordinator answers has the keys of the recorded replies, which the command line's tables
// are tested with and scripts rely on: neither more nor fewer.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/coordinator/fake_cluster.h"
#include "tests/tree.h"

namespace heddle::testing {
namespace {

using nlohmann::json;

// "waves[].state", for all that is there; objects whose keys are names of things end at theirs.
void collect(const json& value, const std::string& path, std::set<std::string>& paths) {
  static const std::set<std::string> kByName{"by_job", "per_second"};
  if (value.is_array())
    for (const json& one : value)
      collect(one, path + "[]", paths);
  if (!value.is_object() || kByName.contains(path.substr(path.rfind('.') + 1)))
    return;
  for (const auto& [key, part] : value.items()) {
    paths.insert(path + "." + key);
    collect(part, path + "." + key, paths);
  }
}
std::set<std::string> paths_of(const json& value) {
  std::set<std::string> paths;
  collect(value, "", paths);
  return paths;
}
std::string parent(const std::string& path) {
  return path.substr(0, path.rfind('.'));
}

json recorded(const std::string& name) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/tests/coordinator/cli/replies/" + name +
                   ".json");
  EXPECT_TRUE(in) << name;
  return json::parse(in);
}

class Replies : public ::testing::Test {
 protected:
  Replies() : cluster(4, 4, 4, 20261130) { cluster.ring(4, 4); }

  void expect_the_keys_of(const std::string& name, const std::string& command,
                          std::vector<std::string> arguments = {}) {
    const auto reply = cluster.ask(command, std::move(arguments));
    ASSERT_TRUE(reply) << command;
    ASSERT_EQ(reply->exit_code, 0) << command << ": " << reply->error;
    const std::set<std::string> said = paths_of(json::parse(reply->json));
    const std::set<std::string> reference = paths_of(recorded(name));
    for (const std::string& path : said)
      EXPECT_TRUE(reference.contains(path)) << command << " says " << path << ", not in " << name;
    // A list that is empty today tells nothing of what is in it.
    std::set<std::string> parents{""};
    for (const std::string& path : said)
      parents.insert(parent(path));
    for (const std::string& path : reference)
      EXPECT_TRUE(said.contains(path) || !parents.contains(parent(path)))
          << command << " lacks " << path << " of " << name;
  }
  FakeCluster cluster;
};

TEST_F(Replies, HaveTheKeysThatTheCommandLineIsTestedWith) {
  cluster.settings.rollout.required = true;
  cluster.settings.rollout.baseline = 2s;
  cluster.settings.rollout.unobservable_blocks = false;
  cluster.start({{.name = "ring-a", .hosts = {"h1-1", "h2-1"}}});
  cluster.advance(2s);
  expect_the_keys_of("rollout", "rollout start",
                     {"--wave", "1", "rack1", "rack2", "rack3", "rack4"});
  ASSERT_TRUE(cluster.await(20s, [&] { return cluster.installed_pins() == 16; }));
  expect_the_keys_of("rollout", "rollout pause");
  expect_the_keys_of("rollout", "rollout resume");
  cluster.advance(1s);
  expect_the_keys_of("rollout", "rollout status");
  expect_the_keys_of("status", "status");
  expect_the_keys_of("agents", "agents");
  expect_the_keys_of("flows", "flows");
  expect_the_keys_of("links", "links");
  expect_the_keys_of("jobs", "jobs");
  expect_the_keys_of("jobs-explain", "jobs explain", {"ring-a"});
  expect_the_keys_of("job-list", "job list");
  expect_the_keys_of("job-list", "job declare", {"ring-b", "h3-1", "h4-1"});
  expect_the_keys_of("job-list", "job remove", {"ring-b"});
  expect_the_keys_of("plan-show", "plan show");
  expect_the_keys_of("plan-explain", "plan explain", {"10.1.1.2 10.2.1.2"});
  expect_the_keys_of("plan-preview", "plan preview", {"--down", "spine3"});
  expect_the_keys_of("plan-log", "plan log");
  expect_the_keys_of("fabric-check", "fabric check");
  expect_the_keys_of("drain", "drain", {"--spine", "spine2"});
  cluster.advance(1s);
  expect_the_keys_of("plan-diff", "plan diff");
  expect_the_keys_of("drain", "drain status");
  expect_the_keys_of("drain", "undrain", {"--spine", "spine2"});
  expect_the_keys_of("disable", "disable", {"--rack", "rack1"});
  cluster.advance(1s);
  expect_the_keys_of("enable", "enable", {"--rack", "rack1"});
  expect_the_keys_of("rollout", "rollout rollback");
}

}  // namespace
}  // namespace heddle::testing
