// What a demonstration says: plain lines with the time since its start, coloured on a terminal. One
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/core/units.h"

namespace heddle::lab {

class Console {
 public:
  Console();
  bool colour() const { return colour_; }
  double seconds() const;

  void title(std::string_view text);
  void say(std::string_view text);   // a line with the time
  void more(std::string_view text);  // a line that belongs to the one before
  // A share of one, in a colour that tells good from bad.
  std::string share(double value) const;
  std::string strong(std::string_view text) const;

 private:
  std::string paint(std::string_view code, std::string_view text) const;
  bool colour_{};
  Time start_;
};

// Time that the processors had nothing to do, between two readings of /proc/stat.
struct CpuTime {
  double idle{};
  double total{};
  static CpuTime read();
};
double idle_percent(const CpuTime& from, const CpuTime& to);

}  // namespace heddle::lab
