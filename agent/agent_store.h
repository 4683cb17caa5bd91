// What an agent must remember over restarts, as a port: FileStore (file_store.h) in the daemon,
// memory in tests. Called from the agent's one thread.
#pragma once

#include <optional>
#include <string>

#include "common/core/plan.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

struct StoredState {
  PlanVersion highest_seen;
  std::optional<NodePlan> plan;        // the last that was accepted
  std::optional<Time> lease_deadline;  // of this boot
};

class AgentStore {
 public:
  virtual ~AgentStore() = default;

  // What cannot be read is left out: the coordinator sends it again.
  virtual StoredState load() = 0;
  virtual Result<void> save_highest_seen(PlanVersion version) = 0;
  virtual Result<void> save_plan(const NodePlan& plan) = 0;
  virtual Result<void> extend_lease(Time deadline) = 0;

  // The off switch of this machine, which others set too. An error of the latter two: not kept;
  // what holds all the same, disabled() says.
  virtual bool disabled() const = 0;
  virtual std::string disabled_by() const = 0;
  virtual Result<void> disable(const std::string& by) = 0;
  virtual Result<void> enable() = 0;
};

}  // namespace heddle
