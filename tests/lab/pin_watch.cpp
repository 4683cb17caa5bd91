#include "tests/lab/pin_watch.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/nexthop.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "tests/lab/cluster.h"
#include "tests/lab/netlink_message.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

constexpr int kBufferBytes = 8 << 20;

using Kind = TableEvent::Kind;

std::optional<Kind> kind_of(std::uint16_t type) {
  switch (type) {
    case RTM_NEWROUTE:
      return Kind::route_set;
    case RTM_DELROUTE:
      return Kind::route_removed;
    case RTM_NEWNEXTHOP:
      return Kind::nexthop_set;
    case RTM_DELNEXTHOP:
      return Kind::nexthop_removed;
    case RTM_NEWRULE:
      return Kind::rule_set;
    case RTM_DELRULE:
      return Kind::rule_removed;
    case NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM:
      return Kind::mark_set;
    case NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELSETELEM:
      return Kind::mark_removed;
    default:
      return std::nullopt;
  }
}

void read_route(const nlmsghdr& message, TableEvent& event) {
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(&message));
  event.protocol = route->rtm_protocol;
  event.table = route->rtm_table;
  event.destination.length = route->rtm_dst_len;
  for_each_attribute<rtmsg>(message, [&](int type, const rtattr* attribute) {
    if (type == RTA_DST)
      event.destination.address = address_from(attribute, route->rtm_family);
    if (type == RTA_TABLE)
      event.table = u32_from(attribute);
    if (type == RTA_NH_ID)
      event.nexthop_id = u32_from(attribute);
  });
}

void read_nexthop(const nlmsghdr& message, TableEvent& event) {
  event.protocol = static_cast<const nhmsg*>(NLMSG_DATA(&message))->nh_protocol;
  for_each_attribute<nhmsg>(message, [&](int type, const rtattr* attribute) {
    if (type == NHA_ID)
      event.nexthop_id = u32_from(attribute);
  });
}

void read_rule(const nlmsghdr& message, TableEvent& event) {
  event.table = static_cast<const fib_rule_hdr*>(NLMSG_DATA(&message))->table;
  for_each_attribute<fib_rule_hdr>(message, [&](int type, const rtattr* attribute) {
    if (type == FRA_TABLE)
      event.table = u32_from(attribute);
    if (type == FRA_PROTOCOL)
      event.protocol = *static_cast<const std::uint8_t*>(RTA_DATA(attribute));
  });
}

template <class Each>
void for_each_inside(const rtattr& nest, Each&& each) {
  const auto* attribute = static_cast<const rtattr*>(RTA_DATA(&nest));
  auto left = static_cast<int>(RTA_PAYLOAD(&nest));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
    each(attribute->rta_type & NLA_TYPE_MASK, *attribute);
}

// Source, destination, port, each from a multiple of four.
std::optional<ByQueuePair> flow_from(const rtattr& value) {
  const auto* bytes = static_cast<const char*>(RTA_DATA(&value));
  const std::size_t size = RTA_PAYLOAD(&value) == 36 ? 16 : 4;
  if (RTA_PAYLOAD(&value) != 2 * size + 4)
    return std::nullopt;
  ByQueuePair flow;
  flow.source.family = flow.destination.family = size == 16 ? Family::v6 : Family::v4;
  std::memcpy(flow.source.octets.data(), bytes, size);
  std::memcpy(flow.destination.octets.data(), bytes + size, size);
  std::uint16_t port = 0;
  std::memcpy(&port, bytes + 2 * size, sizeof(port));
  flow.source_port = ntohs(port);
  return flow;
}

// The flows among the elements that a message is about; ports of the leaf are others.
template <class Each>
void for_each_flow(const nlmsghdr& message, Each&& each) {
  for_each_attribute<nfgenmsg>(message, [&](int type, const rtattr* attribute) {
    if (type != NFTA_SET_ELEM_LIST_ELEMENTS)
      return;
    for_each_inside(*attribute, [&](int, const rtattr& element) {
      for_each_inside(element, [&](int part, const rtattr& key) {
        if (part != NFTA_SET_ELEM_KEY)
          return;
        for_each_inside(key, [&](int, const rtattr& value) {
          if (const auto flow = flow_from(value))
            each(*flow);
        });
      });
    });
  });
}

}  // namespace

