#include "tests/lab/netlink.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/pkt_sched.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tests/lab/netlink_message.h"

namespace heddle::lab {
namespace {

constexpr int kSendBuffer = 4 << 20;

// Indices of veths are ours to choose, so that a batch can name what it has just made. They are far
// above what the kernel gives by itself.
std::atomic<int> next_index{1000};

constexpr std::uint32_t kShaper = 1U << 16U;  // a tbf's handle; its one class is 1

// Kernel ticks per microsecond, as tbf counts time.
double ticks_per_microsecond() {
  static const double ticks = [] {
    std::ifstream file("/proc/net/psched");
    std::uint32_t to_microseconds = 1000;
    std::uint32_t to_ticks = 64;
    std::uint32_t resolution = 1000000;
    file >> std::hex >> to_microseconds >> to_ticks >> resolution;
    return static_cast<double>(to_microseconds) / to_ticks * (resolution / 1e6);
  }();
  return ticks;
}

}  // namespace

Result<Netlink> Netlink::open(const NetNamespace& where) {
  auto fd = where.socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (!fd)
    return tl::unexpected(fd.error());
  const int on = 1;
  ::setsockopt(*fd, SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof(kSendBuffer));
  ::setsockopt(*fd, SOL_SOCKET, SO_RCVBUFFORCE, &kSendBuffer, sizeof(kSendBuffer));
  ::setsockopt(*fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  ::setsockopt(*fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
  ::setsockopt(*fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  Netlink result;
  result.fd_ = *fd;
  result.namespace_fd_ = ::dup(where.fd());
  return result;
}

Netlink::Netlink(Netlink&& other) noexcept {
  *this = std::move(other);
}

Netlink& Netlink::operator=(Netlink&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(namespace_fd_, other.namespace_fd_);
  std::swap(sequence_, other.sequence_);
  std::swap(first_queued_, other.first_queued_);
  queue_.swap(other.queue_);
  std::swap(last_offset_, other.last_offset_);
  queued_what_.swap(other.queued_what_);
  index_.swap(other.index_);
  return *this;
}

Netlink::~Netlink() {
  if (fd_ >= 0)
    ::close(fd_);
  if (namespace_fd_ >= 0)
    ::close(namespace_fd_);
}

Netlink::Message Netlink::begin(std::uint16_t type, std::uint16_t flags, std::string what) {
  last_offset_ = queue_.size();
  queued_what_.push_back(std::move(what));
  return Message(queue_, type, static_cast<std::uint16_t>(NLM_F_REQUEST | flags), ++sequence_);
}

void Netlink::add_veth(std::string_view name, Netlink& peer, std::string_view peer_name, int mtu) {
  ifinfomsg link{};
  link.ifi_index = next_index++;
  ifinfomsg other{};
  other.ifi_index = next_index++;
  begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, fmt::format("veth {} - {}", name, peer_name))
      .fixed(link)
      .text(IFLA_IFNAME, name)
      .value(IFLA_MTU, mtu)
      .nest(IFLA_LINKINFO, [&](Message& info) {
        info.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, [&](Message& data) {
          data.nest(VETH_INFO_PEER, [&](Message& end) {
            end.fixed(other)
                .text(IFLA_IFNAME, peer_name)
                .value(IFLA_MTU, mtu)
                .value(IFLA_NET_NS_FD, peer.namespace_fd_);
          });
        });
      });
  index_[std::string(name)] = link.ifi_index;
  peer.index_[std::string(peer_name)] = other.ifi_index;
}

void Netlink::add_bridge(std::string_view name) {
  ifinfomsg link{};
  link.ifi_index = next_index++;
  begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, fmt::format("bridge {}", name))
      .fixed(link)
      .text(IFLA_IFNAME, name)
      .nest(IFLA_LINKINFO, [](Message& info) { info.text(IFLA_INFO_KIND, "bridge"); });
  index_[std::string(name)] = link.ifi_index;
}

void Netlink::set_master(std::string_view port, std::string_view bridge) {
  ifinfomsg link{};
  link.ifi_index = index_of(port);
  begin(RTM_NEWLINK, 0, fmt::format("{} into {}", port, bridge))
      .fixed(link)
      .value(IFLA_MASTER, index_of(bridge));
}

void Netlink::set_up(std::string_view name, bool up) {
  ifinfomsg link{};
  link.ifi_index = index_of(name);
  link.ifi_change = IFF_UP;
  link.ifi_flags = up ? IFF_UP : 0;
  begin(RTM_NEWLINK, 0, fmt::format("{} {}", name, up ? "up" : "down")).fixed(link);
}

void Netlink::set_mtu(std::string_view name, int mtu) {
  ifinfomsg link{};
  link.ifi_index = index_of(name);
  begin(RTM_NEWLINK, 0, fmt::format("{} mtu {}", name, mtu)).fixed(link).value(IFLA_MTU, mtu);
}

void Netlink::delete_link(std::string_view name) {
  ifinfomsg link{};
  link.ifi_index = index_of(name);
  begin(RTM_DELLINK, 0, fmt::format("removing {}", name)).fixed(link);
}

void Netlink::add_address(std::string_view name, const IpAddress& address, int prefix_length) {
  ifaddrmsg head{};
  head.ifa_family = static_cast<std::uint8_t>(family_of(address.family));
  head.ifa_prefixlen = static_cast<std::uint8_t>(prefix_length);
  head.ifa_index = static_cast<std::uint32_t>(index_of(name));
  // Duplicate address detection would keep an IPv6 address unusable for a second; here nobody else
  // has it.
  if (address.family == Family::v6)
    head.ifa_flags = IFA_F_NODAD;
  begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE,
        fmt::format("address {}/{} on {}", to_string(address), prefix_length, name))
      .fixed(head)
      .address(IFA_LOCAL, address)
      .address(IFA_ADDRESS, address);
}

