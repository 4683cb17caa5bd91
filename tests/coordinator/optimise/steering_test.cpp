// Pins of hosts and spines: lists of segments, host routes, downlinks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/core/check.h"
#include "coordinator/optimise/diagnosis.h"
#include "coordinator/optimise/planning.h"
#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using testing::address;

constexpr Granularity kPort = Granularity::port_and_destination;

class Steering {
 public:
  explicit Steering(const testing::ClusterShape& shape)
      : topology(testing::shaped_fabric(shape)), links(topology) {
    prediction.demand.jobs.push_back({.name = "job"});
    prediction.jobs.push_back({.name = "job"});
    input.topology = &topology;
    input.links = &links;
    input.prediction = &prediction;
    input.present = &present;
  }

  HostId host(int leaf, int h) const { return *topology.find_host(fmt::format("h{}-{}", leaf, h)); }
  SpineId spine(int s) const { return SpineId{static_cast<std::uint32_t>(s - 1)}; }
  LeafId leaf(int l) const { return LeafId{static_cast<std::uint32_t>(l - 1)}; }
  CableId cable(int l, int s, int c = 1) const {
    return *topology.cable_at(leaf(l), fmt::format("up{}-{}", s, c));
  }
  static IpAddress segment(int spine) {
    return *IpAddress::parse(fmt::format("fd00:5::{}", spine));
  }
  static IpAddress delivering(int l, int h) {
    return *IpAddress::parse(fmt::format("fd00:d::{}:{}", l, h));
  }

  void leaves_steer() {
    for (std::uint32_t i = 0; i < topology.leaves().size(); ++i)
      input.steering[LeafId{i}] = kPort;
  }
  void sends_segments(int l, int h) {
    input.segments.senders.insert(host(l, h));
    input.steering[host(l, h)] = Granularity::destination;
  }
  void tells(int s) { input.segments.spines[spine(s)] = segment(s); }
  void delivers(int l, int h) { input.segments.hosts[{host(l, h), Family::v4}] = delivering(l, h); }
  void routes(int l, int h) {
    input.host_routes.insert(host(l, h));
    input.steering[host(l, h)] = Granularity::destination;
  }

  // Seen on one of its entry's uplinks, or nowhere.
  void flow(int from_leaf, int from, int to_leaf, int to, CableId seen = {}, int port = 0) {
    const NicId source = *topology.find_nic(address(from_leaf, from));
    PredictedFlow predicted;
    predicted.entry = topology[source].attachments[static_cast<std::size_t>(port)];
    predicted.subflows.push_back({address(from_leaf, from), address(to_leaf, to), 50000, 17});
    predicted.observed.push_back(seen);
    prediction.demand.flows.push_back({.job = {0},
                                       .phase = 0,
                                       .source = source,
                                       .destination = *topology.find_nic(address(to_leaf, to)),
                                       .subflows = 1});
    prediction.flows.push_back(std::move(predicted));
  }

  // The plan of the best candidate, which becomes the present one.
  PlanAndMoves plan() {
    const PlanningProblem planning = make_problem(input);
    const auto optimiser = make_optimiser("heddle");
    const Candidates candidates = make_candidates(planning, *optimiser, 1);
    routing = planning.problem.current;
    efficiency = {};
    for (const Candidate& candidate : candidates.list)
      if (efficiency.by_job.empty() || compare(candidate.efficiency, efficiency) > 0) {
        routing = candidate.routing;
        efficiency = candidate.efficiency;
      }
    PlanAndMoves made = make_plan(input, planning, routing, {1, ++generation_}, false);
    present = made.plan;
    return made;
  }
  std::vector<Pin> pins(const std::string& node) const {
    const auto part = present.nodes.find(node);
    return part == present.nodes.end() ? std::vector<Pin>{} : part->second.pins;
  }

  Topology topology;
  LinkState links;
  Prediction prediction;
  RoutePlan present;
  PlanningInput input;
  Routing routing;
  Efficiency efficiency;

 private:
  std::uint64_t generation_{};
};

