#include "agent/observe/roce_packet.h"

#include <algorithm>

#include "agent/observe/roce_egress.h"

namespace heddle {
namespace {

constexpr std::size_t kEthernetHeader = 14;
constexpr std::size_t kVlanTag = 4;
constexpr int kMostTags = 2;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kBaseTransportHeader = 12;
constexpr std::size_t kExtendedHeader = 16;  // RETH
constexpr std::size_t kSegmentList = 8;      // without segments
constexpr std::uint8_t kIpv4InIp = 4;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kIpv6InIp = 41;
constexpr std::uint8_t kRouting = 43;
constexpr std::uint8_t kSegmentRouting = 4;  // a type of routing header
constexpr std::uint16_t kEtherIpv4 = 0x0800;
constexpr std::uint16_t kEtherIpv6 = 0x86dd;
constexpr std::uint16_t kEtherVlan = 0x8100;
constexpr std::uint16_t kEtherServiceVlan = 0x88a8;

// Big-endian numbers; the caller has checked that they are there.
class Octets {
 public:
  explicit Octets(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }
  Octets from(std::size_t offset) const { return Octets(bytes_.subspan(offset)); }
  std::uint8_t one(std::size_t at) const { return std::to_integer<std::uint8_t>(bytes_[at]); }
  std::uint16_t two(std::size_t at) const {
    return static_cast<std::uint16_t>(one(at) << 8U | one(at + 1));
  }
  std::uint32_t four(std::size_t at) const { return std::uint32_t{two(at)} << 16U | two(at + 2); }
  IpAddress address(Family family, std::size_t at) const {
    IpAddress result{.family = family, .octets = {}};
    for (std::size_t i = 0; i < result.size(); ++i)
      result.octets[i] = one(at + i);
    return result;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Operations whose first packet says in a RETH how many bytes the whole message carries this way.
bool announces_length(std::uint8_t opcode) {
  const unsigned operation = opcode & 0x1fU;
  const unsigned transport = opcode >> 5U;
  if (transport > 1)  // neither reliable (0) nor unreliable (1) connection
    return false;
  return operation == 0x06 || operation == 0x0a || operation == 0x0b;  // WRITE first, only, only
}

// What a host that steers by segment routing has wrapped around a packet: an IPv6 header and,
// unless the last segment was taken off, a list of segments (RFC 8754). Where the packet inside
// begins, and of which kind it is then; 0 and the same kind if nothing is wrapped around it that is
// known here.
std::size_t wrapping(const Octets& ip, std::uint16_t& ether_type) {
  if (ether_type != kEtherIpv6 || ip.size() < kIpv6Header)
    return 0;
  std::uint8_t next = ip.one(6);
  std::size_t inner = kIpv6Header;
  if (next == kRouting) {
    if (ip.size() < inner + kSegmentList || ip.one(inner + 2) != kSegmentRouting)
      return 0;
    next = ip.one(inner);
    inner += kSegmentList + 8U * ip.one(inner + 1);
  }
  if ((next != kIpv4InIp && next != kIpv6InIp) || ip.size() < inner)
    return 0;
  ether_type = next == kIpv4InIp ? kEtherIpv4 : kEtherIpv6;
  return inner;
}

// Fills in the addresses; where the transport header begins, or 0 if it is not UDP.
std::size_t read_ip(const Octets& ip, std::uint16_t ether_type, RocePacket& packet) {
  if (ether_type == kEtherIpv4) {
    if (ip.size() < kIpv4Header || ip.one(0) >> 4U != 4 || ip.one(9) != kUdp)
      return 0;
    if ((ip.two(6) & 0x1fffU) != 0)  // a later fragment carries no headers
      return 0;
    packet.source = ip.address(Family::v4, 12);
    packet.destination = ip.address(Family::v4, 16);
    return std::max<std::size_t>(kIpv4Header, (ip.one(0) & 0x0fU) * 4U);
  }
  // RoCEv2 itself has no use for extension headers.
  if (ether_type != kEtherIpv6 || ip.size() < kIpv6Header || ip.one(0) >> 4U != 6 ||
      ip.one(6) != kUdp)
    return 0;
  packet.source = ip.address(Family::v6, 8);
  packet.destination = ip.address(Family::v6, 24);
  return kIpv6Header;
}

}  // namespace

std::optional<RocePacket> parse_roce(std::span<const std::byte> frame) {
  const Octets octets(frame);
  if (octets.size() < kEthernetHeader)
    return std::nullopt;
  std::size_t at = kEthernetHeader;
  std::uint16_t ether_type = octets.two(at - 2);
  for (int tags = 0; ether_type == kEtherVlan || ether_type == kEtherServiceVlan; ++tags) {
    at += kVlanTag;
    if (tags == kMostTags || octets.size() < at)
      return std::nullopt;
    ether_type = octets.two(at - 2);
  }

  RocePacket packet;
  const Octets ip = octets.from(at + wrapping(octets.from(at), ether_type));
  const std::size_t header = read_ip(ip, ether_type, packet);
  if (header == 0 || ip.size() < header + kUdpHeader + kBaseTransportHeader)
    return std::nullopt;
  const Octets udp = ip.from(header);
  const Octets transport = udp.from(kUdpHeader);
  // The low four bits of the second octet are the header's version: 0.
  if (udp.two(2) != HEDDLE_ROCE_UDP_PORT || (transport.one(1) & 0x0fU) != 0)
    return std::nullopt;
  packet.source_port = udp.two(0);
  packet.dest_qpn = transport.four(4) & 0xffffffU;  // the high octet is reserved
  if (announces_length(transport.one(0)) &&
      transport.size() >= kBaseTransportHeader + kExtendedHeader)
    packet.message_length = {transport.four(kBaseTransportHeader + 12)};
  return packet;
}

}  // namespace heddle