void Netlink::resolve(std::string_view device, const IpAddress& neighbour) {
  ndmsg head{};
  head.ndm_family = static_cast<std::uint8_t>(family_of(neighbour.family));
  head.ndm_ifindex = index_of(device);
  head.ndm_flags = NTF_USE;
  begin(RTM_NEWNEIGH, NLM_F_CREATE, fmt::format("resolving {}", to_string(neighbour)))
      .fixed(head)
      .address(NDA_DST, neighbour);
}

void Netlink::set_nexthop(std::uint32_t id, const IpAddress& gateway, std::string_view device,
                          Write write, std::uint8_t protocol) {
  nhmsg head{};
  head.nh_family = static_cast<std::uint8_t>(family_of(gateway.family));
  head.nh_protocol = protocol;
  begin(RTM_NEWNEXTHOP,
        static_cast<std::uint16_t>(NLM_F_CREATE |
                                   (write == Write::create ? NLM_F_EXCL : NLM_F_REPLACE)),
        fmt::format("nexthop {} via {} dev {}", id, to_string(gateway), device))
      .fixed(head)
      .value(NHA_ID, id)
      .value(NHA_OIF, index_of(device))
      .address(NHA_GATEWAY, gateway);
}

void Netlink::set_group(std::uint32_t id, std::span<const std::uint32_t> members, Write write,
                        std::uint8_t protocol) {
  nhmsg head{};
  head.nh_protocol = protocol;
  std::vector<nexthop_grp> group;
  for (const std::uint32_t member : members) {
    nexthop_grp entry{};
    entry.id = member;
    group.push_back(entry);
  }
  begin(RTM_NEWNEXTHOP,
        static_cast<std::uint16_t>(NLM_F_CREATE |
                                   (write == Write::create ? NLM_F_EXCL : NLM_F_REPLACE)),
        fmt::format("nexthop group {} of {}", id, members.size()))
      .fixed(head)
      .value(NHA_ID, id)
      .attribute(NHA_GROUP, std::as_bytes(std::span(group)));
}

void Netlink::delete_nexthop(std::uint32_t id) {
  begin(RTM_DELNEXTHOP, 0, fmt::format("removing nexthop {}", id)).fixed(nhmsg{}).value(NHA_ID, id);
}

namespace {
rtmsg route_head(const RouteSpec& route) {
  rtmsg head{};
  head.rtm_family = static_cast<std::uint8_t>(family_of(route.destination.address.family));
  head.rtm_dst_len = route.destination.length;
  head.rtm_protocol = route.protocol;
  head.rtm_type = RTN_UNICAST;
  const bool on_link = route.nexthop_id == 0 && !route.gateway && !route.device.empty();
  head.rtm_scope = on_link ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  return head;
}

std::string route_words(std::string_view verb, const RouteSpec& route) {
  return fmt::format("{} route {} table {}", verb, to_string(route.destination), route.table);
}
}  // namespace

