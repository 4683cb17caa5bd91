#include "agent/report/port_deltas.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

RdmaPortReading reading(std::vector<CounterValue> counters, std::string device = "mlx5_0",
                        std::uint64_t guid = 7) {
  return {.device = std::move(device),
          .port = 1,
          .netdev = "eth0",
          .guid = guid,
          .hidden = false,
          .counters = std::move(counters)};
}

// The growth from one value to the next, alone in its report.
PortCount from_to(CounterValue first, CounterValue second) {
  PortDeltas deltas;
  deltas.since_last({reading({std::move(first)})});
  const auto counts = deltas.since_last({reading({std::move(second)})});
  return counts.at(0).counts.at(0);
}

TEST(PortDeltas, AreWhatACounterGrew) {
  EXPECT_EQ(from_to({"tx_bytes", 1000}, {"tx_bytes", 5000}), (PortCount{"tx_bytes", 4000, false}));
  EXPECT_EQ(from_to({"tx_bytes", 1000}, {"tx_bytes", 1000}), (PortCount{"tx_bytes", 0, false}));
}

TEST(SafetyRule7, TheFirstReadingOfAPortCounterHasNoGrowth) {
  PortDeltas deltas;
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
  PortDeltas deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}})});
  EXPECT_TRUE(deltas.since_last({reading({})}).at(0).counts.empty());
  EXPECT_TRUE(deltas.since_last({reading({{"tx_bytes", 9000}})}).at(0).counts.empty());
}

TEST(PortDeltas, GoOnUnderANewName) {
  PortDeltas deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0")});
  const auto counts = deltas.since_last({reading({{"tx_bytes", 1500}}, "rocep1s0")});
  ASSERT_EQ(counts.at(0).counts.size(), 1U);
  EXPECT_EQ(counts[0].device, "rocep1s0");
  EXPECT_EQ(counts[0].counts[0].value, 500U);
}

// Another device has taken the name of one that went.
TEST(SafetyRule7, ADeviceOfTheSameNameIsNotTheSameDevice) {
  PortDeltas deltas;
  deltas.since_last({reading({{"tx_bytes", 1000}}, "mlx5_0", 7)});
  EXPECT_TRUE(deltas.since_last({reading({{"tx_bytes", 1500}}, "mlx5_0", 8)}).at(0).counts.empty());
}

}  // namespace
}  // namespace heddle
