// Small files that must never be seen half written: leases, records, switches. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/core/result.h"

namespace heddle {

// The whole file; Errc::not_found, Errc::permission or Errc::io. Files over a limit are refused:
// what is read here is written by this program and is small.
Result<std::string> read_small_file(const std::string& path);

// Leases and records speak of the kernel's tables, which a loss of power takes along; what must
// outlive it is synced to the disk, which takes milliseconds.
enum class Outlives : std::uint8_t { process, power };

// By a temporary file beside it and a rename: a reader sees the old or the new content.
Result<void> replace_file(const std::string& path, std::string_view content,
                          Outlives outlives = Outlives::process);

// No error if there is none.
Result<void> remove_file(const std::string& path);

}  // namespace heddle
