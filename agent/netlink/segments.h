// SRv6 in next hops, as the kernel's messages carry it: lists of segments around packets, and what
// is done with packets for a segment. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "agent/netlink/attributes.h"
#include "agent/netlink/batch.h"
#include "common/core/reconcile.h"

namespace heddle {

// Into a next hop's message.
void append_segments(Batch& batch, std::span<const IpAddress> segments);
void append_segment_action(Batch& batch, const SegmentAction& action);

// From the nest of a next hop's encapsulation. Nothing if it is not just what the functions above
// make.
std::vector<IpAddress> parse_segments(const Attributes& encapsulation);
std::optional<SegmentAction> parse_segment_action(const Attributes& encapsulation);

}  // namespace heddle
