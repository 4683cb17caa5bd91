// How long pins may outlive the last word from the coordinator (safety rule 2), in a form that a
// dead agent leaves behind: a deadline on CLOCK_BOOTTIME in a file of the run directory. The agent
// extends it; the guard (guard.h) reads it. One thread.
#pragma once

#include <optional>
#include <string>

#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

struct LeaseRecord {
  std::string boot_id;
  Time deadline;
  bool operator==(const LeaseRecord&) const = default;
};

class Lease {
 public:
  Lease(const std::string& run_dir, std::string boot_id);

  // Called with each word from the coordinator, before anything is programmed on it. The file is
  // written only when the deadline moves by a second or more (or back), so it is never later than
  // the truth and at most a second earlier.
  Result<void> extend(Time deadline);
  // True before the first extend().
  bool lease_expired(Time now) const { return !deadline_ || now >= *deadline_; }
  std::optional<Time> deadline() const { return deadline_; }

 private:
  std::string path_;
  std::string boot_id_;
  std::optional<Time> deadline_;
  std::optional<Time> written_;
};

// Errc::not_found if there is no lease, Errc::parse if the file is damaged.
Result<LeaseRecord> read_lease(const std::string& run_dir);
bool lease_expired(const LeaseRecord& lease, const std::string& boot_id, Time now);

// This boot's id, as the kernel gives it; leases and records of another boot are void.
Result<std::string> current_boot_id();

}  // namespace heddle
