// What no routing can beat (design, section 3): the least possible maximum of subflows on a link,
// and the highest efficiency that the worst-off job can have. Every bound here is valid; none
// promises to be reached. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "common/core/flow.h"
#include "common/core/topology.h"
#include "common/core/units.h"

namespace heddle::sim {

struct Bound {
  // ceil(qD / m) of the leaf where it is largest: qD subflows leave (or enter) it over m live
  // links.
  std::uint32_t max_on_link{};
  // Of the worst-off job: the lower of the combinatorial bound and the linear program's.
  double efficiency{1.0};
  double combinatorial{1.0};
  // Flows split at will, each wants what its job's ideal asks; bounded from the dual side, so that
  // it holds however few steps were taken.
  double linear{1.0};
};

enum class BoundEffort : std::uint8_t {
  cuts,    // the linear program by the cut around each leaf: exact if only whole spines are down
  linear,  // also by multiplicative weights, for single links down and unequal bundles
};

// Every job in its heaviest phase, as evaluate() has it. A NIC with several attachments is left out
// of the counts. The efficiency is 0 if a flow has no live path.
Bound bound_of(const Topology& topology, const LinkState& links, const Demand& demand,
               std::span<const Rate> residual, BoundEffort effort);

}  // namespace heddle::sim
