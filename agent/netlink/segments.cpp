#include "agent/netlink/segments.h"

#include <linux/lwtunnel.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <linux/seg6_local.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle {
namespace {

// The kernel's own structs end in arrays without a size, which C++ does not know.
struct Wrapping {
  std::int32_t mode;
  // The segment routing header of RFC 8754.
  std::uint8_t next_header;
  std::uint8_t length;  // in units of 8 octets, without the first
  std::uint8_t type;
  std::uint8_t segments_left;
  std::uint8_t last_entry;
  std::uint8_t flags;
  std::uint16_t tag;
};
static_assert(sizeof(Wrapping) == 12);

constexpr std::uint16_t kSrh = 1;            // SEG6_IPTUNNEL_SRH
constexpr std::int32_t kEncapsulate = 1;     // SEG6_IPTUN_MODE_ENCAP: an IPv6 header of its own
constexpr std::uint8_t kSegmentRouting = 4;  // the type of the routing header
constexpr std::size_t kAddress = 16;
constexpr std::size_t kMostSegments = 8;

void append_kind(Batch& batch, std::uint16_t kind) {
  batch.attribute(NHA_ENCAP_TYPE, &kind, sizeof kind);
}

}  // namespace

void append_segments(Batch& batch, std::span<const IpAddress> segments) {
  const auto count = static_cast<std::uint8_t>(segments.size());
  const auto last = static_cast<std::uint8_t>(count - 1);
  const Wrapping head{.mode = kEncapsulate,
                      .next_header = 0,
                      .length = static_cast<std::uint8_t>(2 * count),
                      .type = kSegmentRouting,
                      .segments_left = last,
                      .last_entry = last,
                      .flags = 0,
                      .tag = 0};
  std::vector<std::byte> bytes(sizeof head + kAddress * count);
  std::memcpy(bytes.data(), &head, sizeof head);
  // The header counts down: the last segment comes first.
  for (std::size_t i = 0; i < segments.size(); ++i)
    std::memcpy(bytes.data() + sizeof head + kAddress * (last - i), segments[i].octets.data(),
                kAddress);
  append_kind(batch, LWTUNNEL_ENCAP_SEG6);
  batch.open(NHA_ENCAP).attribute(kSrh, bytes.data(), bytes.size()).close();
}

void append_segment_action(Batch& batch, const SegmentAction& action) {
  append_kind(batch, LWTUNNEL_ENCAP_SEG6_LOCAL);
  batch.open(NHA_ENCAP);
  switch (action.behaviour) {
    case SegmentBehaviour::transit:
      batch.number(SEG6_LOCAL_ACTION, SEG6_LOCAL_ACTION_END);
      break;
    case SegmentBehaviour::delivers_v4:
      batch.number(SEG6_LOCAL_ACTION, SEG6_LOCAL_ACTION_END_DX4)
          .address(SEG6_LOCAL_NH4, action.own_address);
      break;
    case SegmentBehaviour::delivers_v6:
      batch.number(SEG6_LOCAL_ACTION, SEG6_LOCAL_ACTION_END_DT6)
          .number(SEG6_LOCAL_TABLE, RT_TABLE_LOCAL);
      break;
  }
  batch.close();
}

std::vector<IpAddress> parse_segments(const Attributes& encapsulation) {
  std::vector<IpAddress> segments;
  const auto head = encapsulation.value<Wrapping>(kSrh);
  const auto bytes = encapsulation.bytes(kSrh);
  if (!head || head->mode != kEncapsulate || head->type != kSegmentRouting || head->flags != 0)
    return segments;
  const std::size_t count = head->last_entry + std::size_t{1};
  if (count > kMostSegments || head->segments_left != head->last_entry ||
      head->length != 2 * count || bytes.size() != sizeof *head + kAddress * count)
    return segments;
  for (std::size_t i = count; i-- > 0;) {
    IpAddress segment;
    segment.family = Family::v6;
    std::memcpy(segment.octets.data(), bytes.data() + sizeof *head + kAddress * i, kAddress);
    segments.push_back(segment);
  }
  return segments;
}

std::optional<SegmentAction> parse_segment_action(const Attributes& encapsulation) {
  const auto action = encapsulation.number(SEG6_LOCAL_ACTION);
  if (!action)
    return std::nullopt;
  switch (*action) {
    case SEG6_LOCAL_ACTION_END:
      return SegmentAction{.behaviour = SegmentBehaviour::transit};
    case SEG6_LOCAL_ACTION_END_DX4:
      if (const auto octets = encapsulation.value<std::array<std::uint8_t, 4>>(SEG6_LOCAL_NH4))
        return SegmentAction{
            .behaviour = SegmentBehaviour::delivers_v4,
            .own_address = IpAddress::v4((*octets)[0], (*octets)[1], (*octets)[2], (*octets)[3])};
      return std::nullopt;
    case SEG6_LOCAL_ACTION_END_DT6:
      if (encapsulation.number(SEG6_LOCAL_TABLE) == std::uint32_t{RT_TABLE_LOCAL})
        return SegmentAction{.behaviour = SegmentBehaviour::delivers_v6};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace heddle
