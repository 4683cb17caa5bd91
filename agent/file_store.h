// The agent's memory in files: the plan and the highest version in the state directory, the off
// switch beside them, the lease in the run directory, and there what of the switch has no other
// place (disable_switch.h). Files are replaced by rename, so a crash
// leaves the old or the new one. The epoch and the off switch outlive a loss of power. One thread.
#pragma once

#include <filesystem>
#include <string>

#include "agent/agent_store.h"
#include "agent/program/disable_switch.h"
#include "agent/program/lease.h"

namespace heddle {

class FileStore final : public AgentStore {
 public:
  FileStore(std::filesystem::path state_dir, std::filesystem::path run_dir, std::string boot_id);

  StoredState load() override;
  Result<void> save_highest_seen(PlanVersion version) override;
  // If it cannot be written, the one before goes, so that no restart brings it back.
  Result<void> save_plan(const NodePlan& plan) override;
  Result<void> extend_lease(Time deadline) override;
  bool disabled() const override { return switch_.disabled(); }
  std::string disabled_by() const override { return switch_.by(); }
  Result<void> disable(const std::string& by) override { return switch_.disable(by); }
  Result<void> enable() override { return switch_.enable(); }

 private:
  std::filesystem::path state_dir_;
  std::filesystem::path run_dir_;
  std::string boot_id_;
  DisableSwitch switch_;
  Lease lease_;
  std::uint64_t synced_epoch_{};  // 0: none yet
};

// The plan that an agent with this state directory accepted last. Errc::not_found if there is none.
Result<NodePlan> load_plan(const std::filesystem::path& state_dir);

}  // namespace heddle
