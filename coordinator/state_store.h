// What must outlive the coordinator besides the history: the epoch, and what operators said by
// command. Small files that are replaced whole. The port is the logic's; FileStateStore is behind
// it.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/core/job.h"
#include "common/core/result.h"
#include "coordinator/broadcast/reign.h"

namespace heddle {

struct OperatorState {
  std::set<std::string> disabled_nodes;
  std::set<std::string> disabled_jobs;
  std::vector<JobDeclaration> jobs;  // by `heddle job declare`
  bool operator==(const OperatorState&) const = default;
};

class StateStore : public EpochStore {
 public:
  virtual Result<OperatorState> load_operator_state() = 0;
  virtual Result<void> store_operator_state(const OperatorState& state) = 0;
};

// "epoch" holds a number, "operator" one word of command a line. A file that is there but damaged
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

 private:
  explicit FileStateStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

}  // namespace heddle
