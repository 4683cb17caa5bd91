// The schemes behind make_optimiser(), one file each. All are pure and without state.
#pragma once

#include <cstdint>
#include <memory>

#include "common/core/optimiser.h"

namespace heddle {

// What the fabric does by itself: every subflow on the uplink that a hash of its source and
// destination picks among the live ones. Steering units do not hold for it, as nothing is steered;
// its randomness is the seed.
std::unique_ptr<Optimiser> make_ecmp();

// The greedy 2-approximation, rebuilt from the paper's public simulator: leaves' sets of outgoing
// and incoming units, the largest set first; each unit to the spine where the busier of its two
// links is least busy. Starts from nothing each time; the seed is not used.
std::unique_ptr<Optimiser> make_greedy();

// Exact for equal flows on equal live spines: at most ceil(D/m) units on each link. A unit whose
// colour is dead or forbidden for its pair of leaves goes where the busier of its links is least
// busy. The seed is not used.
std::unique_ptr<Optimiser> make_edge_colouring();

// The seeded mixing function of the schemes (SplitMix64's).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace heddle
