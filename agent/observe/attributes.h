// Reads the attributes of a netlink message in which nothing is believed: each length is checked
// against what is left, and what lies about itself ends the walk (safety rule 10). Pure; any
// thread.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace heddle {

// The attributes of a message or of a nested attribute: visit(type, value). `bytes` need not be
// aligned.
template <class Visit>
void for_each_attribute(std::span<const std::byte> bytes, Visit visit) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.nla_len < sizeof(header) || header.nla_len > bytes.size())
      return;
    visit(header.nla_type & NLA_TYPE_MASK,
          bytes.subspan(sizeof(header), header.nla_len - sizeof(header)));
    bytes = bytes.subspan(std::min<std::size_t>(NLA_ALIGN(header.nla_len), bytes.size()));
  }
}

// In host byte order; nothing if the value has another size.
template <class Number>
std::optional<Number> attribute_number(std::span<const std::byte> value) {
  static_assert(std::is_integral_v<Number>);
  Number number{};
  if (value.size() != sizeof(number))
    return std::nullopt;
  std::memcpy(&number, value.data(), sizeof(number));
  return number;
}

// Up to the closing zero, which may be missing.
inline std::string attribute_text(std::span<const std::byte> value) {
  const char* const begin = reinterpret_cast<const char*>(value.data());
  return {begin, value.empty() ? 0 : ::strnlen(begin, value.size())};
}

}  // namespace heddle
