// The attributes of netlink messages, each looked at only as far as its length has been checked
// (safety rule 10). Pure; any thread. Views into the message, which outlives them.
#pragma once

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netlink/attr.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// The attributes of a message or of a nest, by type; later ones replace earlier ones, unknown types
// are skipped.
class Attributes {
 public:
  Attributes(const void* head, std::size_t length) {
    const auto* at = static_cast<const nlattr*>(head);
    int remaining = static_cast<int>(length);
    while (nla_ok(at, remaining) != 0) {
      const auto type = static_cast<std::size_t>(nla_type(at));
      if (type < found_.size())
        found_[type] = at;
      at = nla_next(at, &remaining);
    }
  }

  bool has(std::size_t type) const { return found_[type] != nullptr; }
  std::span<const std::byte> bytes(std::size_t type) const {
    const nlattr* const a = found_[type];
    if (a == nullptr)
      return {};
    return {static_cast<const std::byte*>(nla_data(a)), static_cast<std::size_t>(nla_len(a))};
  }
  template <class T>
  std::optional<T> value(std::size_t type) const {
    const auto data = bytes(type);
    if (data.size() < sizeof(T))
      return std::nullopt;
    T result;
    std::memcpy(&result, data.data(), sizeof result);
    return result;
  }
  std::optional<std::uint32_t> number(std::size_t type) const { return value<std::uint32_t>(type); }
  // netfilter sends its numbers in network order.
  std::optional<std::uint32_t> network_number(std::size_t type) const {
    const auto value = number(type);
    return value ? std::optional(ntohl(*value)) : std::nullopt;
  }
  std::string text(std::size_t type) const {
    const auto data = bytes(type);
    const std::string_view whole(reinterpret_cast<const char*>(data.data()), data.size());
    return std::string(whole.substr(0, whole.find('\0')));
  }
  Attributes nest(std::size_t type) const {
    const auto data = bytes(type);
    return {data.data(), data.size()};
  }

 private:
  static constexpr std::size_t kMost = 80;
  std::array<const nlattr*, kMost> found_{};
};

// The family's struct after the header, if the message is long enough for it.
template <class T>
std::optional<T> body(const nlmsghdr& message) {
  if (message.nlmsg_len < NLMSG_LENGTH(sizeof(T)))
    return std::nullopt;
  T result;
  std::memcpy(&result, NLMSG_DATA(&message), sizeof result);
  return result;
}

template <class T>
Attributes attributes(const nlmsghdr& message) {
  const std::size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(T));
  const auto* const begin = reinterpret_cast<const std::byte*>(&message);
  return {begin + std::min<std::size_t>(skip, message.nlmsg_len),
          message.nlmsg_len > skip ? message.nlmsg_len - skip : 0};
}

// Each attribute of a nest that may hold several of one type.
template <class Visit>
void for_each_list_element(std::span<const std::byte> nest, Visit visit) {
  const auto* at = reinterpret_cast<const nlattr*>(nest.data());
  int remaining = static_cast<int>(nest.size());
  while (nla_ok(at, remaining) != 0) {
    visit(std::span(static_cast<const std::byte*>(nla_data(at)),
                    static_cast<std::size_t>(nla_len(at))));
    at = nla_next(at, &remaining);
  }
}

}  // namespace heddle
