#include "coordinator/decide/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

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

// Reports of 100 ms: 3 intervals of sending, 2 of silence. A NIC would take 80 Mbit/s, which is
// 1,000,000 bytes an interval; the flow gets half of it inside its bursts.
class Measuring : public ::testing::Test {
 protected:
  Measuring() {
    prediction.jobs = {{.name = "job"}};
    prediction.demand.jobs = {{.name = "job"}};
    prediction.demand.flows = {{.job = {0},
                                .phase = 0,
                                .source = *topology.find_nic(address(1, 1)),
                                .destination = *topology.find_nic(address(2, 1))}};
    prediction.flows = {{.subflows = {key_of(key)}, .observed = {CableId{}}, .entry = {}}};
  }
  void report(std::uint64_t bytes) {
    now += 100ms;
    std::vector<FlowDelta> seen;
    if (bytes > 0)
      seen.push_back(delta(key, bytes));
    table.add("h1-1", report_of(++number, now - 100ms, 100ms, std::move(seen)), now);
  }
  void iteration(std::uint64_t bytes) {
    for (const std::uint64_t share : {bytes / 2, bytes, bytes / 2})
      report(share);
    report(0);
    report(0);
  }
  JobMeasure measure(Time since) const {
    return measure_jobs(table, prediction, std::vector{80e6}, since, now).at("job");
  }
  Topology topology = small_fabric(2, 2, 1);
  FlowTable table{topology, {.elephant_rate = Rate{1e6}, .memory = 30s}};
  WireKey key = wire_key(address(1, 1), address(2, 1));
  Prediction prediction;
  Time now{1000s};
  std::uint64_t number{};
};

TEST_F(Measuring, TellsBurstsFromPauses) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const JobMeasure seen = measure({});
  EXPECT_NEAR(*seen.in_bursts, 0.5, 1e-9);
  EXPECT_FALSE(seen.mean) << "three iterations and a part of one are no mean";
  EXPECT_EQ(seen.iteration, Duration(500ms));
  EXPECT_EQ(seen.slack, Duration(100ms));
}

