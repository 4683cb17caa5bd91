#include "common/runtime/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

class Log : public testing::Test {
 protected:
  Log() {
    set_log_sink(
        [this](LogLevel level, std::string_view line) { lines_.emplace_back(level, line); });
  }
  ~Log() override {
    set_log_sink({});
    set_log_level(LogLevel::info);
  }
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

TEST_F(Log, WritesItsLevelAndAbove) {
  set_log_level(LogLevel::warning);
  log_error("e {}", 1);
  log_warning("w");
  log_info("i");
  log_debug("d");
  EXPECT_THAT(lines_,
              ElementsAre(std::pair(LogLevel::error, "e 1"), std::pair(LogLevel::warning, "w")));
}

TEST_F(Log, APeerCannotForgeALine) {
  log_info("node {}", "leaf1\n<3>all is lost\r\x1b[2J\x7f");
  EXPECT_THAT(lines_, ElementsAre(std::pair(LogLevel::info,
                                            "node leaf1\\x0a<3>all is lost\\x0d\\x1b[2J\\x7f")));
}

TEST_F(Log, NamesOfLevelsAreRead) {
  EXPECT_EQ(parse_log_level("error"), LogLevel::error);
  EXPECT_EQ(parse_log_level("warning"), LogLevel::warning);
  EXPECT_EQ(parse_log_level("info"), LogLevel::info);
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("loud").error().code, Errc::invalid_argument);
}

TEST_F(Log, ManyThreadsLoseNoLine) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i)
        log_info("line");
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(lines_.size(), 400U);
}

// In processes of their own, as where the lines go is settled by the first one.
TEST(LogDeathTest, StderrGetsTimeAndLevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        unsetenv("JOURNAL_STREAM");
        log_warning("cable lost");
        _exit(0);
      },
      testing::ExitedWithCode(0), "^[0-9-]{10}T[0-9:.]{12} warning: cable lost\n$");
}

TEST(LogDeathTest, JournalGetsTheLevelAsAPrefix) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        struct stat status {};
        fstat(STDERR_FILENO, &status);
        setenv("JOURNAL_STREAM", fmt::format("{}:{}", status.st_dev, status.st_ino).c_str(), 1);
        log_warning("cable lost");
        _exit(0);
      },
      testing::ExitedWithCode(0), "^<4>cable lost\n$");
}

}  // namespace
}  // namespace heddle
