// The roll-out as a state machine: what it is shown, what it does.
#include "coordinator/decide/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/decide/rollout_text.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class RolloutTest : public testing::Test {
 protected:
  RolloutTest() {
    config.baseline = 5s;
    config.converge = 3s;
    sight.measures = {.jobs = {{"ring-a",
                                {.in_bursts = 0.9,
                                 .mean = 0.5,
                                 .iteration = 300ms,
                                 .usual_iteration = 300ms,
                                 .slack = 10ms,
                                 .sent = true,
                                 .hosts = {"h1-1", "h2-1"},
                                 .seen_by = {"h1-1", "leaf1"}}}},
                      .hosts = {{"h1-1", {.retransmissions = 0, .out_of_sequence = 0}}}};
    sight.followed = 1;
  }
  Rollout started(std::vector<Wave> waves) {
    Rollout rollout(config, {}, now);
    EXPECT_TRUE(rollout.start(std::move(waves), now));
    return rollout;
  }
  static std::vector<Wave> two_waves() {
    return {{.racks = {"rack1"}, .soak = 4s}, {.racks = {"rack2", "rack3"}, .soak = 4s}};
  }
  // A step every second; what was said.
  std::string run(Rollout& rollout, int seconds) {
    std::string said;
    for (int i = 0; i < seconds; ++i) {
      now += 1s;
      if (const auto line = rollout.step(sight, now))
        said += *line + "\n";
    }
    return said;
  }
  RolloutConfig config;
  RolloutSight sight;
  Time now{1000s};
};

TEST_F(RolloutTest, EnablesRackByRackAndIsDone) {
  Rollout rollout = started(two_waves());
  EXPECT_FALSE(rollout.allows("rack1"));
  run(rollout, 4);
  EXPECT_FALSE(rollout.allows("rack1")) << "the baseline takes 5 s";
  EXPECT_EQ(rollout.waits_for(), "measuring the time before the wave: 4 of 5 s");
  EXPECT_EQ(run(rollout, 1), "roll-out: wave 1 of 2 (rack1) is enabled\n");
  EXPECT_TRUE(rollout.allows("rack1"));
  EXPECT_FALSE(rollout.allows("rack2"));
  EXPECT_EQ(run(rollout, 1), "roll-out: wave 1 of 2 (rack1) holds its pins and soaks for 4 s\n");
  EXPECT_EQ(run(rollout, 4), "roll-out: wave 1 of 2 (rack1) is good after 4 s\n");
  EXPECT_THAT(run(rollout, 10),
              HasSubstr("wave 2 of 2 (rack2, rack3) is good after 4 s; the roll-out is done"));
  EXPECT_EQ(rollout.state().enabled, (std::set<std::string>{"rack1", "rack2", "rack3"}));
  EXPECT_EQ(rollout.state().phase, RolloutPhase::done);
}

TEST_F(RolloutTest, SafetyRule11AWaveThatMakesThingsWorseIsRolledBackByItself) {
  Rollout rollout = started(two_waves());
  run(rollout, 11);
  ASSERT_EQ(rollout.state().waves[0].state, WaveState::good);
  run(rollout, 6);
  ASSERT_EQ(rollout.state().waves[1].state, WaveState::soaking);
  sight.measures.jobs["ring-a"].in_bursts = 0.3;
  EXPECT_EQ(run(rollout, 1), "") << "one look can fall between two reports";
  EXPECT_EQ(run(rollout, 1),
            "roll-out: wave 2 of 2 (rack2, rack3) is rolled back: gate efficiency: ring-a: 0.900 "
            "before, 0.300 "
            "now (67 % less, 10 % allowed)\n");
  EXPECT_EQ(rollout.state().enabled, (std::set<std::string>{"rack1"}));
  EXPECT_EQ(rollout.state().phase, RolloutPhase::stopped);
  EXPECT_EQ(run(rollout, 100), "") << "it goes no further by itself";
  sight.measures.jobs["ring-a"].in_bursts = 0.9;
  ASSERT_TRUE(rollout.resume(now));
  EXPECT_THAT(run(rollout, 11), HasSubstr("the roll-out is done"));
}

