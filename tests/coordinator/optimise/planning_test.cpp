#include "coordinator/optimise/planning.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using testing::address;

constexpr Granularity kPort = Granularity::port_and_destination;

class PlanningTest : public ::testing::Test {
 protected:
  PlanningTest() {
    prediction.demand.jobs.push_back({.name = "job"});
    prediction.jobs.push_back({.name = "job"});
    input.topology = &topology;
    input.links = &links;
    input.prediction = &prediction;
    input.present = &present;
    for (std::uint32_t i = 0; i < topology.leaves().size(); ++i)
      input.steering[LeafId{i}] = kPort;
  }

  CableId cable(int leaf, int spine) {
    return *topology.cable_at(*topology.find_leaf(fmt::format("leaf{}", leaf)),
                              fmt::format("up{}", spine));
  }
  // A flow of `observed.size()` queue pairs, each seen on a spine (0: nobody saw where).
  void flow(int from_leaf, int from, int to_leaf, int to, std::vector<int> observed = {0}) {
    const NicId source = *topology.find_nic(address(from_leaf, from));
    PredictedFlow predicted;
    predicted.entry = topology[source].attachments.front();
    std::uint16_t port = 50000;
    for (const int spine : observed) {
      predicted.subflows.push_back(
          {address(from_leaf, from), address(to_leaf, to), port++, port + 1U});
      predicted.observed.push_back(spine == 0 ? CableId{} : cable(from_leaf, spine));
    }
    prediction.demand.flows.push_back({.job = {0},
                                       .phase = 0,
                                       .source = source,
                                       .destination = *topology.find_nic(address(to_leaf, to)),
                                       .subflows = static_cast<std::uint32_t>(observed.size())});
    prediction.flows.push_back(std::move(predicted));
  }
  void pin(int leaf, int port, IpAddress destination, int spine) {
    NodePlan& part = present.nodes[fmt::format("leaf{}", leaf)];
    part.node = fmt::format("leaf{}", leaf);
    part.version = {1, 1};
    part.pins.push_back({ByPortAndDestination{fmt::format("p{}", port), destination},
                         PortTableRoute{fmt::format("up{}", spine)}, "as before"});
    std::ranges::sort(part.pins, {}, &Pin::unit);
  }
  PlanAndMoves made(const Routing& routing, bool keep_unknown = false) {
    return make_plan(input, make_problem(input), routing, {1, 2}, keep_unknown);
  }

  Topology topology{testing::small_fabric(3, 2, 2)};
  LinkState links{topology};
  Prediction prediction;
  RoutePlan present;
  PlanningInput input;
};

TEST_F(PlanningTest, PutsQueuePairsOfOnePortAndDestinationUnderOnePin) {
  flow(1, 1, 2, 1, {1, 2, 1});
  const PlanningProblem planning = make_problem(input);
  ASSERT_EQ(planning.units.size(), 1U);
  EXPECT_EQ(planning.units[0].subflows.size(), 3U);
  EXPECT_EQ(planning.units[0].steering, SteeringUnit(ByPortAndDestination{"p1", address(2, 1)}));
}

TEST_F(PlanningTest, GivesEachQueuePairAPinWhereTheAgentCan) {
  input.steering[LeafId{0}] = Granularity::queue_pair;
  flow(1, 1, 2, 1, {1, 2, 1});
  const PlanningProblem planning = make_problem(input);
  EXPECT_EQ(planning.units.size(), 3U);
  const PlanAndMoves plan = made(planning.problem.current);
  ASSERT_EQ(plan.plan.nodes.at("leaf1").pins.size(), 3U);
  EXPECT_EQ(plan.plan.nodes.at("leaf1").pins[1].target, PinTarget(FlowMark{"up2"}));
}

TEST_F(PlanningTest, PutsFlowsToOneHostUnderOnePinWhereTheAgentTellsOnlyDestinations) {
  input.steering[LeafId{0}] = Granularity::destination;
  flow(1, 1, 2, 1, {1});
  flow(1, 2, 2, 1, {1});
  const PlanningProblem planning = make_problem(input);
  ASSERT_EQ(planning.units.size(), 1U);
  EXPECT_EQ(planning.units[0].steering, SteeringUnit(ByDestination{address(2, 1)}));
}

