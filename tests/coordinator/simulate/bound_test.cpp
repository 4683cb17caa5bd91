#include "coordinator/simulate/bound.h"

#include <gtest/gtest.h>

#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

Topology four_by_four() {
  FabricSpec spec;
  spec.leaves = spec.nics_per_leaf = spec.uplinks = 4;
  return sim::testing::fabric(spec);
}

// Every NIC of leaf 1 sends to its counterpart on leaf 2, in one phase.
Problem shifted(const Topology& topology, const LinkState& links) {
  Problem problem;
  problem.topology = &topology;
  problem.links = &links;
  problem.demand.jobs = {{.name = "job"}};
  for (std::uint32_t n = 0; n < 4; ++n)
    problem.demand.flows.push_back({.job = {0}, .source = {n}, .destination = {n + 4}});
  return problem;
}

TEST(Bound, FourFlowsOnThreeSpinesLeaveOneHalf) {
  const Topology topology = four_by_four();
  LinkState links(topology);
  for (const CableId cable : failed_cables(topology, {.spines = 1}))
    links.set(topology, cable, false);
  const Bound bound = bound_of(shifted(topology, links), BoundEffort::linear);
  EXPECT_EQ(bound.max_on_link, 2U);
  EXPECT_DOUBLE_EQ(bound.efficiency, 0.5);
  EXPECT_NEAR(bound.linear, 0.75, 1e-9);  // if they could split
}

// Two flows of a second phase that nothing hinders: ideal 1 + 1, at best 2 + 1.
TEST(Bound, AJobOfTwoPhasesLosesInOneOfThemOnly) {
  const Topology topology = four_by_four();
  LinkState links(topology);
  for (const CableId cable : failed_cables(topology, {.spines = 1}))
    links.set(topology, cable, false);
  Problem problem = shifted(topology, links);
  problem.demand.jobs[0].phases = 2;
  problem.demand.flows.push_back({.job = {0}, .phase = 1, .source = {8}, .destination = {12}});
  const Bound bound = bound_of(problem, BoundEffort::combinatorial);
  EXPECT_NEAR(bound.efficiency, 2.0 / 3.0, 1e-9);
  const Routing routing = make_optimiser("greedy")->place(problem, 1).routing;
  EXPECT_LE(evaluate(topology, links, problem.demand, routing).worst, bound.efficiency + 1e-9);
}

// Both phases cross three spines with four flows: alone or together, a half.
TEST(Bound, AJobThatLosesInBothPhasesLosesAsMuch) {
  const Topology topology = four_by_four();
  LinkState links(topology);
  for (const CableId cable : failed_cables(topology, {.spines = 1}))
    links.set(topology, cable, false);
  Problem problem = shifted(topology, links);
  problem.demand.jobs[0].phases = 2;
  for (std::uint32_t n = 8; n < 12; ++n)
    problem.demand.flows.push_back(
        {.job = {0}, .phase = 1, .source = {n}, .destination = {n + 4}, .weight = 0.5});
  EXPECT_NEAR(bound_of(problem, BoundEffort::combinatorial).efficiency, 0.5, 1e-9);
}

TEST(Bound, IsNothingForAFlowThatIsCutOff) {
  const Topology topology = four_by_four();
  LinkState links(topology);
  for (const CableId cable : topology.leaves()[0].cables)
    links.set(topology, cable, false);
  EXPECT_EQ(bound_of(shifted(topology, links), BoundEffort::linear).efficiency, 0.0);
}

// No scheme is above the bound, whatever fails.
TEST(Bound, HoldsOnRandomFailures) {
  const Topology topology = four_by_four();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    LinkState links(topology);
    for (const CableId cable : failed_cables(topology, {.links = 0.2, .seed = seed}))
      links.set(topology, cable, false);
    const Problem problem = shifted(topology, links);
    const Bound bound = bound_of(problem, BoundEffort::linear);
    for (const std::string_view scheme : {"ecmp", "greedy", "heddle"}) {
      const Routing routing = make_optimiser(scheme)->place(problem, seed).routing;
      const Efficiency reached = evaluate(topology, links, problem.demand, routing);
      EXPECT_LE(reached.worst, bound.efficiency + 1e-9) << scheme;
      EXPECT_GE(reached.max_on_link, bound.max_on_link) << scheme;
    }
  }
}

}  // namespace
}  // namespace heddle::sim
