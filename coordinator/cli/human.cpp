#include "coordinator/cli/human.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace heddle {
namespace {

// Three significant digits, without zeros that say nothing: 94.3, 100, 1.5, 0.
std::string digits(double value) {
  const double size = std::fabs(value);
  std::string text = fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text;
}

template <std::size_t N>
std::string scaled(double value, const std::array<std::string_view, N>& units) {
  std::size_t unit = 0;
  // 999.5 would be printed as 1000, which is 1 of the next unit.
  while (unit + 1 < N && std::fabs(value) >= 999.5) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{} {}", digits(value), units[unit]);
}

// The larger unit and what is left in the smaller one: "2 min 5 s", "3 d".
std::string pair(double seconds, double large, std::string_view large_unit, double small,
                 std::string_view small_unit) {
  const double whole = std::floor(seconds / large);
  const double rest = std::floor((seconds - whole * large) / small);
  std::string text = fmt::format("{:.0f} {}", whole, large_unit);
  if (rest > 0)
    text += fmt::format(" {:.0f} {}", rest, small_unit);
  return text;
}

}  // namespace

std::string human_rate(double bits_per_second) {
  return scaled(bits_per_second,
                std::array<std::string_view, 5>{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"});
}

std::string human_bytes(double bytes) {
  return scaled(bytes, std::array<std::string_view, 6>{"B", "kB", "MB", "GB", "TB", "PB"});
}

std::string human_milliseconds(double ms) {
  if (ms != 0 && std::fabs(ms) < 0.9995)
    return digits(ms * 1000.0) + " us";
  if (std::fabs(ms) < 999.5)
    return digits(ms) + " ms";
  return human_seconds(ms / 1000.0);
}

std::string human_seconds(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds >= kDay)
    return pair(seconds, kDay, "d", kHour, "h");
  if (seconds >= kHour)
    return pair(seconds, kHour, "h", kMinute, "min");
  if (seconds >= kMinute)
    return pair(seconds, kMinute, "min", 1, "s");
  return digits(seconds) + " s";
}

std::string human_share(double share) {
  return digits(share * 100.0) + " %";
}

std::string human_efficiency(double efficiency) {
  // A hair's breadth of rounding noise below 1 is 1; three digits otherwise, cut off.
  return fmt::format("{:.3f}", std::floor(efficiency * 1000.0 + 1e-6) / 1000.0);
}

std::string counted(std::uint64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", count, singular, count == 1 ? "" : "s");
}

}  // namespace heddle
