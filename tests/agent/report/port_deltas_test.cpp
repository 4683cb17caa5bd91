#include "agent/report/port_deltas.h"

#include <gtest/gtest.h>

#include <chrono>

namespace heddle {
namespace {

RdmaPortReading reading(std::vector<CounterValue> counters, std::string device = "mlx5_0",
                        std::uint64_t guid = 7, std::uint32_t index = 3) {
  return {.device = std::move(device),
          .port = 1,
          .netdev = "eth0",
          .guid = guid,
          .hidden = false,
          .counters = std::move(counters),
          .index = index};
}

// A look a second.
class Looks {
 public:
  std::vector<RdmaPortCounts> since_last(const std::vector<RdmaPortReading>& ports) {
    return deltas_.since_last(ports, now_ += std::chrono::seconds(1));
  }
  // The look before is all there is.
  std::vector<RdmaPortCounts> rest(const std::vector<RdmaPortReading>& ports) {
    return deltas_.since_last(ports, now_);
  }
  void pass(Duration time) { now_ += time; }

 private:
  PortDeltas deltas_;
  Time now_;
};

// The growth from one value to the next, alone in its report.
PortCount from_to(CounterValue first, CounterValue second) {
  Looks deltas;
  deltas.since_last({reading({std::move(first)})});
  const auto counts = deltas.since_last({reading({std::move(second)})});
  return counts.at(0).counts.at(0);
}

TEST(PortDeltas, AreWhatACounterGrew) {
  EXPECT_EQ(from_to({"tx_bytes", 1000}, {"tx_bytes", 5000}), (PortCount{"tx_bytes", 4000, false}));
  EXPECT_EQ(from_to({"tx_bytes", 1000}, {"tx_bytes", 1000}), (PortCount{"tx_bytes", 0, false}));
}

TEST(SafetyRule7, TheFirstReadingOfAPortCounterHasNoGrowth) {
  Looks deltas;
  const auto counts = deltas.since_last({reading({{"tx_bytes", 1000}})});
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_TRUE(counts[0].counts.empty());
}

TEST(SafetyRule7, APortCounterThatGoesBackIsAReset) {
  EXPECT_EQ(from_to({"tx_bytes", 5000}, {"tx_bytes", 300}), (PortCount{"tx_bytes", 300, true}));
  // Also from high up: only a counter that is known to wrap may be taken to have wrapped.
  EXPECT_EQ(from_to({"tx_bytes", 0xFFFFFFF0}, {"tx_bytes", 16}), (PortCount{"tx_bytes", 16, true}));
}

// 2^32 - 0xfffffff0 = 16, and 16 more.
TEST(PortDeltas, ACounterOf32BitsMayWrap) {
  EXPECT_EQ(from_to({"cnp_sent", 0xFFFFFFF0, true}, {"cnp_sent", 16, true}),
            (PortCount{"cnp_sent", 32, false}));
  // Not from the middle of its range: so fast nothing counts.
  EXPECT_EQ(from_to({"cnp_sent", 0x80000000, true}, {"cnp_sent", 16, true}),
            (PortCount{"cnp_sent", 16, true}));
  // Nor from beyond it.
  EXPECT_EQ(from_to({"cnp_sent", 0x1FFFFFFF0, true}, {"cnp_sent", 16, true}),
            (PortCount{"cnp_sent", 16, true}));
}

TEST(SafetyRule7, ACounterThatVanishedForATimeBeginsAnew) {
  Looks deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}})});
  EXPECT_TRUE(deltas.since_last({reading({})}).at(0).counts.empty());
  EXPECT_TRUE(deltas.since_last({reading({{"tx_bytes", 9000}})}).at(0).counts.empty());
}

