// The limits that schemas/heddle.capnp sets, for the two halves of the codec.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/core/units.h"

namespace heddle::wire {

inline constexpr std::uint64_t kMaxUnpackedWords = (std::uint64_t{32} << 20) / 8;
inline constexpr std::size_t kMaxElements = 131'072;
inline constexpr std::size_t kMaxPorts = 4'096;
inline constexpr std::size_t kMaxCapabilities = 64;
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxPortBytes = 15;  // the kernel's IFNAMSIZ, less the closing zero
inline constexpr std::size_t kMaxTextBytes = 1'024;
inline constexpr std::size_t kMaxDeviceTextBytes = 255;
inline constexpr Duration kLongestLease = std::chrono::hours(24);
inline constexpr Duration kShortestReportInterval = std::chrono::milliseconds(1);
inline constexpr Duration kLongestReportInterval = std::chrono::hours(1);

}  // namespace heddle::wire
