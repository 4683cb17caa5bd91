// The line over ZeroMQ: opens the keys, the channel and an event loop for it. One thread.
#pragma once

#include <memory>

#include "common/core/result.h"
#include "coordinator/cli/coordinator_line.h"
#include "coordinator/cli/settings.h"

namespace heddle {

// Returns before anything is connected. Errc::invalid_argument, Errc::io, Errc::permission or
// Errc::not_found if a key file or the endpoint is wrong, with what to do about it.
Result<std::unique_ptr<CoordinatorLine>> open_zmq_line(const Settings& settings);

}  // namespace heddle
