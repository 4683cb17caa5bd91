// How often a port was told to pause, and told its neighbour to: flow control is the last resort of
// a lossless network, and so the plainest evidence of congestion. Pure; any thread.
#pragma once

#include <span>
#include <vector>

#include "agent/observe/rdma_values.h"

namespace heddle {

// `pause_sent` and `pause_received`, by name: frames of all priorities, and of the link as a whole.
// One is left out where the driver counts none of it, because not observed is not zero.
std::vector<CounterValue> pause_counters(std::span<const NamedCount> statistics);

}  // namespace heddle
