// Lines for the people who run heddle, to stderr, where journald reads them with their level. Any
// thread; a line is written before the call returns. Control characters are escaped: a peer cannot
// forge lines.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "common/core/result.h"

namespace heddle {

enum class LogLevel : std::uint8_t { error, warning, info, debug };

// "error", "warning", "info", "debug".
Result<LogLevel> parse_log_level(std::string_view text);

// Until it is called, `info`.
void set_log_level(LogLevel level);
bool logs(LogLevel level);

// Sends lines elsewhere, for tests; an empty one sends them back to stderr.
void set_log_sink(std::function<void(LogLevel, std::string_view)> sink);

void write_log(LogLevel level, std::string_view line);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (logs(level))
    write_log(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::error, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::warning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::debug, format, std::forward<Args>(args)...);
}

}  // namespace heddle