TEST(SegmentSteering, WrapsAtTheHostAndLeavesItsLeafWithoutAPin) {
  Steering s({});
  s.leaves_steer();
  s.sends_segments(1, 1);
  s.tells(1);
  s.tells(2);
  s.delivers(2, 1);
  s.flow(1, 1, 2, 1, s.cable(1, 1));
  s.flow(1, 2, 2, 2, s.cable(1, 1));
  s.plan();
  const std::vector<Pin> host = s.pins("h1-1");
  ASSERT_EQ(host.size(), 1U);
  EXPECT_EQ(host[0].unit, SteeringUnit(ByDestination{address(2, 1)}));
  const int over = s.routing[0].up == s.cable(1, 1) ? 1 : 2;
  EXPECT_EQ(host[0].target,
            PinTarget(SegmentList{{Steering::segment(over), Steering::delivering(2, 1)}}));
  const std::vector<Pin> leaf = s.pins("leaf1");
  ASSERT_EQ(leaf.size(), 1U) << "only for the host that cannot";
  EXPECT_EQ(leaf[0].unit, SteeringUnit(ByPortAndDestination{"p1-2", address(2, 2)}));
  EXPECT_DOUBLE_EQ(s.efficiency.worst, 1.0);
  EXPECT_NE(s.routing[0].up, s.routing[1].up);
}

TEST(SegmentSteering, LeadsOverNoSpineWithoutASegment) {
  Steering s({.spines = 4, .hosts = 3});
  for (int h = 1; h <= 3; ++h) {
    s.sends_segments(1, h);
    s.delivers(2, h);
    s.flow(1, h, 2, h, s.cable(1, h));
  }
  s.tells(2);
  s.tells(4);
  s.plan();
  for (const Path& path : s.routing) {
    ASSERT_TRUE(path.routable());
    EXPECT_TRUE(s.topology[path.up].spine == s.spine(2) || s.topology[path.up].spine == s.spine(4));
  }
  EXPECT_DOUBLE_EQ(s.efficiency.worst, 0.5) << "three flows over two spines";
}

TEST(SegmentSteering, DropsARoutingThatLeadsWhereTheHostCannot) {
  Steering s({});
  s.sends_segments(1, 1);
  s.delivers(2, 1);
  s.tells(2);
  s.flow(1, 1, 2, 1, s.cable(1, 1));
  const PlanningProblem planning = make_problem(s.input);
  ASSERT_EQ(planning.units.size(), 1U);
  EXPECT_FALSE(can_lead(planning, planning.units[0], planning.problem.current[0]));
  EXPECT_TRUE(std::ranges::none_of(make_candidates(planning, *make_optimiser("heddle"), 1).list,
                                   [](const Candidate& one) { return one.scheme == "stay"; }));
}

TEST(SegmentSteering, LeavesToTheLeafWhatTheOtherEndDoesNotUnwrap) {
  Steering s({});
  s.leaves_steer();
  s.sends_segments(1, 1);
  s.tells(1);
  s.input.segments.hosts[{s.host(2, 1), Family::v6}] = Steering::delivering(2, 1);
  s.flow(1, 1, 2, 1);
  s.plan();
  EXPECT_TRUE(s.pins("h1-1").empty()) << "it unwraps IPv6 only";
  EXPECT_EQ(s.pins("leaf1").size(), 1U);
  s.delivers(2, 1);
  s.plan();
  EXPECT_EQ(s.pins("h1-1").size(), 1U);
  EXPECT_TRUE(s.pins("leaf1").empty());
  s.input.refused.insert({s.host(1, 1), ByDestination{address(2, 1)}});
  s.plan();
  EXPECT_TRUE(s.pins("h1-1").empty()) << "its agent refuses it";
  EXPECT_EQ(s.pins("leaf1").size(), 1U);
}

TEST(SegmentSteering, LeadsElsewhereWhenTheAgentOfASpineIsLost) {
  Steering s({});
  s.sends_segments(1, 1);
  s.delivers(2, 1);
  s.tells(1);
  s.flow(1, 1, 2, 1);
  s.plan();
  ASSERT_EQ(s.pins("h1-1").at(0).target,
            PinTarget(SegmentList{{Steering::segment(1), Steering::delivering(2, 1)}}));
  s.input.segments.spines.clear();
  s.tells(2);
  const PlanAndMoves next = s.plan();
  EXPECT_TRUE(next.changed);
  EXPECT_EQ(s.pins("h1-1").at(0).target,
            PinTarget(SegmentList{{Steering::segment(2), Steering::delivering(2, 1)}}));
  EXPECT_EQ(s.pins("h1-1").at(0).reason,
            "no agent of a spine tells of the segment fd00:5::1 any more");
  s.input.segments.spines.clear();
  s.plan();
  EXPECT_TRUE(s.pins("h1-1").empty()) << "there is none left to lead over";
}