Result<std::unique_ptr<PinWatch>> PinWatch::start(const std::vector<Node>& nodes) {
  std::unique_ptr<PinWatch> watch(new PinWatch());
  watch->stop_ = ::eventfd(0, EFD_CLOEXEC);
  for (const Node& node : nodes) {
    if (auto done = watch->watch(
            node, NETLINK_ROUTE,
            {RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_NEXTHOP});
        !done)
      return tl::unexpected(done.error());
    if (auto done = watch->watch(node, NETLINK_NETFILTER, {NFNLGRP_NFTABLES}); !done)
      return tl::unexpected(done.error());
  }
  watch->thread_ = std::thread([raw = watch.get()] { raw->run(); });
  return watch;
}

Result<void> PinWatch::watch(const Node& node, int protocol, std::initializer_list<int> groups) {
  const auto socket = node.space->socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, protocol);
  if (!socket)
    return tl::unexpected(socket.error());
  sockets_.push_back({.fd = *socket, .node = node.name});
  ::setsockopt(*socket, SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof(kBufferBytes));
  // Bound, because an address of zero is the kernel's own, and to its own it does not send.
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  if (::bind(*socket, reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0)
    return fail(Errc::kernel, "binding a netlink socket");
  for (const int group : groups)
    if (::setsockopt(*socket, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0)
      return fail(Errc::kernel, "subscribing to routes and marks");
  return {};
}

PinWatch::~PinWatch() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one))
      thread_.join();
  }
  for (const Socket& socket : sockets_)
    ::close(socket.fd);
  if (stop_ >= 0)
    ::close(stop_);
}

std::vector<TableEvent> PinWatch::since(Time begin) const {
  const std::lock_guard lock(mutex_);
  std::vector<TableEvent> found;
  for (const TableEvent& event : events_)
    if (event.at >= begin)
      found.push_back(event);
  return found;
}

Result<void> PinWatch::await(Time begin,
                             const std::function<bool(const std::vector<TableEvent>&)>& enough,
                             Duration patience) const {
  const Time end = boot_now() + patience;
  while (true) {
    std::unique_lock lock(mutex_);
    const std::size_t known = events_.size();
    lock.unlock();
    if (enough(since(begin)))
      return {};
    lock.lock();
    const bool more = news_.wait_for(lock, std::max(Duration::zero(), end - boot_now()),
                                     [&] { return events_.size() > known; });
    if (!more)
      return fail(Errc::timeout, "the tables did not change as awaited");
  }
}

int PinWatch::overruns() const {
  const std::lock_guard lock(mutex_);
  return overruns_;
}

void PinWatch::run() {
  run_before_others();
  std::vector<pollfd> watched{{.fd = stop_, .events = POLLIN, .revents = 0}};
  for (const Socket& socket : sockets_)
    watched.push_back({.fd = socket.fd, .events = POLLIN, .revents = 0});
  while (::poll(watched.data(), watched.size(), -1) >= 0 || errno == EINTR) {
    if (watched[0].revents != 0)
      return;
    for (std::size_t i = 0; i < sockets_.size(); ++i)
      if (watched[i + 1].revents != 0)
        read(sockets_[i]);
  }
}

void PinWatch::read(const Socket& socket) {
  alignas(nlmsghdr) std::array<char, 1 << 15> buffer;
  while (true) {
    const ssize_t got = ::recv(socket.fd, buffer.data(), buffer.size(), 0);
    const Time now = boot_now();
    const std::lock_guard lock(mutex_);
    if (got < 0 && errno == ENOBUFS) {
      ++overruns_;
      continue;
    }
    if (got <= 0)
      break;
    auto left = static_cast<unsigned int>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      const auto kind = kind_of(message->nlmsg_type);
      if (!kind)
        continue;
      TableEvent event;
      event.at = now;
      event.node = socket.node;
      event.kind = *kind;
      if (*kind == Kind::route_set || *kind == Kind::route_removed)
        read_route(*message, event);
      if (*kind == Kind::nexthop_set || *kind == Kind::nexthop_removed)
        read_nexthop(*message, event);
      if (*kind == Kind::rule_set || *kind == Kind::rule_removed)
        read_rule(*message, event);
      if (*kind == Kind::mark_set || *kind == Kind::mark_removed) {
        event.protocol = kPinProtocol;
        for_each_flow(*message, [&](const ByQueuePair& flow) {
          event.flow = flow;
          events_.push_back(event);
        });
        continue;
      }
      events_.push_back(std::move(event));
    }
  }
  news_.notify_all();
}

}  // namespace heddle::lab
