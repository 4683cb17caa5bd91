// The off switch on the machine itself: a file in the state directory, so it survives restarts and
// works when the coordinator is gone. Where that cannot be written, as on a full or read-only disk,
// one in the run directory does the same until a reboot. Whoever sets it flushes (flush.h); an
// agent that sees it programs nothing. One thread; lives as long as its user likes.
#pragma once

#include <string>

#include "common/core/result.h"

namespace heddle {

class DisableSwitch {
 public:
  static constexpr const char* kFile = "disabled";  // in either directory

  DisableSwitch(const std::string& state_dir, const std::string& run_dir);

  // When in doubt (a file cannot be looked at), disabled.
  bool disabled() const;
  std::string by() const;  // who set it; empty if not disabled
  // An error: a reboot forgets it. Until then it holds if disabled() says so.
  Result<void> disable(const std::string& by);
  Result<void> enable();

 private:
  std::string kept_;
  std::string until_reboot_;
};

}  // namespace heddle