TEST(SegmentSteering, KeepsThePinsOfAHostThatIsStillToBeHeard) {
  Steering s({});
  s.leaves_steer();
  s.sends_segments(1, 1);
  s.delivers(2, 1);
  s.tells(1);
  s.flow(1, 1, 2, 1);
  s.plan();
  const std::vector<Pin> before = s.pins("h1-1");
  ASSERT_EQ(before.size(), 1U);
  s.input.segments = {};
  s.input.unheard.insert(s.host(1, 1));
  EXPECT_FALSE(s.plan().changed);
  EXPECT_EQ(s.pins("h1-1"), before);
  EXPECT_TRUE(s.pins("leaf1").empty());
}

// A list of segments names the spine; the leaf hashes over the cables to it. One of the two cables
// alone would be too narrow.
TEST(SegmentSteering, CountsParallelCablesAsHashed) {
  Steering s({.spines = 1, .hosts = 2, .cables = 2});
  for (int h = 1; h <= 2; ++h) {
    s.sends_segments(1, h);
    s.delivers(2, h);
    s.flow(1, h, 2, h);
  }
  s.tells(1);
  s.plan();
  for (const Path& path : s.routing) {
    EXPECT_TRUE(path.spread);
    EXPECT_FALSE(path.down.valid());
    EXPECT_EQ(to_string(s.topology, path), "spine1");
    EXPECT_EQ(links_of(s.topology, s.links, path).size(), 6U);
  }
  EXPECT_DOUBLE_EQ(s.efficiency.worst, 1.0);
  s.links.set(s.topology, s.cable(1, 1, 1), false);
  EXPECT_FALSE(s.plan().changed) << "the spine is the same";
  EXPECT_DOUBLE_EQ(s.efficiency.worst, 0.5) << "one cable is left";
}

TEST(SegmentSteering, NeverWrapsWhatIsNeverToBeTouched) {
  Steering s({});
  s.sends_segments(1, 1);
  s.delivers(2, 1);
  s.tells(1);
  s.flow(1, 1, 2, 1, s.cable(1, 1));
  s.input.never_touch = {*Prefix::parse("10.1.1.2/32")};
  s.plan();
  EXPECT_TRUE(s.pins("h1-1").empty());
}

// Both flows were seen on the host's first port.
TEST(HostRoutes, BalanceWhatAHostSendsOverItsPorts) {
  Steering s({.leaves = 4, .ports = 2});
  s.leaves_steer();
  s.routes(1, 1);
  s.flow(1, 1, 3, 1, s.cable(1, 1));
  s.flow(1, 1, 3, 2, s.cable(1, 1));
  const PlanAndMoves made = s.plan();
  const std::vector<Pin> host = s.pins("h1-1");
  ASSERT_EQ(host.size(), 2U);
  EXPECT_EQ(host[0].unit, SteeringUnit(ByDestination{address(3, 1)}));
  EXPECT_NE(host[0].target, host[1].target);
  EXPECT_EQ(s.efficiency.worst, 1.0);
  // Each leaf steers on what comes in by the port that was chosen.
  for (const auto& [pin, path] : {std::pair(host[0], s.routing[0]), {host[1], s.routing[1]}}) {
    const auto* route = std::get_if<HostRoute>(&pin.target);
    ASSERT_NE(route, nullptr);
    EXPECT_EQ(s.topology[path.from].host_port, route->out_port);
  }
  EXPECT_EQ(s.pins("leaf1").size(), 1U);
  EXPECT_EQ(s.pins("leaf2").size(), 1U);
  EXPECT_TRUE(std::ranges::any_of(
      made.moves, [](const FlowMove& move) { return move.from == "leaf1" && move.to == "leaf2"; }));
  EXPECT_FALSE(s.plan().changed) << "nothing moves while nothing changes";
}

