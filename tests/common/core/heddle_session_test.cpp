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

// What an arrival touches: the links that the newcomers take, the flows that they displace there,
// the links that these take, and so on. Nobody moves who did not have to give his link to one of
// them, and nobody gives way who could have stayed: taking any chain back would put two on a link.
TEST_F(HeddleSessionTest, NobodyMovesButToMakeRoom) {
  for (std::uint32_t job = 0; job < 16; ++job) {
    HeddleSession session(problem, all_but(job));
    const Routing before = session.routing();
    const std::vector<std::uint32_t> moved = session.start({job});
    const Routing after = session.routing();
    std::set<CableId> ups, downs;  // that newcomers and moved flows have now
    for (std::uint32_t s = 0; s < after.size(); ++s)
      if (after[s].crosses_core() && before[s] != after[s]) {
        ups.insert(after[s].up);
        downs.insert(after[s].down);
      }
    for (const std::uint32_t s : moved)
      EXPECT_TRUE(ups.contains(before[s].up) || downs.contains(before[s].down))
          << "job " << job << " subflow " << s;
    EXPECT_LT(moved.size(), 64U) << "of 240 that ran";
    EXPECT_NEAR(evaluate(fabric, links, problem.demand, after).worst, 1.0, 1e-9);
  }
}

// Several queue pairs to a link: each holds eight.
TEST_F(HeddleSessionTest, AJobOfManyQueuePairsIsPlacedAmongTheOthers) {
  for (FlowDemand& f : problem.demand.flows)
    f.subflows = 8;
  problem.unit_of_subflow = by_queue_pair(problem.demand);
  HeddleSession session(problem, all_but(3));
  const std::vector<std::uint32_t> moved = session.start({3});
  const Efficiency e = evaluate(fabric, links, problem.demand, session.routing());
  EXPECT_NEAR(e.worst, 1.0, 1e-9);
  EXPECT_LE(e.max_on_link, 8U);
  EXPECT_LT(moved.size(), 480U) << "of 1,920 that ran";
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
