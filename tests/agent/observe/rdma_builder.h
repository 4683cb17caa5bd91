// RDMA netlink messages as the kernel writes them, from the layouts of its UAPI headers: for what
// no recording holds. Nested attributes carry the flag or not, as the kernel does either.
#pragma once

#include <linux/netlink.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "agent/observe/rdma_message.h"

namespace heddle::test {

class RdmaBuilder {
 public:
  using Fill = std::function<void(RdmaBuilder&)>;

  RdmaBuilder& message(std::uint16_t type, const Fill& fill, std::uint16_t flags = 0) {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + NLMSG_HDRLEN);
    fill(*this);
    nlmsghdr header{};
    header.nlmsg_len = static_cast<std::uint32_t>(bytes_.size() - begin);
    header.nlmsg_type = type;
    header.nlmsg_flags = flags;
    std::memcpy(bytes_.data() + begin, &header, sizeof(header));
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
    return *this;
  }
  RdmaBuilder& message(RdmaCommand command, const Fill& fill, std::uint16_t flags = 0) {
    return message(rdma_message_type(command), fill, flags);
  }
  RdmaBuilder& done(std::int32_t error = 0) {
    return message(NLMSG_DONE, [error](RdmaBuilder& b) { b.raw(&error, sizeof(error)); });
  }
  // An acknowledgement, or a refusal with a negative error.
  RdmaBuilder& answer(std::int32_t error) {
    return message(NLMSG_ERROR, [error](RdmaBuilder& b) {
      nlmsgerr body{};
      body.error = error;
      b.raw(&body, sizeof(body));
    });
  }

  template <class Number>
  RdmaBuilder& put(std::uint16_t type, Number value) {
    return attribute(type, &value, sizeof(value));
  }
  RdmaBuilder& text(std::uint16_t type, std::string_view value) {
    std::vector<char> zero_ended(value.begin(), value.end());
    zero_ended.push_back('\0');
    return attribute(type, zero_ended.data(), zero_ended.size());
  }
  RdmaBuilder& nest(std::uint16_t type, const Fill& fill) {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + NLA_HDRLEN);
    fill(*this);
    nlattr header{};
    header.nla_len = static_cast<std::uint16_t>(bytes_.size() - begin);
    header.nla_type = type | NLA_F_NESTED;
    std::memcpy(bytes_.data() + begin, &header, sizeof(header));
    return *this;
  }
  RdmaBuilder& attribute(std::uint16_t type, const void* data, std::size_t size) {
    nlattr header{};
    header.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + size);
    header.nla_type = type;
    raw(&header, sizeof(header));
    raw(data, size);
    bytes_.resize(NLA_ALIGN(bytes_.size()));
    return *this;
  }
  void raw(const void* data, std::size_t size) {
    const std::size_t end = bytes_.size();
    bytes_.resize(end + size);
    std::memcpy(bytes_.data() + end, data, size);
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

inline void handle(RdmaBuilder& b, std::uint32_t device, std::string_view name) {
  b.put<std::uint32_t>(RDMA_NLDEV_ATTR_DEV_INDEX, device).text(RDMA_NLDEV_ATTR_DEV_NAME, name);
}

inline void device_message(RdmaBuilder& b, std::uint32_t index, std::string_view name,
                           std::uint64_t guid) {
  b.message(
      RdmaCommand::device,
      [&](RdmaBuilder& m) {
        handle(m, index, name);
        m.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
            .put<std::uint64_t>(RDMA_NLDEV_ATTR_NODE_GUID, guid)
            .text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
      },
      NLM_F_MULTI);
}

inline void port_message(RdmaBuilder& b, std::uint32_t device, std::string_view name,
                         std::string_view netdev) {
  b.message(
      RdmaCommand::port,
      [&](RdmaBuilder& m) {
        handle(m, device, name);
        m.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
            .put<std::uint8_t>(RDMA_NLDEV_ATTR_PORT_STATE, 4)
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_NDEV_INDEX, 3)
            .text(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
      },
      NLM_F_MULTI);
}

inline void pair_entry(RdmaBuilder& b, const QueuePair& pair) {
  b.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [&](RdmaBuilder& e) {
    e.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, pair.port)
        .put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_LQPN, pair.qpn);
    if (pair.remote_qpn)
      e.put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_RQPN, *pair.remote_qpn);
    e.put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_SQ_PSN, 7)
        .put<std::uint8_t>(RDMA_NLDEV_ATTR_RES_TYPE, static_cast<std::uint8_t>(pair.type))
        .put<std::uint8_t>(RDMA_NLDEV_ATTR_RES_STATE, static_cast<std::uint8_t>(pair.state));
    if (pair.pid != 0)
      e.put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_PID, pair.pid);
  });
}

inline void pairs_message(RdmaBuilder& b, std::uint32_t device, std::string_view name,
                          const std::vector<QueuePair>& pairs, std::uint16_t flags = NLM_F_MULTI) {
  b.message(
      RdmaCommand::queue_pairs,
      [&](RdmaBuilder& m) {
        handle(m, device, name);
        m.nest(RDMA_NLDEV_ATTR_RES_QP, [&](RdmaBuilder& t) {
          for (const QueuePair& pair : pairs)
            pair_entry(t, pair);
        });
      },
      flags);
}

inline QueuePair connected(std::uint32_t device, std::uint32_t qpn, std::uint32_t remote,
                           std::uint32_t pid) {
  return {.device = device,
          .port = 1,
          .qpn = qpn,
          .remote_qpn = remote,
          .type = QpType::rc,
          .state = QpState::rts,
          .pid = pid};
}

// To 10.2.1.2, of the device and port that connected() is of in most tests.
inline QpConnection connection(std::uint32_t qpn, std::uint32_t remote, Time when,
                               std::uint32_t label = 0) {
  return {.device = 3,
          .qpn = qpn,
          .remote_qpn = remote,
          .destination = IpAddress::v4(10, 2, 1, 2),
          .flow_label = label,
          .port = 1,
          .gid_index = 1,
          .when = when};
}

}  // namespace heddle::test
