// What `heddle simulate` refuses before it simulates anything.
#include "coordinator/cli/simulate_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
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
      const auto parsed =
          parse_command_line({"simulate", fmt::format("{}={}", option, value)}, "0.1.0");
      ASSERT_FALSE(parsed.has_value()) << option << "=" << value;
      EXPECT_EQ(parsed.error().exit, Exit::usage);
      EXPECT_THAT(parsed.error().text,
                  HasSubstr(fmt::format("{}: {} is not a number", option, value)));
    }
  }
  EXPECT_TRUE(parse_command_line({"simulate", "--seconds=2.5", "--enabled=0.5"}, "0.1.0"));
}

// A sweep may take an hour: where its rows shall go is tried before it begins.
TEST(SimulateCommand, TriesItsFilesBeforeItSimulates) {
  const std::string folder = ::testing::TempDir();
  for (const std::string& path : {fmt::format("{}/not-there/rows.json", folder), folder}) {
    for (std::string Simulate::*file :
         {&Simulate::json, &Simulate::csv, &Simulate::export_routing}) {
      Simulate simulate;
      simulate.*file = path;
      std::ostringstream out, err;
      EXPECT_EQ(run_simulate(simulate, {"simulate"}, {.out = out, .err = err}),
                static_cast<int>(Exit::failed));
      EXPECT_EQ(out.str(), "");
      EXPECT_THAT(err.str(), HasSubstr(fmt::format("{}: cannot be written", path)));
    }
  }
}

}  // namespace
}  // namespace heddle
