#include "common/runtime/system_clock.h"

#include <ctime>

#include "common/core/check.h"

namespace heddle {

namespace {
Duration read_clock(clockid_t clock) {
  timespec t{};
  HEDDLE_CHECK(clock_gettime(clock, &t) == 0);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}
}  // namespace

Time SystemClock::now() const {
  return Time(read_clock(CLOCK_BOOTTIME));
}

WallTime SystemClock::wall() const {
  return WallTime(read_clock(CLOCK_REALTIME));
}

}  // namespace heddle
