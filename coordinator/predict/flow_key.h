// A wire key without its first-seen time: observers date the same queue pair differently, and each
// other's clocks are not to be compared. Plain value.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "common/core/flow.h"

namespace heddle {

struct FlowKey {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  std::uint32_t dest_qpn{};
  // clang-tidy 14 takes the zero of a defaulted comparison for a pointer.
  auto operator<=>(const FlowKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

FlowKey key_of(const WireKey& key);
std::string to_string(const FlowKey& key);

}  // namespace heddle
