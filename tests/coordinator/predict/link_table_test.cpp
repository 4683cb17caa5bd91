#include "coordinator/predict/link_table.h"

#include <gtest/gtest.h>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

class LinkTableTest : public ::testing::Test {
 protected:
  CableId cable(const char* leaf, const char* port) {
    return *topology.cable_at(*topology.find_leaf(leaf), port);
  }
  Topology topology{testing::small_fabric(3, 2, 2)};
  LinkTable links{topology};
};

TEST_F(LinkTableTest, TakesBothDirectionsDownWithTheLeafsCarrier) {
  const std::vector<PortStatus> down{{.name = "up2", .carrier = false}};
  EXPECT_EQ(links.set_ports("leaf1", down), std::vector<std::string>{"leaf1-spine2 down"});
  EXPECT_FALSE(links.state().up(topology.uplink(cable("leaf1", "up2"))));
  EXPECT_FALSE(links.state().up(topology.downlink(cable("leaf1", "up2"))));
  EXPECT_TRUE(links.state().up(topology.uplink(cable("leaf1", "up1"))));
  EXPECT_TRUE(links.set_ports("leaf1", down).empty()) << "the same again is no event";
  EXPECT_EQ(links.set_ports("leaf1", std::vector<PortStatus>{{.name = "up2", .carrier = true}}),
            std::vector<std::string>{"leaf1-spine2 up"});
}

// leaf1 can no longer reach what lies behind leaf3 by spine 2; leaf2 is not behind that prefix.
TEST_F(LinkTableTest, ForbidsWithdrawnNextHopsForTheLeavesBehindThem) {
  links.set_withdrawn("leaf1", {{*Prefix::parse("10.3.0.0/16"), "up2"}});
  const Forbidden expected{*topology.find_leaf("leaf1"), *topology.find_leaf("leaf3"),
                           cable("leaf1", "up2")};
  EXPECT_EQ(links.forbidden(), std::vector{expected});
  EXPECT_EQ(links.set_withdrawn("leaf1", {}).size(), 1U);
  EXPECT_TRUE(links.forbidden().empty());
}

TEST_F(LinkTableTest, ForbidsALeafOfWhichOnlyOneHostIsWithdrawn) {
  links.set_withdrawn("leaf1", {{*Prefix::parse("10.3.2.2/32"), "up1"}});
  ASSERT_EQ(links.forbidden().size(), 1U);
  EXPECT_EQ(links.forbidden()[0].to, *topology.find_leaf("leaf3"));
}

// A host with two ports knows of them what an agentless leaf does not tell; up is what neither end
// calls down.
TEST(LinkTableOfHosts, ListensToHostsThatHaveAChoice) {
  const Topology topology = testing::shaped_fabric({.leaves = 3, .ports = 2});
  LinkTable links{topology};
  const AttachmentId second = *topology.attachment_at(*topology.find_host("h1-1"), "eth1");
  const LinkId tx = topology.nic_tx(second);
  const auto say = [&](const char* node, const char* port, bool carrier) {
    return links.set_ports(node, std::vector<PortStatus>{{.name = port, .carrier = carrier}});
  };
  EXPECT_EQ(say("h1-1", "eth1", false), std::vector<std::string>{"leaf2-h1-1/eth0 down"});
  EXPECT_FALSE(links.state().up(tx));
  EXPECT_TRUE(say("leaf2", "p1-1", true).empty());
  EXPECT_FALSE(links.state().up(tx)) << "the host knows better";
  EXPECT_TRUE(say("leaf2", "p1-1", false).empty());
  EXPECT_TRUE(say("h1-1", "eth1", true).empty());
  EXPECT_FALSE(links.state().up(tx));
  EXPECT_EQ(say("leaf2", "p1-1", true).size(), 1U);
  EXPECT_TRUE(links.state().up(tx));
}

