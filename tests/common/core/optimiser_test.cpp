#include "common/core/optimiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Placement place(std::string_view scheme, const Problem& problem, std::uint64_t seed = 1) {
  return make_optimiser(scheme)->place(problem, seed);
}

Efficiency judge(const Problem& problem, const Routing& routing) {
  return evaluate(*problem.topology, *problem.links, problem.demand, routing, problem.residual);
}

std::vector<std::string> spines_of(const Problem& problem, const Routing& routing) {
  std::vector<std::string> names;
  for (const Path& path : routing)
    names.push_back(to_string(*problem.topology, path));
  return names;
}

// What holds for every placement of every scheme: subflows run from their source to their
// destination over live links that are not forbidden; fixed ones stay.
void expect_valid(const Problem& problem, const Routing& routing) {
  const Topology& fabric = *problem.topology;
  const LinkState& links = *problem.links;
  ASSERT_EQ(routing.size(), problem.demand.subflow_count());
  std::size_t s = 0;
  for (const FlowDemand& flow : problem.demand.flows) {
    for (std::uint32_t q = 0; q < flow.subflows; ++q, ++s) {
      const Path& path = routing[s];
      if (!problem.fixed.empty() && problem.fixed[s]) {
        ASSERT_EQ(path, problem.current[s]);
        continue;
      }
      if (!path.routable())
        continue;
      ASSERT_EQ(fabric[path.from].nic, flow.source);
      ASSERT_EQ(fabric[path.to].nic, flow.destination);
      if (!path.crosses_core()) {
        ASSERT_EQ(fabric[path.from].leaf, fabric[path.to].leaf);
        continue;
      }
      ASSERT_EQ(fabric[path.up].leaf, fabric[path.from].leaf);
      ASSERT_TRUE(links.up(fabric.uplink(path.up)));
      const auto downs = fabric.cables_between(fabric[path.to].leaf, fabric[path.up].spine);
      ASSERT_TRUE(std::ranges::any_of(downs, [&](CableId c) {
        return (!path.down.valid() || path.down == c) && links.up(fabric.downlink(c));
      }));
      ASSERT_THAT(problem.forbidden, ::testing::Not(Contains(Forbidden{
                                         fabric[path.from].leaf, fabric[path.to].leaf, path.up})));
    }
  }
}

TEST(Optimiser, IsFoundByItsName) {
  for (const std::string_view name : optimiser_names())
    EXPECT_EQ(make_optimiser(name)->name(), name);
  EXPECT_EQ(make_optimiser("best"), nullptr);
}

// Leaf 1 has three units, so its set comes first; each takes the first spine whose emptier link is
// least busy. Then leaf 2's flow to leaf 3 finds spine 1 and 2 busy downwards with one each, spine
// 3 not.
TEST(Greedy, PlacesTheLargestSetFirstOnTheLeastBusySpine) {
  const Topology fabric = make_fabric({.leaves = 3, .spines = 3, .nics = 4});
  const LinkState links(fabric);
  const Problem problem = problem_of(
      fabric, links, demand_of({flow(1, 4, 8), flow(0, 0, 9), flow(0, 1, 10), flow(0, 2, 5)}));
  EXPECT_THAT(spines_of(problem, place("greedy", problem).routing),
              ElementsAre("spine3", "spine1", "spine2", "spine3"));
}

// Leaf 1 sends 2 and leaf 2 receives 2: the outgoing set goes first, although leaf 3's incoming one
// is as large.
TEST(Greedy, BreaksTiesByOutgoingThenByLeaf) {
  const Topology fabric = make_fabric({.leaves = 4, .spines = 2, .nics = 2});
  const LinkState links(fabric);
  const Problem problem =
      problem_of(fabric, links, demand_of({flow(0, 6, 4), flow(0, 0, 5), flow(0, 1, 2)}));
  EXPECT_THAT(spines_of(problem, place("greedy", problem).routing),
              ElementsAre("spine2", "spine1", "spine2"));
}

