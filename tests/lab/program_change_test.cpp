// What the kernel and others do under a running agent: it withdraws, repairs, re-reads, and never
// ends.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "tests/lab/each_way.h"
#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

void print(const std::string& text) {
  std::printf("[ measured ] %s\n", text.c_str());
}

class Changes : public EachEnforcer {
 protected:
  static NodePlan two_pins() {
    return plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.3.1.2", "up2")});
  }
  // The time from the change in `main` to the pin's absence from the kernel.
  static double removal_ms(Case& c, const std::function<void(Netlink&)>& change) {
    change(c.leaf.at_leaf);
    const Time begin = c.agent.clock.now();
    c.leaf.commit();
    EXPECT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 1; }));
    const double elapsed = milliseconds(c.agent.clock.now() - begin);
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
    EXPECT_EQ(c.leaf.pinned_to("p2", "10.3.1.2"), "up2");
    return elapsed;
  }
  static void expect_failed_by_rule_12(const Case& c) {
    const auto state = c.agent.state();
    ASSERT_EQ(state.failed.size(), 1U);
    EXPECT_EQ(state.failed[0].code, Errc::not_found);
    EXPECT_EQ(state.failed[0].reason, say("main does not offer up1 for 10.2.1.2"));
  }
};

using SafetyRule12Each = Changes;
using SafetyRule6Each = Changes;
using SafetyRule5Each = Changes;
using SafetyRule5EveryWay = Changes;
using EachWay = Changes;
INSTANTIATE_TEST_SUITE_P(, SafetyRule12Each, every_enforcer_and_hosts(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule6Each, every_enforcer_and_hosts(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule5Each, every_enforcer_and_hosts(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule5EveryWay, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, EachWay, every_way(), name_of_case);

// Rule 12
// ------------------------------------------------------------------------------------------

TEST_P(SafetyRule12Each, APinGoesWhenAReplacedGroupNoLongerHoldsItsNextHop) {
  Case c(GetParam());
  // A group of its own for 10.2.0.0/16, so that the other pin is not concerned.
  c.leaf.at_leaf.set_group(101, std::vector<std::uint32_t>{1, 2, 3});
  c.leaf.at_leaf.add_route({.destination = net("10.2.0.0/16"), .nexthop_id = 101});
  c.leaf.commit();
  c.agent.kernel->ready();
  ASSERT_TRUE(c.agent.installs(two_pins()));
  double worst = 0;
  for (int round = 0; round < 20; ++round) {
    const double ms = removal_ms(c, [](Netlink& n) {
      n.set_group(101, std::vector<std::uint32_t>{2, 3});
    });
    worst = std::max(worst, ms);
    expect_failed_by_rule_12(c);
    EXPECT_EQ(c.agent.programmer->withdrawn(),
              (std::vector<Withdrawal>{{.destination = net("10.2.0.0/16"), .out_port = "up1"}}));
    c.leaf.at_leaf.set_group(101, std::vector<std::uint32_t>{1, 2, 3});
    c.leaf.commit();
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
    EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "up1");
    EXPECT_TRUE(c.agent.programmer->withdrawn().empty());
  }
  print(fmt::format("pin gone after a group replace: {:.2f} ms at most of 20", worst));
  EXPECT_LT(worst, 100.0);
}

TEST_P(SafetyRule12Each, APinGoesWhenARouteIsReplacedByOneWithoutItsNextHop) {
  Case c(GetParam());
  c.leaf.at_leaf.set_group(101, std::vector<std::uint32_t>{2, 3});
  c.leaf.commit();
  ASSERT_TRUE(c.agent.installs(two_pins()));
  double worst = 0;
  for (int round = 0; round < 20; ++round) {
    worst = std::max(worst, removal_ms(c, [](Netlink& n) {
                       n.add_route({.destination = net("10.2.0.0/16"), .nexthop_id = 101});
                     }));
    expect_failed_by_rule_12(c);
    c.leaf.at_leaf.add_route({.destination = net("10.2.0.0/16"), .nexthop_id = kGroup});
    c.leaf.commit();
    ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
  }
  print(fmt::format("pin gone after a route replace: {:.2f} ms at most of 20", worst));
  EXPECT_LT(worst, 100.0);
}

TEST_P(SafetyRule12Each, APinGoesWithASingleRouteOfTheOldKindAndWithAMoreSpecificOne) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  const RouteSpec aside{
      .destination = net("10.2.1.0/24"), .gateway = Leaf::gateway(3), .device = "up3"};
  removal_ms(c, [&](Netlink& n) { n.add_route(aside); });
  expect_failed_by_rule_12(c);
  c.leaf.at_leaf.delete_route(aside);
  c.leaf.commit();
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
  removal_ms(c, [&](Netlink& n) {
    n.delete_route({.destination = net("10.2.0.0/16"), .nexthop_id = kGroup});
  });
  expect_failed_by_rule_12(c);
}

TEST_P(SafetyRule12Each, APinIsKeptOnlyAsFarAsMainOffersItBeforeTheFirstPlanAfterARestart) {
  Leaf leaf;
  const TemporaryDirectory state;
  {
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  leaf.at_leaf.add_route(
      {.destination = net("10.2.0.0/16"), .gateway = Leaf::gateway(3), .device = "up3"});
  leaf.commit();
  Agent agent(leaf, state.path(), 4 << 20, {}, config());
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "");
  EXPECT_EQ(leaf.pinned_to("p2", "10.3.1.2"), "up2");
}

TEST_P(SafetyRule12Each, AThousandPinsOfOneUplinkGoWithinTheLimit) {
  Case c(GetParam());
  std::vector<Pin> pins;
  for (int d = 0; d < 1000; ++d)
    pins.push_back(pin(d % 2 == 0 ? "p1" : "p2", fmt::format("10.2.{}.{}", d / 250, d % 250 + 2),
                       Leaf::uplink(d % kUplinks + 1)));
  ASSERT_TRUE(c.agent.installs(plan(1, pins)));
  c.leaf.at_leaf.set_group(kGroup, std::vector<std::uint32_t>{2, 3});
  const Time begin = c.agent.clock.now();
  c.leaf.commit();
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().failed.size() == 334; }));
  const double ms = milliseconds(c.agent.clock.now() - begin);
  EXPECT_EQ(c.leaf.pins(), 666U);
  print(fmt::format("334 of 1,000 pins gone after a group replace: {:.2f} ms", ms));
  EXPECT_LT(ms, 100.0);
}

