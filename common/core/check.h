// CHECK: a broken invariant ends the process, also in a release build. Operating errors are values
// (result.h); this is only for what cannot happen unless the program itself is wrong.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace heddle::detail {
[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}
}  // namespace heddle::detail

#define HEDDLE_CHECK(condition) \
  ((condition) ? void(0) : ::heddle::detail::check_failed(#condition, __FILE__, __LINE__))
