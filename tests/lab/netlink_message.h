// The form of one netlink message; for the laboratory's netlink sources only.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lab/netlink.h"

namespace heddle::lab {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline int family_of(Family family) {
  return family == Family::v4 ? AF_INET : AF_INET6;
}

inline IpAddress address_from(const rtattr* attribute, std::uint8_t family) {
  IpAddress address;
  address.family = family == AF_INET6 ? Family::v6 : Family::v4;
  std::memcpy(address.octets.data(), RTA_DATA(attribute),
              std::min<std::size_t>(RTA_PAYLOAD(attribute), address.size()));
  return address;
}

inline std::uint32_t u32_from(const rtattr* attribute) {
  std::uint32_t value = 0;
  std::memcpy(&value, RTA_DATA(attribute), std::min<std::size_t>(RTA_PAYLOAD(attribute), 4));
  return value;
}

// Calls each(attribute) for the attributes behind a fixed header.
template <class Header, class Each>
void for_each_attribute(const nlmsghdr& message, Each&& each) {
  const auto* data = static_cast<const char*>(NLMSG_DATA(&message));
  const auto* attribute = reinterpret_cast<const rtattr*>(data + NLMSG_ALIGN(sizeof(Header)));
  int left = static_cast<int>(message.nlmsg_len) -
             static_cast<int>(NLMSG_LENGTH(NLMSG_ALIGN(sizeof(Header))));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
    each(attribute->rta_type & NLA_TYPE_MASK, attribute);
}

// One message at the end of the queue; its length grows with each attribute.
class Netlink::Message {
 public:
  Message(std::vector<std::byte>& queue, std::uint16_t type, std::uint16_t flags,
          std::uint32_t sequence)
      : queue_(queue), start_(queue.size()) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = flags;
    header.nlmsg_seq = sequence;
    raw(bytes_of(header));
  }
  Message& raw(std::span<const std::byte> bytes) {
    queue_.insert(queue_.end(), bytes.begin(), bytes.end());
    queue_.resize(start_ + NLMSG_ALIGN(queue_.size() - start_));
    nlmsghdr header;
    std::memcpy(&header, queue_.data() + start_, sizeof(header));
    header.nlmsg_len = static_cast<std::uint32_t>(queue_.size() - start_);
    std::memcpy(queue_.data() + start_, &header, sizeof(header));
    return *this;
  }
  template <class Header>
  Message& fixed(const Header& header) {
    return raw(bytes_of(header));
  }
  Message& attribute(int type, std::span<const std::byte> bytes) {
    rtattr head{};
    head.rta_type = static_cast<std::uint16_t>(type);
    head.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes.size()));
    std::vector<std::byte> whole(head.rta_len);
    std::memcpy(whole.data(), &head, sizeof(head));
    if (!bytes.empty())
      std::memcpy(whole.data() + RTA_LENGTH(0), bytes.data(), bytes.size());
    return raw(whole);
  }
  template <class T>
  Message& value(int type, const T& value) {
    return attribute(type, bytes_of(value));
  }
  Message& text(int type, std::string_view text) {
    const std::string terminated(text);
    return attribute(type, std::as_bytes(std::span(terminated.c_str(), terminated.size() + 1)));
  }
  Message& address(int type, const IpAddress& address) {
    return attribute(type, std::as_bytes(std::span(address.octets.data(), address.size())));
  }
  // Everything that `inner` adds lies inside one attribute.
  template <class Inner>
  Message& nest(int type, Inner&& inner) {
    const std::size_t at = queue_.size();
    value(type, std::array<std::byte, 0>{});
    queue_.resize(at + RTA_LENGTH(0));
    inner(*this);
    rtattr head{};
    head.rta_type = static_cast<std::uint16_t>(type | NLA_F_NESTED);
    head.rta_len = static_cast<std::uint16_t>(queue_.size() - at);
    std::memcpy(queue_.data() + at, &head, sizeof(head));
    return raw({});
  }

 private:
  std::vector<std::byte>& queue_;
  std::size_t start_;
};

}  // namespace heddle::lab
