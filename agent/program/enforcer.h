// The ways in which this node can hold a path. One is configured; what it is called and how finely
// it steers is told to the coordinator, which plans by it. Pure values.
#pragma once

#include <cstdint>

#include "common/core/plan.h"

namespace heddle {

enum class Enforcer : std::uint8_t {
  port_tables,  // by ingress port and destination
  flow_marks    // by queue pair: source, destination, UDP source port
};

constexpr const char* name_of(Enforcer enforcer) {
  return enforcer == Enforcer::flow_marks ? "flow-marks" : "port-tables";
}

constexpr Granularity granularity_of(Enforcer enforcer) {
  return enforcer == Enforcer::flow_marks ? Granularity::queue_pair
                                          : Granularity::port_and_destination;
}

}  // namespace heddle
