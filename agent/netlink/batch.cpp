#include "agent/netlink/batch.h"

#include <arpa/inet.h>

#include "common/core/check.h"

namespace heddle {

void Batch::start(std::uint16_t type, std::uint16_t flags) {
  message_ = bytes_.size();
  const nlmsghdr header{.nlmsg_len = 0,
                        .nlmsg_type = type,
                        .nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST),
                        .nlmsg_seq = next_sequence_++,
                        .nlmsg_pid = 0};
  ++count_;
  append(&header, sizeof header);
}

void Batch::append(const void* data, std::size_t size) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + NLMSG_ALIGN(size));
  std::memcpy(bytes_.data() + at, data, size);
  const auto length = static_cast<std::uint32_t>(bytes_.size() - message_);
  std::memcpy(bytes_.data() + message_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

Batch& Batch::attribute(std::uint16_t type, const void* data, std::size_t size) {
  HEDDLE_CHECK(size <= 0xFFFF - NLA_HDRLEN);
  const nlattr header{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + size), .nla_type = type};
  append(&header, sizeof header);
  append(data, size);
  return *this;
}

Batch& Batch::text(std::uint16_t type, std::string_view value) {
  char buffer[256] = {};
  HEDDLE_CHECK(value.size() < sizeof buffer - 1);
  std::memcpy(buffer, value.data(), value.size());
  return attribute(type, buffer, value.size() + 1);
}

Batch& Batch::network_number(std::uint16_t type, std::uint32_t value) {
  return number(type, htonl(value));
}

Batch& Batch::open(std::uint16_t type) {
  nests_.push_back(bytes_.size());
  const nlattr header{.nla_len = NLA_HDRLEN,
                      .nla_type = static_cast<std::uint16_t>(type | NLA_F_NESTED)};
  append(&header, sizeof header);
  return *this;
}

Batch& Batch::close() {
  HEDDLE_CHECK(!nests_.empty());
  const std::size_t at = nests_.back();
  nests_.pop_back();
  HEDDLE_CHECK(bytes_.size() - at <= 0xFFFF);
  const auto length = static_cast<std::uint16_t>(bytes_.size() - at);
  std::memcpy(bytes_.data() + at + offsetof(nlattr, nla_len), &length, sizeof length);
  return *this;
}

void Batch::acknowledge_last() {
  HEDDLE_CHECK(count_ > 0);
  answered_ = last_sequence();
  std::uint16_t flags{};
  std::byte* const at = bytes_.data() + message_ + offsetof(nlmsghdr, nlmsg_flags);
  std::memcpy(&flags, at, sizeof flags);
  flags |= NLM_F_ACK;
  std::memcpy(at, &flags, sizeof flags);
}

}  // namespace heddle
