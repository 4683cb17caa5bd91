#include "agent/observe/rdma_socket.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace heddle {
namespace {

constexpr int kBuffer = 1 << 20;
constexpr std::size_t kDatagram = 1 << 16;  // the kernel's dumps send at most 32 KiB at a time
constexpr int kNotifyGroup = 4;             // RDMA_NL_GROUP_NOTIFY
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};

// The end of an answer: DONE after a dump, ERROR after anything else.
bool is_end(const nlmsghdr& header) {
  return header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
}

// Appends the messages of `datagram` that answer request `sequence`; true if the last one is among
// them. What cannot be walked is handed on, for the parser to judge.
bool take_answers(std::span<const std::byte> datagram, std::uint32_t sequence,
                  std::vector<std::byte>& answers) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header{};
    std::memcpy(&header, datagram.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > datagram.size())
      break;
    const std::size_t size = std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size());
    if (header.nlmsg_seq == sequence) {
      const std::size_t end = answers.size();
      answers.resize(end + size);
      std::memcpy(answers.data() + end, datagram.data(), size);
      if (is_end(header))
        return true;
    }
    datagram = datagram.subspan(size);
  }
  return false;
}

}  // namespace

void RdmaSocket::Close::operator()(nl_sock* socket) const {
  nl_socket_free(socket);
}

RdmaSocket::RdmaSocket() : buffer_(kDatagram) {}
RdmaSocket::~RdmaSocket() = default;

Result<void> RdmaSocket::open() {
  const auto connected = []() -> Result<Socket> {
    Socket socket(nl_socket_alloc());
    if (!socket)
      return fail(Errc::kernel, "no memory for a netlink socket");
    if (const int error = nl_connect(socket.get(), NETLINK_RDMA); error < 0) {
      return fail(Errc::unsupported,
                  fmt::format("the kernel has no RDMA netlink (is ib_core loaded?): {}",
                              nl_geterror(error)));
    }
    // As much as an ordinary user may have is enough for all but ten thousands of queue pairs.
    (void)nl_socket_set_buffer_size(socket.get(), kBuffer, 0);
    (void)::setsockopt(nl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &kPatience,
                       sizeof(kPatience));
    return socket;
  };
  Result<Socket> requests = connected();
  if (!requests)
    return tl::unexpected(requests.error());
  Result<Socket> announcements = connected();
  if (!announcements)
    return tl::unexpected(announcements.error());
  // Kernels before 6.12 have no such group: then each look finds the changes.
  (void)nl_socket_add_memberships(announcements->get(), kNotifyGroup, 0);
  requests_ = *std::move(requests);
  announcements_ = *std::move(announcements);
  return {};
}

Result<std::size_t> RdmaSocket::receive(int fd, int flags) {
  for (;;) {
    const ssize_t size = ::recv(fd, buffer_.data(), buffer_.size(), flags | MSG_TRUNC);
    if (size >= 0 && static_cast<std::size_t>(size) <= buffer_.size())
      return static_cast<std::size_t>(size);
    if (size >= 0)
      return fail(Errc::unobservable, "an answer of the kernel is too long");
    if (errno == EINTR)
      continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return fail(Errc::timeout, "the kernel does not answer");
    if (errno == ENOBUFS)
      return fail(Errc::unobservable, "the kernel dropped answers: no buffer space");
    return fail(Errc::kernel, std::strerror(errno));
  }
}

Result<std::vector<std::byte>> RdmaSocket::exchange(const RdmaRequest& request) {
  if (!requests_) {
    if (const Result<void> opened = open(); !opened)
      return tl::unexpected(opened.error());
  }
  const int fd = nl_socket_get_fd(requests_.get());
  RdmaRequest numbered = request;
  nlmsghdr header{};
  std::memcpy(&header, numbered.data(), sizeof(header));
  header.nlmsg_seq = ++sequence_;
  std::memcpy(numbered.data(), &header, sizeof(header));
  if (::send(fd, numbered.data(), numbered.size(), 0) < 0)
    return fail(Errc::kernel, std::strerror(errno));
  std::vector<std::byte> answers;
  for (;;) {
    const Result<std::size_t> size = receive(fd, 0);
    if (!size) {
      // What is on its way would be taken for an answer to the next request; its number differs,
      // but the socket's state is unknown.
      let_go();
      return tl::unexpected(size.error());
    }
    if (take_answers(std::span(buffer_).first(*size), sequence_, answers))
      return answers;
  }
}

Result<std::vector<std::byte>> RdmaSocket::announced() {
  std::vector<std::byte> messages;
  if (!announcements_)
    return messages;
  for (;;) {
    const Result<std::size_t> size = receive(nl_socket_get_fd(announcements_.get()), MSG_DONTWAIT);
    if (!size && size.error().code == Errc::timeout)
      return messages;
    if (!size)
      return tl::unexpected(size.error());
    const std::size_t end = messages.size();
    messages.resize(end + *size);
    std::memcpy(messages.data() + end, buffer_.data(), *size);
  }
}

void RdmaSocket::let_go() {
  requests_.reset();
  announcements_.reset();
}

}  // namespace heddle
