#include "tests/lab/rocev2.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace heddle::lab {
namespace {

std::byte octet(std::uint64_t value, int shift) {
  return static_cast<std::byte>((value >> shift) & 0xff);
}

std::uint32_t number(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes)
    value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

}  // namespace

std::array<std::byte, kBthSize> encode(const Bth& bth) {
  return {static_cast<std::byte>(bth.opcode),
          std::byte{0},  // no solicited event, no padding, version 0
          std::byte{0xff},
          std::byte{0xff},  // the default partition
          std::byte{0},
          octet(bth.dest_qpn, 16),
          octet(bth.dest_qpn, 8),
          octet(bth.dest_qpn, 0),
          bth.ack_request ? std::byte{0x80} : std::byte{0},
          octet(bth.psn, 16),
          octet(bth.psn, 8),
          octet(bth.psn, 0)};
}

std::optional<Bth> decode_bth(std::span<const std::byte> bytes) {
  if (bytes.size() < kBthSize)
    return std::nullopt;
  Bth bth;
  bth.opcode = static_cast<Opcode>(bytes[0]);
  switch (bth.opcode) {
    case Opcode::write_first:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::write_only:
    case Opcode::acknowledge:
      break;
    default:
      return std::nullopt;
  }
  bth.dest_qpn = number(bytes.subspan(5, 3));
  bth.ack_request = (bytes[8] & std::byte{0x80}) != std::byte{0};
  bth.psn = number(bytes.subspan(9, 3));
  return bth;
}

std::array<std::byte, kRethSize> encode_reth(std::uint32_t dma_length) {
  std::array<std::byte, kRethSize> reth{};
  reth[12] = octet(dma_length, 24);
  reth[13] = octet(dma_length, 16);
  reth[14] = octet(dma_length, 8);
  reth[15] = octet(dma_length, 0);
  return reth;
}

std::uint32_t decode_reth_length(std::span<const std::byte> reth) {
  return reth.size() < kRethSize ? 0 : number(reth.subspan(12, 4));
}

std::uint32_t icrc_add(std::uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Eight bytes of ones stand for the InfiniBand header that an Ethernet packet does not have; ones
// stand, too, for every field that a router may change: type of service, time to live, and both
// checksums.
std::uint32_t icrc_begin(const RoceAddresses& addresses, std::size_t udp_payload) {
  std::array<std::byte, 8 + 20 + 8> image{};
  std::fill_n(image.begin(), 8, std::byte{0xff});
  const std::span<std::byte> ip = std::span(image).subspan(8, 20);
  const std::size_t udp_length = udp_payload + 8;
  const std::size_t ip_length = udp_length + 20;
  ip[0] = std::byte{0x45};
  ip[1] = std::byte{0xff};
  ip[2] = octet(ip_length, 8);
  ip[3] = octet(ip_length, 0);
  ip[6] = std::byte{0x40};  // DF
  ip[8] = std::byte{0xff};
  ip[9] = std::byte{17};
  ip[10] = ip[11] = std::byte{0xff};
  std::memcpy(&ip[12], addresses.source.octets.data(), 4);
  std::memcpy(&ip[16], addresses.destination.octets.data(), 4);
  const std::span<std::byte> udp = std::span(image).subspan(28, 8);
  udp[0] = octet(addresses.source_port, 8);
  udp[1] = octet(addresses.source_port, 0);
  udp[2] = octet(kRocePort, 8);
  udp[3] = octet(kRocePort, 0);
  udp[4] = octet(udp_length, 8);
  udp[5] = octet(udp_length, 0);
  udp[6] = udp[7] = std::byte{0xff};
  return icrc_add(0, image);
}

std::uint32_t icrc_add_bth(std::uint32_t crc, std::span<const std::byte, kBthSize> bth) {
  std::array<std::byte, kBthSize> masked;
  std::copy(bth.begin(), bth.end(), masked.begin());
  masked[4] = std::byte{0xff};
  return icrc_add(crc, masked);
}

// The least significant byte goes first.
std::array<std::byte, kIcrcSize> icrc_bytes(std::uint32_t crc) {
  return {octet(crc, 0), octet(crc, 8), octet(crc, 16), octet(crc, 24)};
}

ConstantBlock::ConstantBlock(std::span<const std::byte> bytes)
    : own_(icrc_add(0, bytes)),
      operation_(
          static_cast<std::uint32_t>(::crc32_combine_gen(static_cast<z_off_t>(bytes.size())))) {}

std::uint32_t ConstantBlock::append(std::uint32_t crc) const {
  return static_cast<std::uint32_t>(::crc32_combine_op(crc, own_, operation_));
}

bool icrc_is_right(const RoceAddresses& addresses, std::span<const std::byte> udp_payload) {
  if (udp_payload.size() < kBthSize + kIcrcSize)
    return false;
  std::uint32_t crc = icrc_begin(addresses, udp_payload.size());
  crc = icrc_add_bth(crc, udp_payload.first<kBthSize>());
  crc = icrc_add(crc, udp_payload.subspan(kBthSize, udp_payload.size() - kBthSize - kIcrcSize));
  const auto wanted = icrc_bytes(crc);
  return std::equal(wanted.begin(), wanted.end(), udp_payload.last(kIcrcSize).begin());
}

std::uint16_t source_port_of(std::uint32_t local_qpn, std::uint32_t remote_qpn) {
  std::uint64_t label = static_cast<std::uint64_t>(local_qpn) * remote_qpn;
  label ^= label >> 20;
  label ^= label >> 40;
  label &= 0xfffff;
  return static_cast<std::uint16_t>(((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | 0xc000);
}

}  // namespace heddle::lab
