// The audit log as a file that is only appended to, a line of JSON for each record. When it is full
// it becomes FILE.1, what was FILE.1 becomes FILE.2, and the oldest goes.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstddef>
#include <filesystem>

#include "coordinator/broadcast/broadcast.h"
#include "coordinator/serve/audit.h"

namespace heddle {

class FileAuditLog final : public AuditLog {
 public:
  struct Limits {
    std::size_t bytes{std::size_t{4} << 20};  // of one file
    int older{4};                             // files beside it
  };
  // `notices` is told once when it cannot be written, and once when it can again.
  FileAuditLog(std::filesystem::path file, NoticeHandler notices)
      : FileAuditLog(std::move(file), std::move(notices), Limits{}) {}
  FileAuditLog(std::filesystem::path file, NoticeHandler notices, Limits limits)
      : file_(std::move(file)), notices_(std::move(notices)), limits_(limits) {}

  // Opened for each record, as orders are rare: so a file that was moved away is made again. Not
  // flushed to the disk: a record of the last second may be lost with the machine's power.
  void keep(const AuditRecord& record) override;

 private:
  void rotate();

  std::filesystem::path file_;
  NoticeHandler notices_;
  Limits limits_;
  bool failing_{};
};

}  // namespace heddle
