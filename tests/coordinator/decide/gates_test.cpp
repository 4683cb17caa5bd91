#include "coordinator/decide/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/small_fabric.h"

namespace heddle::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const Gate& gate(const std::vector<Gate>& gates, std::string_view name) {
  return *std::ranges::find(gates, name, &Gate::name);
}

Measures measured(JobMeasure job, ErrorRates host = {.retransmissions = 0, .out_of_sequence = 0}) {
  return {.jobs = {{"ring-a", job}}, .hosts = {{"h1-1", host}}};
}
JobMeasure running(double in_bursts, Duration iteration) {
  return {.in_bursts = in_bursts, .mean = in_bursts / 2, .iteration = iteration, .slack = 10ms};
}

TEST(Gates, AreGoodWhereNothingHasChanged) {
  for (const Gate& one :
       judge_traffic({}, measured(running(0.9, 300ms)), measured(running(0.9, 305ms))))
    EXPECT_EQ(one.verdict, Verdict::good) << one.name << ": " << one.seen;
}

// 10 % are allowed.
TEST(Gates, EfficiencyFailsWhenAJobLosesMoreThanIsAllowed) {
  const Measures before = measured(running(0.9, 300ms));
  EXPECT_EQ(gate(judge_traffic({}, before, measured(running(0.82, 300ms))), "efficiency").verdict,
            Verdict::good);
  const Gate bad = gate(judge_traffic({}, before, measured(running(0.3, 300ms))), "efficiency");
  EXPECT_EQ(bad.verdict, Verdict::bad);
  EXPECT_EQ(bad.seen, "ring-a: 0.900 before, 0.300 now (67 % less, 10 % allowed)");
}

TEST(Gates, EfficiencyComparesPausesOnlyWithPauses) {
  JobMeasure smooth{.in_bursts = std::nullopt, .mean = 0.45, .iteration = std::nullopt};
  const auto verdict = [](const JobMeasure& was, const JobMeasure& is) {
    return gate(judge_traffic({}, measured(was), measured(is)), "efficiency").verdict;
  };
  EXPECT_EQ(verdict(running(0.9, 300ms), smooth), Verdict::unobservable);
  EXPECT_EQ(verdict(smooth, running(0.9, 300ms)), Verdict::good) << "0.45 on average in both";
  EXPECT_EQ(verdict(smooth, running(0.7, 300ms)), Verdict::bad) << "0.35 on average now";
}

// 300 ms before: 330 are allowed, and the 10 of a report's interval.
TEST(Gates, IterationTimeFailsAlsoBeforeALongOneHasEnded) {
  const Measures before = measured(running(0.9, 300ms));
  EXPECT_EQ(
      gate(judge_traffic({}, before, measured(running(0.9, 335ms))), "iteration-time").verdict,
      Verdict::good);
  EXPECT_EQ(
      gate(judge_traffic({}, before, measured(running(0.9, 345ms))), "iteration-time").verdict,
      Verdict::bad);
  JobMeasure overdue = running(0.9, 300ms);
  overdue.running = 400ms;
  const Gate bad = gate(judge_traffic({}, before, measured(overdue)), "iteration-time");
  EXPECT_EQ(bad.verdict, Verdict::bad);
  EXPECT_EQ(bad.seen,
            "ring-a: 300 ms before, 400 ms now and not at its end (10 % and 10 ms allowed)");
}

TEST(Gates, ErrorsFailWhenAHostHasMoreOfThemThanBefore) {
  const Measures before =
      measured(running(0.9, 300ms), {.retransmissions = 2, .out_of_sequence = 0});
  const auto now = judge_traffic(
      {}, before, measured(running(0.9, 300ms), {.retransmissions = 2.5, .out_of_sequence = 40}));
  EXPECT_EQ(gate(now, "retransmissions").verdict, Verdict::good);
  EXPECT_EQ(gate(now, "out-of-sequence").verdict, Verdict::bad);
  EXPECT_THAT(gate(now, "out-of-sequence").seen, HasSubstr("h1-1: 0.0 /s before, 40.0 /s now"));
}

