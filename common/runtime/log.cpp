#include "common/runtime/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

namespace heddle {

namespace {

std::atomic<LogLevel> g_level{LogLevel::info};
std::mutex g_sink_mutex;
std::function<void(LogLevel, std::string_view)> g_sink;

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

// journald takes the level from a prefix, as the kernel's log does.
const char* journal_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "<3>";
    case LogLevel::warning:
      return "<4>";
    case LogLevel::info:
      return "<6>";
    case LogLevel::debug:
      return "<7>";
  }
  return "<3>";
}

// Whether stderr is the very stream that systemd connected to the journal, and not a redirection of
// it.
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || fstat(STDERR_FILENO, &status) != 0)
    return false;
  return fmt::format("{}:{}", status.st_dev, status.st_ino) == stream;
}

struct Stderr {
  bool journal = stderr_is_journal();
  spdlog::logger logger{"heddle", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Stderr() {
    logger.set_level(spdlog::level::trace);
    logger.set_pattern(journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %l: %v");
  }
};

std::string escaped(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "error")
    return LogLevel::error;
  if (text == "warning")
    return LogLevel::warning;
  if (text == "info")
    return LogLevel::info;
  if (text == "debug")
    return LogLevel::debug;
  return fail(Errc::invalid_argument,
              fmt::format("no log level \"{}\": one of error, warning, info, debug", text));
}

void set_log_level(LogLevel level) {
  g_level.store(level, std::memory_order_relaxed);
}

bool logs(LogLevel level) {
  return level <= g_level.load(std::memory_order_relaxed);
}

void set_log_sink(std::function<void(LogLevel, std::string_view)> sink) {
  const std::lock_guard lock(g_sink_mutex);
  g_sink = std::move(sink);
}

void write_log(LogLevel level, std::string_view line) {
  const std::string text = escaped(line);
  {
    const std::lock_guard lock(g_sink_mutex);
    if (g_sink) {
      g_sink(level, text);
      return;
    }
  }
  static Stderr out;
  out.logger.log(spdlog_level(level), "{}{}", out.journal ? journal_prefix(level) : "", text);
}

}  // namespace heddle
