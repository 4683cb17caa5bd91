// Pins in a real kernel: that they come, move, are adopted, go, and leave everything else alone.
#include <map>

#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

NodePlan three_pins(std::uint64_t generation = 1) {
  return plan(generation, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up2"),
                           pin("p2", "10.2.1.2", "up3")});
}

TEST(PortTables, HoldAPlanAndAcknowledgeWhatWasReadBack) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.programmer->capability().usable) << agent.programmer->capability().reason;
  ASSERT_TRUE(agent.installs(three_pins()));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up1");
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.2.2"), "up2");
  EXPECT_EQ(leaf.pinned_to("p2", "10.2.1.2"), "up3");
  EXPECT_EQ(agent.acknowledged->digest, digest(three_pins().pins));
  EXPECT_EQ(leaf.pin_rules().size(), 2U);
  EXPECT_EQ(leaf.pin_next_hops().size(), 3U);
  for (const RouteSeen& route : leaf.pinned_routes())
    EXPECT_EQ(route.protocol, RoutingRanges{}.protocol);
}

TEST(PortTables, MoveAPinByOneChangeOfOneRoute) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(three_pins()));
  const auto before = agent.programmer->counters().changes;
  ASSERT_TRUE(agent.installs(plan(2, {pin("p1", "10.2.1.2", "up2"), pin("p1", "10.2.2.2", "up2"),
                                      pin("p2", "10.2.1.2", "up3")})));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "up2");
  // The route; and the next hop of up1, which nothing uses any more.
  EXPECT_EQ(agent.programmer->counters().changes - before, 2U);
  EXPECT_EQ(leaf.pin_next_hops().size(), 2U);
}

TEST(PortTables, AreEmptyWhenNothingIsWanted) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(three_pins()));
  agent.programmer->want_nothing("the lease is over");
  ASSERT_TRUE(agent.run_until([&] { return agent.acknowledged->installed == 0; }));
  EXPECT_TRUE(leaf.nothing_pinned());
  EXPECT_EQ(agent.acknowledged->version, PlanVersion{});
  EXPECT_EQ(agent.programmer->why_nothing(), "the lease is over");
  EXPECT_TRUE(agent.acknowledged->failed.empty());
}

TEST(PortTables, SayWhichPinsCannotBeHeldAndWhy) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  agent.programmer->want(plan(
      1, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up9"), pin("p1", "10.9.9.9", "up1"),
          pin("p9", "10.2.1.2", "up1"), pin("eth0", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "p1"),
          Pin{.unit = ByDestination{ip("10.2.1.2")}, .target = HostRoute{"up1"}, .reason = {}}}));
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  std::map<std::string, std::string> why;
  for (const PinFailure& failure : agent.state().failed)
    why[to_string(failure.unit)] = failure.reason;
  EXPECT_EQ(why.size(), 6U);
  EXPECT_EQ(why["p1 > 10.2.2.2"], "there is no interface up9");
  EXPECT_EQ(why["p1 > 10.9.9.9"], "main does not offer up1 for 10.9.9.9");
  EXPECT_EQ(why["p9 > 10.2.1.2"], "there is no interface p9");
  EXPECT_EQ(why["eth0 > 10.2.1.2"], "eth0 is not one of this node's host ports");
  EXPECT_EQ(why["p2 > 10.2.1.2"], "p1 is not one of this node's uplinks");
  EXPECT_EQ(leaf.pinned_routes().size(), 1U);
}

TEST(PortTables, AreAdoptedAfterARestartWithoutOneChange) {
  Leaf leaf;
  const TemporaryDirectory state;
  {
    Agent agent(leaf, state.path());
    ASSERT_TRUE(agent.installs(three_pins()));
  }
  const auto before = leaf.pinned_routes();
  ASSERT_EQ(before.size(), 3U);
  Agent agent(leaf, state.path());
  agent.settle();
  EXPECT_EQ(agent.state().installed, 3U);
  EXPECT_EQ(agent.state().digest, digest(three_pins().pins));
  ASSERT_TRUE(agent.installs(three_pins()));
  EXPECT_EQ(agent.programmer->counters().changes, 0U);
  EXPECT_EQ(leaf.pinned_routes(), before);
}