// What its proof promises, whatever the order: floor((D_i + D_j - 2) / m) + 1, and so at most 2
// ceil(D / m).
TEST(Greedy, KeepsItsBoundOn3000RandomInstances) {
  constexpr std::uint64_t kSeed = 3000;
  std::mt19937_64 random(kSeed);
  const auto from = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random() % (high - low + 1));
  };
  for (int instance = 0; instance < 3000; ++instance) {
    const Topology fabric =
        make_fabric({.leaves = from(2, 8), .spines = from(1, 9), .nics = from(1, 6)});
    const LinkState links(fabric);
    const Problem problem = problem_of(fabric, links, random_flows(fabric, random, from(1, 80), 3));
    const Routing routing = place("greedy", problem).routing;
    const auto m = static_cast<std::uint32_t>(fabric.spines().size());
    const std::uint32_t d = core_degree(fabric, problem.demand);
    if (d == 0)
      continue;
    ASSERT_LE(judge(problem, routing).max_on_link, 2 * ((d + m - 1) / m))
        << "seed " << kSeed << " instance " << instance;
    std::vector<std::uint32_t> out(fabric.leaves().size(), 0), in(out),
        load(fabric.link_count(), 0);
    const auto leaf = [&](NicId nic) { return fabric[fabric[nic].attachments[0]].leaf.value; };
    for (std::size_t f = 0; f < routing.size(); ++f)
      if (routing[f].crosses_core()) {
        ++out[leaf(problem.demand.flows[f].source)];
        ++in[leaf(problem.demand.flows[f].destination)];
        ++load[fabric.uplink(routing[f].up).value];
        ++load[fabric.downlink(routing[f].down).value];
      }
    for (std::size_t f = 0; f < routing.size(); ++f)
      if (routing[f].crosses_core()) {
        const std::uint32_t both = out[leaf(problem.demand.flows[f].source)] +
                                   in[leaf(problem.demand.flows[f].destination)];
        const std::uint32_t emptier = std::min(load[fabric.uplink(routing[f].up).value],
                                               load[fabric.downlink(routing[f].down).value]);
        ASSERT_LE(emptier, (both - 2) / m + 1) << "seed " << kSeed << " instance " << instance;
      }
  }
}

// ceil(qD/m), also where m is no power of two and where qD is more than m.
TEST(EdgeColouring, PutsNoMoreOnALinkThanItMust) {
  constexpr std::uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  for (int instance = 0; instance < 500; ++instance) {
    const auto m = static_cast<std::uint32_t>(1 + instance % 33);
    const auto q = static_cast<std::uint32_t>(1 + random() % 4);
    const Topology fabric = make_fabric({.leaves = static_cast<std::uint32_t>(2 + random() % 10),
                                         .spines = m,
                                         .nics = static_cast<std::uint32_t>(1 + random() % 12)});
    const LinkState links(fabric);
    Problem problem =
        problem_of(fabric, links, random_flows(fabric, random, 1 + random() % 150, 1, q));
    problem.unit_of_subflow = by_queue_pair(problem.demand);
    const Placement placement = place("edge-colouring", problem);
    const std::uint32_t d = core_degree(fabric, problem.demand);
    ASSERT_EQ(judge(problem, placement.routing).max_on_link, (d + m - 1) / m)
        << "seed " << kSeed << " instance " << instance;
    ASSERT_TRUE(placement.proven);
    expect_valid(problem, placement.routing);
  }
}

// 32 flows a leaf: 31 live spines must carry 2 somewhere, 16 carry 2 everywhere, of 32 spines each
// carries 1.
TEST(EdgeColouring, ColoursOverLiveSpines) {
  std::mt19937_64 random(5);
  const Topology fabric = make_fabric({.leaves = 8, .spines = 32, .nics = 32});
  const Demand demand = permutation(fabric, random);
  const std::uint32_t d = core_degree(fabric, demand);
  for (const std::uint32_t down : {0U, 1U, 3U, 4U, 8U, 16U, 31U}) {
    LinkState links(fabric);
    for (std::uint32_t s = 32 - down; s < 32; ++s)
      for (const CableId cable : fabric[SpineId{s}].cables)
        links.set(fabric, cable, false);
    const Problem problem = problem_of(fabric, links, demand);
    const Placement placement = place("edge-colouring", problem);
    const std::uint32_t m = 32 - down;
    EXPECT_EQ(judge(problem, placement.routing).max_on_link, (d + m - 1) / m) << down << " down";
    EXPECT_TRUE(placement.proven);
    expect_valid(problem, placement.routing);
  }
}

TEST(EdgeColouring, UsesParallelCablesAsSpinesOfTheirOwn) {
  std::mt19937_64 random(6);
  const Topology fabric = make_fabric({.leaves = 6, .spines = 4, .nics = 8, .cables = 2});
  const LinkState links(fabric);
  const Problem problem = problem_of(fabric, links, permutation(fabric, random));
  EXPECT_EQ(judge(problem, place("edge-colouring", problem).routing).max_on_link, 1U);
}

