// The SRv6 segments of this node itself: what makes it a stop on the ways of other nodes' packets.
// Pure; any thread.
//
// They are no pins. They steer nothing by themselves, and pins of other nodes lead by them, so they
// outlive this node's lease, its off switch and its death: taking one away would lose the packets
// of a node that has not heard of it. They go when they are no longer configured, when the node
// only observes, and by `heddle-agent flush`.
//
// One table, the last of the configured ones, holds a route for each; a rule by ingress port leads
// into it from every port of the fabric. Their next hops lie on "lo", so that no port takes them
// along when it loses its carrier.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/program/main_view.h"
#include "agent/program/route_kernel.h"
#include "common/core/messages.h"
#include "common/core/reconcile.h"

namespace heddle {

// What a node of a role has for the address that is configured: a switch sends packets on; a host
// takes IPv4 out of its wrapping at the address itself, IPv6 at the next one.
std::vector<LocalSegment> segments_of(Role role, const std::optional<IpAddress>& address);

struct SegmentsInput {
  const std::vector<LocalSegment>& wanted;
  const MainView& view;
  const SteeringTables& installed;  // ids in use are kept
  const std::vector<std::string>& uplinks;
  const std::vector<std::string>& host_ports;
  const RoutingRanges& ranges;
};

struct SegmentTables {
  SteeringTables tables;
  std::string lack;  // why some are not in them; empty if all are
};

SegmentTables tables_of_segments(const SegmentsInput& input);

// The part of what is installed that belongs to segments, whatever is configured.
SteeringTables segments_in(const SteeringTables& installed);
// The rest of it.
SteeringTables without_segments(const SteeringTables& installed);

// Questions that show whether packets for the installed segments are treated as such; one for each
// route of segments_in(), in order. Empty while no port of the fabric has carrier.
std::vector<Lookup> lookups_of_segments(const SteeringTables& segments, const MainView& view);
// Those that are installed and, by the answers, in effect.
std::vector<LocalSegment> segments_in_effect(const SteeringTables& segments,
                                             const std::vector<LookupAnswer>& answers);

}  // namespace heddle
