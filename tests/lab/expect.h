// Results in tests: the value or a failed test that says why. Only for *_test.cpp files.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "common/core/result.h"

namespace heddle::lab {

// What went wrong, or nothing. EXPECT_EQ(why(net.commit()), "");
template <class T>
std::string why(const Result<T>& result) {
  return result ? std::string() : result.error().message;
}

// By value, so that `for (auto& x : must(call()))` is safe. gtest turns the exception into a
// failure.
template <class T>
T must(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

}  // namespace heddle::lab
