// The heddle scheme: exact where that is possible, optimal or nearly so where it can be enumerated,
// and sparing with moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/core/bounds.h"
#include "tests/common/core/fabrics.h"

namespace heddle {
namespace {

using namespace heddle::testing;
using ::testing::IsEmpty;

Placement heddle_of(const Problem& problem) {
  return make_optimiser("heddle")->place(problem, 1);
}

Efficiency judge(const Problem& problem, const Routing& routing) {
  return evaluate(*problem.topology, *problem.links, problem.demand, routing, problem.residual);
}

void take_down(const Topology& fabric, LinkState& links, SpineId spine) {
  for (const CableId cable : fabric[spine].cables)
    links.set(fabric, cable, false);
}

// ceil(qD/m) for every m, powers of two or not, D above and below m; and the job gets min(1, q /
// ceil(qD/m)).
TEST(Heddle, ReachesTheCombinatorialBoundForEqualFlowsOnEqualSpines) {
  constexpr std::uint64_t kSeed = 4;
  std::mt19937_64 random(kSeed);
  const Topology fabric = make_fabric({.leaves = 6, .spines = 24, .nics = 24});
  for (const std::uint32_t q : {1U, 3U, 8U}) {
    const Demand demand = permutation(fabric, random, q);
    const std::uint32_t d = core_degree(fabric, demand);
    for (std::uint32_t m = 1; m <= 24; ++m) {
      LinkState links(fabric);
      for (std::uint32_t s = m; s < 24; ++s)
        take_down(fabric, links, SpineId{s});
      Problem problem = problem_of(fabric, links, demand);
      problem.unit_of_subflow = by_queue_pair(demand);
      const Placement placement = heddle_of(problem);
      const Efficiency e = judge(problem, placement.routing);
      const std::uint32_t least = (d + m - 1) / m;
      ASSERT_EQ(e.max_on_link, least) << "q " << q << " m " << m;
      ASSERT_NEAR(e.worst, std::min(1.0, static_cast<double>(q) / least), 1e-9);
      ASSERT_TRUE(placement.proven);
    }
  }
}

// 32 flows a leaf on 31 spines: one path each must halve some; 8 queue pairs a flow need ceil(256 /
// 31) = 9 places.
TEST(Heddle, SplitsQueuePairsOverSpinesWhereTheyCanBeSteered) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 32, .nics = 32});
  LinkState links(fabric);
  take_down(fabric, links, SpineId{31});
  std::vector<FlowDemand> flows;
  for (std::uint32_t n = 0; n < 32; ++n)
    flows.push_back(flow(0, n, 32 + n, 1.0, 8));
  Problem problem = problem_of(fabric, links, demand_of(flows));
  EXPECT_NEAR(judge(problem, heddle_of(problem).routing).worst, 0.5, 1e-9);
  problem.unit_of_subflow = by_queue_pair(problem.demand);
  EXPECT_NEAR(judge(problem, heddle_of(problem).routing).worst, 8.0 / 9, 1e-9);
}

// Leaf 1 has 4 flows and 3 live uplinks, so two must share: both of the job with the most flows,
// and the other is whole.
TEST(Heddle, PutsTheDamageThatMustBeOnOneJob) {
  const Topology fabric = make_fabric({.leaves = 3, .spines = 4, .nics = 4});
  LinkState links(fabric);
  links.set(fabric.uplink(fabric.cables_between(LeafId{0}, SpineId{2}).front()), false);
  const Problem problem = problem_of(
      fabric, links,
      demand_of({flow(0, 0, 4), flow(1, 1, 5), flow(0, 2, 8), flow(1, 3, 9), flow(1, 6, 10)}));
  const Efficiency e = judge(problem, heddle_of(problem).routing);
  EXPECT_NEAR(e.by_job[0], 1.0, 1e-9);
  EXPECT_NEAR(e.by_job[1], 0.5, 1e-9);
}

// 1 + 1/4 + 1/4 + 1/2 of an uplink on 2 uplinks: the light ones share, the heavy one is alone.
TEST(Heddle, LetsLightFlowsShareAndHeavyOnesNot) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 2, .nics = 4});
  const LinkState links(fabric);
  const Problem problem = problem_of(fabric, links,
                                     demand_of({flow(0, 0, 4, 0.25), flow(0, 1, 5, 1.0),
                                                flow(0, 2, 6, 0.25), flow(0, 3, 7, 0.33)}));
  EXPECT_NEAR(judge(problem, heddle_of(problem).routing).worst, 1.0, 1e-9);
}