// Each host sends one flow, all from the first port: the ports are fine, the leaf is not.
TEST(HostRoutes, BalanceWhatEntersByEachLeaf) {
  Steering s({.leaves = 4, .spines = 1, .hosts = 2, .ports = 2});
  s.leaves_steer();
  for (int h = 1; h <= 2; ++h) {
    s.routes(1, h);
    s.flow(1, h, 3, h, s.cable(1, 1));
  }
  s.plan();
  EXPECT_NE(s.topology[s.routing[0].from].leaf, s.topology[s.routing[1].from].leaf);
}

TEST(HostRoutes, ArePinnedAlsoWhereTheLeafDoesNotSteer) {
  Steering s({.leaves = 4, .ports = 2});
  s.routes(1, 1);
  s.flow(1, 1, 3, 1, s.cable(1, 2));
  s.flow(1, 1, 3, 2, s.cable(1, 2));
  const PlanningProblem planning = make_problem(s.input);
  s.plan();
  EXPECT_EQ(s.pins("h1-1").size(), 2U);
  EXPECT_TRUE(s.pins("leaf1").empty());
  EXPECT_TRUE(planning.incomplete.at(0))
      << "the uplink of the one that changes over is nobody's to know yet (safety rule 7)";
}

TEST(HostRoutes, GoOverWhenTheirPortDiesOrRoutingWithdrawsIt) {
  Steering s({.leaves = 4, .ports = 2});
  s.leaves_steer();
  s.routes(1, 1);
  s.flow(1, 1, 3, 1, s.cable(1, 1));
  s.plan();
  EXPECT_EQ(s.pins("h1-1").at(0).target, PinTarget(HostRoute{"eth0"})) << "where it is seen";
  const AttachmentId first = *s.topology.attachment_at(s.host(1, 1), "eth0");
  s.links.set(s.topology.nic_tx(first), false);
  s.plan();
  EXPECT_EQ(s.pins("h1-1").at(0).target, PinTarget(HostRoute{"eth1"}));
  s.links.set(s.topology.nic_tx(first), true);
  EXPECT_FALSE(s.plan().changed) << "it stays where it is";
  const AttachmentId second = *s.topology.attachment_at(s.host(1, 1), "eth1");
  s.input.unreached.insert({second, *s.topology.find_nic(address(3, 1))});
  s.plan();
  EXPECT_EQ(s.pins("h1-1").at(0).target, PinTarget(HostRoute{"eth0"}));
}

TEST(HostRoutes, AreNoChoiceWherePortsHaveOneName) {
  FabricDescription fabric;
  fabric.leaves = {{.name = "leaf1", .rack = {}, .line = 0},
                   {.name = "leaf2", .rack = {}, .line = 0}};
  fabric.hosts.push_back(
      {.name = "h",
       .rack = {},
       .nics =
           {{.name = "bond0",
             .address = "10.1.1.2",
             .attachments = {{.leaf = "leaf1", .leaf_port = "p1", .capacity = {1e9}, .line = 0},
                             {.leaf = "leaf2", .leaf_port = "p1", .capacity = {1e9}, .line = 0}},
             .line = 0}},
       .line = 0});
  const auto topology = Topology::build(fabric);
  ASSERT_TRUE(topology.has_value());
  EXPECT_FALSE(topology->attachment_at(HostId{0}, "bond0"));
}

TEST(HostRoutes, AreNotNeededToFollowAHostOffADeadPort) {
  Steering s({.leaves = 4, .ports = 2});
  s.leaves_steer();
  s.flow(1, 1, 3, 1, s.cable(1, 1));
  s.links.set(s.topology.nic_tx(*s.topology.attachment_at(s.host(1, 1), "eth0")), false);
  s.plan();
  EXPECT_TRUE(s.pins("leaf1").empty());
  EXPECT_EQ(s.pins("leaf2").size(), 1U);
  EXPECT_DOUBLE_EQ(s.efficiency.worst, 1.0);
}

