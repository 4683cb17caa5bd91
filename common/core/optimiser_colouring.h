// Units to spines by edge colouring: the exact scheme, and what the heddle scheme starts from.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/core/optimiser_model.h"

namespace heddle {

struct ColouredUnits {
  std::vector<Model::Choice> choices;  // by unit
  bool exact{};                        // no link carries more units than some link must
};

// Colours over the live spines, parallel cables being colours of their own; what its colour cannot
// serve, because a link is dead or a path forbidden, goes where the busier of its links is least
// busy.
ColouredUnits colour_units(const Model& model);

// The same for some units only, as if the others were not there; the choices of these are left
// alone.
bool colour_some(const Model& model, std::span<const std::uint32_t> units,
                 std::vector<Model::Choice>& choices);

}  // namespace heddle
