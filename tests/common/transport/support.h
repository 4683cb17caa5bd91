// What the transport tests share: a loop that waits for conditions, a folder of its own, raw TCP.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/runtime/event_loop.h"
#include "common/runtime/log.h"
#include "common/runtime/system_clock.h"
#include "common/transport/channel.h"

namespace heddle::test {

inline Payload payload_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string text_of(Payload payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

// Turns the loop until the condition holds. False after ten seconds, which only a failure takes.
inline bool await(EventLoop& loop, const std::function<bool()>& condition) {
  const SystemClock clock;
  const Time end = clock.now() + std::chrono::seconds(10);
  while (!condition()) {
    if (clock.now() > end)
      return false;
    EXPECT_TRUE(loop.run_once(std::chrono::milliseconds(50)));
  }
  return true;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Collects log lines instead of printing them.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() { set_log_sink({}); }
  bool any_with(std::string_view part) const {
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos)
        return true;
    }
    return false;
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace heddle::test
