#include "agent/observe/rdma_message.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <type_traits>

#include "agent/observe/attributes.h"

namespace heddle {
namespace {

// Of later kernels than the headers this is built with.
constexpr int kMonitorMode = 103;  // RDMA_NLDEV_SYS_ATTR_MONITOR_MODE

constexpr std::uint8_t kPortActive = 4;
constexpr std::uint8_t kCmListens = 7;  // enum rdma_cm_state, RDMA_CM_LISTEN

using Content = std::span<const std::byte>;

class Builder {
 public:
  Builder(RdmaCommand command, std::uint16_t flags) {
    nlmsghdr header{};
    header.nlmsg_type = rdma_message_type(command);
    header.nlmsg_flags = flags;
    append(&header, sizeof(header));
  }

  template <class Number>
  Builder& put(std::uint16_t type, Number value) {
    static_assert(std::is_integral_v<Number>);
    nlattr attribute{};
    attribute.nla_type = type;
    attribute.nla_len = NLA_HDRLEN + sizeof(value);
    append(&attribute, sizeof(attribute));
    append(&value, sizeof(value));
    message_.resize(NLMSG_ALIGN(message_.size()));
    return *this;
  }

  // A table of numbers, each an attribute of the type `each`.
  Builder& put_table(std::uint16_t type, std::uint16_t each,
                     std::span<const std::uint32_t> values) {
    nlattr table{};
    table.nla_type = type | NLA_F_NESTED;
    table.nla_len = static_cast<std::uint16_t>(
        NLA_HDRLEN + values.size() * (NLA_HDRLEN + sizeof(std::uint32_t)));
    append(&table, sizeof(table));
    for (const std::uint32_t value : values)
      put(each, value);
    return *this;
  }

  RdmaRequest finish() && {
    const auto length = static_cast<std::uint32_t>(message_.size());
    std::memcpy(message_.data(), &length, sizeof(length));  // nlmsg_len comes first
    return std::move(message_);
  }

 private:
  void append(const void* data, std::size_t size) {
    const std::size_t end = message_.size();
    message_.resize(end + size);
    std::memcpy(message_.data() + end, data, size);
  }