TEST_F(PlanningTest, LeavesFlowsOfUnsteerableLeavesWhereTheyWereSeen) {
  input.steering.erase(LeafId{0});
  flow(1, 1, 2, 1, {2});
  flow(1, 2, 2, 2, {0});
  const PlanningProblem planning = make_problem(input);
  ASSERT_EQ(planning.problem.current.size(), 1U) << "whose path nobody sees is left out";
  EXPECT_EQ(planning.unplaced, 1U);
  EXPECT_TRUE(planning.problem.fixed[0]);
  EXPECT_EQ(planning.problem.current[0].up, cable(1, 2));
  EXPECT_FALSE(made(planning.problem.current).changed);
}

TEST_F(PlanningTest, PinsNothingForADisabledJob) {
  flow(1, 1, 2, 1, {1});
  input.disabled_jobs.insert("job");
  const PlanningProblem planning = make_problem(input);
  EXPECT_TRUE(planning.problem.fixed[0]);
  EXPECT_FALSE(made(planning.problem.current).changed);
}

// A pin by ingress port moves one host's flows, one by queue pair its own, one by destination those
// of every host of the leaf.
TEST_F(PlanningTest, TouchesThePrefixesOfAllThatAPinMoves) {
  const std::vector<Prefix> prefixes{*Prefix::parse("10.1.1.0/24")};
  const LeafId leaf1 = *topology.find_leaf("leaf1");
  const LeafId leaf2 = *topology.find_leaf("leaf2");
  ASSERT_TRUE(prefixes[0].contains(address(1, 1)) && !prefixes[0].contains(address(1, 2)));
  const auto touched = [&](LeafId leaf, const SteeringUnit& unit) {
    return touches(topology, prefixes, {leaf, unit});
  };
  EXPECT_TRUE(touched(leaf1, ByPortAndDestination{"p1", address(2, 1)}));
  EXPECT_FALSE(touched(leaf1, ByPortAndDestination{"p2", address(2, 1)}));
  EXPECT_FALSE(touched(leaf1, ByPortAndDestination{"p9", address(2, 1)}));
  EXPECT_TRUE(touched(leaf2, ByPortAndDestination{"p1", address(1, 1)}));
  EXPECT_TRUE(touched(leaf1, ByQueuePair{address(1, 1), address(2, 1), 50000}));
  EXPECT_FALSE(touched(leaf1, ByQueuePair{address(1, 2), address(2, 1), 50000}));
  EXPECT_TRUE(touched(leaf1, ByDestination{address(2, 1)}));
  EXPECT_FALSE(touched(leaf2, ByDestination{address(3, 1)}));
  EXPECT_FALSE(touches(topology, {}, {leaf1, ByDestination{address(2, 1)}}));
}

TEST_F(PlanningTest, NeedsNoPinWithinALeaf) {
  flow(1, 1, 1, 2, {0});
  const PlanningProblem planning = make_problem(input);
  ASSERT_EQ(planning.problem.current.size(), 1U);
  EXPECT_TRUE(planning.problem.current[0].routable());
  EXPECT_FALSE(planning.problem.current[0].crosses_core());
  EXPECT_FALSE(made(planning.problem.current).changed);
}

TEST_F(PlanningTest, TakesThePresentPinForWhereAFlowRuns) {
  flow(1, 1, 2, 1, {1});
  pin(1, 1, address(2, 1), 2);
  const PlanningProblem planning = make_problem(input);
  EXPECT_EQ(planning.problem.current[0].up, cable(1, 2));
  EXPECT_TRUE(planning.units[0].pinned);
}

TEST_F(PlanningTest, TakesAPinThatFailsForNoPlaceToBe) {
  flow(1, 1, 2, 1, {2});
  pin(1, 1, address(2, 1), 1);
  const ByPortAndDestination unit{"p1", address(2, 1)};
  input.failing[{LeafId{0}, unit}] = cable(1, 1);
  const PlanningProblem planning = make_problem(input);
  EXPECT_FALSE(planning.units.at(0).pinned);
  EXPECT_EQ(planning.problem.current.at(0).up, cable(1, 2));
  input.failing[{LeafId{0}, unit}] = cable(1, 2);
  EXPECT_TRUE(make_problem(input).units.at(0).pinned) << "another pin of this unit failed";
}

