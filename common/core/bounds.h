// Upper bounds of what any placement can reach (design, section 3), to print beside what was
// reached. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/optimiser_model.h"

namespace heddle {

struct Bounds {
  // No placement has fewer subflows on its fullest link. Equal spines and subflows steered singly:
  // ceil(qD/m), which edge colouring reaches (Koenig).
  std::uint32_t max_on_link{};
  // No placement has a better worst job. The least of two bounds, both over the uplinks or
  // downlinks of one leaf at a time, or of those that a NIC with several attachments chooses
  // between: how well whole units can share them, and how much fits through all of them together.
  double worst{1.0};
  // By job: what it could reach if it were alone.
  std::vector<double> by_job;
};

// Cost: O(n log n) in units. The evaluator tells what each flow needs.
Bounds find_bounds(const Model& model, const Evaluator& evaluator);

// The linear program's bound of the worst job: each flow demands its need and may split over all
// spines, every link counts in both directions (maximum concurrent flow). Found from the dual by
// multiplicative weights (Garg and Koenemann): every set of link lengths proves a bound, so what is
// returned is a true upper bound whenever the iterations end, and close to the optimum when there
// are many. At most 1. With unequal weights water-filling may reach less on every routing, because
// it does not weigh flows.
double split_bound(const Model& model, const Evaluator& evaluator, std::uint32_t iterations = 400);

// The lower of that and find_bounds().worst, which knows that units do not split.
double linear_program_bound(const Model& model, const Evaluator& evaluator,
                            std::uint32_t iterations = 400);

}  // namespace heddle
