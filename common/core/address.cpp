#include "common/core/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace heddle {
namespace {

std::optional<std::uint32_t> parse_number(std::string_view text, int base, std::uint32_t max) {
  std::uint32_t value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > max)
    return std::nullopt;
  return value;
}

std::optional<std::array<std::uint8_t, 4>> parse_v4(std::string_view text) {
  std::array<std::uint8_t, 4> octets{};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t dot = i < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos)
      return std::nullopt;
    const std::string_view part = text.substr(0, dot);
    const auto value = parse_number(part, 10, 255);
    // "010" is octal to some tools and decimal to others: refuse what could be read two ways.
    if (!value || part.size() > 3 || (part.size() > 1 && part.front() == '0'))
      return std::nullopt;
    octets[i] = static_cast<std::uint8_t>(*value);
    text.remove_prefix(std::min(text.size(), dot + 1));
  }
  return octets;
}

// The groups on one side of "::" (or all of them), a dotted quad at the end counting as two.
std::optional<std::vector<std::uint16_t>> parse_groups(std::string_view text) {
  std::vector<std::uint16_t> groups;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    const std::string_view part = text.substr(0, colon);
    if (colon == std::string_view::npos && part.find('.') != std::string_view::npos) {
      const auto quad = parse_v4(part);
      if (!quad)
        return std::nullopt;
      groups.push_back(static_cast<std::uint16_t>((*quad)[0] << 8 | (*quad)[1]));
      groups.push_back(static_cast<std::uint16_t>((*quad)[2] << 8 | (*quad)[3]));
      return groups;
    }
    const auto value = parse_number(part, 16, 0xFFFF);
    if (!value || part.size() > 4)
      return std::nullopt;
    groups.push_back(static_cast<std::uint16_t>(*value));
    if (colon == std::string_view::npos)
      return groups;
    text.remove_prefix(colon + 1);
    if (text.empty())
      return std::nullopt;  // a single colon at the end
  }
  return groups;
}

std::optional<std::array<std::uint8_t, 16>> parse_v6(std::string_view text) {
  const std::size_t gap = text.find("::");
  const auto head = parse_groups(text.substr(0, gap));
  const auto tail = gap == std::string_view::npos ? std::vector<std::uint16_t>{}
                                                  : parse_groups(text.substr(gap + 2));
  if (!head || !tail)
    return std::nullopt;
  const std::size_t given = head->size() + tail->size();
  if (gap == std::string_view::npos ? given != 8 : given > 7)
    return std::nullopt;
  std::array<std::uint16_t, 8> groups{};
  std::copy(head->begin(), head->end(), groups.begin());
  std::copy(tail->begin(), tail->end(), groups.end() - static_cast<std::ptrdiff_t>(tail->size()));
  std::array<std::uint8_t, 16> octets{};
  for (std::size_t i = 0; i < 8; ++i) {
    octets[2 * i] = static_cast<std::uint8_t>(groups[i] >> 8);
    octets[2 * i + 1] = static_cast<std::uint8_t>(groups[i] & 0xFF);
  }
  return octets;
}

bool bit(const IpAddress& address, std::size_t i) {
  return (address.octets[i / 8] >> (7 - i % 8)) & 1;
}

}  // namespace

Result<IpAddress> IpAddress::parse(std::string_view text) {
  IpAddress address;
  if (const auto quad = parse_v4(text)) {
    std::copy(quad->begin(), quad->end(), address.octets.begin());
    return address;
  }
  if (const auto octets = parse_v6(text); octets && text.find(':') != std::string_view::npos) {
    address.family = Family::v6;
    address.octets = *octets;
    return address;
  }
  return fail(Errc::parse, fmt::format("'{}' is not an IP address", text));
}

IpAddress IpAddress::v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  IpAddress address;
  address.octets = {a, b, c, d};
  return address;
}

IpAddress IpAddress::v4_from_network(std::uint32_t network_order) {
  IpAddress address;
  const auto* octets = reinterpret_cast<const std::uint8_t*>(&network_order);
  std::copy(octets, octets + 4, address.octets.begin());
  return address;
}

bool IpAddress::is_unspecified() const {
  return std::all_of(octets.begin(), octets.end(), [](std::uint8_t octet) { return octet == 0; });
}

// The form of RFC 5952: the longest run of two or more zero groups, the first of equals, becomes
// "::".
std::string to_string(const IpAddress& address) {
  const auto& o = address.octets;
  if (address.family == Family::v4)
    return fmt::format("{}.{}.{}.{}", o[0], o[1], o[2], o[3]);
  std::array<unsigned, 8> groups{};
  for (std::size_t i = 0; i < 8; ++i)
    groups[i] = static_cast<unsigned>(o[2 * i] << 8 | o[2 * i + 1]);
  std::size_t best = 8, best_length = 1;
  for (std::size_t i = 0; i < 8; ++i) {
    std::size_t end = i;
    while (end < 8 && groups[end] == 0)
      ++end;
    if (end - i > best_length) {
      best = i;
      best_length = end - i;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < 8;) {
    if (i == best) {
      text += "::";
      i += best_length;
      continue;
    }
    if (!text.empty() && text.back() != ':')
      text += ':';
    text += fmt::format("{:x}", groups[i++]);
  }
  return text;
}

Result<Prefix> Prefix::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  auto address = IpAddress::parse(text.substr(0, slash));
  if (!address)
    return tl::unexpected(address.error());
  Prefix prefix = Prefix::host(*address);
  if (slash == std::string_view::npos)
    return prefix;
  const auto length = parse_number(text.substr(slash + 1), 10, prefix.length);
  if (!length)
    return fail(Errc::parse, fmt::format("'{}' has no valid prefix length", text));
  prefix.length = static_cast<std::uint8_t>(*length);
  for (std::size_t i = prefix.length; i < address->size() * 8; ++i) {
    if (bit(*address, i))
      return fail(Errc::parse, fmt::format("'{}' has host bits set", text));
  }
  return prefix;
}

Prefix Prefix::host(const IpAddress& address) {
  return {address, static_cast<std::uint8_t>(address.size() * 8)};
}

bool Prefix::contains(const IpAddress& other) const {
  if (other.family != address.family)
    return false;
  for (std::size_t i = 0; i < length; ++i) {
    if (bit(address, i) != bit(other, i))
      return false;
  }
  return true;
}

std::string to_string(const Prefix& prefix) {
  return fmt::format("{}/{}", to_string(prefix.address), prefix.length);
}

}  // namespace heddle

std::size_t std::hash<heddle::IpAddress>::operator()(
    const heddle::IpAddress& address) const noexcept {
  std::uint64_t h = 14695981039346656037ULL + static_cast<std::uint64_t>(address.family);
  for (const std::uint8_t octet : address.octets)
    h = (h ^ octet) * 1099511628211ULL;
  return h;
}
