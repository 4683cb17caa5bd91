// What gates compare: jobs and errors as they are measured from reports.
#include "coordinator/decide/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "coordinator/decide/gates.h"
#include "tests/coordinator/small_fabric.h"

namespace heddle::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

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
    return measure_jobs(table, prediction, std::vector{80e6}, watch(since)).at("job");
  }
  Watch watch(Time since) const { return {.since = since, .now = now, .patience = 3s}; }
  // What the gate says of the job, as it was and as it is by what the table has.
  Gate judge(const std::map<std::string, JobMeasure>& was, Time since) const {
    Measures before;
    before.jobs = was;
    Measures seen;
    seen.jobs = measure_jobs(table, prediction, std::vector{80e6}, watch(since));
    seen.remains = remains_of(table, prediction, was, watch(since));
    seen.unheard = unheard_of(table, was, watch(since));
    return judge_presence(before, seen, now - since, 3s);
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
    return remains_of(table, prediction, before, watch(since))["job"].stopped;
  };
  const Time change = now;
  EXPECT_EQ(stopped(change).size(), 1U) << "nothing is seen yet";
  iteration(500'000);
  EXPECT_TRUE(stopped(change).empty());
  EXPECT_EQ(remains_of(table, prediction, before, watch(change))["job"].going, 1U);
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

// A soak goes on for long after the job has been seen. It comes every 500 ms, and patience is 3 s.
TEST_F(Measuring, SafetyRule11AJobThatStopsInTheMiddleOfASoakHasStopped) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const std::map<std::string, JobMeasure> before{{"job", measure({})}};
  const Time soak = now;
  for (int i = 0; i < 20; ++i) {
    iteration(500'000);
    EXPECT_EQ(judge(before, soak).verdict, Verdict::good) << i;
  }
  for (int i = 0; i < 29; ++i) {
    report(0);
    EXPECT_EQ(judge(before, soak).verdict, Verdict::good) << "it may be pausing: " << i;
  }
  report(0);
  EXPECT_EQ(judge(before, soak).verdict, Verdict::bad) << judge(before, soak).seen;
  table.age(now + 40s);
  ASSERT_TRUE(table.subflows().empty());
  EXPECT_EQ(judge(before, soak).verdict, Verdict::bad) << "whether its row is there or not";
  iteration(500'000);
  EXPECT_EQ(judge(before, soak).verdict, Verdict::good) << "it goes on";
}

// Iterations of 10 s: longer than the least patience.
TEST_F(Measuring, APauseBetweenTwoIterationsIsNoStop) {
  const auto long_iteration = [&](const std::function<void()>& look) {
    for (int i = 0; i < 100; ++i) {
      report(i < 10 ? 500'000 : 0);
      look();
    }
  };
  for (int i = 0; i < 6; ++i)
    long_iteration([] {});
  const std::map<std::string, JobMeasure> before{{"job", measure(now - 60s)}};
  ASSERT_EQ(before.at("job").steady.at(0).period, Duration(10s));
  const Time soak = now;
  for (int i = 0; i < 3; ++i)
    long_iteration([&] {
      if (now - soak > 1s) {
        EXPECT_EQ(judge(before, soak).verdict, Verdict::good) << judge(before, soak).seen;
      }
    });
}

// RDMA hardware that counts no queue pair: its host says that it is there, a leaf sees what it
// sends. Then it hangs.
TEST_F(Measuring, SafetyRule11AQueuePairThatIsThereAndSendsNothingHasStopped) {
  FlowDelta there = delta(key, 0);
  there.unobservable = true;
  const auto both = [&](std::uint64_t bytes) {
    now += 100ms;
    table.add("h1-1", report_of(++number, now - 100ms, 100ms, {there}), now);
    std::vector<FlowDelta> sampled;
    if (bytes > 0)
      sampled.push_back(delta(key, bytes));
    table.add("leaf1", report_of(number, now - 100ms, 100ms, std::move(sampled)), now);
    table.age(now);
  };
  both(250'000);
  const Time baseline = now;
  for (int i = 0; i < 20; ++i)
    both(250'000);
  const std::map<std::string, JobMeasure> before{{"job", measure(baseline)}};
  ASSERT_EQ(before.at("job").steady.at(0).seen_by, "leaf1");
  const Time soak = now;
  for (int i = 0; i < 50; ++i)
    both(250'000);
  EXPECT_EQ(judge(before, soak).verdict, Verdict::good);
  for (int i = 0; i < 32; ++i)
    both(0);
  EXPECT_EQ(judge(before, soak).verdict, Verdict::bad) << judge(before, soak).seen;
  EXPECT_EQ(table.subflows().size(), 1U);
}

// Nothing is seen of it, by nobody who could.
TEST_F(Measuring, SafetyRule7WhatNobodyCanCountHasNotStopped) {
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  const std::map<std::string, JobMeasure> before{{"job", measure({})}};
  const Time soak = now;
  for (int i = 0; i < 6; ++i)
    iteration(500'000);
  FlowDelta there = delta(key, 0);
  there.unobservable = true;
  for (int i = 0; i < 60; ++i) {
    now += 100ms;
    table.add("h1-1", report_of(++number, now - 100ms, 100ms, {there}), now);
  }
  EXPECT_EQ(judge(before, soak).verdict, Verdict::unobservable) << judge(before, soak).seen;
  EXPECT_THAT(judge(before, soak).seen, HasSubstr("nobody can count"));
  iteration(500'000);
  EXPECT_EQ(judge(before, soak).verdict, Verdict::good);
}

// Its agent is there, and its reports say that it could not look; or it is not there for a while.
// What the job sent meanwhile nobody knows, also while it pauses just after that.
TEST_F(Measuring, SafetyRule7WhatNobodyLookedAtHasNotStopped) {
  for (const bool says_so : {true, false}) {
    for (int i = 0; i < 6; ++i)
      iteration(500'000);
    const std::map<std::string, JobMeasure> before{{"job", measure(now - 3s)}};
    const Time soak = now;
    for (int i = 0; i < 6; ++i)
      iteration(500'000);
    for (int i = 0; i < 60; ++i) {
      now += 100ms;
      Report blind = report_of(number + 1, now - 100ms, 100ms, {});
      blind.gap = true;
      if (says_so) {
        ++number;
        table.add("h1-1", blind, now);
      }
    }
    EXPECT_EQ(judge(before, soak).verdict, Verdict::unobservable) << judge(before, soak).seen;
    for (int i = 0; i < 29; ++i) {
      report(0);
      EXPECT_EQ(judge(before, soak).verdict, Verdict::unobservable) << judge(before, soak).seen;
    }
    report(0);
    EXPECT_EQ(judge(before, soak).verdict, Verdict::bad) << "it was looked for long enough";
  }
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
    const std::vector<Gate> gates = judge_traffic({}, before, measured(since));
    return *std::ranges::find(gates, "retransmissions", &Gate::name);
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