  RdmaRequest message_;
};

template <class Number>
void take(Content value, Number& into) {
  if (const auto number = attribute_number<Number>(value))
    into = *number;
}

// The counter's names and values.
void parse_values(Content table, std::vector<NamedCount>& values) {
  for_each_attribute(table, [&](int, Content entry) {
    NamedCount count;
    bool valued = false;
    for_each_attribute(entry, [&](int type, Content value) {
      if (type == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)
        count.name = attribute_text(value);
      if (type == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE) {
        valued = value.size() == sizeof(count.value);
        take(value, count.value);
      }
    });
    if (valued && !count.name.empty())
      values.push_back(std::move(count));
  });
}

void parse_optional(Content table, std::vector<OptionalCounter>& counters) {
  for_each_attribute(table, [&](int, Content entry) {
    OptionalCounter counter;
    std::optional<std::uint8_t> on;
    for_each_attribute(entry, [&](int type, Content value) {
      if (type == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)
        counter.name = attribute_text(value);
      if (type == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX)
        take(value, counter.number);
      if (type == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC)
        on = attribute_number<std::uint8_t>(value);
    });
    if (!on)
      return;  // always counts
    counter.on = *on != 0;
    counters.push_back(std::move(counter));
  });
}

std::optional<SocketAddress> parse_socket_address(Content value) {
  sockaddr_storage storage{};
  std::memcpy(&storage, value.data(), std::min(value.size(), sizeof(storage)));
  SocketAddress result;
  if (storage.ss_family == AF_INET && value.size() >= sizeof(sockaddr_in)) {
    sockaddr_in four{};
    std::memcpy(&four, &storage, sizeof(four));
    result.address = IpAddress::v4_from_network(four.sin_addr.s_addr);
    result.port = ntohs(four.sin_port);
    return result;
  }
  if (storage.ss_family == AF_INET6 && value.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 six{};
    std::memcpy(&six, &storage, sizeof(six));
    result.address.family = Family::v6;
    std::memcpy(result.address.octets.data(), &six.sin6_addr, 16);
    result.port = ntohs(six.sin6_port);
    return result;
  }
  return std::nullopt;
}

std::optional<QueuePair> parse_queue_pair(Content entry, std::uint32_t device) {
  QueuePair pair{.device = device, .remote_qpn = std::nullopt};
  std::uint8_t type = std::numeric_limits<std::uint8_t>::max();
  std::uint8_t state = type;
  for_each_attribute(entry, [&](int attribute, Content value) {
    switch (attribute) {
      case RDMA_NLDEV_ATTR_PORT_INDEX:
        return take(value, pair.port);
      case RDMA_NLDEV_ATTR_RES_LQPN:
        return take(value, pair.qpn);
      case RDMA_NLDEV_ATTR_RES_RQPN:
        pair.remote_qpn = attribute_number<std::uint32_t>(value);
        return;
      case RDMA_NLDEV_ATTR_RES_TYPE:
        return take(value, type);
      case RDMA_NLDEV_ATTR_RES_STATE:
        return take(value, state);
      case RDMA_NLDEV_ATTR_RES_PID:
        return take(value, pair.pid);
      default:
        return;
    }
  });
  constexpr std::uint32_t kQpns = 1U << 24U;
  if (pair.qpn == 0 || pair.qpn >= kQpns)
    return std::nullopt;
  pair.type = QpType{type};
  pair.state = QpState{state};
  // Before it is connected, a queue pair has the number that the memory held.
  const bool connects = pair.type == QpType::rc || pair.type == QpType::uc;
  const bool connected = pair.state == QpState::rtr || pair.state == QpState::rts ||
                         pair.state == QpState::sqd || pair.state == QpState::sqe;
  if (!connects || !connected || pair.remote_qpn.value_or(0) == 0 || *pair.remote_qpn >= kQpns)
    pair.remote_qpn.reset();
  return pair;
}

CmId parse_cm_id(Content entry, std::uint32_t device) {
  CmId id{.device = device, .source = std::nullopt, .destination = std::nullopt};
  for_each_attribute(entry, [&](int attribute, Content value) {
    switch (attribute) {
      case RDMA_NLDEV_ATTR_PORT_INDEX:
        return take(value, id.port);
      case RDMA_NLDEV_ATTR_RES_LQPN:
        return take(value, id.qpn);
      case RDMA_NLDEV_ATTR_RES_STATE:
        id.listens = attribute_number<std::uint8_t>(value) == kCmListens;
        return;
      case RDMA_NLDEV_ATTR_RES_PID:
        return take(value, id.pid);
      case RDMA_NLDEV_ATTR_RES_SRC_ADDR:
        id.source = parse_socket_address(value);
        return;
      case RDMA_NLDEV_ATTR_RES_DST_ADDR:
        id.destination = parse_socket_address(value);
        return;
      default:
        return;
    }
  });
  return id;
}

QpCounter parse_counter(Content entry, std::uint32_t device) {
  QpCounter counter{.device = device, .qpns = {}, .values = {}};
  for_each_attribute(entry, [&](int attribute, Content value) {
    switch (attribute) {
      case RDMA_NLDEV_ATTR_PORT_INDEX:
        return take(value, counter.port);
      case RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
        return take(value, counter.id);
      case RDMA_NLDEV_ATTR_STAT_MODE:
        counter.automatic = attribute_number<std::uint32_t>(value) == RDMA_COUNTER_MODE_AUTO;
        return;
      case RDMA_NLDEV_ATTR_RES_QP:
        for_each_attribute(value, [&](int, Content pair) {
          for_each_attribute(pair, [&](int type, Content number) {
            const auto qpn = attribute_number<std::uint32_t>(number);
            if (type == RDMA_NLDEV_ATTR_RES_LQPN && qpn)
              counter.qpns.push_back(*qpn);
          });
        });
        return;
      case RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
        return parse_values(value, counter.values);
      default:
        return;
    }
  });
  return counter;
}

// The attributes that stand at a message's top, which are of every kind.
struct Top {
  std::optional<std::uint32_t> device;
  RdmaDevice as_device;
  RdmaPort as_port;
  RdmaSystem as_system;
  std::optional<std::uint32_t> counter;
  Content queue_pairs, cm_ids, counters, values;
};

Top parse_top(Content attributes) {
  Top top;
  std::uint32_t port = 0;
  for_each_attribute(attributes, [&](int type, Content value) {
    switch (type) {
      case RDMA_NLDEV_ATTR_DEV_INDEX:
        top.device = attribute_number<std::uint32_t>(value);
        return;
      case RDMA_NLDEV_ATTR_DEV_NAME:
        top.as_device.name = attribute_text(value);
        return;
      case RDMA_NLDEV_ATTR_PORT_INDEX:
        return take(value, port);
      case RDMA_NLDEV_ATTR_NODE_GUID:
        return take(value, top.as_device.node_guid);
      case RDMA_NLDEV_ATTR_DEV_PROTOCOL:
        top.as_device.protocol = attribute_text(value);
        return;
      case RDMA_NLDEV_ATTR_PORT_STATE:
        top.as_port.active = attribute_number<std::uint8_t>(value) == kPortActive;
        return;
      case RDMA_NLDEV_ATTR_NDEV_INDEX:
        return take(value, top.as_port.ifindex);
      case RDMA_NLDEV_ATTR_NDEV_NAME:
        top.as_port.netdev = attribute_text(value);
        return;
      case RDMA_NLDEV_SYS_ATTR_NETNS_MODE:
        top.as_system.shared = attribute_number<std::uint8_t>(value) != 0;
        return;
      case kMonitorMode:
        top.as_system.monitor = attribute_number<std::uint8_t>(value) == 1;
        return;
      case RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
        top.counter = attribute_number<std::uint32_t>(value);
        return;
      case RDMA_NLDEV_ATTR_RES_QP:
        top.queue_pairs = value;
        return;
      case RDMA_NLDEV_ATTR_RES_CM_ID:
        top.cm_ids = value;
        return;
      case RDMA_NLDEV_ATTR_STAT_COUNTER:
        top.counters = value;
        return;
      case RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
        top.values = value;
        return;
      default:
        return;
    }
  });
  top.as_device.index = top.as_port.device = top.device.value_or(0);
  top.as_device.ports = top.as_port.port = port;
  return top;
}

void parse_message(std::uint16_t type, Content attributes, RdmaAnswer& answer) {
  if (type == rdma_message_type(RdmaCommand::monitor)) {
    answer.changed = true;
    return;
  }
  const Top top = parse_top(attributes);
  if (type == rdma_message_type(RdmaCommand::system)) {
    answer.system = top.as_system;
    return;
  }
  if (!top.device) {
    answer.damaged = true;
    return;
  }
  const std::uint32_t device = *top.device;
  switch (RdmaCommand{static_cast<std::uint16_t>(type & 0x3FFU)}) {
    case RdmaCommand::device:
      answer.devices.push_back(top.as_device);
      return;
    case RdmaCommand::port:
      answer.ports.push_back(top.as_port);
      return;
    case RdmaCommand::queue_pairs:
      for_each_attribute(top.queue_pairs, [&](int, Content entry) {
        if (auto pair = parse_queue_pair(entry, device))
          answer.queue_pairs.push_back(*pair);
      });
      return;
    case RdmaCommand::cm_ids:
      for_each_attribute(top.cm_ids, [&](int, Content entry) {
        answer.cm_ids.push_back(parse_cm_id(entry, device));
      });
      return;
    case RdmaCommand::stat:
      for_each_attribute(top.counters, [&](int, Content entry) {
        answer.counters.push_back(parse_counter(entry, device));
      });
      return;
    case RdmaCommand::stat_status:
      return parse_optional(top.values, answer.optional_counters);
    case RdmaCommand::stat_set:
      answer.bound_counter = top.counter;
      return;
    default:
      return;
  }
}

void parse_end(std::uint16_t type, Content content, RdmaAnswer& answer) {
  answer.done = answer.done || type == NLMSG_DONE;
  const auto code =
      attribute_number<std::int32_t>(content.first(std::min(sizeof(std::int32_t), content.size())));
  if (!code) {
    answer.damaged = true;
    return;
  }
  // The kernel knows 4,095 error numbers.
  constexpr std::int32_t kErrors = 4096;
  answer.error = *code == 0 ? 0 : (*code < 0 && *code > -kErrors ? -*code : EPROTO);
}

}  // namespace

std::uint16_t rdma_message_type(RdmaCommand command) {
  return static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, static_cast<int>(command)));
}

