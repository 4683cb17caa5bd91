// What must outlive the coordinator besides the history: the epoch, what operators said by command,
// and how far a roll-out has come. Small files that are replaced whole. The port is the logic's;
// FileStateStore is behind it.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/job.h"
#include "common/core/result.h"
#include "coordinator/broadcast/reign.h"
#include "coordinator/decide/drain.h"
#include "coordinator/decide/rollout.h"

namespace heddle {

struct OperatorState {
  std::set<std::string> disabled_nodes;
  // By name, as it was when it was ordered. A recognised job is known by its hosts, as its name
  // changes with who talks to whom; a declared one by its name alone.
  std::map<std::string, std::set<std::string>> disabled_jobs;
  std::vector<JobDeclaration> jobs;  // by `heddle job declare`
  std::vector<DrainOrder> drains{};  // by `heddle drain`
  bool operator==(const OperatorState&) const = default;
};

class StateStore : public EpochStore {
 public:
  virtual Result<OperatorState> load_operator_state() = 0;
  virtual Result<void> store_operator_state(const OperatorState& state) = 0;
  virtual Result<RolloutState> load_rollout() = 0;  // one of phase none if none was ever stored
  virtual Result<void> store_rollout(const RolloutState& state) = 0;
};

// "epoch" holds a number, "operator" one word of command a line, "rollout" what rollout_text.h
// writes. A file that is there but damaged
// is an error that names it: guessing an epoch is what the agents' hellos are for, and that is an
// operator's choice.
class FileStateStore final : public StateStore {
 public:
  // Makes the folder. Errc::io if it cannot be made or written.
  static Result<FileStateStore> open(std::filesystem::path folder);

  Result<std::uint64_t> load_epoch() override;
  Result<void> store_epoch(std::uint64_t epoch) override;
  Result<OperatorState> load_operator_state() override;
  Result<void> store_operator_state(const OperatorState& state) override;
  Result<RolloutState> load_rollout() override;
  Result<void> store_rollout(const RolloutState& state) override;

 private:
  explicit FileStateStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

}  // namespace heddle