TEST_F(PlanningTest, SafetyRule12DoesNotHoldAPinThatRoutingWithdrew) {
  flow(1, 1, 2, 1, {1});
  pin(1, 1, address(2, 1), 2);
  input.forbidden = {{LeafId{0}, LeafId{1}, cable(1, 2)}};
  EXPECT_FALSE(make_problem(input).units[0].pinned);
}

TEST_F(PlanningTest, SafetyRule12PinsNothingToADeadOrWithdrawnPathWhateverARoutingSays) {
  flow(1, 1, 2, 1, {1});
  flow(1, 2, 3, 1, {2});
  input.forbidden = {{LeafId{0}, LeafId{1}, cable(1, 1)}};
  links.set(topology, cable(3, 2), false);
  const PlanAndMoves plan = made(make_problem(input).problem.current);
  EXPECT_FALSE(plan.changed);
}

TEST_F(PlanningTest, OffersStayingFirstWhenAllCanStay) {
  flow(1, 1, 2, 1, {1});
  flow(1, 2, 3, 1, {2});
  const auto optimiser = make_optimiser("edge-colouring");
  const Candidates candidates = make_candidates(make_problem(input), *optimiser, 1);
  ASSERT_FALSE(candidates.list.empty());
  EXPECT_EQ(candidates.list[0].scheme, "stay");
  EXPECT_EQ(candidates.list[0].moves, 0U);
  EXPECT_DOUBLE_EQ(candidates.list[0].efficiency.worst, 1.0);
}

// Two flows hold their pins; the third, new and on a crowded uplink, is placed around them.
TEST_F(PlanningTest, RepairsWithoutMovingWhatIsPinned) {
  flow(1, 1, 2, 1, {1});
  flow(1, 2, 3, 1, {0});
  pin(1, 1, address(2, 1), 1);
  const auto optimiser = make_optimiser("edge-colouring");
  const PlanningProblem planning = make_problem(input);
  const Candidates candidates = make_candidates(planning, *optimiser, 1);
  const auto repair = std::ranges::find(candidates.list, "repair", &Candidate::scheme);
  ASSERT_NE(repair, candidates.list.end());
  EXPECT_EQ(repair->routing[0].up, cable(1, 1));
  EXPECT_EQ(repair->routing[1].up, cable(1, 2));
  EXPECT_DOUBLE_EQ(repair->efficiency.worst, 1.0);
}

class Careless final : public Optimiser {
 public:
  explicit Careless(Routing routing) : routing_(std::move(routing)) {}
  std::string_view name() const override { return "careless"; }
  Placement place(const Problem&, std::uint64_t) const override {
    Placement placement;
    placement.routing = routing_;
    return placement;
  }

 private:
  Routing routing_;
};

TEST_F(PlanningTest, DropsARoutingThatBreaksTheRulesAndSaysSo) {
  flow(1, 1, 2, 1, {1, 1});
  input.steering[LeafId{0}] = kPort;
  flow(2, 1, 3, 1, {1});
  input.steering.erase(LeafId{1});
  const PlanningProblem planning = make_problem(input);
  links.set(topology, cable(2, 2), false);
  const AttachmentId from = planning.problem.current[0].from;
  const AttachmentId to = planning.problem.current[0].to;

  Routing torn = planning.problem.current;
  torn[1] = path_through(topology, from, cable(1, 2), to);
  Routing dead = planning.problem.current;
  dead[0] = dead[1] = path_through(topology, from, cable(1, 2), to);
  Routing stolen = planning.problem.current;
  stolen[2].up = cable(2, 2);
  for (const Routing& routing : {torn, dead, stolen, Routing{}}) {
    const Candidates candidates = make_candidates(planning, Careless(routing), 1);
    EXPECT_TRUE(std::ranges::none_of(
        candidates.list, [](const Candidate& one) { return one.scheme == "careless"; }));
    EXPECT_EQ(candidates.notes.size(), 1U);
  }
}

