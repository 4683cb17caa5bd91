// Actions and lookups as netlink requests. Pure; any thread.
#pragma once

#include "agent/netlink/batch.h"
#include "agent/program/route_kernel.h"

namespace heddle {

// Creates only what is not there, replaces only what is, removes only what is named in full: what
// somebody else put in the same place makes the request fail instead of being overwritten. Any
// action but ChangeMarks, which goes another way (marks.h).
void append_action(Batch& batch, const Action& action, const RoutingRanges& ranges);

// For a RoCE packet: UDP to port 4791.
void append_lookup(Batch& batch, const Lookup& lookup);

// A request for a next hop that is wrong on purpose: what it is refused for tells whether the
// kernel knows segments.
void append_empty_segments(Batch& batch, std::uint32_t ifindex);

void append_resolve(Batch& batch, std::uint32_t ifindex, const IpAddress& address);

}  // namespace heddle
