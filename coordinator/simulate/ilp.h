// The scheme "ilp": the least possible number of subflows on the fullest link, by an integer
// program that Cbc solves. For comparison only, so it lives with the simulator; the daemons do not
// link a solver.
//
// Any thread; Cbc itself is entered by one at a time, because its C interface keeps state of its
// own.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/core/optimiser.h"

namespace heddle {

// Gives up after ten seconds of searching: then the placement is the best found (or greedy's, if
// none was) and is not proven. Fit for up to 128 NICs. The only scheme whose answer may depend on
// the machine's speed, when unproven.
std::unique_ptr<Optimiser> make_ilp();

// Every scheme: those of the core (optimiser.h) and "ilp".
std::unique_ptr<Optimiser> make_scheme(std::string_view name);
std::vector<std::string_view> scheme_names();

}  // namespace heddle