TEST(PortTables, KeepTheirTablesWhenPortsComeAndGo) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(plan(1, {pin("p2", "10.2.1.2", "up1")})));
  const std::uint32_t table = leaf.pin_rules().at(0).table;
  ASSERT_TRUE(
      agent.installs(plan(2, {pin("p1", "10.2.1.2", "up2"), pin("p2", "10.2.1.2", "up1")})));
  for (const RuleSpec& rule : leaf.pin_rules())
    EXPECT_EQ(rule.table == table, rule.in_port == "p2");
}

// Foreign state
// ------------------------------------------------------------------------------------

struct Everything {
  std::vector<RouteSeen> routes;
  std::vector<RuleSpec> rules;
  std::vector<NexthopSeen> next_hops;
  bool operator==(const Everything&) const = default;
};
Everything everything(Leaf& leaf) {
  return {must(leaf.at_leaf.routes()), must(leaf.at_leaf.rules()), must(leaf.at_leaf.nexthops())};
}

TEST(SafetyRule1, NothingOfOthersChangesThroughAWholeLife) {
  Leaf leaf;
  // The same destinations elsewhere, neighbours of our ranges, rules around ours.
  leaf.at_leaf.add_route({.destination = net("10.2.1.2/32"), .nexthop_id = 2, .protocol = kOther});
  leaf.at_leaf.add_route(
      {.destination = net("10.2.1.2/32"), .nexthop_id = 2, .table = 18799, .protocol = kOther});
  leaf.at_leaf.add_route({.destination = net("10.2.1.2/32"),
                          .nexthop_id = 3,
                          .table = 18800 + 512,
                          .protocol = kOther});
  leaf.at_leaf.set_nexthop(187999999, Leaf::gateway(1), "up1", Write::create, kOther);
  leaf.at_leaf.set_nexthop(188004096, Leaf::gateway(1), "up1", Write::create, kOther);
  leaf.at_leaf.add_rule({.in_port = "p1", .table = 77, .priority = 1879, .protocol = kOther});
  leaf.at_leaf.add_rule({.in_port = "p1", .table = 78, .priority = 1881, .protocol = kOther});
  leaf.commit();
  const Everything before = everything(leaf);
  const TemporaryDirectory state;
  {
    Agent agent(leaf, state.path());
    // 10.2.1.2/32 in `main` goes by up2 alone now, so up1 is not offered for it.
    ASSERT_TRUE(
        agent.installs(plan(1, {pin("p1", "10.2.1.2", "up2"), pin("p2", "10.2.9.2", "up3")})));
  }
  {
    Agent agent(leaf, state.path());
    ASSERT_TRUE(agent.installs(plan(2, {pin("p1", "10.2.8.2", "up3")})));
    agent.programmer->want_nothing("disabled");
    ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 0; }));
  }
  EXPECT_EQ(everything(leaf), before);
}

struct Intruder {
  const char* name;
  std::function<void(Netlink&)> put;
  std::function<void(Netlink&)> take;
};

std::vector<Intruder> intruders() {
  const RouteSpec in_our_table{
      .destination = net("10.2.1.2/32"), .nexthop_id = 1, .table = 18800, .protocol = kOther};
  const RouteSpec not_recorded{.destination = net("10.77.0.1/32"),
                               .nexthop_id = 1,
                               .table = 18800,
                               .protocol = RoutingRanges{}.protocol};
  const RouteSpec our_number_in_main{
      .destination = net("10.78.0.0/16"), .nexthop_id = 1, .protocol = RoutingRanges{}.protocol};
  const RuleSpec at_our_priority{
      .in_port = "p2", .table = 77, .priority = 1880, .protocol = kOther};
  const RuleSpec to_our_table{.in_port = "p2", .table = 18801, .priority = 500, .protocol = kOther};
  return {
      {"route 10.2.1.2/32 table 18800 proto 99 nhid 1",
       [=](Netlink& n) { n.add_route(in_our_table, Write::create); },
       [=](Netlink& n) { n.delete_route(in_our_table); }},
      {"route 10.77.0.1/32 table 18800 proto 205 nhid 1",
       [=](Netlink& n) { n.add_route(not_recorded, Write::create); },
       [=](Netlink& n) { n.delete_route(not_recorded); }},
      {"route 10.78.0.0/16 table 254 proto 205 nhid 1",
       [=](Netlink& n) { n.add_route(our_number_in_main, Write::create); },
       [=](Netlink& n) { n.delete_route(our_number_in_main); }},
      {"rule pref 1880 iif p2 lookup 77 proto 99", [=](Netlink& n) { n.add_rule(at_our_priority); },
       [=](Netlink& n) { n.delete_rule(at_our_priority); }},
      {"rule pref 500 iif p2 lookup 18801 proto 99", [=](Netlink& n) { n.add_rule(to_our_table); },
       [=](Netlink& n) { n.delete_rule(to_our_table); }},
      {"nexthop id 1880000007 proto 99",
       [](Netlink& n) {
         n.set_nexthop(1880000007, Leaf::gateway(1), "up1", Write::create, kOther);
       },
       [](Netlink& n) { n.delete_nexthop(1880000007); }},
  };
}

