#include "common/core/heddle_session.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;

class HeddleSessionTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeed = 64;
  std::mt19937_64 random{kSeed};
  Topology fabric{make_fabric({.leaves = 16, .spines = 16, .nics = 16})};
  LinkState links{fabric};
  Problem problem{problem_of(fabric, links, ring_jobs(fabric, random, [](auto&) { return 16; }))};

  std::vector<bool> all_but(std::uint32_t job) const {
    std::vector<bool> running(problem.demand.jobs.size(), true);
    running[job] = false;
    return running;
  }
  std::vector<std::uint32_t> leaves_of(std::uint32_t job) const {
    std::set<std::uint32_t> leaves;
    for (const FlowDemand& f : problem.demand.flows)
      if (f.job.value == job)
        for (const NicId nic : {f.source, f.destination})
          leaves.insert(fabric[fabric[nic].attachments.front()].leaf.value);
    return {leaves.begin(), leaves.end()};
  }
};

// 15 jobs run, the 16th comes: with it every uplink is full, so it fits only if the others make
// room, and all end whole.
TEST_F(HeddleSessionTest, AnArrivingJobIsPlacedAndNobodyLoses) {
  HeddleSession session(problem, all_but(3));
  const std::vector<std::uint32_t> moved = session.start({3});
  const Efficiency e = evaluate(fabric, links, problem.demand, session.routing());
  EXPECT_NEAR(e.worst, 1.0, 1e-9);
  EXPECT_EQ(e.max_on_link, 1U);
  for (std::uint32_t j = 0; j < 16; ++j)
    EXPECT_NEAR(session.efficiency({j}), 1.0, 1e-9);
  EXPECT_LT(moved.size(), 128U) << "of 240 that ran";
}

TEST_F(HeddleSessionTest, OnlyWhatIsReportedHasMoved) {
  HeddleSession session(problem, all_but(5));
  const Routing before = session.routing();
  const std::vector<std::uint32_t> moved = session.start({5});
  const Routing after = session.routing();
  const std::set<std::uint32_t> reported(moved.begin(), moved.end());
  for (std::uint32_t s = 0; s < before.size(); ++s) {
    if (problem.demand.flows[s].job == JobId{5} || !before[s].routable())
      continue;
    EXPECT_EQ(before[s] != after[s], reported.contains(s)) << s;
  }
}

// Nobody is beside it on any link, so nobody moves.
TEST_F(HeddleSessionTest, AJobWithRoomMovesNobody) {
  std::vector<bool> running(16, false);
  running[0] = running[1] = true;
  HeddleSession session(problem, running);
  EXPECT_TRUE(session.start({2}).empty());
  EXPECT_NEAR(session.efficiency({2}), 1.0, 1e-9);
}

TEST_F(HeddleSessionTest, AStoppedJobIsNowhereAndComesBackToItsPlace) {
  HeddleSession session(problem, std::vector<bool>(16, true));
  const Routing before = session.routing();
  session.stop({7});
  const Routing without = session.routing();
  for (std::uint32_t s = 0; s < before.size(); ++s)
    if (problem.demand.flows[s].job == JobId{7} && before[s].crosses_core()) {
      EXPECT_FALSE(without[s].routable());
    }
  EXPECT_TRUE(session.start({7}).empty());
  EXPECT_EQ(session.routing(), before);
}

}  // namespace
}  // namespace heddle