// By random failures, forbidden paths, fixed flows and units: whatever the scheme, nothing runs
// where it must not, and units stay together.
TEST(Optimiser, NeverUsesADeadOrForbiddenPathAndKeepsUnitsTogether) {
  constexpr std::uint64_t kSeed = 17;
  std::mt19937_64 random(kSeed);
  for (int instance = 0; instance < 200; ++instance) {
    const Topology fabric =
        make_fabric({.leaves = 5, .spines = 4, .nics = 4, .cables = 1 + instance % 2U});
    LinkState links(fabric);
    for (std::uint32_t c = 0; c < fabric.cables().size(); ++c) {
      if (random() % 4 == 0)
        links.set(fabric.uplink(CableId{c}), false);
      if (random() % 4 == 0)
        links.set(fabric.downlink(CableId{c}), false);
    }
    Problem problem = problem_of(fabric, links, random_flows(fabric, random, 60, 4, 2));
    for (std::uint32_t from = 0; from < 5; ++from)
      for (std::uint32_t to = 0; to < 5; ++to)
        for (const CableId up : fabric[LeafId{from}].cables)
          if (from != to && random() % 10 == 0)
            problem.forbidden.push_back({{from}, {to}, up});
    std::ranges::sort(problem.forbidden);
    problem.current = place("ecmp", problem, random()).routing;
    expect_valid(problem, problem.current);
    problem.fixed.resize(problem.current.size());
    for (std::size_t s = 0; s < problem.fixed.size(); ++s)
      problem.fixed[s] = random() % 5 == 0;
    for (const std::string_view scheme : optimiser_names()) {
      SCOPED_TRACE(fmt::format("seed {} instance {} scheme {}", kSeed, instance, scheme));
      const Placement placement = place(scheme, problem, random());
      expect_valid(problem, placement.routing);
      for (std::size_t f = 0; scheme != "ecmp" && f < problem.demand.flows.size(); ++f) {
        if (!problem.fixed[2 * f] && !problem.fixed[2 * f + 1]) {
          ASSERT_EQ(placement.routing[2 * f], placement.routing[2 * f + 1]);
        }
      }
      for (const Move& move : placement.moves) {
        ASSERT_FALSE(move.reason.empty());
        ASSERT_FALSE(move.from.up == move.to.up);
      }
    }
  }
}

TEST(Optimiser, SaysWhyAFlowHasNoPathAndPlacesTheRest) {
  const Topology fabric = make_fabric({.leaves = 3, .spines = 2, .nics = 2});
  LinkState links(fabric);
  for (const CableId cable : fabric[LeafId{1}].cables)
    links.set(fabric, cable, false);
  const double infinite = std::numeric_limits<double>::infinity();
  const Problem problem = problem_of(
      fabric, links,
      demand_of({flow(0, 2, 0), flow(0, 0, 2), flow(1, 4, 4), flow(1, 99, 0), flow(2, 0, 4),
                 flow(2, 2, 3), flow(3, 0, 4, 0.0), flow(3, 1, 5, infinite)}));
  for (const std::string_view scheme : optimiser_names()) {
    SCOPED_TRACE(scheme);
    const Placement placement = place(scheme, problem);
    EXPECT_THAT(placement.notes, ::testing::UnorderedElementsAre(
                                     "leaf2 has no live uplink", "no live path from leaf1 to leaf2",
                                     "h3-1/eth0 sends to itself",
                                     "a NIC that the fabric does not have is in no leaf",
                                     HasSubstr("h1-1/eth0 > h3-1/eth0 has the weight 0"),
                                     HasSubstr("h1-2/eth0 > h3-2/eth0 has the weight inf")));
    EXPECT_TRUE(placement.routing[4].routable());
    EXPECT_EQ(to_string(fabric, placement.routing[5]), "local");
    EXPECT_THAT(judge(problem, placement.routing).by_job, ElementsAre(0.0, 0.0, 1.0, 1.0));
  }
}

// All queue pairs of the flows to NIC 4 are one unit, as with steering by destination.
TEST(Optimiser, PlacesByDestinationWhereThatIsTheUnit) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 4, .nics = 4});
  const LinkState links(fabric);
  Problem problem = problem_of(
      fabric, links, demand_of({flow(0, 0, 4), flow(0, 1, 4), flow(1, 2, 5), flow(1, 3, 6)}));
  problem.unit_of_subflow = {4, 4, 5, 6};
  for (const std::string_view scheme : {"greedy", "edge-colouring"}) {
    const Routing routing = place(scheme, problem).routing;
    EXPECT_EQ(routing[0].up, routing[1].up) << scheme;
    EXPECT_EQ((std::set{routing[0].up, routing[2].up, routing[3].up}).size(), 3U) << scheme;
    EXPECT_EQ(problem.topology->nics()[0].attachments[0], routing[0].from);
    EXPECT_EQ(problem.topology->nics()[1].attachments[0], routing[1].from);
  }
}

