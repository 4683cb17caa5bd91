// Counted packets and samples of the same flows, through the reporter, as a leaf reports them.
#include "agent/observe/switch_source.h"

#include <gtest/gtest.h>

#include <map>

#include "agent/report/reporter.h"
#include "tests/agent/observe/fake_drivers.h"

namespace heddle {
namespace {

using std::chrono::seconds;

struct FakeSource final : FlowSource {
  explicit FakeSource(std::string source_name) : name(std::move(source_name)) {
    reading = FlowReading{.source = name, .gap = false, .flows = {}};
  }
  std::vector<SourceCapability> probe() override { return {{name, true, ""}}; }
  void links_changed() override { ++changes; }
  Result<FlowReading> read(Time) override { return reading; }
  // A counter that stands at so many packets of 100 octets.
  void stands(std::uint32_t qpn, const std::string& port, std::uint64_t packets,
              Time first_seen = Time(seconds(1)), std::uint64_t error = 0) {
    for (FlowCounter& flow : reading->flows)
      if (flow.dest_qpn == qpn && flow.out_port == port) {
        flow.bytes = {100 * packets};
        flow.packets = packets;
        flow.first_seen = first_seen;
        flow.bytes_error = {error};
        return;
      }
    reading->flows.push_back({.source = IpAddress::v4(10, 1, 1, 2),
                              .destination = IpAddress::v4(10, 2, 1, 2),
                              .source_port = 51'986,
                              .dest_qpn = qpn,
                              .out_port = port,
                              .first_seen = first_seen,
                              .bytes = {100 * packets},
                              .packets = packets,
                              .message_length = {},
                              .bytes_error = {error}});
  }

