// The off switch on the machine itself: a file in the state directory, so it survives restarts and
// works when the coordinator is gone. Whoever sets it flushes (flush.h); an agent that sees it
// programs nothing.
#pragma once

#include <string>

#include "common/core/result.h"

namespace heddle {

class DisableSwitch {
 public:
  explicit DisableSwitch(std::string state_dir);

  // When in doubt (the file cannot be looked at), disabled.
  bool disabled() const;
  std::string by() const;  // who set it; empty if not disabled
  Result<void> disable(const std::string& by);
  Result<void> enable();

 private:
  std::string path_;
};

}  // namespace heddle
