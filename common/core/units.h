// Units are types. A raw number appears only where it crosses a C interface, with the unit in its
// name.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace heddle {

// What a link can carry, or what a flow gets.
struct Rate {
  double bits_per_second{};

  auto operator<=>(const Rate&) const = default;
  friend constexpr Rate operator+(Rate a, Rate b) {
    return {a.bits_per_second + b.bits_per_second};
  }
  friend constexpr Rate operator-(Rate a, Rate b) {
    return {a.bits_per_second - b.bits_per_second};
  }
  friend constexpr Rate operator*(Rate a, double k) { return {a.bits_per_second * k}; }
  friend constexpr Rate operator/(Rate a, double k) { return {a.bits_per_second / k}; }
  friend constexpr double operator/(Rate a, Rate b) {
    return a.bits_per_second / b.bits_per_second;
  }
};

struct Bytes {
  std::uint64_t value{};

  auto operator<=>(const Bytes&) const = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  constexpr Bytes& operator+=(Bytes b) {
    value += b.value;
    return *this;
  }
};

using Duration = std::chrono::nanoseconds;

// Time since boot, suspended time included (CLOCK_BOOTTIME): the time of leases and intervals. The
// core never asks for it; it is handed in with each event.
struct BootClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
};
using Time = BootClock::time_point;

// Time of day, for what people read and for the keys of the history. Never for deadlines.
struct UnixClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<UnixClock>;
  static constexpr bool is_steady = false;
};
using WallTime = UnixClock::time_point;

inline namespace literals {
constexpr Rate operator""_gbps(unsigned long long n) {
  return {static_cast<double>(n) * 1e9};
}
constexpr Rate operator""_mbps(unsigned long long n) {
  return {static_cast<double>(n) * 1e6};
}
constexpr Rate operator""_bps(unsigned long long n) {
  return {static_cast<double>(n)};
}
constexpr Bytes operator""_bytes(unsigned long long n) {
  return {n};
}
}  // namespace literals

}  // namespace heddle