// Rule 6
// -------------------------------------------------------------------------------------------

TEST_P(SafetyRule6Each, APinToAGatewayThatDoesNotAnswerIsNotCountedNorHeld) {
  Leaf leaf;
  // Nobody has this gateway's address yet.
  leaf.at_leaf.add_address("up1", ip("10.105.0.1"), length_of(29));
  leaf.at_leaf.set_nexthop(9, ip("10.105.0.3"), "up1");
  leaf.at_leaf.add_route({.destination = net("10.4.0.0/16"), .nexthop_id = 9});
  leaf.commit();
  const TemporaryDirectory state;
  Agent agent(leaf, state.path(), 4 << 20, {}, config());
  agent.programmer->want(plan(1, {pin("p1", "10.4.1.2", "up1"), pin("p1", "10.2.1.2", "up1")}));
  ASSERT_TRUE(agent.run_until([&] {
    const auto now = agent.state();
    return now.installed == 1 && now.failed.size() == 1 &&
           now.failed[0].reason == say("gateway 10.105.0.3 does not answer");
  }));
  EXPECT_EQ(agent.state().failed[0].code, Errc::timeout);
  EXPECT_EQ(leaf.pinned_to("p1", "10.4.1.2"), "");
  // It comes to life, and the pin with it.
  leaf.at_beyond.add_address("s1", ip("10.105.0.3"), length_of(29));
  must(leaf.at_beyond.commit());
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 2; }));
  EXPECT_EQ(leaf.pinned_to("p1", "10.4.1.2"), "up1");
}

// Rule 5
// -------------------------------------------------------------------------------------------

