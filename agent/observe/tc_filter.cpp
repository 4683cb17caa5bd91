#include "agent/observe/tc_filter.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "agent/observe/attributes.h"

namespace heddle {
TcFilter parse_tc_filter(std::span<const std::byte> attributes) {
  TcFilter filter;
  for_each_attribute(attributes, [&filter](int type, std::span<const std::byte> value) {
    if (type == TCA_KIND)
      filter.kind = attribute_text(value);
    if (type != TCA_OPTIONS)
      return;
    for_each_attribute(value, [&filter](int option, std::span<const std::byte> content) {
      if (option == TCA_BPF_NAME)
        filter.name = attribute_text(content);
      if (option == TCA_BPF_ID)
        filter.program_id = attribute_number<std::uint32_t>(content).value_or(0);
    });
  });
  return filter;
}

TcFilterQuery::TcFilterQuery() : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  // The kernel answers within the call that asks; the limit is for what must not be relied on.
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

TcFilterQuery::~TcFilterQuery() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<TcFilter> TcFilterQuery::find(int ifindex, std::uint32_t priority, std::uint32_t handle) {
  struct Request {
    nlmsghdr header;
    tcmsg filter;
  } request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETTFILTER;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = ++sequence_;
  request.filter.tcm_family = AF_UNSPEC;
  request.filter.tcm_ifindex = ifindex;
  request.filter.tcm_handle = handle;
  request.filter.tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS);
  request.filter.tcm_info = TC_H_MAKE(priority << 16U, htons(ETH_P_ALL));
  if (::send(fd_, &request, sizeof(request), 0) != sizeof(request))
    return fail(Errc::io, std::strerror(errno));

  alignas(nlmsghdr) std::array<std::byte, 8192> buffer;
  for (;;) {
    const ssize_t received = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (received < static_cast<ssize_t>(sizeof(nlmsghdr)))
      return fail(Errc::io, received < 0 ? std::strerror(errno) : "a short answer");
    nlmsghdr header{};
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.nlmsg_seq != sequence_)
      continue;  // the late answer to a question that was given up
    const std::size_t size =
        std::min<std::size_t>(header.nlmsg_len, static_cast<std::size_t>(received));
    const std::span<const std::byte> message(buffer.data(), size);
    if (header.nlmsg_type == RTM_NEWTFILTER && size >= NLMSG_LENGTH(sizeof(tcmsg)))
      return parse_tc_filter(message.subspan(NLMSG_ALIGN(NLMSG_LENGTH(sizeof(tcmsg)))));
    return fail(Errc::not_found, "no filter there");
  }
}

}  // namespace heddle