TEST(Optimiser, CountsFixedFlowsAsLoad) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 2, .nics = 2});
  const LinkState links(fabric);
  Problem problem = problem_of(fabric, links, demand_of({flow(0, 0, 2), flow(1, 1, 3)}));
  problem.current = place("greedy", problem).routing;
  problem.current[1] = {};
  problem.fixed = {true, false};
  const std::string taken = to_string(fabric, problem.current[0]);
  EXPECT_NE(to_string(fabric, place("greedy", problem).routing[1]), taken);
}

TEST(Optimiser, GivesEachMoveAReason) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 3, .nics = 3});
  LinkState links(fabric);
  Problem problem =
      problem_of(fabric, links, demand_of({flow(0, 0, 3), flow(0, 1, 4), flow(0, 2, 5)}));
  Placement placement = place("greedy", problem);
  EXPECT_THAT(placement.moves, IsEmpty()) << "nothing ran before";
  problem.current = placement.routing;
  EXPECT_THAT(place("greedy", problem).moves, IsEmpty());
  for (std::uint32_t s = 1; s < 3; ++s) {
    problem.current[s].up = problem.current[0].up;
    problem.current[s].down = problem.current[0].down;
  }
  placement = place("greedy", problem);
  ASSERT_EQ(placement.moves.size(), 2U);
  EXPECT_EQ(placement.moves[0].subflow, 1U);
  EXPECT_EQ(placement.moves[0].reason, "off leaf1-spine1: 3 elephants, now 1");
  links.set(fabric.downlink(problem.current[0].down), false);
  placement = place("greedy", problem);
  ASSERT_EQ(placement.moves.size(), 3U);
  EXPECT_EQ(placement.moves[0].reason, "spine1-leaf2 is down");
}

// 3 spines, many flows: a hash spreads them, another seed spreads them otherwise, and queue pairs
// are hashed apart.
TEST(Ecmp, HashesEveryQueuePairByItself) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 3, .nics = 8});
  const LinkState links(fabric);
  const Problem problem = problem_of(fabric, links, demand_of({flow(0, 0, 9, 1.0, 60)}));
  const auto names = spines_of(problem, place("ecmp", problem, 1).routing);
  for (const char* spine : {"spine1", "spine2", "spine3"})
    EXPECT_GT(std::ranges::count(names, spine), 8) << spine;
  EXPECT_EQ(names, spines_of(problem, place("ecmp", problem, 1).routing));
  EXPECT_NE(names, spines_of(problem, place("ecmp", problem, 2).routing));
}

// Three flows of one leaf, all led by something that knows two spines of four.
TEST(Optimiser, LeadFlowsOnlyWhereWhatSteersThemCan) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 4, .nics = 3, .cables = 2});
  const LinkState links(fabric);
  Problem problem;
  problem.topology = &fabric;
  problem.links = &links;
  problem.demand = demand_of({flow(0, 0, 3), flow(0, 1, 4), flow(0, 2, 5)});
  UplinkSet set{.cables = std::vector<bool>(fabric.cables().size(), false), .spread = true};
  for (const SpineId spine : {SpineId{1}, SpineId{3}})
    set.cables[fabric.cables_between({0}, spine).front().value] = true;
  problem.uplink_sets = {set};
  for (std::uint32_t i = 0; i < 3; ++i)
    problem.ways.push_back({.from = {i}, .to = {i + 3}, .uplinks = 0});
  for (const std::string_view scheme : optimiser_names()) {
    const Placement placement = place(scheme, problem);
    for (const Path& path : placement.routing) {
      ASSERT_TRUE(path.routable()) << scheme;
      EXPECT_TRUE(set.cables[path.up.value]) << scheme << " " << to_string(fabric, path);
      EXPECT_TRUE(path.spread) << scheme;
    }
  }
  // The leaf hashes over both cables to the spine: two flows on them have all they want.
  EXPECT_DOUBLE_EQ(judge(problem, place("heddle", problem).routing).worst, 1.0);
}

}  // namespace
}  // namespace heddle
