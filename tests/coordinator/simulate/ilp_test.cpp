#include "coordinator/simulate/ilp.h"

#include <gtest/gtest.h>

#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;

// Two proofs of one number: the integer program's and edge colouring's, ceil(D/m).
TEST(Ilp, AgreesWithEdgeColouringOnTheLeastMaximum) {
  constexpr std::uint64_t kSeed = 21;
  std::mt19937_64 random(kSeed);
  for (int instance = 0; instance < 12; ++instance) {
    const auto spines = static_cast<std::uint32_t>(2 + random() % 4);
    const Topology fabric = make_fabric({.leaves = 4, .spines = spines, .nics = 6});
    const LinkState links(fabric);
    const Problem problem = problem_of(fabric, links, random_flows(fabric, random, 30));
    const Placement placement = make_ilp()->place(problem, 1);
    ASSERT_TRUE(placement.proven) << "seed " << kSeed << " instance " << instance;
    const std::uint32_t d = core_degree(fabric, problem.demand);
    ASSERT_EQ(evaluate(fabric, links, problem.demand, placement.routing).max_on_link,
              (d + spines - 1) / spines)
        << "seed " << kSeed << " instance " << instance;
  }
}

// Leaf 1 has one of two uplinks: all three flows must share it, and fixed ones count.
TEST(Ilp, CountsFixedFlowsAndUsesOnlyLiveLinks) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 2, .nics = 3});
  LinkState links(fabric);
  Problem problem =
      problem_of(fabric, links, demand_of({flow(0, 0, 3), flow(0, 1, 4), flow(0, 2, 5)}));
  problem.current = make_ilp()->place(problem, 1).routing;
  problem.fixed = {true, false, false};
  links.set(fabric.uplink(fabric.cables_between(LeafId{0}, SpineId{1}).front()), false);
  const Placement placement = make_ilp()->place(problem, 1);
  EXPECT_TRUE(placement.proven);
  EXPECT_EQ(placement.routing[0], problem.current[0]);
  EXPECT_EQ(to_string(fabric, placement.routing[1]), "spine1");
  EXPECT_EQ(to_string(fabric, placement.routing[2]), "spine1");
}

// Flows between the same leaves are one group in the program, but each keeps its own NICs.
TEST(Ilp, EveryPathBeginsAndEndsAtItsFlowsNics) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 3, .nics = 3});
  const LinkState links(fabric);
  const Problem problem =
      problem_of(fabric, links, demand_of({flow(0, 0, 3), flow(0, 1, 4), flow(0, 2, 5)}));
  const Placement placement = make_ilp()->place(problem, 1);
  for (std::uint32_t f = 0; f < 3; ++f) {
    EXPECT_EQ(fabric[placement.routing[f].from].nic, problem.demand.flows[f].source);
    EXPECT_EQ(fabric[placement.routing[f].to].nic, problem.demand.flows[f].destination);
  }
  EXPECT_DOUBLE_EQ(evaluate(fabric, links, problem.demand, placement.routing).worst, 1.0);
}

TEST(Ilp, IsFoundBesideTheCoresSchemes) {
  for (const std::string_view name : scheme_names())
    EXPECT_EQ(make_scheme(name)->name(), name);
  EXPECT_EQ(make_scheme("best"), nullptr);
}

}  // namespace
}  // namespace heddle