// Both flows of leaf 1 were on spine 1; one moves.
TEST_F(PlanningTest, GivesEveryPinAndMoveItsReason) {
  flow(1, 1, 2, 1, {1});
  flow(1, 2, 3, 1, {1});
  const PlanningProblem planning = make_problem(input);
  Routing routing = planning.problem.current;
  routing[1] = path_through(topology, routing[1].from, cable(1, 2), routing[1].to);
  const PlanAndMoves plan = made(routing);
  ASSERT_EQ(plan.moves.size(), 1U);
  EXPECT_EQ(plan.moves[0], (FlowMove{.flow = "10.1.2.2 10.3.1.2",
                                     .from = "spine1",
                                     .to = "spine2",
                                     .reason = "off leaf1-spine1: 2 elephants, now 1"}));
  const auto& pins = plan.plan.nodes.at("leaf1").pins;
  ASSERT_EQ(pins.size(), 2U);
  EXPECT_EQ(pins[0].reason, "stays on leaf1-spine1: 1 elephant there");
  EXPECT_TRUE(validate(plan.plan.nodes.at("leaf1")).has_value());
}

TEST_F(PlanningTest, SaysWhichLinkDied) {
  flow(1, 1, 2, 1, {1});
  pin(1, 1, address(2, 1), 1);
  links.set(topology, cable(1, 1), false);
  const PlanningProblem planning = make_problem(input);
  Routing routing = planning.problem.current;
  routing[0] = path_through(topology, routing[0].from, cable(1, 2), routing[0].to);
  EXPECT_EQ(made(routing).moves.at(0).reason, "leaf1-spine1 is down");
}

TEST_F(PlanningTest, KeepsVersionAndReasonsOfANodeWhosePinsStay) {
  flow(1, 1, 2, 1, {1});
  flow(2, 1, 3, 1, {2});
  pin(1, 1, address(2, 1), 1);
  const PlanAndMoves plan = made(make_problem(input).problem.current);
  EXPECT_TRUE(plan.changed);
  EXPECT_EQ(plan.plan.nodes.at("leaf1").version, (PlanVersion{1, 1}));
  EXPECT_EQ(plan.plan.nodes.at("leaf1").pins[0].reason, "as before");
  EXPECT_EQ(plan.plan.nodes.at("leaf2").version, (PlanVersion{1, 2}));
}

TEST_F(PlanningTest, LeavesThePinsOfAnAgentThatIsStillToBeHeard) {
  flow(1, 1, 2, 1);
  pin(1, 1, address(2, 1), 1);
  pin(1, 2, address(3, 1), 2);
  input.steering.erase(LeafId{0});
  input.unheard.insert(LeafId{0});
  const PlanningProblem planning = make_problem(input);
  ASSERT_EQ(planning.problem.current.size(), 1U);
  EXPECT_EQ(planning.problem.current[0].up, cable(1, 1));
  EXPECT_TRUE(planning.problem.fixed[0]);
  const PlanAndMoves kept = made(planning.problem.current);
  EXPECT_FALSE(kept.changed);
  EXPECT_EQ(kept.plan.nodes.at("leaf1"), present.nodes.at("leaf1"));
  input.unheard.clear();
  EXPECT_TRUE(made(make_problem(input).problem.current).plan.nodes.at("leaf1").pins.empty());
}

TEST_F(PlanningTest, SafetyRule7JudgesNoJobOfWhichAFlowIsNotSeen) {
  flow(1, 1, 2, 1, {1});
  input.steering.erase(LeafId{0});
  PlanningProblem planning = make_problem(input);
  EXPECT_EQ(judged_jobs(planning, planning.problem.current), std::vector<bool>{true});
  EXPECT_EQ(judged_jobs(planning, {Path{}}), std::vector<bool>{false});
  flow(1, 2, 2, 2, {0});
  planning = make_problem(input);
  ASSERT_EQ(planning.unplaced, 1U);
  EXPECT_EQ(judged_jobs(planning, planning.problem.current), std::vector<bool>{false});
}

TEST_F(PlanningTest, DropsPinsWithoutAFlowUnlessTheyMayComeBack) {
  pin(1, 1, address(2, 1), 1);
  const PlanAndMoves dropped = made({});
  EXPECT_TRUE(dropped.changed);
  EXPECT_TRUE(dropped.plan.nodes.at("leaf1").pins.empty());
  EXPECT_EQ(dropped.plan.nodes.at("leaf1").version, (PlanVersion{1, 2}));

  EXPECT_FALSE(made({}, true).changed);
  links.set(topology, cable(1, 1), false);
  EXPECT_TRUE(made({}, true).plan.nodes.at("leaf1").pins.empty()) << "its link is down";
}

}  // namespace
}  // namespace heddle
