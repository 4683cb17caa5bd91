// Speeds from a real kernel: every machine has a loopback interface, which has none; veth pairs,
// with theirs, are in the network tests.
#include "agent/netlink/port_speeds.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

struct OnePort final : PortSource {
  Result<std::vector<PortStatus>> status{std::vector<PortStatus>{{.name = "lo", .carrier = true}}};
  Result<std::vector<PortStatus>> ports() override { return status; }
};
struct StillClock final : Clock {
  Time now() const override { return Time{}; }
  WallTime wall() const override { return WallTime{}; }
};

TEST(PortSpeeds, SafetyRule7WhatTheKernelDoesNotKnowIsNoSpeed) {
  EXPECT_EQ(speed_of(400'000), Rate{400e9});
  EXPECT_EQ(speed_of(0), std::nullopt);
  EXPECT_EQ(speed_of(0xffffffff), std::nullopt);
  OnePort ports;
  const StillClock clock;
  PortSpeeds speeds(ports, clock);
  ASSERT_TRUE(speeds.ports());
  EXPECT_EQ(speeds.ports()->front().speed, Rate{});
  EXPECT_EQ(speeds.ports()->front().name, "lo");
}

TEST(PortSpeeds, PassOnThatPortsCannotBeRead) {
  OnePort ports;
  ports.status = fail(Errc::kernel, "no");
  const StillClock clock;
  EXPECT_FALSE(PortSpeeds(ports, clock).ports());
}

}  // namespace
}  // namespace heddle