TEST(LinkTableOfHosts, KnowsWhatAHostNoLongerReachesByAPort) {
  const Topology topology = testing::shaped_fabric({.leaves = 3, .ports = 2});
  LinkTable links{topology};
  EXPECT_EQ(links.set_withdrawn("h1-1", {{*Prefix::parse("10.3.1.2/32"), "eth1"}}),
            std::vector<std::string>{"h1-1 no longer reaches 10.3.1.2/32 by eth1"});
  const std::pair expected{*topology.attachment_at(*topology.find_host("h1-1"), "eth1"),
                           *topology.find_nic(testing::address(3, 1))};
  EXPECT_EQ(links.unreached(), std::set{expected});
  EXPECT_TRUE(links.forbidden().empty()) << "no leaf has said anything";
  EXPECT_EQ(links.set_withdrawn("h1-1", {}).size(), 1U);
  EXPECT_TRUE(links.unreached().empty());
}

TEST_F(LinkTableTest, DoesNotListenToHostsAboutLinks) {
  EXPECT_TRUE(
      links.set_ports("h1-1", std::vector<PortStatus>{{.name = "up1", .carrier = false}}).empty());
}

// 1,000,000 bytes in half a second are 16 Mbit/s; what leaves the leaf is the uplink's load.
TEST_F(LinkTableTest, TakesRatesFromDifferencesOfCounters) {
  const auto report = [](std::uint64_t number, std::uint64_t tx, std::uint64_t rx) {
    return testing::report_of(number, Time{500ms * number}, 500ms, {}, {{"up1", true, tx, rx}});
  };
  const LinkId up = topology.uplink(cable("leaf1", "up1"));
  const LinkId down = topology.downlink(cable("leaf1", "up1"));
  links.count("leaf1", report(1, 5000000, 100));
  EXPECT_FALSE(links.rate(up));
  links.count("leaf1", report(2, 6000000, 100));
  EXPECT_DOUBLE_EQ(links.rate(up)->bits_per_second, 16e6);
  EXPECT_DOUBLE_EQ(links.rate(down)->bits_per_second, 0.0);
}

// The flows of a leaf that can see none are not read, so its intervals grow: 1 s, 2 s, ... 5 s; its
// ports are read each second, and send 1,000,000 bytes in each. The last one reads flows as well.
TEST_F(LinkTableTest, SafetyRule7ALeafThatSeesNoFlowsSeesItsLinksRates) {
  const LinkId up = topology.uplink(cable("leaf1", "up1"));
  const LinkId down = topology.downlink(cable("leaf1", "up1"));
  for (std::uint64_t number = 1; number <= 5; ++number) {
    Report report = testing::report_of(number, Time{7s}, 1s * number, {},
                                       {{"up1", true, 1'000'000 * number, 500'000 * number}});
    report.gap = number < 5;
    links.count("leaf1", report);
    ASSERT_EQ(links.rate(up).has_value(), number > 1);
    if (number > 1) {
      EXPECT_DOUBLE_EQ(links.rate(up)->bits_per_second, 8e6) << "report " << number;
      EXPECT_DOUBLE_EQ(links.rate(down)->bits_per_second, 4e6) << "report " << number;
    }
  }
  links.count("leaf1", testing::report_of(6, Time{12s}, 1s, {}, {{"up1", true, 6'000'000, 0}}));
  EXPECT_DOUBLE_EQ(links.rate(up)->bits_per_second, 8e6);
}

TEST_F(LinkTableTest, SafetyRule7AResetOrALostReportMakesARateUnknown) {
  const auto report = [](std::uint64_t number, std::uint64_t tx) {
    return testing::report_of(number, Time{500ms * number}, 500ms, {}, {{"up1", true, tx, 0}});
  };
  const LinkId up = topology.uplink(cable("leaf1", "up1"));
  links.count("leaf1", report(1, 1000));
  links.count("leaf1", report(2, 2000));
  ASSERT_TRUE(links.rate(up));
  links.count("leaf1", report(3, 10));
  EXPECT_FALSE(links.rate(up)) << "the counter went back";
  links.count("leaf1", report(4, 20));
  ASSERT_TRUE(links.rate(up));
  links.count("leaf1", report(6, 40));
  EXPECT_FALSE(links.rate(up)) << "report 5 was lost";
}

}  // namespace
}  // namespace heddle
