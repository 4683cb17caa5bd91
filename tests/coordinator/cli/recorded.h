// What the tests of the command line know of coordinators: replies that were recorded.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/tree.h"

namespace heddle {

// A file of tests/coordinator/cli/replies.
inline std::string recorded(const std::string& file) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/tests/coordinator/cli/replies/" + file);
  EXPECT_TRUE(in) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace heddle
