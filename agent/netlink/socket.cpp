#include "agent/netlink/socket.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#ifndef NETLINK_GET_STRICT_CHK
#define NETLINK_GET_STRICT_CHK 12
#endif

namespace heddle {
namespace {

// The kernel writes dumps in pieces of at most 32 KiB and answers at once; both leave room.
constexpr std::size_t kBuffer = 64U << 10U;
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};
constexpr int kSendBuffer = 4 << 20;
constexpr int kDumpAttempts = 5;

tl::unexpected<Error> failed(const char* what, int error) {
  return fail(error == EPERM || error == EACCES ? Errc::permission
              : error == EAGAIN                 ? Errc::timeout
              : error == ENOENT                 ? Errc::not_found
                                                : Errc::kernel,
              fmt::format("netlink: {}: {}", what, std::strerror(error)));
}

void set_buffer(int fd, int forced, int plain, int bytes) {
  if (::setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
    ::setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

}  // namespace

void NetlinkSocket::Close::operator()(nl_sock* socket) const {
  nl_socket_free(socket);
}

Result<NetlinkSocket> NetlinkSocket::open(int receive_buffer_bytes, int protocol) {
  NetlinkSocket result;
  result.socket_.reset(nl_socket_alloc());
  if (!result.socket_)
    return fail(Errc::io, "netlink: out of memory");
  if (const int error = nl_connect(result.socket_.get(), protocol); error != 0)
    return fail(error == -NLE_PROTO_MISMATCH ? Errc::unsupported : Errc::kernel,
                fmt::format("netlink: connect: {}", nl_geterror(error)));
  const int fd = result.fd();
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer_bytes);
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, kSendBuffer);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  // Old kernels lack these, and answer at more length or with more than was asked for; both are
  // dealt with.
  const int on = 1;
  for (const int option : {NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK})
    ::setsockopt(fd, SOL_NETLINK, option, &on, sizeof on);
  result.buffer_.resize(kBuffer);
  return result;
}

int NetlinkSocket::fd() const {
  return nl_socket_get_fd(socket_.get());
}

std::uint32_t NetlinkSocket::port() const {
  return nl_socket_get_local_port(socket_.get());
}

Result<void> NetlinkSocket::join(int group) {
  if (::setsockopt(fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
    return failed("subscribe", errno);
  return {};
}

Result<void> NetlinkSocket::send(const Batch& batch) {
  next_sequence_ = batch.last_sequence() + 1;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const auto bytes = batch.bytes();
  for (;;) {
    const ssize_t sent = ::sendto(fd(), bytes.data(), bytes.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
    if (sent == static_cast<ssize_t>(bytes.size()))
      return {};
    if (sent >= 0)
      return failed("send", EMSGSIZE);
    if (errno != EINTR)
      return failed("send", errno);
  }
}

// One datagram. Only the kernel is listened to: any process may send to a netlink port.
Result<std::span<const std::byte>> NetlinkSocket::receive(int flags) {
  for (;;) {
    sockaddr_nl sender{};
    socklen_t length = sizeof sender;
    const ssize_t n = ::recvfrom(fd(), buffer_.data(), buffer_.size(), flags | MSG_TRUNC,
                                 reinterpret_cast<sockaddr*>(&sender), &length);
    if (n < 0) {
      if (errno == EINTR)
        continue;
      return failed("receive", errno);
    }
    if (length != sizeof sender || sender.nl_pid != 0)
      continue;
    if (static_cast<std::size_t>(n) > buffer_.size())
      return failed("receive", EMSGSIZE);
    return std::span<const std::byte>(buffer_.data(), static_cast<std::size_t>(n));
  }
}

Result<void> NetlinkSocket::exchange(const Batch& batch, const MessageVisitor& visit) {
  if (batch.count() == 0)
    return {};
  const std::uint32_t first = next_sequence_;
  const std::uint32_t last = batch.answered_sequence();
  if (auto sent = send(batch); !sent)
    return sent;
  bool done = false;
  while (!done) {
    const auto datagram = receive(0);
    if (!datagram)
      return tl::unexpected(datagram.error());
    for_each_message(*datagram, [&](const nlmsghdr& message) {
      // A late answer to an exchange that was given up.
      if (message.nlmsg_seq - first > last - first)
        return;
      visit(message);
      done =
          done || message.nlmsg_seq == last || (batch.transaction() && message.nlmsg_seq == first);
    });
  }
  return {};
}

Result<bool> NetlinkSocket::dump(const Batch& request, const std::function<void()>& begin,
                                 const MessageVisitor& visit) {
  for (int attempt = 1;; ++attempt) {
    begin();
    auto interrupted = dump_once(request, visit);
    // Whoever watches the notifications, too, gets over what is left of it.
    if (!interrupted || !*interrupted || attempt == kDumpAttempts)
      return interrupted;
  }
}

Result<bool> NetlinkSocket::dump_once(const Batch& request, const MessageVisitor& visit) {
  const std::uint32_t sequence = request.last_sequence();
  if (auto sent = send(request); !sent)
    return tl::unexpected(sent.error());
  bool interrupted = false;
  bool done = false;
  int error = 0;
  while (!done) {
    const auto datagram = receive(0);
    if (!datagram)
      return tl::unexpected(datagram.error());
    for_each_message(*datagram, [&](const nlmsghdr& message) {
      if (message.nlmsg_seq != sequence || done)
        return;
      interrupted = interrupted || (message.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (message.nlmsg_type == NLMSG_ERROR) {
        const auto answer = parse_answer(message);
        error = answer ? answer->error : EBADMSG;
        done = true;
      } else if (message.nlmsg_type == NLMSG_DONE) {
        int code = 0;
        if (message.nlmsg_len >= NLMSG_LENGTH(sizeof code))
          std::memcpy(&code, NLMSG_DATA(&message), sizeof code);
        error = -code;
        done = true;
      } else {
        visit(message);
      }
    });
  }
  if (error == EOPNOTSUPP)
    return fail(Errc::unsupported, "netlink: the kernel does not know this kind of object");
  if (error > 0)
    return failed("dump", error);
  return interrupted;
}

Result<bool> NetlinkSocket::receive_waiting(const MessageVisitor& visit) {
  const auto datagram = receive(MSG_DONTWAIT);
  if (datagram) {
    for_each_message(*datagram, visit);
    return true;
  }
  if (datagram.error().code == Errc::timeout)
    return false;
  return fail(Errc::unobservable, datagram.error().message);
}

}  // namespace heddle
