// Netlink requests, built one after another in one buffer, so that many go to the kernel in one
// send. One thread.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/core/address.h"

namespace heddle {

class Batch {
 public:
  // Sequence numbers count up from here, one a message.
  explicit Batch(std::uint32_t first_sequence) : next_sequence_(first_sequence) {}

  // Header is the family's struct: rtmsg, nhmsg and so on. Attributes that follow belong to this
  // message.
  template <class Header>
  Batch& begin(std::uint16_t type, std::uint16_t flags, const Header& header) {
    static_assert(std::is_trivially_copyable_v<Header>);
    start(type, flags);
    append(&header, sizeof header);
    return *this;
  }
  Batch& attribute(std::uint16_t type, const void* data, std::size_t size);
  Batch& number(std::uint16_t type, std::uint32_t value) {
    return attribute(type, &value, sizeof value);
  }
  Batch& octet(std::uint16_t type, std::uint8_t value) {
    return attribute(type, &value, sizeof value);
  }
  Batch& address(std::uint16_t type, const IpAddress& value) {
    return attribute(type, value.octets.data(), value.size());
  }
  Batch& text(std::uint16_t type, std::string_view value);
  // netfilter takes its numbers in network order.
  Batch& network_number(std::uint16_t type, std::uint32_t value);
  // Attributes that follow belong into the nest until it is closed, innermost first.
  Batch& open(std::uint16_t type);
  Batch& close();

  // The kernel answers failures anyway; this makes it answer the last message's success, too.
  void acknowledge_last();
  // The messages so far, the first of which opened a transaction, and those to come succeed or fail
  // together; a kernel that refuses the transaction answers the first alone.
  void mark_as_transaction() { transaction_ = true; }
  bool transaction() const { return transaction_; }

  std::size_t count() const { return count_; }
  std::uint32_t last_sequence() const { return next_sequence_ - 1; }
  // Of the message whose answer ends the exchange.
  std::uint32_t answered_sequence() const { return answered_.value_or(last_sequence()); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void start(std::uint16_t type, std::uint16_t flags);
  void append(const void* data, std::size_t size);

  std::vector<std::byte> bytes_;
  std::size_t message_{};  // where the message in work begins
  std::size_t count_{};
  std::uint32_t next_sequence_;
  std::optional<std::uint32_t> answered_;
  std::vector<std::size_t> nests_;
  bool transaction_{};
};

}  // namespace heddle
