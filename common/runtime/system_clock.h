// The kernel's clocks behind the clock port: CLOCK_BOOTTIME and CLOCK_REALTIME. Any thread.
#pragma once

#include "common/core/clock.h"

namespace heddle {

class SystemClock final : public Clock {
 public:
  Time now() const override;
  WallTime wall() const override;
};

}  // namespace heddle
