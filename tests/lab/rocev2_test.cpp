#include "tests/lab/rocev2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace heddle::lab {
namespace {

// CRC-32 bit by bit, straight from its definition (reflected polynomial 0xedb88320): shares nothing
// with zlib.
std::uint32_t slow_crc(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320 : 0);
  }
  return ~crc;
}

const RoceAddresses kAddresses{.source = IpAddress::v4(10, 1, 1, 2),
                               .destination = IpAddress::v4(10, 2, 1, 2),
                               .source_port = 51986};

std::vector<std::byte> packet(const Bth& bth, std::size_t payload) {
  std::vector<std::byte> bytes;
  const auto head = encode(bth);
  bytes.insert(bytes.end(), head.begin(), head.end());
  for (std::size_t i = 0; i < payload; ++i)
    bytes.push_back(static_cast<std::byte>(i * 7));
  std::uint32_t crc = icrc_begin(kAddresses, bytes.size() + kIcrcSize);
  crc = icrc_add_bth(crc, head);
  crc = icrc_add(crc, std::span(bytes).subspan(kBthSize));
  const auto tail = icrc_bytes(crc);
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

TEST(Rocev2, WritesTheBaseTransportHeaderByteForByte) {
  const Bth bth{
      .opcode = Opcode::write_first, .ack_request = true, .dest_qpn = 0x123456, .psn = 0xabcdef};
  const std::array<int, kBthSize> wanted{0x06, 0,    0xff, 0xff, 0,    0x12,
                                         0x34, 0x56, 0x80, 0xab, 0xcd, 0xef};
  const auto bytes = encode(bth);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), wanted[i]) << "byte " << i;
  EXPECT_EQ(decode_bth(bytes), bth);
}

TEST(Rocev2, RefusesWhatIsTooShortOrHasAnotherOpcode) {
  auto bytes = encode(Bth{.opcode = Opcode::write_only});
  EXPECT_FALSE(decode_bth(std::span(bytes).first(11)));
  bytes[0] = std::byte{0x64};  // unreliable datagram
  EXPECT_FALSE(decode_bth(bytes));
}

TEST(Rocev2, CarriesTheMessagesLengthInReth) {
  const auto reth = encode_reth(1'048'576);
  EXPECT_EQ(reth[13], std::byte{0x10});
  EXPECT_EQ(decode_reth_length(reth), 1'048'576U);
}

// The bytes that the CRC covers, written out: ones for the missing InfiniBand header, the IP header
// with type of service, time to live and checksum as ones, UDP with its checksum as ones, BTH with
// its reserved byte as ones.
TEST(Rocev2, InvariantCrcIsTheOneOfTheMaskedHeaders) {
  const Bth bth{.opcode = Opcode::write_only, .ack_request = true, .dest_qpn = 0x11, .psn = 1};
  const auto bytes = packet(bth, 4);
  std::vector<std::uint8_t> image(8, 0xff);
  // total length 20 + 8 + 12 + 4 + 4 = 48
  image.insert(image.end(), {0x45, 0xff, 0, 48, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff});
  image.insert(image.end(), {10, 1, 1, 2, 10, 2, 1, 2});
  image.insert(image.end(), {0xcb, 0x12, 0x12, 0xb7, 0, 28, 0xff, 0xff});  // 51986, 4791, 28
  image.insert(image.end(), {0x0a, 0, 0xff, 0xff, 0xff, 0, 0, 0x11, 0x80, 0, 0, 1});
  image.insert(image.end(), {0, 7, 14, 21});
  const std::uint32_t crc = slow_crc(image);
  ASSERT_EQ(bytes.size(), 20U);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(16 + i)]),
              (crc >> (8 * i)) & 0xff);
}

TEST(Rocev2, TheYardstickItselfIsRight) {
  EXPECT_EQ(slow_crc({'1', '2', '3', '4', '5', '6', '7', '8', '9'}), 0xcbf43926U);
}

TEST(Rocev2, NoticesAnyChangedBitThatRoutersMayNotChange) {
  auto bytes = packet({.opcode = Opcode::write_middle, .dest_qpn = 5, .psn = 9}, 64);
  ASSERT_TRUE(icrc_is_right(kAddresses, bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{0x10};
    EXPECT_EQ(icrc_is_right(kAddresses, bytes), i == 4) << "byte " << i;  // 4 is BTH's reserved one
    bytes[i] ^= std::byte{0x10};
  }
  RoceAddresses other = kAddresses;
  other.source_port = 51987;
  EXPECT_FALSE(icrc_is_right(other, bytes));
}

TEST(Rocev2, AConstantBlockHasTheSameCrcAsItsBytes) {
  std::mt19937 random(42);
  std::vector<std::byte> block(4088);
  for (std::byte& byte : block)
    byte = static_cast<std::byte>(random());
  const ConstantBlock constant(block);
  for (const std::uint32_t before : {0U, 1U, 0x12345678U, 0xffffffffU})
    EXPECT_EQ(constant.append(before), icrc_add(before, block));
}

// Seen from Soft-RoCE: queue pairs 178 and 200 used port 51986, 21 and 21 port 49593, 22 and 22
// port 49636.
TEST(Rocev2, DerivesTheSourcePortAsDriversDo) {
  EXPECT_EQ(source_port_of(178, 200), 51986);
  EXPECT_EQ(source_port_of(200, 178), 51986);
  EXPECT_EQ(source_port_of(21, 21), 49593);
  EXPECT_EQ(source_port_of(22, 22), 49636);
}

}  // namespace
}  // namespace heddle::lab