// A third of the uplink to spine 1 is taken: the flow that needs a whole one goes to spine 2.
TEST(Heddle, AvoidsResidualLoad) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 2, .nics = 1});
  const LinkState links(fabric);
  Problem problem = problem_of(fabric, links, demand_of({flow(0, 0, 1)}));
  problem.residual.assign(fabric.link_count(), Rate{});
  problem.residual[fabric.uplink(CableId{0}).value] = 33_gbps;
  EXPECT_EQ(to_string(fabric, heddle_of(problem).routing[0]), "spine2");
}

// Two phases of one job use the same NICs one after the other, so all their flows may run on any
// spine, but not two of one phase on one uplink.
TEST(Heddle, PlacesPhasesThatDoNotOverlap) {
  constexpr std::uint64_t kSeed = 12;
  std::mt19937_64 random(kSeed);
  const Topology fabric = make_fabric({.leaves = 4, .spines = 4, .nics = 4});
  const LinkState links(fabric);
  Demand demand;
  demand.jobs = {{.name = "a", .phases = 3}, {.name = "b", .phases = 2}};
  for (std::uint32_t phase = 0; phase < 3; ++phase)
    for (std::uint32_t n = 0; n < 8; ++n)
      demand.flows.push_back(flow(0, n, (n + 4 * (phase % 2) + 4) % 16, 3.0 - phase));
  for (std::uint32_t phase = 0; phase < 2; ++phase)
    for (std::uint32_t n = 8; n < 16; ++n)
      demand.flows.push_back(flow(1, n, n < 12 ? n + 4 : n - 4, 1.0 + phase));
  for (std::uint32_t f = 0; f < demand.flows.size(); ++f)
    demand.flows[f].phase = f < 24 ? f / 8 : (f - 24) / 8;
  const Problem problem = problem_of(fabric, links, demand);
  const Placement placement = heddle_of(problem);
  for (const Path& path : placement.routing)
    EXPECT_TRUE(path.routable());
  EXPECT_NEAR(judge(problem, placement.routing).worst, 1.0, 1e-9);
}

class SmallInstances {
 public:
  explicit SmallInstances(std::uint64_t seed) : random_(seed) {}

  struct Instance {
    Topology fabric;
    LinkState links;
    Problem problem;
  };