TEST(Gates, ErrorsAreJudgedOfTheHostsThatHadAJobBefore) {
  const Measures before = measured(running(0.9, 300ms));
  Measures now = before;
  now.hosts["h9-1"] = {};  // of a job that begins during the soak
  EXPECT_EQ(gate(judge_traffic({}, before, now), "retransmissions").verdict, Verdict::good);
  now.hosts["h1-1"].retransmissions = 40;
  EXPECT_EQ(gate(judge_traffic({}, before, now), "retransmissions").verdict, Verdict::bad);
  now.hosts.erase("h1-1");
  EXPECT_EQ(gate(judge_traffic({}, before, now), "retransmissions").verdict, Verdict::unobservable);
}

// A job on two hosts; what is known of it after the wave.
class Presence : public ::testing::Test {
 protected:
  Presence() {
    before.jobs["ring-a"] = {
        .in_bursts = 0.9, .iteration = 2s, .hosts = {"h1-1", "h2-1"}, .seen_by = {"h1-1", "leaf2"}};
    now = before;
    now.jobs["ring-a"].sent = true;
  }
  Gate judge(Duration watched = 30s) const { return judge_presence(before, now, watched, 30s); }
  Measures before;
  Measures now;
};

TEST_F(Presence, AJobThatSendsIsThere) {
  EXPECT_EQ(judge().verdict, Verdict::good);
  EXPECT_EQ(judge().seen, "ring-a runs");
  EXPECT_EQ(judge(0s).verdict, Verdict::good);
  before.jobs["ring-b"] = now.jobs["ring-b"] = now.jobs["ring-a"];
  EXPECT_EQ(judge().seen, "all 2 run");
}

TEST_F(Presence, AJobThatStoppedFailsTheGateWhetherItIsStillKnownOrNot) {
  now.jobs["ring-a"].sent = false;
  EXPECT_EQ(judge(29s).verdict, Verdict::unobservable) << "too early to tell";
  EXPECT_EQ(judge().verdict, Verdict::bad);
  now.jobs.erase("ring-a");
  EXPECT_EQ(judge().verdict, Verdict::bad);
  EXPECT_THAT(judge().seen, HasSubstr("ring-a: sent before, and nothing now"));
}

TEST_F(Presence, AnotherJobOnTheSameHostsIsNoStop) {
  now.jobs.erase("ring-a");
  now.jobs["ring-b"] = {.sent = true, .hosts = {"h1-1", "h2-1", "h3-1"}};
  EXPECT_EQ(judge().verdict, Verdict::unobservable);
  now.jobs["ring-b"].hosts = {"h1-1", "h3-1"};
  EXPECT_EQ(judge().verdict, Verdict::bad) << "h2-1 runs nothing";
}

TEST_F(Presence, AJobBesideItThatRanBeforeTakesNothingOver) {
  before.jobs["ring-b"] = {.hosts = {"h1-1", "h2-1"}};
  now.jobs.erase("ring-a");
  now.jobs["ring-b"] = {.sent = true, .hosts = {"h1-1", "h2-1"}};
  EXPECT_EQ(judge().verdict, Verdict::bad);
}

// Sixteen flows by four senders; three of them stop.
class PresenceOfFlows : public Presence {
 protected:
  PresenceOfFlows() {
    for (int i = 0; i < 16; ++i)
      before.jobs["ring-a"].steady.push_back(
          {.key = key_of(wire_key(address(1 + i % 4, 1 + i / 4), address(2 + i % 3, 1))),
           .period = 2s,
           .seen_by = i < 8 ? "h1-1" : "leaf2"});
    const auto& all = before.jobs["ring-a"].steady;
    stop = {all[0], all[5], all[6]};
  }
  void remain(std::vector<SteadyFlow> stopped) {
    const std::size_t going = 16 - stopped.size();
    now.remains["ring-a"] = {.going = going, .stopped = std::move(stopped)};
  }
  std::vector<SteadyFlow> stop;
};

