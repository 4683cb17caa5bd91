// What no routing can beat (design, section 3): the least possible maximum of subflows on a link,
// and the highest efficiency that the worst-off job can have. Every bound here is valid; none
// promises to be reached. Pure.
#pragma once

#include <cstdint>

#include "common/core/optimiser.h"

namespace heddle::sim {

struct Bound {
  std::uint32_t max_on_link{};
  // Of the worst-off job: the lower of the two below.
  double efficiency{1.0};
  double combinatorial{1.0};  // units do not split
  double linear{1.0};         // flows split at will; only with BoundEffort::linear
};

enum class BoundEffort : std::uint8_t {
  combinatorial,
  linear,  // also the linear program: matters where single links are down or bundles unequal
};

// Whatever is fixed counts as free, which can only raise the bound. The efficiency is 0 if a flow
// has no live path.
Bound bound_of(const Problem& problem, BoundEffort effort);

}  // namespace heddle::sim
