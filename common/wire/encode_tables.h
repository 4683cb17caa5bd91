// The tables of a report, which are kept by columns: the part of encode.cpp that writes them. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/core/messages.h"
#include "schemas/heddle.capnp.h"

namespace heddle::wire {

namespace ws = schema;

// As addresses are numbers on the wire.
std::uint32_t v4_number(const IpAddress& address);
std::uint64_t v6_half(const IpAddress& address, std::size_t first_octet);

// `columns_of_one`: whether the receiver reads one element in place of many that are alike.
void put_flows(ws::FlowTable::Builder out, const std::vector<FlowDelta>& flows,
               bool columns_of_one);
void put_queue_pairs(ws::QueuePairTable::Builder out, const std::vector<OpenQueuePair>& pairs);

}  // namespace heddle::wire