TEST_F(PresenceOfFlows, AJobThatLosesSomeFailsTheGateAndTheyAreNamed) {
  EXPECT_EQ(judge().verdict, Verdict::good);
  remain(stop);
  EXPECT_EQ(judge(29s).verdict, Verdict::unobservable) << "too early to tell";
  EXPECT_THAT(judge(29s).seen, HasSubstr("3 of 16 flows of ring-a, in the first 29 of 30 s"));
  EXPECT_EQ(judge().verdict, Verdict::bad);
  EXPECT_THAT(judge().seen, HasSubstr("ring-a: 3 of 16 flows sent before, and nothing now"));
  for (const SteadyFlow& flow : stop)
    EXPECT_THAT(judge().seen, HasSubstr(to_string(flow.key)));
}

// The rest of a ring is two chains: it may be known by other names, and is no job that came later.
TEST_F(PresenceOfFlows, AJobThatIsCutInTwoHasLostSomeWhateverItIsCalledNow) {
  now.jobs.erase("ring-a");
  now.jobs["job-1"] = {.sent = true, .hosts = {"h1-1", "h2-1"}};
  remain(stop);
  EXPECT_EQ(judge().verdict, Verdict::bad);
  EXPECT_THAT(judge().seen, HasSubstr("3 of 16 flows"));
  remain(before.jobs["ring-a"].steady);
  EXPECT_EQ(judge().verdict, Verdict::unobservable) << "none is left: another job has the hosts";
}

TEST_F(PresenceOfFlows, AnotherRunOfAJobMayHaveFewer) {
  now.remains["ring-a"] = {.going = 0, .stopped = stop};  // thirteen have others in their place
  EXPECT_EQ(judge().verdict, Verdict::good);
  remain(before.jobs["ring-a"].steady);
  EXPECT_EQ(judge().verdict, Verdict::bad) << "none has, and only what is irregular still sends";
}

TEST_F(PresenceOfFlows, SafetyRule7FlowsWhoseObserverIsNotHeardHaveNotStopped) {
  remain(stop);
  now.unheard = {"h1-1"};
  EXPECT_EQ(judge().verdict, Verdict::unobservable);
  stop.push_back(before.jobs["ring-a"].steady[9]);
  remain(stop);
  EXPECT_EQ(judge().verdict, Verdict::bad) << "leaf2 is heard";
  EXPECT_THAT(judge().seen, HasSubstr("1 of 16"));
}

TEST_F(PresenceOfFlows, PatienceLastsForTwoPeriodsOfEachFlow) {
  EXPECT_EQ(presence_patience(before, 3s), Duration(4s));
  before.jobs["ring-a"].steady[7].period = 60s;
  EXPECT_EQ(presence_patience(before, 3s), Duration(120s));
}

TEST_F(Presence, SafetyRule7WhoIsNotHeardTellsNothingOfAStop) {
  now.jobs.erase("ring-a");
  now.unheard = {"h1-1", "h7-1", "leaf2"};
  EXPECT_EQ(judge().verdict, Verdict::unobservable);
  now.unheard = {"leaf2"};
  EXPECT_EQ(judge().verdict, Verdict::bad) << "h1-1 is heard, and tells of nothing";
}

TEST_F(Presence, PatienceLastsForTwoIterations) {
  EXPECT_EQ(presence_patience(before, 30s), Duration(30s));
  before.jobs["ring-a"].iteration = 40s;
  EXPECT_EQ(presence_patience(before, 30s), Duration(80s));
  EXPECT_EQ(presence_patience({}, 30s), Duration(0s));
}

