// How much moves, and when: budget, dwell, quiet times.
#include "coordinator/decide/churn.h"

#include <gtest/gtest.h>

#include "coordinator/decide/quiet.h"
#include "tests/coordinator/small_fabric.h"

namespace heddle::testing {
namespace {

using namespace std::chrono_literals;

// Two leaves, four spines, four hosts a leaf; every host of leaf 1 sends to its peer of leaf 2, and
// all four flows run by spine 1.
class Churn : public ::testing::Test {
 protected:
  Churn() : topology(small_fabric(2, 4, 4)), links(topology) {
    planning.problem.topology = &topology;
    planning.problem.links = &links;
    planning.problem.demand.jobs = {{.name = "job"}};
    for (int h = 1; h <= 4; ++h) {
      const auto number = static_cast<std::uint32_t>(h - 1);
      planning.problem.demand.flows.push_back({.job = {0},
                                               .phase = 0,
                                               .source = *topology.find_nic(address(1, h)),
                                               .destination = *topology.find_nic(address(2, h))});
      planning.problem.current.push_back(path(h, 1));
      planning.problem.fixed.push_back(false);
      planning.problem.unit_of_subflow.push_back(number);
      planning.flow_of.push_back(number);
      planning.subflow_of.push_back(0);
      planning.units.push_back(
          {.node = *topology.find_leaf("leaf1"),
           .to = *topology.find_leaf("leaf2"),
           .steering = ByPortAndDestination{fmt::format("p{}", h), address(2, h)},
           .pinnable = true,
           .pinned = true,
           .subflows = {number}});
    }
  }
  Path path(int host, int spine) const {
    const auto entry = topology[*topology.find_nic(address(1, host))].attachments.front();
    const auto exit = topology[*topology.find_nic(address(2, host))].attachments.front();
    return path_through(
        topology, entry,
        *topology.cable_at(*topology.find_leaf("leaf1"), fmt::format("up{}", spine)), exit);
  }
  Candidate candidate(std::vector<int> spines) const {
    Candidate made{.scheme = "heddle", .routing = {}};
    for (int h = 1; h <= 4; ++h)
      made.routing.push_back(path(h, spines[static_cast<std::size_t>(h - 1)]));
    made.efficiency = evaluate(topology, links, planning.problem.demand, made.routing);
    made.moves = voluntary_moves(planning, made.routing);
    return made;
  }

  Topology topology;
  LinkState links;
  PlanningProblem planning;
};

// Four flows share one uplink: each gets a quarter. With two of them gone the others get a half.
TEST_F(Churn, ABudgetTakesTheFirstStepOfTheWay) {
  const Candidate stay = candidate({1, 1, 1, 1});
  const Candidate goal = candidate({1, 2, 3, 4});
  ASSERT_EQ(goal.moves, 3U);
  const auto step = step_towards(planning, goal, stay, 2);
  ASSERT_TRUE(step);
  EXPECT_EQ(voluntary_moves(planning, step->routing), 2U);
  EXPECT_EQ(step->moves, 2U);
  EXPECT_DOUBLE_EQ(step->efficiency.worst, 0.5);
}

TEST_F(Churn, AStepThatWouldBeWorseThanNoneIsNotTaken) {
  // As if nothing could be better than what is.
  Candidate stay = candidate({1, 1, 1, 1});
  stay.efficiency.ascending = {0.9};
  EXPECT_FALSE(step_towards(planning, candidate({1, 2, 3, 4}), stay, 1));
}

TEST_F(Churn, ADeadLinkIsLeftWhateverTheBudget) {
  links.set(topology, planning.problem.current[0].up, false);
  const Candidate goal = candidate({2, 3, 4, 2});
  EXPECT_EQ(voluntary_moves(planning, goal.routing), 0U);
  const auto step = step_towards(planning, goal, candidate({1, 1, 1, 1}), 1);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->routing, goal.routing);
}

TEST_F(Churn, WhatWasMovedDwellsThereUntilItsTimeIsOver) {
  Dwell dwell(10s);
  const Time now{100s};
  const Candidate moved = candidate({1, 2, 1, 1});
  dwell.moved(planning, moved.routing, now);
  planning.problem.current = moved.routing;
  EXPECT_EQ(dwell.hold(planning, now + 9999ms), 1U);
  EXPECT_EQ(planning.problem.fixed, (std::vector<bool>{false, true, false, false}));
  planning.problem.fixed.assign(4, false);
  EXPECT_EQ(dwell.hold(planning, now + 10s), 0U);
  EXPECT_EQ(planning.problem.fixed, std::vector<bool>(4, false));
}

TEST_F(Churn, DwellingOnADeadLinkIsOver) {
  Dwell dwell(10s);
  const Candidate moved = candidate({1, 2, 1, 1});
  dwell.moved(planning, moved.routing, Time{100s});
  planning.problem.current = moved.routing;
  links.set(topology, moved.routing[1].up, false);
  EXPECT_EQ(dwell.hold(planning, Time{101s}), 0U);
}

// A flow that sends for 2 s and is silent for 1 s, reported every 500 ms.
class QuietTimes : public Churn {
 protected:
  void report(bool sends, Duration interval = 500ms) {
    now += interval;
    std::vector<FlowDelta> seen;
    if (sends)
      seen.push_back(delta(wire_key(address(1, 1), address(2, 1)), 1'000'000));
    table.add("h1-1", report_of(++number, now - interval, interval, std::move(seen)), now);
  }
  void iterations(int count) {
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < 6; ++k)
        report(k < 4);
  }
  Quiet look(Duration needed) const {
    const FlowKey key = key_of(wire_key(address(1, 1), address(2, 1)));
    return look_for_quiet(table, std::vector{key}, now, needed);
  }
  FlowTable table{topology, {.elephant_rate = Rate{1e6}, .memory = 30s}};
  Time now{1000s};
  std::uint64_t number{};
};

TEST_F(QuietTimes, AreWhenAPeriodicFlowIsSilentForLongEnough) {
  iterations(6);
  // The burst began 3 s ago, so the next is due now.
  EXPECT_EQ(look(50ms).periodic, 1U);
  EXPECT_EQ(look(50ms).longest_period, Duration(3s));
  EXPECT_FALSE(look(50ms).now()) << "the next burst is due";
  report(true);
  EXPECT_FALSE(look(50ms).now()) << "it sends";
  for (int k = 1; k < 4; ++k)
    report(true);
  EXPECT_FALSE(look(50ms).now());
  report(false);
  EXPECT_TRUE(look(50ms).now()) << "silent, and 500 ms to the next burst";
  EXPECT_FALSE(look(600ms).now());
}

TEST_F(QuietTimes, AFlowWithoutAPeriodHoldsNothingBack) {
  for (int i = 0; i < 20; ++i)
    report(true);
  EXPECT_EQ(look(50ms).periodic, 0U);
  EXPECT_TRUE(look(50ms).now());
}

TEST_F(QuietTimes, MovingFlowsAreThoseWhoseUplinkChanges) {
  Prediction prediction;
  for (int h = 1; h <= 4; ++h)
    prediction.flows.push_back({.subflows = {key_of(wire_key(address(1, h), address(2, h)))},
                                .observed = {CableId{}},
                                .entry = {}});
  const auto keys = moving_flows(planning, prediction, candidate({1, 2, 1, 3}).routing);
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].source, address(1, 2));
  EXPECT_EQ(keys[1].source, address(1, 4));
}

}  // namespace
}  // namespace heddle::testing
