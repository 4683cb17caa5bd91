// The audit log: who ordered what, and what came of it. Orders and refusals are in it; questions
// that were answered are not, as a screen on a wall asks every second.
//
// The port is the logic's; coordinator/file_audit_log.h is behind it. The event loop's thread.
#pragma once

#include <string>
#include <vector>

#include "common/core/access.h"
#include "common/core/units.h"

namespace heddle {

struct AuditRecord {
  WallTime wall;
  std::string key;  // its name; empty where none is known
  KeyRole role{};
  std::string command;  // "disable", "hello"; "connect" of who was not let in
  std::vector<std::string> arguments;
  std::string outcome;  // "done", "ordered", "refused: ..."
};

class AuditLog {
 public:
  virtual ~AuditLog() = default;
  // Never fails for its caller: the off switch must work on a full disk.
  virtual void keep(const AuditRecord& record) = 0;
};

// One line of JSON, without its end. Words that are too long to be meant are cut.
std::string audit_line(const AuditRecord& record);

}  // namespace heddle