TEST(SafetyRule1, ForeignStateInOurRangesIsNamedAndNothingIsProgrammedUntilItIsGone) {
  for (const Intruder& intruder : intruders()) {
    SCOPED_TRACE(intruder.name);
    Leaf leaf;
    intruder.put(leaf.at_leaf);
    leaf.commit();
    const Everything before = everything(leaf);
    const TemporaryDirectory state;
    Agent agent(leaf, state.path());
    agent.programmer->want(plan(1, {pin("p1", "10.2.5.2", "up1")}));
    ASSERT_TRUE(agent.run_until([&] { return agent.acknowledged.has_value(); }));
    EXPECT_EQ(agent.acknowledged->installed, 0U);
    EXPECT_EQ(agent.acknowledged->conflict.rfind(intruder.name, 0), 0U)
        << agent.acknowledged->conflict;
    ASSERT_EQ(agent.acknowledged->failed.size(), 1U);
    EXPECT_EQ(agent.acknowledged->failed[0].code, Errc::foreign_state);
    EXPECT_EQ(everything(leaf), before);

    intruder.take(leaf.at_leaf);
    leaf.commit();
    ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
    EXPECT_TRUE(agent.state().conflict.empty());
  }
}

TEST(SafetyRule1, ForeignStateThatComesLaterTakesOurPinsOffAndStays) {
  for (const Intruder& intruder : intruders()) {
    SCOPED_TRACE(intruder.name);
    Leaf leaf;
    const TemporaryDirectory state;
    Agent agent(leaf, state.path());
    const NodePlan wanted = plan(1, {pin("p1", "10.2.5.2", "up1")});
    ASSERT_TRUE(agent.installs(wanted));
    intruder.put(leaf.at_leaf);
    leaf.commit();
    ASSERT_TRUE(agent.run_until([&] { return !agent.state().conflict.empty(); }));
    EXPECT_EQ(agent.state().installed, 0U);
    EXPECT_EQ(leaf.pinned_to("p1", "10.2.5.2"), "");
    // Fails unless it is still there.
    intruder.take(leaf.at_leaf);
    EXPECT_EQ(why(leaf.at_leaf.commit()), "");
    ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  }
}

TEST(SafetyRule1, ANextHopThatAForeignRouteUsesIsNotRemovedUnderIt) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path());
  ASSERT_TRUE(agent.installs(plan(1, {pin("p1", "10.2.5.2", "up1")})));
  const std::uint32_t id = leaf.pin_next_hops().at(0).id;
  const RouteSpec borrower{
      .destination = net("10.79.0.0/16"), .nexthop_id = id, .protocol = kOther};
  leaf.at_leaf.add_route(borrower);
  leaf.commit();
  ASSERT_TRUE(agent.run_until([&] { return !agent.state().conflict.empty(); }));
  EXPECT_TRUE(leaf.pinned_routes().empty());
  EXPECT_EQ(leaf.pin_next_hops().size(), 1U);
  leaf.at_leaf.delete_route(borrower);
  EXPECT_EQ(why(leaf.at_leaf.commit()), "");
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
}

TEST(SafetyRule1, ALostRecordMakesOurOwnPinsForeign) {
  Leaf leaf;
  const TemporaryDirectory state;
  {
    Agent agent(leaf, state.path());
    ASSERT_TRUE(agent.installs(plan(1, {pin("p1", "10.2.5.2", "up1")})));
  }
  const Everything before = everything(leaf);
  std::filesystem::remove(state.path() + "/installed");
  Agent agent(leaf, state.path());
  agent.programmer->want(plan(2, {pin("p1", "10.2.5.2", "up2")}));
  ASSERT_TRUE(agent.run_until([&] { return agent.acknowledged.has_value(); }));
  EXPECT_NE(agent.acknowledged->conflict.find("not in our record"), std::string::npos);
  EXPECT_EQ(everything(leaf), before);
}

}  // namespace
}  // namespace heddle::lab