void Netlink::add_route(const RouteSpec& route, Write write) {
  auto message = begin(RTM_NEWROUTE,
                       static_cast<std::uint16_t>(
                           NLM_F_CREATE | (write == Write::create ? NLM_F_EXCL : NLM_F_REPLACE)),
                       route_words("adding", route));
  message.fixed(route_head(route))
      .address(RTA_DST, route.destination.address)
      .value(RTA_TABLE, route.table);
  if (route.metric != 0)
    message.value(RTA_PRIORITY, route.metric);
  if (route.nexthop_id != 0)
    message.value(RTA_NH_ID, route.nexthop_id);
  if (route.gateway)
    message.address(RTA_GATEWAY, *route.gateway);
  if (!route.device.empty())
    message.value(RTA_OIF, index_of(route.device));
}

void Netlink::delete_route(const RouteSpec& route) {
  rtmsg head = route_head(route);
  head.rtm_scope = RT_SCOPE_NOWHERE;
  auto message = begin(RTM_DELROUTE, 0, route_words("removing", route));
  message.fixed(head).address(RTA_DST, route.destination.address).value(RTA_TABLE, route.table);
  if (route.metric != 0)
    message.value(RTA_PRIORITY, route.metric);
}

namespace {
fib_rule_hdr rule_head(const RuleSpec& rule, Family family) {
  fib_rule_hdr head{};
  head.family = static_cast<std::uint8_t>(family_of(family));
  head.table = static_cast<std::uint8_t>(rule.table < 256 ? rule.table : 0);
  head.action = FR_ACT_TO_TBL;
  return head;
}
}  // namespace

void Netlink::add_rule(const RuleSpec& rule, Family family) {
  auto message = begin(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL,
                       fmt::format("adding rule {}: iif {}", rule.priority, rule.in_port));
  message.fixed(rule_head(rule, family))
      .value(FRA_PRIORITY, rule.priority)
      .value(FRA_TABLE, rule.table)
      .value(FRA_PROTOCOL, rule.protocol);
  if (!rule.in_port.empty())
    message.text(FRA_IIFNAME, rule.in_port);
}

void Netlink::delete_rule(const RuleSpec& rule, Family family) {
  auto message =
      begin(RTM_DELRULE, 0, fmt::format("removing rule {}: iif {}", rule.priority, rule.in_port));
  message.fixed(rule_head(rule, family))
      .value(FRA_PRIORITY, rule.priority)
      .value(FRA_TABLE, rule.table)
      .value(FRA_PROTOCOL, rule.protocol);
  if (!rule.in_port.empty())
    message.text(FRA_IIFNAME, rule.in_port);
}

void Netlink::add_tbf(std::string_view name, Rate rate, std::uint32_t burst, std::uint32_t limit) {
  tcmsg head{};
  head.tcm_family = AF_UNSPEC;
  head.tcm_ifindex = index_of(name);
  head.tcm_handle = kShaper;
  head.tcm_parent = TC_H_ROOT;
  const double bytes_per_second = rate.bits_per_second / 8;
  tc_tbf_qopt options{};
  options.rate.rate = static_cast<std::uint32_t>(std::min(bytes_per_second, 4.0e9));
  options.rate.linklayer = TC_LINKLAYER_ETHERNET;
  options.limit = limit;
  options.buffer =
      static_cast<std::uint32_t>(burst / bytes_per_second * 1e6 * ticks_per_microsecond());
  // The rate table is from before the kernel took burst in bytes; it must be there and is not used.
  const std::array<std::uint32_t, 256> table{};
  begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, fmt::format("tbf on {}", name))
      .fixed(head)
      .text(TCA_KIND, "tbf")
      .nest(TCA_OPTIONS, [&](Message& inner) {
        inner.value(TCA_TBF_PARMS, options)
            .value(TCA_TBF_BURST, burst)
            .value(TCA_TBF_RATE64, static_cast<std::uint64_t>(bytes_per_second))
            .value(TCA_TBF_RTAB, table);
      });
}

void Netlink::add_priority_bands(std::string_view name) {
  tcmsg head{};
  head.tcm_ifindex = index_of(name);
  head.tcm_parent = kShaper | 1U;
  begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, fmt::format("bands on {}", name))
      .fixed(head)
      .text(TCA_KIND, "pfifo_fast");
}

void Netlink::add_clsact(std::string_view name) {
  tcmsg head{};
  head.tcm_ifindex = index_of(name);
  head.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
  head.tcm_parent = TC_H_CLSACT;
  begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, fmt::format("clsact on {}", name))
      .fixed(head)
      .text(TCA_KIND, "clsact");
}

void Netlink::delete_root_qdisc(std::string_view name) {
  tcmsg head{};
  head.tcm_ifindex = index_of(name);
  head.tcm_parent = TC_H_ROOT;
  begin(RTM_DELQDISC, 0, fmt::format("removing the queue of {}", name)).fixed(head);
}

}  // namespace heddle::lab
