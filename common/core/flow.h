// Flows, subflows and jobs, as observed (wire keys) and as demanded (what the optimiser places).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/address.h"
#include "common/core/ids.h"
#include "common/core/units.h"

namespace heddle {

// The identity of a subflow: what its packets carry, and when it was first seen, because queue pair
// numbers are used again. PID, local QP number and job are attributes joined to it, never part of
// it.
struct WireKey {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};  // UDP; the destination port is RoCEv2's 4791
  std::uint32_t dest_qpn{};     // 24 bits
  WallTime first_seen;

  auto operator<=>(const WireKey&) const = default;
};

// "10.1.0.1:51986 > 10.2.0.1 qp 0x12"
std::string to_string(const WireKey& key);

// One flow of one job in one phase: all traffic from one NIC to another, carried by `subflows`
// queue pairs that split it evenly.
struct FlowDemand {
  JobId job;
  std::uint32_t phase{};
  NicId source;
  NicId destination;
  double weight{1.0};  // bytes in that phase; 1 if unknown. Positive and finite
  std::uint32_t subflows{1};
};

struct JobDemand {
  std::string name;
  std::uint32_t phases{1};  // they do not overlap in time
};

// What is to be placed. Subflows are numbered flow by flow: those of flow i follow those of flow i
// - 1.
struct Demand {
  std::vector<JobDemand> jobs;
  std::vector<FlowDemand> flows;

  std::size_t subflow_count() const {
    std::size_t n = 0;
    for (const FlowDemand& flow : flows)
      n += flow.subflows;
    return n;
  }
};

}  // namespace heddle
