// The last step for small problems: local search by the metric itself, water-filling and all. Pure
// and deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/optimiser_model.h"

namespace heddle {

// Improves the choices by moves and swaps of units, from several starts near the best, until a
// fixed number of evaluations is spent. Problems too large for a useful number of evaluations are
// left as they are. At most `max_moves` units end away from where they run now, or as many as did
// before; none does without a gain.
void polish(const Model& model, Evaluator& evaluator, std::uint32_t max_moves,
            std::vector<Model::Choice>& choices);

}  // namespace heddle