TEST_F(Measuring, AMeanIsOfAFlowWithoutPauses) {
  for (int i = 0; i < 20; ++i)
    report(250'000);
  EXPECT_NEAR(*measure({}).mean, 0.25, 1e-9);
  EXPECT_NEAR(*measure({}).in_bursts, 0.25, 1e-9);
}

TEST_F(Measuring, CountsNothingOfBefore) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const Time change = now;
  EXPECT_FALSE(measure(change).in_bursts);
  EXPECT_FALSE(measure(change).iteration);
  EXPECT_FALSE(measure(change).sent);
  EXPECT_EQ(measure(change).running, Duration(0s));
  iteration(100'000);
  const JobMeasure seen = measure(change);
  EXPECT_NEAR(*seen.in_bursts, 0.1, 1e-9);
  EXPECT_FALSE(seen.iteration) << "the first whole one is not over";
  EXPECT_EQ(seen.running, Duration(500ms));
  iteration(100'000);
  EXPECT_EQ(measure(change).iteration, Duration(500ms));
}

TEST_F(Measuring, AnIterationThatNothingFollowsLastsOn) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const Time change = now;
  for (int i = 0; i < 4; ++i)
    report(0);
  EXPECT_EQ(measure(change).running, Duration(400ms));
  EXPECT_FALSE(measure(change).sent);
  iteration(500'000);
  EXPECT_EQ(measure(change).running, Duration(500ms));
  EXPECT_TRUE(measure(change).sent);
}

TEST_F(Measuring, TheUsualIterationIsNotTheOneThatWasCutShort) {
  for (int i = 0; i < 5; ++i)
    iteration(500'000);
  report(500'000);
  report(0);
  iteration(500'000);
  EXPECT_EQ(measure({}).iteration, Duration(200ms));
  EXPECT_EQ(measure({}).usual_iteration, Duration(500ms));
  EXPECT_FALSE(measure(now - 500ms).usual_iteration);
}

TEST_F(Measuring, TellsWhoSeesAJobAndWhereItRuns) {
  prediction.jobs[0].hosts = {"h1-1", "h2-1"};
  iteration(500'000);
  EXPECT_EQ(measure({}).seen_by, (std::set<std::string>{"h1-1"}));
  EXPECT_EQ(measure({}).hosts, (std::vector<std::string>{"h1-1", "h2-1"}));
  EXPECT_TRUE(measure({}).sent);
}

// Iterations of 500 ms. A second flow of the same sender goes on; the first stops.
TEST_F(Measuring, AFlowThatStopsIsMissedUnlessItsSenderHasBegunAnother) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const std::map<std::string, JobMeasure> before{{"job", measure({})}};
  ASSERT_EQ(before.at("job").steady.size(), 1U);
  EXPECT_EQ(before.at("job").steady[0].key, key_of(key));
  EXPECT_EQ(before.at("job").steady[0].period, Duration(500ms));
  EXPECT_EQ(before.at("job").steady[0].seen_by, "h1-1");
  const auto stopped = [&](Time since) {
    return remains_of(table, prediction, before, since)["job"].stopped;
  };
  const Time change = now;
  EXPECT_EQ(stopped(change).size(), 1U) << "nothing is seen yet";
  iteration(500'000);
  EXPECT_TRUE(stopped(change).empty());
  EXPECT_EQ(remains_of(table, prediction, before, change)["job"].going, 1U);
  const Time later = now;
  const WireKey was = std::exchange(key, wire_key(address(1, 1), address(2, 1), 50'001));
  iteration(500'000);
  EXPECT_EQ(stopped(later).at(0).key, key_of(was)) << "the other is not in demand";
  prediction.flows[0].subflows.push_back(key_of(key));
  EXPECT_TRUE(stopped(later).empty()) << "the same sender has begun another";
}

TEST_F(Measuring, AFlowThatHadEndedBeforeIsNotExpectedAgain) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  EXPECT_EQ(measure({}).steady.size(), 1U);
  for (int i = 0; i < 9; ++i)
    report(0);
  EXPECT_TRUE(measure({}).steady.empty()) << "silent for more than two periods";
}

TEST_F(Measuring, AFlowThatNeverPausesIsSteadyOnceItWasThereAllTheTime) {
  report(250'000);
  const Time since = now;
  for (int i = 0; i < 20; ++i)
    report(250'000);
  EXPECT_EQ(measure(since).steady.size(), 1U);
  EXPECT_EQ(measure(since).steady[0].period, Duration(0s));
  EXPECT_TRUE(measure({}).steady.empty()) << "it began after that";
}

// Its queue pair is there, so it may be silent, as its leaf sees.
TEST_F(Measuring, AQueuePairThatIsThereIsNoFlowThatSends) {
  iteration(500'000);
  const Time change = now;
  FlowDelta there = delta(key, 0);
  there.unobservable = true;
  now += 100ms;
  table.add("h1-1", report_of(++number, now - 100ms, 100ms, {there}), now);
  EXPECT_FALSE(measure(change).sent);
}

// A host that reports its ports' errors once a second.
class MeasuringErrors : public ::testing::Test {
 protected:
  void counted(std::vector<PortCount> counts, std::vector<PortCount> of_second_port = {}) {
    now += 1s;
    Report report;
    report.length = 1s;
    report.rdma_ports = {
        {.device = "mlx5_0", .port = 1, .netdev = "", .counts = std::move(counts)},
        {.device = "mlx5_1", .port = 1, .netdev = "", .counts = std::move(of_second_port)}};
    watch.add("h1-1", report, now);
  }
  Measures measured(Time since) const {
    return {.jobs = {}, .hosts = {{"h1-1", watch.rates("h1-1", since, now)}}};
  }
  Gate judge(const Measures& before, Time since) const {
    return gate(judge_traffic({}, before, measured(since)), "retransmissions");
  }
  ErrorWatch watch;
  Time now{1000s};
};

TEST_F(MeasuringErrors, RatesAreOfTheTimeSinceAndUnknownWithoutCounters) {
  counted({{.name = "timeouts", .value = 100}});
  const Time since = now;
  counted({{.name = "timeouts", .value = 3}, {.name = "sequence_errors", .value = 1}});
  counted({{.name = "timeouts", .value = 0}, {.name = "tx_bytes", .value = 9}});
  EXPECT_EQ(watch.rates("h1-1", since, now).retransmissions, 2.0);
  EXPECT_EQ(watch.rates("h1-1", since, now).out_of_sequence, std::nullopt);
  EXPECT_EQ(watch.rates("h1-2", since, now), ErrorRates{});
}

// Its agent dies in the tenth second of an hour: what it said until then is not of the rest.
TEST_F(MeasuringErrors, SafetyRule7AHostThatIsNotHeardAnyMoreIsNotGood) {
  const PortCount none{.name = "timeouts", .value = 0};
  counted({none});
  const Measures before = measured({});
  const Time wave = now;
  for (int i = 0; i < 10; ++i)
    counted({none});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::good);
  now += 3s;
  EXPECT_EQ(judge(before, wave).verdict, Verdict::good) << "three reports may be late or lost";
  now += 1s;
  EXPECT_EQ(judge(before, wave).verdict, Verdict::unobservable);
  counted({none});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::good) << "it is back";
  for (int i = 0; i < 4; ++i)
    counted({});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::unobservable) << "it reports, and counts nothing";
}

// Ports that are read every ten seconds, by an agent that reports each second.
TEST_F(MeasuringErrors, CountersThatAreReadSeldomAreWaitedFor) {
  const auto read = [&] {
    now += 1s;
    Report report;
    report.length = 1s;
    report.rdma_ports = {{.device = "mlx5_0",
                          .port = 1,
                          .netdev = "",
                          .counts = {{.name = "timeouts", .value = 20}},
                          .length = 10s}};
    watch.add("h1-1", report, now);
  };
  read();
  for (int i = 0; i < 9; ++i) {
    counted({});
    EXPECT_EQ(watch.rates("h1-1", {}, now).retransmissions, 2.0);
  }
}

TEST_F(MeasuringErrors, SafetyRule7APortThatCannotBeReadAnyMoreIsNotZero) {
  const PortCount none{.name = "timeouts", .value = 0};
  counted({none}, {none});
  const Measures before = measured({});
  const Time wave = now;
  counted({none}, {none});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::good);
  counted({none});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::unobservable);
  EXPECT_THAT(judge(before, wave).seen, HasSubstr("h1-1, of which 1 of 2 counters can be read"));
  counted({{.name = "timeouts", .value = 40}});
  EXPECT_EQ(judge(before, wave).verdict, Verdict::bad) << "what the other counts is bad enough";
}

}  // namespace
}  // namespace heddle::testing
