// What the agent's tests put in the place of files and sockets.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_store.h"
#include "common/core/messages.h"
#include "common/core/plan.h"

namespace heddle {

class MemoryStore final : public AgentStore {
 public:
  StoredState load() override { return state; }
  Result<void> save_highest_seen(PlanVersion version) override {
    if (!full)
      state.highest_seen = version;
    return write();
  }
  Result<void> save_plan(const NodePlan& plan) override {
    if (full || loses_plans)
      return fail(Errc::io, "no space left on device");
    state.plan = plan;
    return {};
  }
  Result<void> extend_lease(Time deadline) override {
    state.lease_deadline = deadline;
    return write();
  }
  bool disabled() const override { return !by.empty(); }
  std::string disabled_by() const override { return by; }
  Result<void> disable(const std::string& who) override {
    if (!full)
      by = who;
    return write();
  }
  Result<void> enable() override {
    by.clear();
    return write();
  }

  StoredState state;
  std::string by;
  bool full{};         // writes fail
  bool loses_plans{};  // those of plans alone

 private:
  Result<void> write() const {
    if (full)
      return fail(Errc::io, "no space left on device");
    return {};
  }
};

inline Pin pin(const std::string& in_port, const IpAddress& destination,
               const std::string& out_port) {
  return {.unit = ByPortAndDestination{in_port, destination},
          .target = PortTableRoute{out_port},
          .reason = "off up1: 2 elephants, now 1"};
}

inline Snapshot snapshot_of(NodePlan plan) {
  const std::uint64_t sum = digest(plan.pins);
  return {.plan = std::move(plan), .digest = sum};
}

}  // namespace heddle
