// IP addresses and prefixes as plain values: no resolver, no sockets.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/core/result.h"

namespace heddle {

enum class Family : std::uint8_t { v4, v6 };

// An IPv4 address occupies the first four octets, in network order; the rest are zero.
struct IpAddress {
  Family family{Family::v4};
  std::array<std::uint8_t, 16> octets{};

  static Result<IpAddress> parse(std::string_view text);
  static IpAddress v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d);
  // network_order: the four octets as the kernel and packets hold them.
  static IpAddress v4_from_network(std::uint32_t network_order);

  std::size_t size() const { return family == Family::v4 ? 4 : 16; }
  bool is_unspecified() const;
  auto operator<=>(const IpAddress&) const = default;
};

std::string to_string(const IpAddress& address);

struct Prefix {
  IpAddress address;  // host bits are zero
  std::uint8_t length{};

  // Takes "10.1.0.0/24"; without a length the prefix is the host route. Host bits must be zero.
  static Result<Prefix> parse(std::string_view text);
  static Prefix host(const IpAddress& address);

  bool contains(const IpAddress& address) const;
  auto operator<=>(const Prefix&) const = default;
};

std::string to_string(const Prefix& prefix);

}  // namespace heddle

template <>
struct std::hash<heddle::IpAddress> {
  std::size_t operator()(const heddle::IpAddress& address) const noexcept;
};
