// One message of the kernel's generic netlink family "psample": a packet that a sampler (the tc
// action "sample", or a switch's hardware) picked out of many. Attributes and their sizes are those
// of linux/psample.h and of the kernel's net/psample/psample.c. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/core/units.h"

namespace heddle {

struct Sample {
  // The kernel gives interface indices cut to their low 16 bits; 0: not given. On ingress tc does
  // not know yet where the packet will leave.
  std::uint16_t in_port{};
  std::uint16_t out_port{};
  Bytes size;     // of the whole packet, link-layer header included
  double rate{};  // packets that this one stands for: each was picked with chance 1/rate
  std::uint32_t group{};
  std::uint32_t sequence{};         // counts the group's samples, so that lost ones show
  std::span<const std::byte> data;  // of the message: the packet's beginning; maybe empty
};

// `message`: a whole netlink message, header first, wherever it lies. Nothing if it is no sample,
// is cut off, or lacks what an estimate needs (size, rate, group, sequence). Unknown attributes are
// passed over.
std::optional<Sample> parse_sample(std::span<const std::byte> message);

}  // namespace heddle
