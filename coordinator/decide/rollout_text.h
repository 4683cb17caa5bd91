// The state of a roll-out as the text that is kept of it, one fact a line.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/decide/rollout.h"

namespace heddle {

std::string write_rollout(const RolloutState& state);
// Errc::parse with the line's number.
Result<RolloutState> read_rollout(std::string_view text);

}  // namespace heddle