TEST_P(SafetyRule5Each, ATinyBufferUnderTwoThousandForeignChangesEndsInTheRightTables) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path(), 8 << 10, {}, config());
  ASSERT_TRUE(agent.installs(two_pins()));
  // A flood in the middle of which `main` takes up1 away from 10.2.0.0/16, unseen.
  for (int n = 0; n < 2000; ++n) {
    leaf.at_leaf.add_route({.destination = net(fmt::format("10.50.{}.{}/32", n / 250, n % 250)),
                            .nexthop_id = 2,
                            .protocol = kOther});
    if (n == 1000)
      leaf.at_leaf.add_route({.destination = net("10.2.0.0/16"), .nexthop_id = 3});
  }
  const Time begin = agent.clock.now();
  leaf.commit();
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  const double ms = milliseconds(agent.clock.now() - begin);
  EXPECT_EQ(leaf.pinned_to("p1", "10.2.1.2"), "");
  EXPECT_GE(agent.programmer->counters().events_lost, 1U);
  print(fmt::format(
      "converged {:.1f} ms after 2,000 changes, {} of them heard of, {} losses, {} full reads", ms,
      agent.events, agent.programmer->counters().events_lost,
      agent.programmer->counters().full_reads));
  // Rule 12's limit, although the withdrawal itself was among the losses.
  EXPECT_LT(ms, 100.0);
}

TEST_P(SafetyRule5Each, CarrierLossOfAnUplinkAndItsReturnAreRepaired) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  c.leaf.set_far_end(1, false);
  // The kernel may tell of the neighbour's end before it tells of the link's.
  ASSERT_TRUE(c.agent.run_until([&] {
    const auto state = c.agent.state();
    return state.installed == 1 && state.failed.at(0).reason == "up1 has no carrier";
  }));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "");
  c.leaf.set_far_end(1, true);
  ASSERT_TRUE(c.agent.run_until([&] {
    return c.agent.programmer->next_deadline() > c.agent.clock.now() + std::chrono::seconds{5};
  }));
  // Nothing returns by itself: `main` has to offer it again.
  EXPECT_EQ(c.agent.state().installed, 1U);
  c.leaf.write_main();
  const Time begin = c.agent.clock.now();
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
  print(fmt::format("pin back {:.2f} ms after main offered it again",
                    milliseconds(c.agent.clock.now() - begin)));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "up1");
}

TEST_P(SafetyRule5EveryWay, CarrierLossOfAHostPortChangesNothing) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  const auto routes = c.leaf.pinned_routes();
  const std::string marks = c.leaf.mark_table();
  for (const bool up : {false, true}) {
    c.leaf.at_beyond.set_up("h1", up);
    must(c.leaf.at_beyond.commit());
    const auto reads = c.agent.programmer->counters().full_reads;
    ASSERT_TRUE(
        c.agent.run_until([&] { return c.agent.programmer->counters().full_reads > reads; }));
    c.agent.settle();
    EXPECT_EQ(c.leaf.pinned_routes(), routes);
    EXPECT_EQ(c.leaf.mark_table(), marks);
  }
  c.agent.settle();
  EXPECT_EQ(c.agent.state().installed, 2U);
}

TEST_P(SafetyRule5EveryWay, AHundredFlapsEndInTheRightTables) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  for (int flap = 0; flap < 100; ++flap) {
    c.leaf.set_far_end(1, false);
    c.leaf.set_far_end(1, true);
    c.leaf.write_main();
    // One round of the loop, with whatever has come by now.
    c.agent.run_until([] { return false; }, std::chrono::milliseconds{1});
  }
  const Time begin = c.agent.clock.now();
  ASSERT_TRUE(c.agent.run_until([&] {
    return c.agent.state().installed == 2 && c.leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
           c.agent.programmer->next_deadline() > c.agent.clock.now() + std::chrono::seconds{5};
  }));
  const double ms = milliseconds(c.agent.clock.now() - begin);
  print(fmt::format("settled {:.1f} ms after the last of 100 flaps", ms));
  // The kernel repeats a question to a neighbour that was lost in a flap after a second.
  EXPECT_LT(ms, 1200.0);
  EXPECT_EQ(c.leaf.pin_next_hops().size(), 2U);
}

TEST_P(SafetyRule5EveryWay, AnUplinkThatVanishesAndReturnsUnderAnotherIndexIsFollowed) {
  Case c(GetParam());
  ASSERT_TRUE(c.agent.installs(two_pins()));
  const int old_index = c.leaf.at_leaf.index_of("up1");
  c.leaf.at_leaf.delete_link("up1");
  c.leaf.commit();
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 1; }));
  EXPECT_EQ(c.agent.state().failed.at(0).reason, lost_with(1, "there is no interface up1"));
  // A fresh socket: the other one remembers indices.
  c.leaf.at_leaf = must(Netlink::open(c.leaf.leaf));
  c.leaf.at_beyond = must(Netlink::open(c.leaf.beyond));
  c.leaf.cable("up1", "s1", Leaf::network(1));
  if (by_segments())
    c.leaf.give_way_to_segment(1);
  c.leaf.write_main();
  ASSERT_NE(c.leaf.at_leaf.index_of("up1"), old_index);
  ASSERT_TRUE(c.agent.run_until([&] { return c.agent.state().installed == 2; }));
  EXPECT_EQ(c.leaf.pinned_to("p1", "10.2.1.2"), "up1");
}

