// The ways in which this node can hold a path. One is configured; what it is called and how finely
// it steers is told to the coordinator, which plans by it. Pure values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/messages.h"
#include "common/core/plan.h"

namespace heddle {

enum class Enforcer : std::uint8_t {
  port_tables,  // on a switch, by ingress port and destination
  flow_marks,   // on a leaf, by queue pair: source, destination, UDP source port
  host_routes,  // on a host, by destination: which of its uplinks
  srv6          // on a host, by destination: a list of segments around the packet
};

constexpr const char* name_of(Enforcer enforcer) {
  switch (enforcer) {
    case Enforcer::port_tables:
      break;
    case Enforcer::flow_marks:
      return "flow-marks";
    case Enforcer::host_routes:
      return "host-routes";
    case Enforcer::srv6:
      return "srv6";
  }
  return "port-tables";
}

// Those of a host steer what the host itself sends, whatever port it came in by elsewhere.
constexpr bool is_of_hosts(Enforcer enforcer) {
  return enforcer == Enforcer::host_routes || enforcer == Enforcer::srv6;
}

// What a node of a role may hold paths by, the usual one first.
inline std::vector<Enforcer> enforcers_of(Role role) {
  if (role == Role::host)
    return {Enforcer::host_routes, Enforcer::srv6};
  if (role == Role::leaf)
    return {Enforcer::port_tables, Enforcer::flow_marks};
  return {Enforcer::port_tables};
}

constexpr Granularity granularity_of(Enforcer enforcer) {
  if (is_of_hosts(enforcer))
    return Granularity::destination;
  return enforcer == Enforcer::flow_marks ? Granularity::queue_pair
                                          : Granularity::port_and_destination;
}

}  // namespace heddle
