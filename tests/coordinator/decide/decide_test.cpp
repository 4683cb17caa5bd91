#include "coordinator/decide/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace heddle {
namespace {

Candidate candidate(std::string scheme, std::vector<double> by_job, std::uint32_t moves = 0) {
  Candidate made{.scheme = std::move(scheme), .routing = {}, .moves = moves};
  made.efficiency.by_job = by_job;
  std::ranges::sort(by_job);
  made.efficiency.ascending = by_job;
  made.efficiency.worst = by_job.front();
  made.efficiency.mean =
      std::accumulate(by_job.begin(), by_job.end(), 0.0) / static_cast<double>(by_job.size());
  return made;
}

struct Case {
  const char* what;
  std::vector<Candidate> candidates;
  Situation situation;
  std::optional<std::size_t> chosen;
};

// Before and after, with a hysteresis of 5 %.
TEST(Decide, MovesOnlyForAGainOrWhereItMust) {
  const Situation calm;
  const Situation links{
      .links_changed = true, .demand_changed = false, .event = "leaf1-spine2 down"};
  const Situation demand{.links_changed = false, .demand_changed = true, .event = {}};
  const Case cases[] = {
      {"no gain", {candidate("stay", {0.8, 1.0}), candidate("full", {0.8, 1.0}, 9)}, calm, {}},
      {"a gain of 4 %",
       {candidate("stay", {0.8, 1.0}), candidate("full", {0.832, 1.0}, 9)},
       calm,
       {}},
      {"a gain of 6 %",
       {candidate("stay", {0.8, 1.0}), candidate("full", {0.848, 1.0}, 9)},
       calm,
       1},
      {"the second job gains",
       {candidate("stay", {0.5, 0.5}), candidate("full", {0.5, 0.9}, 9)},
       calm,
       1},
      {"the mean gains, but the worst job loses",
       {candidate("stay", {0.5, 0.6}), candidate("full", {0.4, 1.0}, 9)},
       calm,
       {}},
      {"new flows, nobody need move", {candidate("stay", {1.0})}, demand, 0},
      {"new flows, the repair is as good as the whole",
       {candidate("repair", {0.9, 0.9}, 2), candidate("full", {0.9, 0.9}, 9)},
       demand,
       0},
      {"new flows, the whole is much better",
       {candidate("repair", {0.5, 0.9}, 2), candidate("full", {0.9, 0.9}, 9)},
       demand,
       1},
      {"a link died, the repair will do",
       {candidate("repair", {0.75}, 4), candidate("full", {0.76}, 16)},
       links,
       0},
      {"nothing to place", {}, links, {}},
  };
  for (const Case& one : cases) {
    const Decision decision =
        decide(one.candidates, 100, one.situation, {.hysteresis = 0.05, .move_cost = 0});
    EXPECT_EQ(decision.chosen, one.chosen) << one.what << ": " << decision.reason;
    EXPECT_FALSE(decision.reason.empty()) << one.what;
  }
}

// With a hysteresis of 2 % and a cost of 2 % for moving all 100: moving 10 of them takes 2.2 %.
TEST(Decide, AsksForMoreGainWhereMoreIsMoved) {
  const DecideConfig config{.hysteresis = 0.02, .move_cost = 0.02};
  const auto with = [&](double worst, std::uint32_t moves) {
    return decide({candidate("stay", {0.5}), candidate("full", {worst}, moves)}, 100, {}, config)
        .chosen;
  };
  EXPECT_EQ(with(0.512, 10), 1U);
  EXPECT_EQ(with(0.510, 10), std::nullopt);
  EXPECT_EQ(with(0.519, 100), std::nullopt);
  EXPECT_EQ(with(0.521, 100), 1U);
}

TEST(Decide, SaysWithNumbersWhyItHolds) {
  const Decision decision =
      decide({candidate("stay", {0.5, 1.0}), candidate("heddle", {0.51, 1.0}, 30)}, 60, {}, {});
  EXPECT_FALSE(decision.chosen);
  EXPECT_EQ(
      decision.reason,
      "held at worst 50.0 %, mean 75.0 %: heddle promises worst 51.0 %, mean 75.5 % with 30 of "
      "60 moved, and that would have to be 3.0 % more");
  EXPECT_EQ(decide({candidate("stay", {1.0})}, 60, {}, {}).reason,
            "held at worst 100.0 %, mean 100.0 %: nothing promises more");
}

TEST(Decide, NamesTheEventThatMadeItMove) {
  const Decision decision = decide({candidate("repair", {0.75}, 4)}, 100,
                                   {.links_changed = true, .event = "leaf1-spine2 down"}, {});
  EXPECT_NE(decision.reason.find("leaf1-spine2 down"), std::string::npos) << decision.reason;
}

}  // namespace
}  // namespace heddle
