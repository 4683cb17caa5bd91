// A file of waves, for a roll-out: which racks are enabled together, and for how long each wave is
// watched before the next begins.
//
//   soak_s: 3600            # unless a wave says otherwise
//   waves:
//     - {racks: [rack1], soak_s: 600}
//     - {racks: [rack2, rack3]}
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "coordinator/import/fabric_file.h"

namespace heddle {

struct WaveLine {
  std::vector<std::string> racks;
  std::uint32_t soak_seconds{};
  bool operator==(const WaveLine&) const = default;
};

// Every mistake with its line. That the racks exist is the coordinator's to check.
tl::expected<std::vector<WaveLine>, Mistakes> parse_waves(std::string_view text);

}  // namespace heddle
