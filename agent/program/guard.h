// What outlives the agent: `heddle-agent guard`, started by a timer, or `guard --watch`, which
// stays. It flushes when the lease's deadline has passed and the agent has not seen to it (safety
// rule 2).
#pragma once

#include <string>

#include "agent/program/flush.h"
#include "common/core/units.h"

namespace heddle {

// Held by a living agent for its whole life (a lock of the file system, so a killed agent lets go
// of it). Two agents in one run directory are refused by it, and the guard knows by it whether
// somebody still cares.
class AgentLock {
 public:
  // Errc::duplicate if another process holds it.
  static Result<AgentLock> take(const std::string& run_dir);
  AgentLock(AgentLock&& other) noexcept;
  AgentLock& operator=(AgentLock&& other) noexcept;
  ~AgentLock();

 private:
  explicit AgentLock(int fd) : fd_(fd) {}
  int fd_{-1};
};

enum class GuardVerdict : std::uint8_t {
  nothing_installed,  // the record is empty
  lease_valid,
  left_to_agent,  // expired, but an agent lives and has a few seconds to act by itself
  only_segments,  // no pin, and segments of this node, which outlive it (segments.h)
  flushed,
};

struct GuardOutcome {
  GuardVerdict verdict{};
  Time next;  // when looking again makes sense, for --watch
  FlushReport report{};
};

struct GuardInput {
  std::string run_dir;
  std::string boot_id;
  RoutingRanges ranges;  // as configured; the record's own go before them
};

// One look. Safe beside a living agent: it gets kGuardGrace after the deadline before its pins are
// taken away, and restores them should it get a new lease.
inline constexpr Duration kGuardGrace = std::chrono::seconds{5};
Result<GuardOutcome> guard(RouteKernel& kernel, OwnershipStore& store, const GuardInput& input,
                           Time now);

}  // namespace heddle
