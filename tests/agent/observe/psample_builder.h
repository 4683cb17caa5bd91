// Messages as the kernel's net/psample/psample.c writes them, and RoCE packets as they are sampled:
// built from linux/psample.h and the headers' specifications, not recorded.
#pragma once

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/psample.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "common/core/address.h"

namespace heddle::test {

using Octets = std::vector<std::byte>;

inline void put(Octets& out, std::initializer_list<unsigned> octets) {
  for (const unsigned octet : octets)
    out.push_back(static_cast<std::byte>(octet));
}
inline void put_two(Octets& out, unsigned value) {
  put(out, {value >> 8U & 0xffU, value & 0xffU});
}
inline void put_four(Octets& out, std::uint32_t value) {
  put_two(out, value >> 16U);
  put_two(out, value & 0xffffU);
}

struct RoceFrame {
  IpAddress source{IpAddress::v4(10, 1, 1, 2)};
  IpAddress destination{IpAddress::v4(10, 2, 1, 2)};
  std::uint16_t source_port{51'986};
  std::uint32_t dest_qpn{200};
  std::uint8_t opcode{0x07};           // RC WRITE middle
  std::uint32_t message_length{};      // in a RETH; 0: there is none
  std::vector<std::uint16_t> vlans{};  // outermost first
  unsigned ipv4_options{};             // in words of four octets
  std::optional<unsigned> segments{};  // of a list behind an outer IPv6 header; 0: no list
};

inline Octets roce_frame(const RoceFrame& of) {
  Octets out(12);  // the MAC addresses
  for (const std::uint16_t vlan : of.vlans) {
    put_two(out, &vlan == &of.vlans.back() ? 0x8100 : 0x88a8);
    put_two(out, vlan);
  }
  const auto put_address = [&out](const IpAddress& address) {
    for (std::size_t i = 0; i < address.size(); ++i)
      put(out, {address.octets[i]});
  };
  if (of.segments) {
    const unsigned next = of.source.family == Family::v4 ? 4 : 41;
    put_two(out, 0x86dd);
    put_four(out, 0x60000000);
    put_two(out, 4180);
    put(out, {*of.segments == 0 ? next : 43, 64});
    out.resize(out.size() + 32, std::byte{0xfd});  // the outer addresses
    if (*of.segments != 0)
      put(out, {next, 2 * *of.segments, 4, *of.segments - 1, *of.segments - 1, 0, 0, 0});
    out.resize(out.size() + 16U * *of.segments, std::byte{0xfd});
  }
  if (of.source.family == Family::v4) {
    if (!of.segments)
      put_two(out, 0x0800);
    put(out, {0x45U + of.ipv4_options, 0});
    put_two(out, 4140);
    put(out, {0, 0, 0x40, 0, 64, 17, 0, 0});  // do not fragment; UDP
  } else {
    if (!of.segments)
      put_two(out, 0x86dd);
    put_four(out, 0x60000000);
    put_two(out, 4120);
    put(out, {17, 64});
  }
  put_address(of.source);
  put_address(of.destination);
  out.resize(out.size() + 4U * of.ipv4_options);
  put_two(out, of.source_port);
  put_two(out, 4791);
  put_four(out, 0);
  put(out, {of.opcode, 0, 0xff, 0xff});
  put_four(out, of.dest_qpn | 0x40000000U);  // reserved bits, one of which is for congestion (BECN)
  put_four(out, 7'653'688);
  if (of.message_length != 0) {
    put_four(out, 0x7f00);
    put_four(out, 0);
    put_four(out, 0x1234);
    put_four(out, of.message_length);
  }
  out.resize(out.size() + 32);  // payload
  return out;
}

inline constexpr std::uint16_t kPsampleFamily = 0x1d;

// A netlink message, attribute by attribute.
class PsampleMessage {
 public:
  explicit PsampleMessage(std::uint8_t command = PSAMPLE_CMD_SAMPLE) : bytes_(NLMSG_HDRLEN) {
    const genlmsghdr generic{.cmd = command, .version = PSAMPLE_GENL_VERSION, .reserved = 0};
    append(&generic, sizeof(generic));
  }
  PsampleMessage& attribute(std::uint16_t type, std::span<const std::byte> value) {
    const nlattr header{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + value.size()),
                        .nla_type = type};
    append(&header, sizeof(header));
    append(value.data(), value.size());
    return *this;
  }
  template <class Number>
  PsampleMessage& number(std::uint16_t type, Number value) {
    return attribute(type, std::as_bytes(std::span(&value, 1)));
  }
  Octets bytes() const {
    Octets result = bytes_;
    const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(result.size()),
                          .nlmsg_type = kPsampleFamily,
                          .nlmsg_flags = 0,
                          .nlmsg_seq = 0,
                          .nlmsg_pid = 0};
    std::memcpy(result.data(), &header, sizeof(header));
    return result;
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  Octets bytes_;
};

struct SampleOf {
  std::uint16_t in_port{};
  std::uint16_t out_port{4};
  std::uint32_t size{4154};
  std::uint32_t rate{1000};
  std::uint32_t group{7};
  std::uint32_t sequence{};
};

// In the order in which the kernel puts them.
inline PsampleMessage psample_message(const SampleOf& of, std::span<const std::byte> data) {
  PsampleMessage message;
  if (of.in_port != 0)
    message.number(PSAMPLE_ATTR_IIFINDEX, of.in_port);
  if (of.out_port != 0)
    message.number(PSAMPLE_ATTR_OIFINDEX, of.out_port);
  message.number(PSAMPLE_ATTR_SAMPLE_RATE, of.rate)
      .number(PSAMPLE_ATTR_ORIGSIZE, of.size)
      .number(PSAMPLE_ATTR_SAMPLE_GROUP, of.group)
      .number(PSAMPLE_ATTR_GROUP_SEQ, of.sequence)
      .attribute(PSAMPLE_ATTR_DATA, data);
  return message;
}

}  // namespace heddle::test
