// What an agent of this configuration could and would do to the kernel's tables, without doing it:
// behind `heddle-agent reconcile --dry-run` and `heddle-agent probe`. Nothing is changed and
// nothing is locked, so both work beside a running agent. One thread; nothing is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/commands.h"
#include "agent/config.h"
#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"
#include "common/core/clock.h"
#include "common/core/messages.h"
#include "common/core/plan.h"
#include "common/core/result.h"

namespace heddle {

struct DryRun {
  std::optional<PlanVersion> plan;   // none was ever accepted here
  std::size_t pins{};                // that are wanted
  std::string why_nothing;           // no pin is wanted
  std::string lease_remark;          // why an agent may hold no pin at this moment all the same
  std::vector<std::string> actions;  // in their order
  std::vector<PinFailure> not_held;  // pins that no action helps
  std::string refusal;               // why nothing may be programmed here; what is there would go
};

// Fails if the plan, the record or the tables cannot be read.
Result<DryRun> dry_run(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const std::string& boot_id, const Clock& clock);

std::string text_of(const DryRun& run);
std::string json_of(const DryRun& run);

// Prints it. kOk if the tables agree with the plan, kWouldChange if not, kFailed if nothing may be
// programmed.
ExitCode reconcile_command(RouteKernel& kernel, OwnershipStore& ownership,
                           const AgentConfig& config, const std::string& boot_id,
                           const Clock& clock, bool json);

// What an agent of this configuration could program, by the same tests that it makes itself. Fails
// if the kernel's tables cannot be read.
Result<EnforcerCapability> probe_enforcer(RouteKernel& kernel, OwnershipStore& ownership,
                                          const AgentConfig& config, const Clock& clock);

}  // namespace heddle