  std::unique_ptr<Instance> draw() {
    const std::uint32_t spines = 2 + below(3);
    auto instance = std::make_unique<Instance>(
        Instance{make_fabric({.leaves = 2 + below(3), .spines = spines, .nics = 2 + below(2)}),
                 LinkState(make_fabric({.leaves = 1, .spines = 1, .nics = 1})),
                 {}});
    Topology& fabric = instance->fabric;
    instance->links = LinkState(fabric);
    for (std::uint32_t l = 0; l < 2 * fabric.cables().size(); ++l)
      if (below(12) == 0)
        instance->links.set(LinkId{l}, false);
    // At most 7 flows at 4 spines, 8 at 3, 12 at 2: 2^13 to 2^14 routings.
    const std::uint32_t most = spines == 4 ? 7 : spines == 3 ? 8 : 12;
    Demand demand = random_flows(fabric, random_, 3 + below(most - 2), 1 + below(4));
    for (FlowDemand& f : demand.flows)
      f.weight = (1.0 + below(4)) / 4;
    Problem& problem = instance->problem;
    problem = problem_of(fabric, instance->links, std::move(demand));
    problem.current = make_optimiser("ecmp")->place(problem, random_()).routing;
    problem.fixed.assign(problem.current.size(), false);
    for (std::size_t s = 0; s < problem.fixed.size(); ++s)
      problem.fixed[s] = below(6) == 0;
    if (below(2) == 0)
      for (std::size_t s = 0; s < problem.fixed.size(); ++s)
        if (!problem.fixed[s])
          problem.current[s] = {};
    return instance;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  std::mt19937_64 random_;
};

// The best of all routings, by the metric.
Efficiency best_of_all(const Problem& problem) {
  const Model model(problem);
  Evaluator evaluator(*problem.topology, *problem.links, problem.demand);
  std::vector<std::vector<Model::Choice>> options;
  for (const Model::Unit& unit : model.units()) {
    options.emplace_back();
    model.for_each_choice(
        unit, [&](const Model::Choice& c, ResourceId, ResourceId) { options.back().push_back(c); });
  }
  std::vector<std::size_t> at(options.size(), 0);
  std::vector<Model::Choice> choices(options.size());
  Efficiency best;
  for (bool more = true; more;) {
    for (std::size_t u = 0; u < at.size(); ++u)
      choices[u] = options[u][at[u]];
    Efficiency e = evaluator.evaluate(model.routing(choices));
    if (best.ascending.empty() || compare(e, best) > 0)
      best = std::move(e);
    more = false;
    for (std::size_t u = 0; u < at.size() && !more; ++u) {
      more = ++at[u] < options[u].size();
      if (!more)
        at[u] = 0;
    }
  }
  return best;
}

TEST(Heddle, FindsTheOptimumOfSmallInstances) {
  constexpr std::uint64_t kSeed = 200;
  constexpr int kInstances = 200;
  SmallInstances instances(kSeed);
  int optimal = 0, worst_optimal = 0;
  for (int i = 0; i < kInstances; ++i) {
    const auto instance = instances.draw();
    const Efficiency best = best_of_all(instance->problem);
    const Efficiency ours = judge(instance->problem, heddle_of(instance->problem).routing);
    ASSERT_LE(compare(ours, best), 0)
        << "more than the optimum: seed " << kSeed << " instance " << i;
    const bool same = compare(ours, best) == 0;
    optimal += same ? 1 : 0;
    worst_optimal += ours.worst > best.worst - 1e-9 ? 1 : 0;
    if (!same)
      std::printf("missed: seed %llu instance %d: worst job %.6f of %.6f\n",
                  static_cast<unsigned long long>(kSeed), i, ours.worst, best.worst);
  }
  std::printf("lexicographic optimum in %d, worst job's in %d of %d\n", optimal, worst_optimal,
              kInstances);
  EXPECT_GE(optimal, kInstances * 95 / 100);
  EXPECT_GE(worst_optimal, kInstances * 99 / 100);
}

// Bounds are bounds: no scheme is above them.
TEST(Bounds, HoldForEveryScheme) {
  constexpr std::uint64_t kSeed = 31;
  SmallInstances instances(kSeed);
  for (int i = 0; i < 300; ++i) {
    const auto instance = instances.draw();
    const Problem& problem = instance->problem;
    const Model model(problem);
    const Evaluator evaluator(*problem.topology, *problem.links, problem.demand);
    const Bounds bounds = find_bounds(model, evaluator);
    const double linear = split_bound(model, evaluator);
    for (const std::string_view scheme : optimiser_names()) {
      const Efficiency e = judge(problem, make_optimiser(scheme)->place(problem, 3).routing);
      ASSERT_LE(e.worst, bounds.worst + 1e-9) << scheme << " seed " << kSeed << " instance " << i;
      ASSERT_LE(e.worst, linear + 1e-9) << scheme << " seed " << kSeed << " instance " << i;
      for (std::size_t j = 0; j < e.by_job.size(); ++j)
        ASSERT_LE(e.by_job[j], bounds.by_job[j] + 1e-9) << scheme << " instance " << i;
      if (std::ranges::none_of(problem.fixed, std::identity{})) {
        ASSERT_GE(e.max_on_link, bounds.max_on_link) << scheme << " instance " << i;
      }
    }
  }
}

// Leaf 1 has 2 of 4 uplinks for 4 flows that need a whole one: half, also if flows may split.
TEST(Bounds, KnowWhatALeafsUplinksCanCarry) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 4, .nics = 4});
  LinkState links(fabric);
  for (const std::uint32_t s : {0U, 1U})
    links.set(fabric.uplink(fabric.cables_between(LeafId{0}, SpineId{s}).front()), false);
  const Problem problem = problem_of(fabric, links,
                                     demand_of({flow(0, 0, 4, 1, 2), flow(0, 1, 5, 1, 2),
                                                flow(0, 2, 6, 1, 2), flow(1, 4, 0, 1, 2)}));
  const Model model(problem);
  const Evaluator evaluator(fabric, links, problem.demand);
  const Bounds bounds = find_bounds(model, evaluator);
  EXPECT_EQ(bounds.max_on_link, 3U) << "6 subflows on 2 uplinks";
  EXPECT_NEAR(bounds.worst, 0.5, 1e-12) << "3 flows that move as wholes: two share an uplink";
  EXPECT_NEAR(split_bound(model, evaluator), 2.0 / 3, 1e-9);
  EXPECT_NEAR(bounds.by_job[0], 0.5, 1e-12);
  EXPECT_NEAR(bounds.by_job[1], 1.0, 1e-12);
}

