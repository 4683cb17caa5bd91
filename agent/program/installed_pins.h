// From what is installed back to the pins that would lead to it: what an earlier life left, before
// there is a plan. Pure; any thread.
#pragma once

#include <vector>

#include "agent/program/main_view.h"
#include "common/core/plan.h"
#include "common/core/reconcile.h"

namespace heddle {

// Sorted by unit.
std::vector<Pin> pins_of(const SteeringTables& installed, const MainView& view);

}  // namespace heddle
