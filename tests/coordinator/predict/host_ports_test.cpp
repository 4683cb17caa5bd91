#include "coordinator/predict/host_ports.h"

#include <gtest/gtest.h>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

// One that begins so many seconds after the first.
Report report(std::uint64_t tx_bytes, std::vector<PortCount> counts, bool hidden = false,
              std::chrono::seconds begin = 0s) {
  Report result = testing::report_of(1, Time{begin}, 2s, {}, {{"eth0", true, tx_bytes, 0}});
  result.rdma_ports = {{"mlx5_0", 1, "eth0", 7, hidden, std::move(counts)}};
  return result;
}

const HostPort& eth0(const HostPorts& ports) {
  return ports.ports().at({"h1-1", "eth0"});
}

// 1,000 octets in 2 s are 4,000 bit/s.
TEST(HostPorts, CountByTheInterfaceWhereRdmaDoesNot) {
  HostPorts ports;
  ports.add("h1-1", report(5'000, {}));
  EXPECT_FALSE(eth0(ports).sent) << "not before two reports";
  ports.add("h1-1", report(6'000, {}, false, 2s));
  EXPECT_EQ(eth0(ports).sent, Rate{4'000});
  EXPECT_FALSE(eth0(ports).by_rdma);
  EXPECT_EQ(eth0(ports).device, "mlx5_0");
}

// A reading of flows failed after 2 s, so that the next report is of 4 s; interfaces were read all
// the same, the last time 2 s before: 1,000 octets in that time.
TEST(SafetyRule7, AHostPortsRateIsOfTheTimeSinceItWasRead) {
  HostPorts ports;
  Report failed = report(5'000, {});
  failed.gap = true;
  ports.add("h1-1", failed);
  Report both = report(6'000, {});
  both.length = 4s;
  ports.add("h1-1", both);
  EXPECT_EQ(eth0(ports).sent, Rate{4'000});
}

TEST(HostPorts, CountByRdmaWhereItCounts) {
  HostPorts ports;
  ports.add("h1-1", report(0, {{"tx_bytes", 2'000'000, false}}));
  EXPECT_EQ(eth0(ports).sent, Rate{8e6});
  EXPECT_TRUE(eth0(ports).by_rdma);
}

TEST(SafetyRule7, AHostPortsResetIsNotItsRate) {
  HostPorts ports;
  ports.add("h1-1", report(5'000, {}));
  ports.add("h1-1", report(100, {}));
  EXPECT_FALSE(eth0(ports).sent);
  ports.add("h1-1", report(200, {{"tx_bytes", 3, true}}));
  EXPECT_FALSE(eth0(ports).sent);
}

TEST(HostPorts, SayWhatIsHidden) {
  HostPorts ports;
  ports.add("h1-1", report(5'000, {}, true));
  EXPECT_TRUE(eth0(ports).hidden);
}

TEST(HostPorts, KeepNodesApart) {
  HostPorts ports;
  ports.add("h1-1", report(5'000, {}));
  ports.add("h1-2", report(1, {}));
  ports.add("h1-1", report(6'000, {}, false, 2s));
  EXPECT_EQ(eth0(ports).sent, Rate{4'000});
}

// Counters that are read every fourth second: 4,000 octets in 4 s are 8,000 bit/s, and stand until
// they are read again. What the interface counts meanwhile is not what RDMA sends.
TEST(SafetyRule7, BetweenTwoLooksTheLastRateOfAPortStands) {
  HostPorts ports;
  Report looked = report(100, {{"tx_bytes", 4'000, false}});
  looked.rdma_ports[0].length = 4s;
  ports.add("h1-1", looked);
  EXPECT_EQ(eth0(ports).sent, Rate{8'000});
  EXPECT_EQ(eth0(ports).length, 4s);
  ports.add("h1-1", report(200, {}));
  EXPECT_EQ(eth0(ports).sent, Rate{8'000});
  EXPECT_TRUE(eth0(ports).by_rdma);
  // A look that finds no counter takes it back.
  Report nothing = report(300, {});
  nothing.rdma_ports[0].length = 4s;
  ports.add("h1-1", nothing);
  EXPECT_FALSE(eth0(ports).by_rdma);
  EXPECT_TRUE(eth0(ports).counts.empty());
}

// 7 in 2 s.
TEST(HostPorts, KnowHowOftenALeafsPortWasPaused) {
  HostPorts ports;
  ports.add("leaf1", testing::report_of(1, Time{}, 2s, {},
                                        {{.name = "up1", .counts = {{"pause_received", 7, false}}},
                                         {.name = "up2"}}));
  const HostPort* const up1 = ports.find("leaf1", "up1");
  ASSERT_NE(up1, nullptr);
  EXPECT_EQ(up1->counts, (std::vector<PortCount>{{"pause_received", 7, false}}));
  EXPECT_EQ(up1->length, 2s);
  EXPECT_TRUE(ports.find("leaf1", "up2")->counts.empty());
}

}  // namespace
}  // namespace heddle
