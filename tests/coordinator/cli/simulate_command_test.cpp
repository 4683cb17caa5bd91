// What `heddle simulate` refuses before it simulates anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/cli/command_line.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// nan is neither below nor above a range, so that a range alone would let it through.
TEST(SimulateCommand, RefusesWhatIsNotANumber) {
  for (const std::string option :
       {"--seconds", "--enabled", "--fail-at", "--recover-at", "--period"}) {
    for (const std::string value : {"nan", "-nan", "NAN"}) {
      const auto parsed = parse_command_line({"simulate", option + "=" + value}, "0.1.0");
      ASSERT_FALSE(parsed.has_value()) << option << "=" << value;
      EXPECT_EQ(parsed.error().exit, Exit::usage);
      EXPECT_THAT(parsed.error().text, HasSubstr(option + ": " + value + " is not a number"));
    }
  }
  EXPECT_TRUE(parse_command_line({"simulate", "--seconds=2.5", "--enabled=0.5"}, "0.1.0"));
}

}  // namespace
}  // namespace heddle