RdmaRequest dump_request(RdmaCommand command, std::optional<std::uint32_t> device) {
  Builder builder(command, NLM_F_REQUEST | NLM_F_DUMP);
  if (device)
    builder.put<std::uint32_t>(RDMA_NLDEV_ATTR_DEV_INDEX, *device);
  if (command == RdmaCommand::stat)
    builder.put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
  return std::move(builder).finish();
}

RdmaRequest system_request() {
  return Builder(RdmaCommand::system, NLM_F_REQUEST | NLM_F_ACK).finish();
}

RdmaRequest status_request(std::uint32_t device, std::uint32_t port) {
  return std::move(Builder(RdmaCommand::stat_status, NLM_F_REQUEST | NLM_F_ACK)
                       .put(RDMA_NLDEV_ATTR_DEV_INDEX, device)
                       .put(RDMA_NLDEV_ATTR_PORT_INDEX, port))
      .finish();
}

RdmaRequest bind_request(std::uint32_t device, std::uint32_t port, std::uint32_t qpn) {
  return std::move(Builder(RdmaCommand::stat_set, NLM_F_REQUEST | NLM_F_ACK)
                       .put(RDMA_NLDEV_ATTR_DEV_INDEX, device)
                       .put(RDMA_NLDEV_ATTR_PORT_INDEX, port)
                       .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                       .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL)
                       .put(RDMA_NLDEV_ATTR_RES_LQPN, qpn))
      .finish();
}