TEST(PortDeltas, GoOnUnderANewName) {
  Looks deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0")});
  const auto counts = deltas.since_last({reading({{"tx_bytes", 1500}}, "rocep1s0")});
  ASSERT_EQ(counts.at(0).counts.size(), 1U);
  EXPECT_EQ(counts[0].device, "rocep1s0");
  EXPECT_EQ(counts[0].counts[0].value, 500U);
}

// Another device has taken the name of one that went.
TEST(SafetyRule7, ADeviceOfTheSameNameIsNotTheSameDevice) {
  Looks deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0", 7)});
  EXPECT_TRUE(deltas.since_last({reading({{"tx_bytes", 1500}}, "mlx5_0", 8)}).at(0).counts.empty());
}

// The driver was loaded again between two looks. If its counters went on, they grew by 500; if they
// began anew at zero, by 1,500 and what they had grown before that: at least 500.
TEST(SafetyRule7, ADeviceThatWasRemovedAndReAddedIsAResetAlsoWhereItCountsFromHigherUp) {
  Looks deltas;
  deltas.since_last({reading({{"rx_bytes", 1000}, {"tx_bytes", 1000}}, "mlx5_0", 7, 3)});
  const auto counts =
      deltas.since_last({reading({{"rx_bytes", 300}, {"tx_bytes", 1500}}, "mlx5_0", 7, 4)});
  EXPECT_EQ(counts.at(0).counts,
            (std::vector<PortCount>{{"rx_bytes", 300, true}, {"tx_bytes", 500, true}}));
  EXPECT_EQ(deltas.since_last({reading({{"tx_bytes", 1600}}, "mlx5_0", 7, 4)}).at(0).counts,
            (std::vector<PortCount>{{"tx_bytes", 100, false}}));
}

// Two functions of one card whose driver gives both the same GUID, or none: each is itself.
TEST(PortDeltas, TellDevicesOfOneGuidApart) {
  for (const std::uint64_t guid : {0, 7}) {
    Looks deltas;
    deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0", guid, 3),
                       reading({{"tx_bytes", 9000}}, "mlx5_1", guid, 4)});
    const auto counts = deltas.since_last({reading({{"tx_bytes", 1010}}, "mlx5_0", guid, 3),
                                           reading({{"tx_bytes", 9020}}, "mlx5_1", guid, 4)});
    EXPECT_EQ(counts.at(0).counts, (std::vector<PortCount>{{"tx_bytes", 10, false}}));
    EXPECT_EQ(counts.at(1).counts, (std::vector<PortCount>{{"tx_bytes", 20, false}}));
  }
}

// A third one of no GUID may be anything.
TEST(SafetyRule7, ADeviceWithoutAGuidThatWasReAddedBeginsAnew) {
  Looks deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0", 0, 3)});
  EXPECT_TRUE(
      deltas.since_last({reading({{"tx_bytes", 1500}}, "mlx5_0", 0, 4)}).at(0).counts.empty());
}

// 4,000 octets in the 3 s between two looks: not 0, 0 and 4,000 in a second each.
TEST(SafetyRule7, BetweenTwoLooksAPortIsUnobservableAndNotSilent) {
  Looks deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}})});
  for (int i = 0; i < 2; ++i) {
    const auto counts = deltas.rest({reading({{"tx_bytes", 1000}})});
    ASSERT_EQ(counts.size(), 1U);
    EXPECT_TRUE(counts[0].counts.empty());
    EXPECT_EQ(counts[0].length, Duration{}) << "nobody looked";
  }
  deltas.pass(std::chrono::seconds(2));
  const auto counts = deltas.since_last({reading({{"tx_bytes", 5000}})});
  EXPECT_EQ(counts.at(0).counts.at(0), (PortCount{"tx_bytes", 4000, false}));
  EXPECT_EQ(counts[0].length, std::chrono::seconds(3));
  // Where somebody looks and there is nothing, that is said, too.
  EXPECT_EQ(deltas.since_last({reading({})}).at(0).length, std::chrono::seconds(1));
}

}  // namespace
}  // namespace heddle
