// Asks the kernel for a generic netlink family: the numbers that its name stands for, which differ
// from boot to boot. One thread; of the network namespace of the thread that asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "common/core/result.h"

namespace heddle {

struct GenericFamily {
  std::uint16_t id{};
  std::map<std::string, std::uint32_t> groups;  // multicast groups by name
  bool operator==(const GenericFamily&) const = default;
};

// From the kernel's answer, a netlink message; nothing if it is none or is damaged.
std::optional<GenericFamily> parse_generic_family(std::span<const std::byte> message);

// Errc::not_found if the kernel has no such family (now); Errc::kernel if it cannot be asked.
Result<GenericFamily> find_generic_family(const std::string& name);

}  // namespace heddle