// NICs at two leaves each: six flows over the four uplinks of a pair of leaves, whichever they
// take.
TEST(Bounds, HoldForNicsWithTwoAttachments) {
  constexpr std::uint64_t kSeed = 32;
  std::mt19937_64 random(kSeed);
  FabricDescription description = describe({.leaves = 4, .spines = 2, .nics = 3});
  int port = 0;
  for (auto& host : description.hosts)
    for (auto& nic : host.nics) {
      const std::string leaf = nic.attachments.front().leaf;
      const std::string other = leaf == "leaf1"   ? "leaf2"
                                : leaf == "leaf2" ? "leaf1"
                                : leaf == "leaf3" ? "leaf4"
                                                  : "leaf3";
      nic.attachments.push_back({other, fmt::format("q{}", ++port), 100_gbps, 0});
    }
  const Topology fabric = Topology::build(description).value();
  LinkState links(fabric);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint32_t> to{6, 7, 8, 9, 10, 11};
    std::ranges::shuffle(to, random);
    std::vector<FlowDemand> flows;
    for (std::uint32_t n = 0; n < 6; ++n)
      flows.push_back(flow(n % 2, n, to[n], 2.0));
    const Problem problem = problem_of(fabric, links, demand_of(flows));
    const Model model(problem);
    const Bounds bounds = find_bounds(model, Evaluator(fabric, links, problem.demand));
    if (i == 0) {
      EXPECT_EQ(bounds.max_on_link, 2U);
    }
    for (const std::string_view scheme : optimiser_names()) {
      const Efficiency e = judge(problem, make_optimiser(scheme)->place(problem, 3).routing);
      ASSERT_LE(e.worst, bounds.worst + 1e-9) << scheme << " seed " << kSeed << " instance " << i;
      ASSERT_GE(e.max_on_link, bounds.max_on_link) << scheme << " instance " << i;
    }
    // The next with one more link the other way round.
    const LinkId link{static_cast<std::uint32_t>(random() % fabric.link_count())};
    links.set(link, !links.up(link));
  }
}

// ---- movement
// ----------------------------------------------------------------------------------------

class HeddleMoves : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeed = 77;
  std::mt19937_64 random{kSeed};
  Topology fabric{make_fabric({.leaves = 16, .spines = 16, .nics = 16})};
  LinkState links{fabric};
  Problem problem{
      problem_of(fabric, links, ring_jobs(fabric, random, [](auto& r) { return 4 + r() % 40; }))};

  void SetUp() override { problem.current = heddle_of(problem).routing; }
};

TEST_F(HeddleMoves, NothingMovesWhenNothingChanged) {
  const Placement again = heddle_of(problem);
  EXPECT_EQ(again.routing, problem.current);
  EXPECT_THAT(again.moves, IsEmpty());
}

TEST_F(HeddleMoves, ADeadLinkMovesWhatRanOverItAndLittleElse) {
  const CableId dead =
      problem.current[0].crosses_core() ? problem.current[0].up : problem.current[1].up;
  links.set(fabric.uplink(dead), false);
  const Placement repaired = heddle_of(problem);
  EXPECT_GE(repaired.moves.size(), 1U);
  EXPECT_LE(repaired.moves.size(), 40U) << "of 256";
  EXPECT_EQ(repaired.moves.front().reason.find("is down") != std::string::npos, true);
  problem.current = repaired.routing;
  links.set(fabric.uplink(dead), true);
  EXPECT_NEAR(judge(problem, heddle_of(problem).routing).worst, 1.0, 1e-9) << "the link is back";
}

// Nobody can have all it could by itself on half of the spines, which is no reason to begin anew.
TEST_F(HeddleMoves, ADeadLinkMovesLittleWhereAllHaveLessThanTheyCould) {
  for (std::uint32_t s = 8; s < 16; ++s)
    take_down(fabric, links, SpineId{s});
  for (FlowDemand& flow : problem.demand.flows)
    flow.subflows = 8;
  problem.unit_of_subflow = by_queue_pair(problem.demand);
  problem.current.clear();
  problem.current = heddle_of(problem).routing;
  links.set(fabric.uplink(CableId{0}), false);
  const Placement repaired = heddle_of(problem);
  std::size_t over_it = 0;
  for (const Path& path : problem.current)
    over_it += path.crosses_core() && path.up == CableId{0} ? 1 : 0;
  EXPECT_GE(repaired.moves.size(), over_it);
  EXPECT_LE(repaired.moves.size(), 8 * over_it) << "of " << problem.current.size();
}