// Repair
// -------------------------------------------------------------------------------------------

struct Deletion {
  const char* name;
  std::function<void(Leaf&)> destroy;
};

TEST_P(EachWay, AreRestoredAfterSomebodyDeletedThem) {
  const std::vector<Deletion> deletions = {
      {"routes",
       [](Leaf& leaf) {
         for (const RouteSeen& r : leaf.pinned_routes())
           leaf.at_leaf.delete_route({.destination = r.destination,
                                      .nexthop_id = r.nexthop_id,
                                      .table = r.table,
                                      .protocol = r.protocol});
       }},
      {"next hops",
       [](Leaf& leaf) {
         for (const NexthopSeen& n : leaf.pin_next_hops())
           leaf.at_leaf.delete_nexthop(n.id);
       }},
      {"rules",
       [](Leaf& leaf) {
         for (const RuleSpec& r : leaf.pin_rules())
           leaf.at_leaf.delete_rule(r, tested_family);
       }},
      {"a next hop replaced by another of our protocol",
       [](Leaf& leaf) {
         leaf.at_leaf.set_nexthop(leaf.pin_next_hops().at(0).id, Leaf::gateway(3), "up3",
                                  Write::replace, RoutingRanges{}.protocol);
       }},
      {"a route replaced by another of our protocol",
       [](Leaf& leaf) {
         const RouteSeen r = leaf.pinned_routes().at(0);
         leaf.at_leaf.add_route({.destination = r.destination,
                                 .gateway = Leaf::gateway(3),
                                 .device = "up3",
                                 .table = r.table,
                                 .protocol = r.protocol});
       }},
  };
  for (const Deletion& deletion : deletions) {
    SCOPED_TRACE(deletion.name);
    Case c(GetParam());
    ASSERT_TRUE(c.agent.installs(two_pins()));
    const auto repairs = c.agent.programmer->counters().repairs;
    deletion.destroy(c.leaf);
    c.leaf.commit();
    const Time begin = c.agent.clock.now();
    ASSERT_TRUE(c.agent.run_until([&] {
      return c.agent.programmer->counters().repairs > repairs && c.agent.state().installed == 2 &&
             c.leaf.pinned_to("p1", "10.2.1.2") == "up1" &&
             c.leaf.pinned_to("p2", "10.3.1.2") == "up2";
    }));
    print(fmt::format("{}: restored in {:.1f} ms", deletion.name,
                      milliseconds(c.agent.clock.now() - begin)));
  }
}

// Reports
// ------------------------------------------------------------------------------------------

TEST_P(EachWay, ReportsCarrierAndCountersOfPorts) {
  Case c(GetParam());
  c.leaf.set_far_end(3, false);
  std::map<std::string, PortStatus> ports;
  for (const PortStatus& port : must(c.agent.kernel->ports()))
    ports[port.name] = port;
  EXPECT_TRUE(ports.at("up1").carrier);
  EXPECT_FALSE(ports.at("up3").carrier);
  const std::uint64_t before = ports.at("p1").tx_bytes;

  const SocketAddress to("10.1.1.2", 9);
  const int sender = must(c.leaf.leaf.socket(to.family(), SOCK_DGRAM, 0));
  const std::vector<char> packet(1000);
  ASSERT_EQ(::sendto(sender, packet.data(), packet.size(), 0, to.get(), sizeof to.storage), 1000);
  ::close(sender);
  const auto sent = [&] {
    for (const PortStatus& port : must(c.agent.kernel->ports())) {
      if (port.name == "p1")
        return port.tx_bytes - before;
    }
    return std::uint64_t{0};
  };
  // At once, or after the neighbour has answered, which is an event.
  EXPECT_TRUE(c.agent.run_until([&] { return sent() >= 1000; }));
}

}  // namespace
}  // namespace heddle::lab