RdmaRequest unbind_request(std::uint32_t device, std::uint32_t port, std::uint32_t qpn,
                           std::uint32_t counter) {
  return std::move(Builder(RdmaCommand::stat_delete, NLM_F_REQUEST | NLM_F_ACK)
                       .put(RDMA_NLDEV_ATTR_DEV_INDEX, device)
                       .put(RDMA_NLDEV_ATTR_PORT_INDEX, port)
                       .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP)
                       .put(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter)
                       .put(RDMA_NLDEV_ATTR_RES_LQPN, qpn))
      .finish();
}

RdmaRequest optional_request(std::uint32_t device, std::uint32_t port,
                             std::span<const std::uint32_t> numbers) {
  return std::move(Builder(RdmaCommand::stat_set, NLM_F_REQUEST | NLM_F_ACK)
                       .put(RDMA_NLDEV_ATTR_DEV_INDEX, device)
                       .put(RDMA_NLDEV_ATTR_PORT_INDEX, port)
                       .put_table(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
                                  RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, numbers))
      .finish();
}

void parse_rdma(std::span<const std::byte> messages, RdmaAnswer& answer) {
  while (!messages.empty()) {
    nlmsghdr header{};
    if (messages.size() < sizeof(header)) {
      answer.damaged = true;
      return;
    }
    std::memcpy(&header, messages.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > messages.size()) {
      answer.damaged = true;
      return;
    }
    const Content content = messages.subspan(sizeof(header), header.nlmsg_len - sizeof(header));
    messages =
        messages.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), messages.size()));
    answer.interrupted = answer.interrupted || (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR)
      parse_end(header.nlmsg_type, content, answer);
    else if (header.nlmsg_type >= NLMSG_MIN_TYPE)
      parse_message(header.nlmsg_type, content, answer);
  }
}

}  // namespace heddle