// Its flows are gone, so that there is nothing to compare; and what cannot be seen may pass.
TEST_F(RolloutTest, SafetyRule11AWaveThatStopsAJobCompletelyIsRolledBack) {
  config.unobservable_blocks = false;
  for (const int soaked : {0, 3}) {
    Rollout rollout = started(two_waves());
    const Measures whole = sight.measures;
    run(rollout, 6 + soaked);
    ASSERT_EQ(rollout.state().waves[0].state, WaveState::soaking);
    sight.measures.jobs.clear();
    EXPECT_THAT(run(rollout, 6),
                HasSubstr("wave 1 of 2 (rack1) is rolled back: gate jobs: ring-a: sent before, "));
    EXPECT_FALSE(rollout.allows("rack1"));
    sight.measures = whole;
  }
}

// One that a report's gap cut in two, just before the wave, is not what the wave is compared with.
TEST_F(RolloutTest, AWaveIsComparedWithTheUsualIterationBeforeIt) {
  sight.measures.jobs["ring-a"].iteration = 120ms;
  Rollout rollout = started(two_waves());
  run(rollout, 5);
  ASSERT_EQ(rollout.state().baseline.jobs.at("ring-a").iteration, Duration(300ms));
  sight.measures.jobs["ring-a"].iteration = 300ms;
  EXPECT_THAT(run(rollout, 6), HasSubstr("wave 1 of 2 (rack1) is good"));
}

TEST_F(RolloutTest, AWaveIsNotGoodBeforeItsJobsWereSeen) {
  config.unobservable_blocks = false;
  config.converge = 10s;
  Rollout rollout = started(two_waves());
  run(rollout, 6);
  const Measures whole = sight.measures;
  sight.measures.jobs.clear();
  EXPECT_EQ(run(rollout, 7), "") << "4 s of soak are over";
  EXPECT_EQ(rollout.waits_for(), "not seen: ring-a, in the first 7 of 10 s");
  sight.measures = whole;
  EXPECT_THAT(run(rollout, 1), HasSubstr("wave 1 of 2 (rack1) is good"));
}

TEST_F(RolloutTest, AJobThatBeginsDuringASoakHoldsNothingUp) {
  Rollout rollout = started(two_waves());
  run(rollout, 7);
  sight.measures.jobs["new"] = {.sent = true, .hosts = {"h3-1", "h4-1"}};
  sight.measures.hosts["h3-1"] = {};
  EXPECT_THAT(run(rollout, 3), HasSubstr("wave 1 of 2 (rack1) is good"));
}

TEST_F(RolloutTest, AgentTroubleAndLastingDriftFailAWave) {
  for (const bool trouble : {true, false}) {
    Rollout rollout = started(two_waves());
    run(rollout, 6);
    (trouble ? sight.trouble : sight.astray) = "leaf1: foreign routes";
    const std::string said = run(rollout, 5);
    EXPECT_THAT(said, HasSubstr(trouble ? "gate agents: leaf1: foreign routes"
                                        : "gate drift: leaf1: foreign routes"));
    EXPECT_FALSE(rollout.allows("rack1"));
    sight.trouble.clear();
    sight.astray.clear();
  }
}

// Each of its flows was pinned anew in the middle, so that for two seconds none tells anything.
TEST_F(RolloutTest, DriftGoesOnWhereNoFlowCouldBeLookedAt) {
  for (const bool looked_at : {false, true}) {
    Rollout rollout = started({{.racks = {"rack1"}, .soak = 20s}});
    run(rollout, 7);
    sight.astray = "1 flow by up1";
    run(rollout, 1);
    sight.astray.clear();
    sight.followed = looked_at ? 1 : 0;
    EXPECT_EQ(run(rollout, 2), "");
    EXPECT_EQ(rollout.gates().back().verdict, Verdict::good) << "nothing is astray just now";
    EXPECT_THAT(rollout.gates().back().seen,
                HasSubstr(looked_at ? "flows follow" : "no flow's way is seen"));
    sight.followed = 1;
    sight.astray = "1 flow by up1";
    EXPECT_EQ(run(rollout, 2).find("gate drift: 1 flow by up1") != std::string::npos, !looked_at);
    sight.astray.clear();
  }
}

