// The program heddle-agent with segments of its own: which of its commands leave them to the nodes
// whose pins may lead by them, and which do not.
#include <fmt/format.h>
#include <signal.h>

#include <fstream>

#include "tests/lab/program_lab.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;

class SegmentCommands : public testing::Test {
 protected:
  SegmentCommands() {
    std::filesystem::create_directories(folder.path() + "/state");
    std::ofstream(folder.path() + "/agent.yaml")
        << "node: host1\nrole: host\nmode: program\n"
           "coordinator: {endpoint: \"tcp://127.0.0.1:7117\", plain: true}\nuplinks: [\"up*\"]\n"
           "enforcer: srv6\nsrv6: {sid: \"fc00:9::10\"}\nstate_dir: "
        << folder.path() << "/state\nrun_dir: " << folder.path() << "/run\n";
  }
  std::vector<std::string> words(std::vector<std::string> words) const {
    words.insert(words.begin(), HEDDLE_AGENT);
    words.insert(words.end(), {"--config", folder.path() + "/agent.yaml"});
    return words;
  }
  std::string run(const std::string& command) {
    const Output output =
        must(capture({.words = words({command}), .space = &leaf.leaf, .log = {}}, seconds{20}));
    EXPECT_EQ(output.status, 0) << command << ": " << output.errors;
    return output.text;
  }
  // What of ours is there: routes to segments in our tables.
  std::size_t segments() {
    std::size_t count = 0;
    for (const RouteSeen& route : must(leaf.at_leaf.routes(Family::v6)))
      count += RoutingRanges{}.owns_table(route.table) ? 1 : 0;
    return count;
  }

  Leaf leaf;
  TemporaryDirectory folder;
};

TEST_F(SegmentCommands, DisableAndGuardLeaveThemAndFlushRemovesThem) {
  const std::string log = folder.path() + "/log";
  Child agent = must(Child::start({.words = words({"run"}), .space = &leaf.leaf, .log = log}));
  const auto end = std::chrono::steady_clock::now() + seconds{10};
  while (segments() < 2 && std::chrono::steady_clock::now() < end)
    EXPECT_FALSE(agent.wait(std::chrono::milliseconds{20})) << "it ended";
  ASSERT_EQ(segments(), 2U);
  EXPECT_EQ(run("disable"), "disabled: the agent has removed every pin\n");
  EXPECT_EQ(segments(), 2U);
  agent.stop(SIGKILL, seconds{5});
  EXPECT_EQ(run("guard"), "") << "there is nothing of which anybody would have to hear";
  EXPECT_EQ(segments(), 2U);
  const std::string without_agent = run("disable");
  EXPECT_NE(without_agent.find("kept 2 SRv6 segments"), std::string::npos) << without_agent;
  EXPECT_EQ(segments(), 2U);
  const std::string flushed = run("flush");
  EXPECT_NE(flushed.find("removed 2 routes, 3 rules, 2 next hops\n"), std::string::npos) << flushed;
  EXPECT_EQ(segments(), 0U);
}

}  // namespace
}  // namespace heddle::lab
