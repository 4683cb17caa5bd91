// Numbers as people read them: three significant digits and a decimal unit. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

std::string human_rate(double bits_per_second);  // "94.3 Mbit/s"
std::string human_bytes(double bytes);           // "1.2 GB", "512 B"
std::string human_milliseconds(double ms);       // "41 us", "12.3 ms", "1.5 s", "2 min 5 s"
std::string human_seconds(double seconds);       // the same scale: "3 d 4 h"
std::string human_share(double share);           // of 1: "97.5 %"
std::string human_efficiency(
    double efficiency);  // "0.975": never rounded up to a 1 that was not reached

// "1 link", "2 links".
std::string counted(std::uint64_t count, std::string_view singular);

}  // namespace heddle
