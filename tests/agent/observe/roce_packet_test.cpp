// RoCE headers in frames that are cut off, tagged, or something else.
#include "agent/observe/roce_packet.h"

#include <gtest/gtest.h>

#include "tests/agent/observe/psample_builder.h"

namespace heddle {
namespace {

using test::roce_frame;
using test::RoceFrame;

IpAddress v6(std::uint8_t last) {
  IpAddress address{.family = Family::v6, .octets = {0x20, 0x01, 0x0d, 0xb8}};
  address.octets[15] = last;
  return address;
}

TEST(RocePacket, NamesTheSubflow) {
  EXPECT_EQ(parse_roce(roce_frame({})), (RocePacket{.source = IpAddress::v4(10, 1, 1, 2),
                                                    .destination = IpAddress::v4(10, 2, 1, 2),
                                                    .source_port = 51'986,
                                                    .dest_qpn = 200,
                                                    .message_length = {}}));
}

TEST(RocePacket, IsReadOverIpv6BehindTagsAndBehindOptions) {
  const auto six = parse_roce(roce_frame({.source = v6(1), .destination = v6(2)}));
  ASSERT_TRUE(six);
  EXPECT_EQ(six->source, v6(1));
  EXPECT_EQ(six->destination, v6(2));
  EXPECT_EQ(six->dest_qpn, 200U);
  EXPECT_EQ(parse_roce(roce_frame({.vlans = {7}})), parse_roce(roce_frame({})));
  EXPECT_EQ(parse_roce(roce_frame({.vlans = {7, 8}})), parse_roce(roce_frame({})));
  EXPECT_EQ(parse_roce(roce_frame({.vlans = {7, 8, 9}})), std::nullopt);
  EXPECT_EQ(parse_roce(roce_frame({.ipv4_options = 3})), parse_roce(roce_frame({})));
}

TEST(RocePacket, IsTheOneInsideWhereAHostWrapsItForSegmentRouting) {
  const RoceFrame four{.opcode = 0x06, .message_length = 65'536};
  const RoceFrame six{.source = v6(1), .destination = v6(2)};
  for (RoceFrame bare : {four, six}) {
    const auto packet = parse_roce(roce_frame(bare));
    ASSERT_TRUE(packet);
    for (const unsigned segments : {0U, 1U, 2U, 5U}) {
      bare.segments = segments;
      EXPECT_EQ(parse_roce(roce_frame(bare)), packet) << segments;
    }
    bare.vlans = {7};
    EXPECT_EQ(parse_roce(roce_frame(bare)), packet);
  }
}

TEST(RocePacket, IsNotBehindAnotherRoutingHeaderNorWrappedTwice) {
  test::Octets frame = roce_frame({.segments = 2});
  constexpr std::size_t kList = 14 + 40;
  ASSERT_TRUE(parse_roce(frame));
  frame[kList + 2] = std::byte{0};
  EXPECT_EQ(parse_roce(frame), std::nullopt) << "type 0";
  frame = roce_frame({.segments = 2});
  frame[kList] = std::byte{17};
  EXPECT_EQ(parse_roce(frame), std::nullopt) << "UDP right behind the list";
  frame[kList] = std::byte{41};
  EXPECT_EQ(parse_roce(frame), std::nullopt) << "IPv4 in what is said to be IPv6";
  frame[kList] = std::byte{4};
  frame[kList + 1] = std::byte{0xff};
  EXPECT_EQ(parse_roce(frame), std::nullopt) << "a list up to beyond the end of the frame";
}

TEST(RocePacket, SaysTheLengthOfAMessageThatItBegins) {
  const auto length = [](std::uint8_t opcode) {
    return parse_roce(roce_frame({.opcode = opcode, .message_length = 4'194'304}))
        ->message_length.value;
  };
  for (const std::uint8_t write : {0x06, 0x0a, 0x0b, 0x26, 0x2a, 0x2b})
    EXPECT_EQ(length(write), 4'194'304U) << unsigned{write};
  // A READ REQUEST's data come the other way; the others have no RETH, so these bytes are payload.
  for (const std::uint8_t other : {0x0c, 0x00, 0x04, 0x07, 0x11, 0x46, 0x66})
    EXPECT_EQ(length(other), 0U) << unsigned{other};
}

TEST(RocePacket, IsNoOtherPacket) {
  const auto changed = [](std::size_t at, unsigned value) {
    test::Octets frame = roce_frame({});
    frame[at] = static_cast<std::byte>(value);
    return parse_roce(frame);
  };
  constexpr std::size_t kIp = 14, kUdp = kIp + 20, kTransport = kUdp + 8;
  EXPECT_EQ(changed(12, 0x86), std::nullopt) << "neither IPv4 nor IPv6";
  EXPECT_EQ(changed(kIp, 0x65), std::nullopt) << "IP version 6 in an IPv4 frame";
  EXPECT_EQ(changed(kIp + 9, 6), std::nullopt) << "TCP";
  EXPECT_EQ(changed(kIp + 7, 1), std::nullopt) << "a later fragment";
  EXPECT_EQ(changed(kIp + 6, 0x20), parse_roce(roce_frame({}))) << "the first fragment";
  EXPECT_EQ(changed(kUdp + 3, 0xb8), std::nullopt) << "another UDP port";
  EXPECT_EQ(changed(kTransport + 1, 0x01), std::nullopt) << "another version of the header";
  EXPECT_EQ(changed(kIp, 0x4f), std::nullopt) << "options up to the end of the frame";
}

// Samplers cut packets where they are told to. Up to the destination queue pair's header there is
// no subflow; up to the RETH's end there is one, of an unknown length.
TEST(RocePacket, MayBeCutOffAnywhere) {
  const test::Octets frame = roce_frame({.opcode = 0x06, .message_length = 65'536});
  constexpr std::size_t kHeaders = 14 + 20 + 8 + 12;
  for (std::size_t size = 0; size <= frame.size(); ++size) {
    const auto packet = parse_roce(std::span(frame).first(size));
    ASSERT_EQ(packet.has_value(), size >= kHeaders) << size;
    if (packet) {
      EXPECT_EQ(packet->message_length.value, size >= kHeaders + 16 ? 65'536U : 0U) << size;
    }
  }
  const test::Octets wrapped = roce_frame({.segments = 2});
  constexpr std::size_t kWrapping = 40 + 8 + 32;
  for (std::size_t size = 0; size <= wrapped.size(); ++size)
    ASSERT_EQ(parse_roce(std::span(wrapped).first(size)).has_value(), size >= kHeaders + kWrapping)
        << size;
}

}  // namespace
}  // namespace heddle
