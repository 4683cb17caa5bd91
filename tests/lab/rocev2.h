// The RoCEv2 packet as the laboratory's traffic writes and reads it: BTH, RETH, AETH and the
// invariant CRC behind a UDP header with destination port 4791. Written from the InfiniBand
// Architecture Specification, volume 1, and its annex A17. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/core/address.h"

namespace heddle::lab {

constexpr std::uint16_t kRocePort = 4791;
constexpr std::size_t kBthSize = 12;
constexpr std::size_t kRethSize = 16;
constexpr std::size_t kAethSize = 4;
constexpr std::size_t kIcrcSize = 4;
constexpr std::uint32_t kPsnMask = 0xffffff;

// Reliable connection.
enum class Opcode : std::uint8_t {
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_only = 0x0a,
  acknowledge = 0x11,
};

inline bool begins_message(Opcode opcode) {
  return opcode == Opcode::write_first || opcode == Opcode::write_only;
}
inline bool ends_message(Opcode opcode) {
  return opcode == Opcode::write_last || opcode == Opcode::write_only;
}

struct Bth {
  Opcode opcode{};
  bool ack_request{};
  std::uint32_t dest_qpn{};  // 24 bits
  std::uint32_t psn{};       // 24 bits
  bool operator==(const Bth&) const = default;
};

// What makes an acknowledgement a negative one: "PSN sequence error".
constexpr std::uint8_t kSyndromeAck = 0x1f;
constexpr std::uint8_t kSyndromeNak = 0x60;

std::array<std::byte, kBthSize> encode(const Bth& bth);
// Nothing if there are too few bytes or the opcode is none of ours.
std::optional<Bth> decode_bth(std::span<const std::byte> bytes);
// The whole message's length; address and key mean nothing here.
std::array<std::byte, kRethSize> encode_reth(std::uint32_t dma_length);
std::uint32_t decode_reth_length(std::span<const std::byte> reth);

// The IP and UDP fields that the invariant CRC covers, as the kernel fills them for an unconnected
// socket that may not fragment: no options, identification 0, DF.
struct RoceAddresses {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
};

// The CRC's state after everything before BTH; `udp_payload` counts from BTH to the ICRC inclusive.
std::uint32_t icrc_begin(const RoceAddresses& addresses, std::size_t udp_payload);
// ... after BTH. (Its reserved byte is masked.)
std::uint32_t icrc_add_bth(std::uint32_t crc, std::span<const std::byte, kBthSize> bth);
// ... after anything else.
std::uint32_t icrc_add(std::uint32_t crc, std::span<const std::byte> bytes);
std::array<std::byte, kIcrcSize> icrc_bytes(std::uint32_t crc);

// Appends a constant block by its own CRC in a few nanoseconds, whatever its length.
class ConstantBlock {
 public:
  explicit ConstantBlock(std::span<const std::byte> bytes);
  std::uint32_t append(std::uint32_t crc) const;

 private:
  std::uint32_t own_;
  std::uint32_t operation_;
};

// True if the last four bytes are what the rest demands.
bool icrc_is_right(const RoceAddresses& addresses, std::span<const std::byte> udp_payload);

// The UDP source port that drivers derive from the two queue pair numbers when no flow label is
// set.
std::uint16_t source_port_of(std::uint32_t local_qpn, std::uint32_t remote_qpn);

}  // namespace heddle::lab