// What hashing left is no start for a repair: all that can be had is had at once.
TEST(HeddleStart, HashedPathsArePlacedAfresh) {
  constexpr std::uint64_t kSeed = 78;
  std::mt19937_64 random(kSeed);
  const Topology large = make_fabric({.leaves = 64, .spines = 32, .nics = 32});
  const LinkState links(large);
  Problem problem =
      problem_of(large, links, ring_jobs(large, random, [](auto& r) { return 4 + r() % 60; }));
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    problem.current = make_optimiser("ecmp")->place(problem, seed).routing;
    ASSERT_LT(judge(problem, problem.current).worst, 0.5);
    EXPECT_NEAR(judge(problem, heddle_of(problem).routing).worst, 1.0, 1e-9) << "seed " << seed;
  }
}

// From the hash, a budget of moves at a time: never more, never worse, and at last as good as
// without a budget.
TEST_F(HeddleMoves, KeepsTheChurnBudget) {
  problem.current = make_optimiser("ecmp")->place(problem, 5).routing;
  problem.max_moves = 10;
  Efficiency before = judge(problem, problem.current);
  for (int round = 0; round < 60; ++round) {
    const Placement placement = heddle_of(problem);
    ASSERT_LE(placement.moves.size(), 10U);
    const Efficiency after = judge(problem, placement.routing);
    ASSERT_GE(compare(after, before), 0);
    if (placement.moves.empty())
      break;
    ASSERT_GT(compare(after, before), 0) << "moves without a gain";
    before = after;
    problem.current = placement.routing;
  }
  EXPECT_GE(before.worst, 0.5);
}

// A flow arrives at two NICs that have one each already: what runs keeps its efficiency on the
// core, and moves little.
TEST_F(HeddleMoves, AnArrivingJobCostsOthersNothingTheyNeed) {
  Problem grown = problem;
  grown.demand.jobs.push_back({.name = "new"});
  const auto job = static_cast<std::uint32_t>(grown.demand.jobs.size() - 1);
  grown.demand.flows.push_back(flow(job, 0, 255));
  grown.current.push_back({});
  const Placement placement = heddle_of(grown);
  EXPECT_TRUE(placement.routing.back().routable());
  EXPECT_LE(placement.moves.size(), 4U);
  EXPECT_NEAR(judge(grown, placement.routing).worst, 1.0, 1e-9)
      << "the NIC's share halves, which the ideal knows; the core takes nothing more";
}

TEST(Heddle, IsTheSameForTheSameProblem) {
  std::mt19937_64 random(9);
  const Topology fabric = make_fabric({.leaves = 8, .spines = 6, .nics = 8});
  LinkState links(fabric);
  links.set(LinkId{3}, false);
  const Problem problem =
      problem_of(fabric, links, ring_jobs(fabric, random, [](auto& r) { return 3 + r() % 9; }));
  for (const std::string_view scheme : optimiser_names()) {
    const Routing once = make_optimiser(scheme)->place(problem, 42).routing;
    EXPECT_EQ(once, make_optimiser(scheme)->place(problem, 42).routing) << scheme;
  }
}

// Nothing here may hang or take memory without end: a million flows inside one leaf.
TEST(Heddle, TakesAMillionFlowsInsideOneLeaf) {
  const Topology fabric = make_fabric({.leaves = 2, .spines = 2, .nics = 4});
  const LinkState links(fabric);
  std::vector<FlowDemand> flows(1'000'000, flow(0, 0, 1));
  flows.push_back(flow(1, 2, 5));
  const Problem problem = problem_of(fabric, links, demand_of(std::move(flows)));
  const Placement placement = heddle_of(problem);
  EXPECT_THAT(placement.notes, IsEmpty());
  EXPECT_EQ(to_string(fabric, placement.routing.front()), "local");
  EXPECT_EQ(judge(problem, placement.routing).by_job[1], 1.0);
}

}  // namespace
}  // namespace heddle
