// No machine here has a NIC with flow control: the drivers' names are synthesised from their
// sources, and a real kernel is asked only for what it does not offer.
#include "agent/observe/pauses.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/observe/ethtool_statistics.h"

namespace heddle {
namespace {

using Counters = std::vector<CounterValue>;

Counters pauses(std::uint64_t received, std::uint64_t sent) {
  return {{"pause_received", received, false}, {"pause_sent", sent, false}};
}

// 5 + 7 of two priorities and 1 of the link; durations and transitions count nothing again.
TEST(Pauses, OfMlx5AreOfAllPrioritiesAsSynthesisedFromItsSource) {
  const std::vector<NamedCount> statistics{{"rx_packets", 1000},
                                           {"rx_prio3_bytes", 4096},
                                           {"rx_prio3_pause", 5},
                                           {"rx_prio3_pause_duration", 100},
                                           {"rx_prio3_pause_transition", 100},
                                           {"rx_prio4_pause", 7},
                                           {"rx_global_pause", 1},
                                           {"rx_pause_ctrl_phy", 13},
                                           {"tx_prio3_pause", 2},
                                           {"tx_prio8_pause", 100},
                                           {"tx_pause_storm_warning_events", 100}};
  EXPECT_EQ(pause_counters(statistics), pauses(13, 2));
}

TEST(Pauses, HaveEachDriversNamesAsSynthesisedFromTheirSources) {
  const std::pair<const char*, const char*> kNames[] = {
      {"rx_prio0_pause", "tx_prio0_pause"},
      {"rx_global_pause", "tx_global_pause"},
      {"rx_pause_prio_7", "tx_pause_prio_7"},
      {"rx_pause", "tx_pause"},
      {"rx_pfc_ena_frames_pri3", "tx_pfc_ena_frames_pri3"},
      {"rx_pause_frames", "tx_pause_frames"},
      {"rx_priority_3_xoff.nic", "tx_priority_3_xoff.nic"},
      {"mac_rx_pfc_pri3_pkt_num", "mac_tx_pfc_pri3_pkt_num"},
      {"mac_rx_mac_pause_num", "mac_tx_mac_pause_num"}};
  for (const auto& [received, sent] : kNames)
    EXPECT_EQ(pause_counters(std::vector<NamedCount>{{received, 3}, {sent, 4}}), pauses(3, 4))
        << received;
}

TEST(SafetyRule7, PausesThatADriverDoesNotCountAreUnobservable) {
  EXPECT_TRUE(pause_counters({}).empty());
  for (const char* other :
       {"rx_packets", "rx_prio3_packets", "rx_prio_pause", "rx_prio10_pause", "rx_prio3_pause ",
        "rx_priority_3_xon.nic", "mac_rx_pfc_pkt_num", "xrx_pause", ""})
    EXPECT_TRUE(pause_counters(std::vector<NamedCount>{{other, 9}}).empty()) << other;
  // One direction is known, and the other is not zero.
  EXPECT_EQ(pause_counters(std::vector<NamedCount>{{"rx_pause", 0}}),
            (Counters{{"pause_received", 0, false}}));
}

// The loopback interface's driver counts nothing.
TEST(SafetyRule7, StatisticsThatTheKernelDoesNotOfferAreUnobservable) {
  const EthtoolStatistics ethtool;
  for (const char* interface : {"lo", "no-such-if", "", "a-name-that-is-longer-than-any"}) {
    const auto statistics = ethtool.statistics(interface);
    ASSERT_FALSE(statistics) << interface;
    EXPECT_EQ(statistics.error().code, Errc::unobservable);
  }
}

}  // namespace
}  // namespace heddle