TEST_F(RolloutTest, ShortDriftIsForgiven) {
  Rollout rollout = started(two_waves());
  run(rollout, 6);
  sight.not_held = "leaf1 is not heard";
  EXPECT_EQ(run(rollout, 2), "");
  sight.not_held.clear();
  EXPECT_THAT(run(rollout, 3), HasSubstr("wave 1 of 2 (rack1) is good"));
}

TEST_F(RolloutTest, AgentsThatNeverHoldTheirPinsFailTheWave) {
  Rollout rollout = started(two_waves());
  sight.not_held = "leaf1 holds nothing";
  run(rollout, 5);
  ASSERT_EQ(rollout.state().waves[0].state, WaveState::enabling);
  EXPECT_THAT(run(rollout, 5), HasSubstr("gate drift: leaf1 holds nothing"));
  EXPECT_FALSE(rollout.allows("rack1"));
}

TEST_F(RolloutTest, WaitsForAgentsThatOnlyObserve) {
  Rollout rollout = started(two_waves());
  sight.not_ready = "leaf1: its agent only observes";
  EXPECT_EQ(run(rollout, 60), "");
  EXPECT_EQ(rollout.waits_for(), "leaf1: its agent only observes");
  sight.not_ready.clear();
  EXPECT_THAT(run(rollout, 1), HasSubstr("wave 1 of 2 (rack1) is enabled"));
}

TEST_F(RolloutTest, AGateThatCannotSeeBlocksUnlessItMayPass) {
  sight.measures.hosts["h1-1"] = {};
  Rollout blocked = started(two_waves());
  run(blocked, 60);
  EXPECT_EQ(blocked.state().waves[0].state, WaveState::soaking);
  EXPECT_EQ(
      blocked.waits_for(),
      "gates that cannot see: retransmissions: not seen: h1-1; out-of-sequence: not seen: h1-1");
  config.unobservable_blocks = false;
  Rollout passes = started(two_waves());
  run(passes, 11);
  EXPECT_EQ(passes.state().waves[0].state, WaveState::good);
  EXPECT_THAT(passes.state().waves[0].verdict,
              HasSubstr("not everything was seen: retransmissions"));
}

TEST_F(RolloutTest, AGateFailsThoughOthersCannotSee) {
  sight.measures.hosts["h1-1"] = {};
  Rollout rollout = started(two_waves());
  run(rollout, 7);
  sight.measures.jobs["ring-a"].running = 2s;
  EXPECT_THAT(run(rollout, 2),
              HasSubstr("gate iteration-time: ring-a: 300 ms before, 2000 ms now"));
}

TEST_F(RolloutTest, APauseEndsNoWatchAndCountsNoSoak) {
  Rollout rollout = started(two_waves());
  run(rollout, 7);
  ASSERT_TRUE(rollout.pause(now));
  EXPECT_FALSE(rollout.pause(now));
  EXPECT_EQ(run(rollout, 60), "");
  EXPECT_EQ(rollout.state().waves[0].state, WaveState::soaking);
  ASSERT_TRUE(rollout.resume(now));
  EXPECT_EQ(run(rollout, 3), "");
  EXPECT_THAT(run(rollout, 1), HasSubstr("is good"));
  ASSERT_TRUE(rollout.pause(now));
  EXPECT_EQ(run(rollout, 60), "") << "no further wave";
  ASSERT_TRUE(rollout.resume(now));
  run(rollout, 6);
  ASSERT_TRUE(rollout.pause(now));
  sight.trouble = "leaf2: foreign routes";
  EXPECT_THAT(run(rollout, 2), HasSubstr("wave 2 of 2 (rack2, rack3) is rolled back"));
}

