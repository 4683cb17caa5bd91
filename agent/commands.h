// What `heddle-agent` does besides running: one function for each command, over ports. Each prints
// to stdout what it did and to stderr why it could not, and returns the process's exit code.
// heddle-agent(8) documents them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "agent/config.h"
#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kBadConfig = 3,
  kNotPermitted = 4,
  kAgentRuns = 5,
  kWouldChange = 6,
};

// Says on stderr what went wrong and picks the code for it.
ExitCode explain(const Error& error);

// Removes what the flow source of a dead agent left in the kernel; says how many filters that were.
using FilterSweep = std::function<std::size_t()>;

// The configuration to go on with when the file cannot be read: the default folders, and the ranges
// under which the record there says that pins were installed. Pins must not stay because of a
// mistake in a file. Says so on stderr in one line.
AgentConfig config_by_record(const Error& unreadable, const std::string& boot_id);

// Removes every pin of ours. Refused while an agent runs, which would put them back.
ExitCode flush_command(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const FilterSweep& sweep);

// Turns the off switch and comes back when a read back shows no pin of ours, with or without a
// running agent, which gets a few seconds to take them away by itself. A switch that a full or
// read-only disk does not keep is a failure after all that, and not instead of it.
ExitCode disable_command(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config);
ExitCode enable_command(const AgentConfig& config);

// One look at the lease; `next` is when the next makes sense.
ExitCode guard_command(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const std::string& boot_id, const FilterSweep& sweep, Time now, Time& next);

}  // namespace heddle