// Two jobs of two flows each. During the soak ring-a gets half of what it got, whatever it is
// called by then; ring-b goes on as before.
class JobsCalledOtherwise : public ::testing::Test {
 protected:
  JobsCalledOtherwise() {
    before = measured(running(0.9, 300ms));
    before.jobs["ring-b"] = running(0.9, 300ms);
    const auto steady = [](int leaf) {
      return std::vector<SteadyFlow>{
          {.key = key_of(wire_key(address(leaf, 1), address(leaf, 2))), .seen_by = "leaf1"},
          {.key = key_of(wire_key(address(leaf, 2), address(leaf, 1))), .seen_by = "leaf1"}};
    };
    before.jobs["ring-a"].steady = steady(1);
    before.jobs["ring-b"].steady = steady(2);
    now = before;
    slow = now.jobs["ring-a"];
    slow.in_bursts = 0.45;
    slow.iteration = 600ms;
    now.jobs.erase("ring-a");
    now.remains["ring-a"] = {.going = 2};
    now.remains["ring-b"] = {.going = 2};
  }
  void expect(Verdict verdict) const {
    for (const char* name : {"efficiency", "iteration-time"}) {
      const Gate one = gate(judge_traffic({}, before, now), name);
      EXPECT_EQ(one.verdict, verdict) << name << ": " << one.seen;
      EXPECT_THAT(one.seen, HasSubstr("ring-a"));
    }
  }
  Measures before;
  Measures now;
  JobMeasure slow;
};

TEST_F(JobsCalledOtherwise, OneThatOnlyGotAnotherNameIsJudgedByItsFlows) {
  now.jobs["auto-h1"] = slow;
  expect(Verdict::bad);
  EXPECT_THAT(gate(judge_traffic({}, before, now), "efficiency").seen,
              HasSubstr("ring-a as auto-h1: 0.900 before, 0.450 now"));
  now.jobs["ring-a"] = running(0.9, 300ms);  // what has its name now is another
  expect(Verdict::bad);
}

TEST_F(JobsCalledOtherwise, SafetyRule7OneWhoseFlowsAreNotAJobByThemselvesIsNotSeen) {
  expect(Verdict::unobservable);  // its flows are not known for long enough to be of a job
  JobMeasure half = slow;
  half.steady.pop_back();
  now.jobs["auto-h1"] = half;
  expect(Verdict::unobservable);
  now.jobs["ring-a"] = running(0.9, 300ms);  // the other half has kept the name
  expect(Verdict::unobservable);
  now.jobs.erase("ring-a");
  now.jobs["auto-h1"] = slow;
  auto& both = now.jobs["auto-h1"].steady;
  both.insert(both.end(), before.jobs["ring-b"].steady.begin(), before.jobs["ring-b"].steady.end());
  now.jobs.erase("ring-b");
  expect(Verdict::unobservable);
}

TEST_F(JobsCalledOtherwise, OneThatHasEndedIsTheFirstGatesToJudge) {
  now.remains["ring-a"] = {.stopped = before.jobs["ring-a"].steady};
  const Gate efficiency = gate(judge_traffic({}, before, now), "efficiency");
  EXPECT_EQ(efficiency.verdict, Verdict::good) << efficiency.seen;
  EXPECT_EQ(judge_presence(before, now, 30s, 30s).verdict, Verdict::bad);
}

TEST(SafetyRule7, AGateThatCannotSeeIsNeitherGoodNorBad) {
  const Measures before = measured(running(0.9, 300ms), {});
  for (const Gate& one : judge_traffic({}, before, measured({}, {}))) {
    EXPECT_EQ(one.verdict, Verdict::unobservable) << one.name;
    EXPECT_THAT(one.seen, HasSubstr(one.name == "efficiency" || one.name == "iteration-time"
                                        ? "not seen: ring-a"
                                        : "not seen: h1-1"));
  }
  for (const Gate& one : judge_traffic({}, {}, measured(running(0.9, 300ms))))
    if (one.name == "efficiency" || one.name == "iteration-time") {
      EXPECT_EQ(one.verdict, Verdict::unobservable) << "a job that is new is not judged";
    }
}

}  // namespace
}  // namespace heddle::testing
