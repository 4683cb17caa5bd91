// What the packets of a subflow have in common, without the time it was first seen: by this an
// agent's counters of one subflow find each other. Plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "common/core/address.h"

namespace heddle {

struct SubflowKey {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};  // UDP
  std::uint32_t dest_qpn{};
  // clang-tidy 14 takes the zero of a defaulted comparison for a pointer.
  auto operator<=>(const SubflowKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The same subflow through two ports has two counters.
struct PortSubflowKey {
  SubflowKey subflow;
  std::string port;
  auto operator<=>(const PortSubflowKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct SubflowKeyHash {
  std::size_t operator()(const SubflowKey& key) const noexcept {
    std::size_t hash = std::hash<IpAddress>{}(key.source);
    const auto mix = [&hash](std::size_t value) {
      hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6U) + (hash >> 2U);
    };
    mix(std::hash<IpAddress>{}(key.destination));
    mix(std::size_t{key.source_port} << 32U | key.dest_qpn);
    return hash;
  }
  std::size_t operator()(const PortSubflowKey& key) const noexcept {
    return (*this)(key.subflow) * 31 + std::hash<std::string>{}(key.port);
  }
};

}  // namespace heddle