// A disabled job's packets are wrapped by nobody.
TEST(SegmentSteering, LeavesADisabledJobWhereItIsSeen) {
  Steering s({.spines = 1, .cables = 2});
  s.sends_segments(1, 1);
  s.delivers(2, 1);
  s.tells(1);
  s.flow(1, 1, 2, 1, s.cable(1, 1, 2));
  s.input.disabled_jobs.insert("job");
  s.plan();
  EXPECT_TRUE(s.pins("h1-1").empty());
  EXPECT_EQ(s.routing.at(0).up, s.cable(1, 1, 2));
  EXPECT_FALSE(s.routing.at(0).spread);
}

// Where only leaves steer, the optimiser may not choose another attachment than the host does.
TEST(HostRoutes, AreNotPlannedForAHostThatCannot) {
  Steering s({.leaves = 4, .hosts = 3, .ports = 2});
  s.leaves_steer();
  for (int h = 1; h <= 3; ++h)
    s.flow(1, h, 3, h, s.cable(1, 1));
  s.plan();
  for (const Path& path : s.routing)
    EXPECT_EQ(s.topology[path.from].leaf, s.leaf(1));
  EXPECT_EQ(s.pins("leaf1").size(), 3U);
}

class Downlinks : public ::testing::Test {
 protected:
  // One spine, two cables to each leaf: two flows of two hosts.
  Downlinks() {
    s.leaves_steer();
    s.flow(1, 1, 2, 1, s.cable(1, 1, 1));
    s.flow(1, 2, 2, 2, s.cable(1, 1, 2));
  }
  Steering s{{.spines = 1, .hosts = 2, .cables = 2}};
};

TEST_F(Downlinks, AreHashedWithoutAnAgentOnTheSpine) {
  s.plan();
  for (const Path& path : s.routing)
    EXPECT_FALSE(path.down.valid());
  EXPECT_TRUE(s.pins("spine1").empty());
}

TEST_F(Downlinks, AreChosenByTheSpinesPins) {
  s.input.steering[s.spine(1)] = kPort;
  s.plan();
  ASSERT_TRUE(s.routing[0].down.valid() && s.routing[1].down.valid());
  EXPECT_NE(s.routing[0].down, s.routing[1].down);
  const std::vector<Pin> pins = s.pins("spine1");
  ASSERT_EQ(pins.size(), 2U);
  for (const Path& path : s.routing) {
    const SteeringUnit unit = ByPortAndDestination{s.topology[path.up].spine_port,
                                                   s.topology[s.topology[path.to].nic].address};
    const auto pin = std::ranges::find(pins, unit, &Pin::unit);
    ASSERT_NE(pin, pins.end()) << to_string(unit);
    EXPECT_EQ(pin->target, PinTarget(PortTableRoute{s.topology[path.down].spine_port}));
    EXPECT_EQ(s.topology[path.down].leaf, s.leaf(2));
  }
  EXPECT_TRUE(validate(s.present.nodes.at("spine1")).has_value());
  EXPECT_FALSE(s.plan().changed) << "what is chosen stays";
}

TEST_F(Downlinks, ChangeWhenTheirCableDies) {
  s.input.steering[s.spine(1)] = kPort;
  s.plan();
  const CableId before = s.routing[0].down;
  s.links.set(s.topology, before, false);
  s.plan();
  for (const Path& path : s.routing) {
    EXPECT_TRUE(path.down.valid());
    EXPECT_NE(path.down, before);
  }
}

TEST_F(Downlinks, AreLeftToTheHashWhereThePinMayNotBe) {
  s.input.steering[s.spine(1)] = kPort;
  s.input.never_touch = {*Prefix::parse("10.2.1.2/32")};
  s.plan();
  ASSERT_EQ(s.pins("spine1").size(), 1U);
  EXPECT_EQ(destination_of(s.pins("spine1")[0].unit), address(2, 2));
  s.input.never_touch = {*Prefix::parse("10.1.2.2/32")};
  s.plan();
  EXPECT_TRUE(s.pins("spine1").empty()) << "what comes in by a cable may be of any host behind it";
  s.input.never_touch.clear();
  s.input.refused.insert({s.spine(1), ByPortAndDestination{"d1-1", address(2, 1)}});
  s.plan();
  EXPECT_EQ(s.pins("spine1").size(), 1U);
}

}  // namespace
}  // namespace heddle