  std::string name;
  Result<FlowReading> reading;
  int changes{};
};

class SwitchSourceTest : public ::testing::Test {
 protected:
  Report report() {
    now += seconds(1);
    return reporter.report(now, WallTime(seconds(1'000)), source.read(now),
                           {{.name = "up1"}, {.name = "up2"}, {.name = "p1"}});
  }

  FakeSource packets{"ebpf"}, samples{"psample"};
  FakeDrivers drivers;
  SwitchSource source{packets, samples, drivers};
  Time now{seconds(10)};
  Reporter reporter{now, true};
};

TEST_F(SwitchSourceTest, AFlowThatBothSeeIsOneAndIsCounted) {
  packets.stands(7, "up1", 50);
  samples.stands(7, "up1", 60, Time(seconds(2)), 900);
  const Report first = report();
  ASSERT_EQ(first.flows.size(), 1U);
  EXPECT_EQ(first.flows[0].bytes.value, 5'000U);
  EXPECT_EQ(first.flows[0].source, "ebpf");
  EXPECT_EQ(first.flows[0].bytes_error.value, 0U);
}

TEST_F(SwitchSourceTest, WhatOnlySamplesSeeIsEstimated) {
  packets.stands(7, "up1", 50);
  samples.stands(8, "up2", 60, Time(seconds(2)), 900);
  const Report first = report();
  ASSERT_EQ(first.flows.size(), 2U);
  const FlowDelta& sampled = first.flows[first.flows[0].key.dest_qpn == 8 ? 0 : 1];
  EXPECT_EQ(sampled.bytes.value, 6'000U);
  EXPECT_EQ(sampled.source, "psample");
  EXPECT_EQ(sampled.bytes_error.value, 900U);
  EXPECT_EQ(sampled.out_port, "up2");
}

// 50 packets are counted while 60 are estimated; then the hardware takes over, and of 90 estimated
// in all, 30 are new. Then the kernel forwards again.
TEST_F(SwitchSourceTest, WhereHardwareTakesOverNoPacketIsCountedTwice) {
  packets.stands(7, "up1", 50);
  samples.stands(7, "up1", 60);
  EXPECT_EQ(report().flows.at(0).packets, 50U);
  samples.stands(7, "up1", 90);
  const Report offloaded = report();
  EXPECT_EQ(offloaded.flows.at(0).packets, 30U);
  EXPECT_EQ(offloaded.flows.at(0).source, "psample");
  EXPECT_FALSE(offloaded.flows.at(0).reset);
  packets.stands(7, "up1", 55);
  samples.stands(7, "up1", 96);
  const Report back = report();
  EXPECT_EQ(back.flows.at(0).packets, 5U);
  EXPECT_EQ(back.flows.at(0).source, "ebpf");
  EXPECT_TRUE(report().flows.empty()) << "silence";
  samples.stands(7, "up1", 97);
  packets.reading->flows.clear();  // the kernel's table has forgotten it
  EXPECT_EQ(report().flows.at(0).packets, 1U);
}

// As when the module is loaded. Of 70 packets 50 were counted before there were samples, and so
// were all 30 of the flow that is silent now.
TEST_F(SwitchSourceTest, WhereSamplesBeginLaterNoPacketIsCountedTwice) {
  const Result<FlowReading> sampling = samples.reading;
  samples.reading = fail(Errc::unobservable, "no psample");
  packets.stands(7, "up1", 50);
  packets.stands(8, "up1", 30);
  EXPECT_EQ(report().flows.size(), 2U);
  samples.reading = sampling;
  samples.stands(7, "up1", 90);
  packets.stands(7, "up1", 70);
  const Report both = report();
  ASSERT_EQ(both.flows.size(), 1U);
  EXPECT_EQ(both.flows[0].packets, 20U);
  EXPECT_FALSE(both.flows[0].reset);
  samples.stands(7, "up1", 100);
  EXPECT_EQ(report().flows.at(0).packets, 10U) << "of samples";
  samples.reading = fail(Errc::unobservable, "no psample");
  packets.stands(7, "up1", 75);
  const Report after = report();
  EXPECT_EQ(after.flows.at(0).packets, 5U);
  EXPECT_FALSE(after.flows.at(0).reset);
}

TEST_F(SwitchSourceTest, ACounterThatBeganAgainIsAReset) {
  packets.stands(7, "up1", 50);
  EXPECT_FALSE(report().flows.at(0).reset);
  packets.stands(7, "up1", 20, Time(seconds(9)));
  const Report again = report();
  EXPECT_EQ(again.flows.at(0).packets, 20U);
  EXPECT_TRUE(again.flows.at(0).reset);
}

TEST_F(SwitchSourceTest, SafetyRule7OneSourceThatIsMissingIsNoGapAndOneThatFailedIs) {
  packets.reading = fail(Errc::unobservable, "no CAP_BPF");
  samples.stands(8, "up2", 60);
  const Report only_samples = report();
  EXPECT_FALSE(only_samples.gap);
  EXPECT_EQ(only_samples.flows.size(), 1U);
  packets.reading = fail(Errc::kernel, "the map cannot be read");
  EXPECT_TRUE(report().gap);
  samples.reading = fail(Errc::unobservable, "no psample");
  EXPECT_TRUE(report().gap);
  EXPECT_FALSE(source.read(now));
}

TEST_F(SwitchSourceTest, SaysWhatEachCanSee) {
  const std::vector<SourceCapability> both = source.probe();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].name, "ebpf");
  EXPECT_EQ(both[1].name, "psample");
  source.links_changed();
  EXPECT_EQ(packets.changes + samples.changes, 2);
}

// The names are mlx5's, as a switch of NICs has them; up2's driver counts packets only, p1's
// nothing.
TEST_F(SwitchSourceTest, PausesOfItsPortsAreReportedAsSynthesisedFromTheDriver) {
  source.watch({"p1", "up1", "up2"});
  drivers.counts["up1"] = {{"rx_prio3_pause", 5}, {"tx_prio3_pause", 2}};
  drivers.counts["up2"] = {{"rx_packets", 9}};
  EXPECT_TRUE(report().ports.at(0).counts.empty()) << "nothing to compare with yet";
  drivers.counts["up1"] = {{"rx_prio3_pause", 12}, {"tx_prio3_pause", 2}};
  const Report second = report();
  EXPECT_EQ(second.ports.at(0).counts,
            (std::vector<PortCount>{{"pause_received", 7, false}, {"pause_sent", 0, false}}));
  EXPECT_TRUE(second.ports.at(1).counts.empty());
  EXPECT_TRUE(second.ports.at(2).counts.empty());
}

TEST_F(SwitchSourceTest, SafetyRule7PausesThatWereNotReadForATimeBeginAnew) {
  source.watch({"up1"});
  drivers.counts["up1"] = {{"rx_prio3_pause", 5}};
  report();
  drivers.counts.clear();
  EXPECT_TRUE(report().ports.at(0).counts.empty());
  drivers.counts["up1"] = {{"rx_prio3_pause", 50}};
  EXPECT_TRUE(report().ports.at(0).counts.empty()) << "unobservable, and not 45 in this second";
  drivers.counts["up1"] = {{"rx_prio3_pause", 4}};
  EXPECT_EQ(report().ports.at(0).counts, (std::vector<PortCount>{{"pause_received", 4, true}}));
}

}  // namespace
}  // namespace heddle
