// Max-min fair rates by water-filling (design, section 3.1): what RoCE congestion control converges
// to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/core/ids.h"
#include "common/core/units.h"

namespace heddle {

// The links that one subflow crosses, and the part of its rate that each carries (1, except over
// hashed parallel cables, where each of k carries 1/k in the mean).
struct FairFlow {
  std::vector<LinkId> links;
};

// Rates, flow by flow. A flow over no link, or over a link without capacity, gets an infinite, or a
// zero, rate. Cost: O(E log E) for E flow-link incidences.
std::vector<Rate> max_min_fair(std::span<const FairFlow> flows, std::span<const Rate> capacities);

}  // namespace heddle