TEST_F(RolloutTest, AbortKeepsGoodWavesAndRollbackKeepsNone) {
  Rollout rollout = started(two_waves());
  EXPECT_FALSE(rollout.start(two_waves(), now)) << "one is under way";
  run(rollout, 16);
  ASSERT_EQ(rollout.state().enabled.size(), 3U);
  ASSERT_TRUE(rollout.abort(now));
  EXPECT_EQ(rollout.state().enabled, (std::set<std::string>{"rack1"}));
  EXPECT_FALSE(rollout.abort(now));
  EXPECT_FALSE(rollout.resume(now)) << "it has ended";
  ASSERT_TRUE(rollout.roll_back(now));
  EXPECT_TRUE(rollout.state().enabled.empty());
  EXPECT_FALSE(rollout.roll_back(now));
}

TEST_F(RolloutTest, ASecondRollOutAddsRacks) {
  Rollout rollout = started({{.racks = {"rack1"}, .soak = 1s}});
  run(rollout, 8);
  ASSERT_EQ(rollout.state().phase, RolloutPhase::done);
  EXPECT_EQ(rollout.start({{.racks = {"rack1"}, .soak = 1s}}, now).error().code, Errc::duplicate);
  EXPECT_FALSE(rollout.start({}, now));
  EXPECT_FALSE(rollout.start({{.racks = {}, .soak = 1s}}, now));
  EXPECT_FALSE(rollout.start({{.racks = {"rack2", "rack2"}, .soak = 1s}}, now));
  ASSERT_TRUE(rollout.start({{.racks = {"rack2"}, .soak = 1s}}, now));
  run(rollout, 8);
  EXPECT_EQ(rollout.state().enabled, (std::set<std::string>{"rack1", "rack2"}));
  // Back from all means also from what the first had enabled.
  ASSERT_TRUE(rollout.roll_back(now));
  EXPECT_TRUE(rollout.state().enabled.empty());
}

TEST_F(RolloutTest, WithoutItEveryRackIsSteeredOnlyIfTheConfigurationSaysSo) {
  EXPECT_FALSE(Rollout(config, {}, now).allows("rack1"));
  config.required = false;
  Rollout off(config, {}, now);
  EXPECT_TRUE(off.allows("rack1"));
  EXPECT_EQ(off.start(two_waves(), now).error().code, Errc::unsupported);
}

// Ends a run after every number of steps, and goes on from what was stored: each end state is the
// same, and nothing is enabled that was not before.
TEST_F(RolloutTest, GoesOnAfterARestartAtAnyStep) {
  for (int steps = 0; steps < 30; ++steps) {
    now = Time{1000s};
    Rollout before = started(two_waves());
    run(before, steps);
    const Result<RolloutState> stored = read_rollout(write_rollout(before.state()));
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(*stored, before.state());
    Rollout after(config, *stored, now);
    EXPECT_EQ(after.state().enabled, before.state().enabled);
    run(after, 40);
    EXPECT_EQ(after.state().phase, RolloutPhase::done) << steps;
    EXPECT_EQ(after.state().enabled.size(), 3U) << steps;
  }
}

TEST_F(RolloutTest, ReadsFilesThatDoNotTellHowManyCountersWereSummedUp) {
  const auto read = read_rollout("heddle-rollout 1\nphase running\nhost h1-1 - 0.25\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->baseline.hosts.at("h1-1").out_of_sequence, 0.25);
  EXPECT_EQ(read->baseline.hosts.at("h1-1").sequence_counters, 0U);
}

TEST_F(RolloutTest, ARestartWhileItSoaksBeginsTheSoakAgainAgainstTheSameBaseline) {
  Rollout before = started(two_waves());
  run(before, 9);
  Rollout after(config, before.state(), now);
  EXPECT_EQ(run(after, 3), "");
  sight.measures.jobs["ring-a"].in_bursts = 0.3;
  EXPECT_THAT(run(after, 2), HasSubstr("rolled back: gate efficiency: ring-a: 0.900 before"));
}

}  // namespace
}  // namespace heddle
