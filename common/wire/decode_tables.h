// The tables of a report, which are kept by columns: the part of decode.cpp that reads them. A
// broken limit throws Refused, as everywhere in there. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/messages.h"
#include "schemas/heddle.capnp.h"

namespace heddle::wire {

namespace ws = schema;

// As addresses are numbers on the wire.
IpAddress v4(std::uint32_t n);
IpAddress v6(std::uint64_t high, std::uint64_t low);

std::vector<FlowDelta> read_flows(ws::FlowTable::Reader from);
std::vector<OpenQueuePair> read_queue_pairs(ws::QueuePairTable::Reader from);

}  // namespace heddle::wire
