// What a flow source counted so far, as values. Sources count from the first packet they saw; the
// reporter takes the differences. Plain values of the agent's one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/address.h"
#include "common/core/units.h"

namespace heddle {

// One subflow where it leaves this node. Counters grow from `first_seen`; a source that lost its
// count starts again with a later `first_seen`.
struct FlowCounter {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  std::uint32_t dest_qpn{};
  std::string out_port;
  Time first_seen;
  Bytes bytes;  // on the wire, link-layer headers included, as interface counters count them
  std::uint64_t packets{};
  Bytes message_length;  // the longest that was announced since the last reading; 0: none
};

struct FlowReading {
  std::string source;  // the flow source's name
  // Since the last reading some packets passed that could not be counted: flows may be missing from
  // this one, and counters may be too low.
  bool gap{};
  std::vector<FlowCounter> flows;  // in no particular order
};

}  // namespace heddle
