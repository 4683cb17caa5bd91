// The headers of a RoCEv2 packet, as far as they say which subflow it belongs to:
// Ethernet | IP | UDP to port 4791 | base transport header | RETH. Sources: InfiniBand Architecture
// Specification 1.5, chapter 9, and its annex A17 (RoCEv2). A packet that its host wraps for
// segment routing (an IPv6 header, a list of segments) is the one inside. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/core/address.h"
#include "common/core/units.h"

namespace heddle {

struct RocePacket {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  std::uint32_t dest_qpn{};
  // Of the whole message that this packet begins, if its data goes the way of the packet; 0: it
  // announces none. A READ REQUEST announces data of the other direction.
  Bytes message_length;
  bool operator==(const RocePacket&) const = default;
};

// `frame` begins at the Ethernet header, with up to two VLAN tags, and may be cut off anywhere.
// Nothing if it is another packet, a later fragment, or cut off before the destination queue pair.
std::optional<RocePacket> parse_roce(std::span<const std::byte> frame);

}  // namespace heddle
