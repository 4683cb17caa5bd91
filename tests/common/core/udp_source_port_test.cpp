#include "common/core/udp_source_port.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// 178 * 200 = 35600 = 0x8b10 fits the label; 0x8b10 & 0x3fff = 0x0b10, 0x8b10 >> 14 = 2; 0x0b12 |
// 0xc000.
TEST(UdpSourcePort, FoldsBothQueuePairNumbers) {
  EXPECT_EQ(udp_source_port(flow_label(178, 200)), 51'986);
}

// Captured on Soft-RoCE between queue pairs of these numbers.
TEST(UdpSourcePort, IsWhatSoftRoceSends) {
  EXPECT_EQ(udp_source_port(flow_label(21, 21)), 49'593);
  EXPECT_EQ(udp_source_port(flow_label(22, 22)), 49'636);
}

// Captured with rdma_cm's client ports 40001 and 40002 and the service's port 18515.
TEST(UdpSourcePort, OfConnectionsByRdmaCmComesFromItsPorts) {
  EXPECT_EQ(udp_source_port(cm_flow_label(40'001, 18'515)), 62'526);
  EXPECT_EQ(udp_source_port(cm_flow_label(40'002, 18'515)), 62'557);
}

// Captured with labels that the application set.
TEST(UdpSourcePort, TakesAnExplicitLabel) {
  EXPECT_EQ(udp_source_port(0x12345), 58'177);
  EXPECT_EQ(udp_source_port(100), 49'252);
}

TEST(UdpSourcePort, IsTheSameAtBothEndsAndAlwaysInTheUpperQuarter) {
  for (std::uint32_t a = 1; a < 0xFFFFFF; a = a * 7 + 13)
    for (std::uint32_t b = 1; b < 0xFFFFFF; b = b * 11 + 5) {
      EXPECT_EQ(flow_label(a, b), flow_label(b, a));
      EXPECT_LE(flow_label(a, b), 0xFFFFFU);
      EXPECT_GE(udp_source_port(flow_label(a, b)), 49'152);
    }
}

}  // namespace
}  // namespace heddle
