// The clock port. Daemons hand in the kernel's clocks, tests a clock that they advance by hand.
#pragma once

#include "common/core/units.h"

namespace heddle {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  virtual WallTime wall() const = 0;
};

}  // namespace heddle
