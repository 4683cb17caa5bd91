// A plan: every pin of every node, with a version and a reason for each. Nodes hold only their own
// part. Pure values; the coordinator makes them, the agents' programming stage makes the kernel
// agree with them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

// The pair, compared in that order: a coordinator's reign, and a counter in it.
struct PlanVersion {
  std::uint64_t epoch{};
  std::uint64_t generation{};
  auto operator<=>(const PlanVersion&) const = default;
};

std::string to_string(PlanVersion version);  // "3.17"

// Steering units: the subflows that one pin moves together, by what the agent's enforcer can tell
// apart.
struct ByDestination {
  IpAddress destination;
  auto operator<=>(const ByDestination&) const = default;
};
struct ByPortAndDestination {
  std::string in_port;  // the leaf's port that faces the host
  IpAddress destination;
  auto operator<=>(const ByPortAndDestination&) const = default;
};
struct ByQueuePair {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  auto operator<=>(const ByQueuePair&) const = default;
};
using SteeringUnit = std::variant<ByDestination, ByPortAndDestination, ByQueuePair>;

enum class Granularity : std::uint8_t { destination, port_and_destination, queue_pair };

// Ways of holding a path. An out_port is an interface of the node; the gateway behind it is what
// the node's `main` table offers there, so that a pin can never point where routing would not
// (safety rule 12).
struct PortTableRoute {
  std::string out_port;
  auto operator<=>(const PortTableRoute&) const = default;
};
struct HostRoute {
  std::string out_port;
  auto operator<=>(const HostRoute&) const = default;
};
struct SegmentList {
  std::vector<IpAddress> segments;
  auto operator<=>(const SegmentList&) const = default;
};
struct FlowMark {
  std::string out_port;
  auto operator<=>(const FlowMark&) const = default;
};
// What a node does with a packet that is addressed to a segment of its own (RFC 8986).
enum class SegmentBehaviour : std::uint8_t {
  transit,      // End: on to the packet's next segment
  delivers_v4,  // End.DX4: out of its wrapping, to the node's own IPv4 address
  delivers_v6,  // End.DT6: out of its wrapping, to the node's own IPv6 addresses
};

using PinTarget = std::variant<PortTableRoute, HostRoute, SegmentList, FlowMark>;

struct Pin {
  SteeringUnit unit;
  PinTarget target;
  std::string reason;  // for people: "off leaf3-spine7: 3 elephants, now 1"; not part of the digest
  bool operator==(const Pin&) const = default;
};

IpAddress destination_of(const SteeringUnit& unit);
std::string to_string(const SteeringUnit& unit);  // "p1 > 10.2.0.1"
std::string to_string(const PinTarget& target);   // "via up3"
// The interface that it names; nullptr if it names none, as a list of segments.
const std::string* out_port_of(const PinTarget& target);

// One node's part. Pins are sorted by unit, and no unit appears twice (validate()).
struct NodePlan {
  std::string node;
  PlanVersion version;
  std::vector<Pin> pins;
  bool operator==(const NodePlan&) const = default;
};

struct RoutePlan {
  PlanVersion version;
  std::map<std::string, NodePlan> nodes;
};

// `pins` are a part's; nullptr if there is none for the unit.
const Pin* find_pin(const std::vector<Pin>& pins, const SteeringUnit& unit);
const Pin* find_pin(const RoutePlan& plan, const std::string& node, const SteeringUnit& unit);

// What turns one node's pins into the next ones.
struct PlanDiff {
  std::string node;
  PlanVersion base;
  PlanVersion version;
  std::vector<Pin> set;               // added or changed
  std::vector<SteeringUnit> removed;  // no longer pinned: back to ECMP
  std::uint64_t digest{};             // of the pins after the diff
  bool operator==(const PlanDiff&) const = default;
};

// A digest of units and targets that is the same on every machine and in every version (FNV-1a over
// a defined byte form; documented in plan.cpp). Reasons do not count.
std::uint64_t digest(const std::vector<Pin>& pins);

// Sorted, no unit twice, fields well formed (ports 1 to 15 characters without '/' or space,
// addresses specified).
Result<void> validate(const NodePlan& plan);

PlanDiff diff(const NodePlan& from, const NodePlan& to);

// Errc::wrong_node, Errc::gap if the base is not `current`'s version, Errc::stale_plan if it would
// go back, Errc::invalid_argument if the result's digest is not the announced one. `current` is
// never half changed.
Result<NodePlan> apply(const NodePlan& current, const PlanDiff& change);

// What an agent does with a whole plan: an older one never replaces a newer one (safety rule 4); an
// equal one is a harmless repeat. `highest_seen` survives restarts.
Result<NodePlan> accept_plan(NodePlan incoming, const std::string& node, PlanVersion highest_seen);

}  // namespace heddle
