// Processor time of the calling thread. Solvers are timed by it, so that two that run side by side,
// or a busy machine, do not change each other's figures.
#pragma once

#include <time.h>

#include "common/core/units.h"

namespace heddle::sim {

class Stopwatch {
 public:
  Stopwatch() : begin_(now()) {}
  Duration elapsed() const { return now() - begin_; }

 private:
  static Duration now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec);
  }
  Duration begin_;
};

}  // namespace heddle::sim
