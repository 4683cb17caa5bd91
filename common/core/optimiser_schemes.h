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

// Job-aware: exact where that is possible, else improved job by job, the worst off first; see
// heddle_improve.h. Starts from where units run now and moves few. The seed is not used.
std::unique_ptr<Optimiser> make_heddle();

// Simulated annealing after Hedera: one spine for all units to one destination NIC, two
// destinations of a leaf swapped in each step, the energy being the units on links that carry the
// most. Temperature 1000 down to 0.1 by factors of 0.99 (917 of them), 10 steps each.
std::unique_ptr<Optimiser> make_annealing();

// The seeded mixing function of the schemes (SplitMix64's).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace heddle
