// Next hops with segments, written as requests and read as the kernel tells them: the message is
// the same in both directions (tests/lab reads them back from a kernel).
#include "agent/netlink/segments.h"

#include <gtest/gtest.h>
#include <linux/lwtunnel.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <linux/seg6_local.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "agent/netlink/parse.h"
#include "agent/netlink/requests.h"

namespace heddle {
namespace {

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}

std::optional<KernelNextHop> parsed(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
  std::ranges::copy(bytes, reinterpret_cast<std::byte*>(aligned.data()));
  std::optional<KernelNextHop> result;
  for_each_message({reinterpret_cast<const std::byte*>(aligned.data()), bytes.size()},
                   [&](const nlmsghdr& message) { result = parse_next_hop(message); });
  return result;
}

KernelNextHop read_back(const NextHop& next_hop) {
  Batch batch(1);
  append_action(batch, AddNextHop{next_hop}, {});
  return parsed(batch.bytes()).value_or(KernelNextHop{});
}

NextHop wrapped(std::vector<IpAddress> segments) {
  return {.id = 1880000001,
          .ifindex = 7,
          .gateway = ip("fd00::1"),
          .onlink = false,
          .segments = std::move(segments)};
}

TEST(SegmentMessages, CarryListsInTheirOrder) {
  for (std::size_t count = 1; count <= 8; ++count) {
    std::vector<IpAddress> segments;
    for (std::size_t i = 0; i < count; ++i) {
      IpAddress segment = ip("fc00::");
      segment.octets[15] = static_cast<std::uint8_t>(i + 1);
      segments.push_back(segment);
    }
    const KernelNextHop read = read_back(wrapped(segments));
    EXPECT_EQ(read.segments, segments);
    EXPECT_FALSE(read.other_encapsulation);
    ASSERT_TRUE(read.hop);
    EXPECT_EQ(read.hop->gateway, ip("fd00::1"));
  }
}

// RFC 8754: the length in units of 8 octets without the first 8, the last segment first.
TEST(SegmentMessages, AreOfTheFormThatTheHeaderHas) {
  Batch batch(1);
  batch.begin(RTM_NEWNEXTHOP, 0, nhmsg{});
  append_segments(batch, std::vector{ip("fc00:5::1"), ip("fc00:9::1")});
  const std::array<std::uint8_t, 12> head{1, 0, 0, 0, 0, 4, 4, 1, 1, 0, 0, 0};
  const auto bytes = batch.bytes();
  const auto found = std::search(
      bytes.begin(), bytes.end(), head.begin(), head.end(),
      [](std::byte a, std::uint8_t b) { return std::to_integer<std::uint8_t>(a) == b; });
  ASSERT_NE(found, bytes.end());
  EXPECT_EQ(std::memcmp(&*found + 12, ip("fc00:9::1").octets.data(), 16), 0);
  EXPECT_EQ(std::memcmp(&*found + 28, ip("fc00:5::1").octets.data(), 16), 0);
}

TEST(SegmentMessages, CarryWhatIsDoneWithASegmentsPackets) {
  for (const SegmentAction& action :
       {SegmentAction{.behaviour = SegmentBehaviour::transit},
        SegmentAction{.behaviour = SegmentBehaviour::delivers_v4, .own_address = ip("10.1.2.3")},
        SegmentAction{.behaviour = SegmentBehaviour::delivers_v6}}) {
    const KernelNextHop read =
        read_back({.id = 1880000001, .ifindex = 1, .gateway = {}, .action = action});
    EXPECT_EQ(read.action, action);
    ASSERT_TRUE(read.hop);
    EXPECT_FALSE(read.hop->gateway);
    EXPECT_FALSE(read.other_encapsulation);
  }
}

KernelNextHop other(std::uint16_t kind, const std::function<void(Batch&)>& fill) {
  Batch batch(1);
  nhmsg head{};
  head.nh_family = AF_INET6;
  batch.begin(RTM_NEWNEXTHOP, 0, head)
      .number(NHA_ID, 5)
      .number(NHA_OIF, 7)
      .attribute(NHA_ENCAP_TYPE, &kind, sizeof kind)
      .open(NHA_ENCAP);
  fill(batch);
  batch.close();
  return parsed(batch.bytes()).value_or(KernelNextHop{});
}

TEST(SegmentMessages, OfFormsThatAreNeverOursAreTakenForOthers) {
  EXPECT_TRUE(other(LWTUNNEL_ENCAP_MPLS, [](Batch&) {}).other_encapsulation);
  EXPECT_TRUE(other(LWTUNNEL_ENCAP_SEG6, [](Batch&) {}).other_encapsulation);
  EXPECT_TRUE(other(LWTUNNEL_ENCAP_SEG6_LOCAL, [](Batch& b) {
                b.number(SEG6_LOCAL_ACTION, SEG6_LOCAL_ACTION_END_DT6)
                    .number(SEG6_LOCAL_TABLE, RT_TABLE_MAIN);
              }).other_encapsulation);
  EXPECT_TRUE(other(LWTUNNEL_ENCAP_SEG6_LOCAL, [](Batch& b) {
                b.number(SEG6_LOCAL_ACTION, SEG6_LOCAL_ACTION_END_T);
              }).other_encapsulation);
}

TEST(SafetyRule10, SegmentMessagesCutOffOrDamagedAnywhereAreNeverTakenForWhole) {
  Batch batch(1);
  const std::vector<IpAddress> segments{ip("fc00:5::1"), ip("fc00:9::1")};
  append_action(batch, AddNextHop{wrapped(segments)}, {});
  const std::vector<std::byte> whole(batch.bytes().begin(), batch.bytes().end());
  ASSERT_EQ(parsed(whole)->segments, segments);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    if (length >= sizeof(std::uint32_t)) {
      const auto claimed = static_cast<std::uint32_t>(length);
      std::memcpy(cut.data(), &claimed, sizeof claimed);
    }
    const KernelNextHop read = parsed(cut).value_or(KernelNextHop{});
    EXPECT_TRUE(read.segments.empty()) << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0xFF};
    const KernelNextHop read = parsed(damaged).value_or(KernelNextHop{});
    EXPECT_LE(read.segments.size(), 2U) << at;
  }
}

}  // namespace
}  // namespace heddle
