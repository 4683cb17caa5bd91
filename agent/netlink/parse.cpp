#include "agent/netlink/parse.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/ipv6.h>
#include <linux/lwtunnel.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "agent/netlink/attributes.h"
#include "agent/netlink/segments.h"

namespace heddle {
namespace {

constexpr std::size_t kMostHops = 1024;

std::optional<IpAddress> address(int family, std::span<const std::byte> data) {
  if (family != AF_INET && family != AF_INET6)
    return std::nullopt;
  IpAddress result;
  result.family = family == AF_INET ? Family::v4 : Family::v6;
  if (data.size() < result.size())
    return std::nullopt;
  std::memcpy(result.octets.data(), data.data(), result.size());
  return result;
}

// RTA_GATEWAY is of the route's family; RTA_VIA names its own (IPv4 over IPv6).
std::optional<IpAddress> gateway(const Attributes& a, int route_family) {
  if (a.has(RTA_GATEWAY))
    return address(route_family, a.bytes(RTA_GATEWAY));
  const auto via = a.bytes(RTA_VIA);
  std::uint16_t family{};
  if (via.size() < sizeof family)
    return std::nullopt;
  std::memcpy(&family, via.data(), sizeof family);
  return address(family, via.subspan(sizeof family));
}

std::vector<Hop> multipath(std::span<const std::byte> data, int family) {
  std::vector<Hop> hops;
  while (data.size() >= sizeof(rtnexthop) && hops.size() < kMostHops) {
    rtnexthop head;
    std::memcpy(&head, data.data(), sizeof head);
    if (head.rtnh_len < sizeof head || head.rtnh_len > data.size())
      break;
    const Attributes inner(data.data() + sizeof head, head.rtnh_len - sizeof head);
    hops.push_back({.ifindex = static_cast<std::uint32_t>(head.rtnh_ifindex),
                    .gateway = gateway(inner, family),
                    .onlink = (head.rtnh_flags & RTNH_F_ONLINK) != 0});
    data = data.subspan(std::min<std::size_t>(RTNH_ALIGN(head.rtnh_len), data.size()));
  }
  return hops;
}

std::optional<Family> ip_family(int family) {
  if (family != AF_INET && family != AF_INET6)
    return std::nullopt;
  return family == AF_INET ? Family::v4 : Family::v6;
}

// The settings of IPv6 on a link, a list of numbers; without them IPv6 does not know the link.
bool ipv6_is_on(const Attributes& link) {
  if (!link.has(IFLA_AF_SPEC))
    return true;  // not told
  const auto settings = link.nest(IFLA_AF_SPEC).nest(AF_INET6).bytes(IFLA_INET6_CONF);
  std::array<std::int32_t, DEVCONF_DISABLE_IPV6 + 1> values{};
  if (settings.size() < sizeof values)
    return false;
  std::memcpy(values.data(), settings.data(), sizeof values);
  return values[DEVCONF_DISABLE_IPV6] == 0;
}

std::string in_hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

void clear_host_bits(Prefix& prefix) {
  for (std::size_t i = 0; i < prefix.address.size(); ++i) {
    const std::size_t first = i * 8;
    const std::size_t kept = prefix.length > first ? prefix.length - first : 0;
    if (kept < 8)
      prefix.address.octets[i] &= static_cast<std::uint8_t>(0xFF00U >> kept);
  }
}

void parse_encapsulation(const Attributes& next_hop, KernelNextHop& into) {
  if (!next_hop.has(NHA_ENCAP_TYPE))
    return;
  const auto kind = next_hop.value<std::uint16_t>(NHA_ENCAP_TYPE);
  const Attributes inner = next_hop.nest(NHA_ENCAP);
  if (kind == std::uint16_t{LWTUNNEL_ENCAP_SEG6})
    into.segments = parse_segments(inner);
  else if (kind == std::uint16_t{LWTUNNEL_ENCAP_SEG6_LOCAL})
    into.action = parse_segment_action(inner);
  into.other_encapsulation = into.segments.empty() && !into.action;
}

// No selectors beyond those of "iif PORT lookup TABLE" or "fwmark MARK lookup TABLE".
bool plain(const fib_rule_hdr& head, const Attributes& a) {
  if (head.action != FR_ACT_TO_TBL || head.src_len != 0 || head.dst_len != 0 || head.tos != 0 ||
      (head.flags & FIB_RULE_INVERT) != 0)
    return false;
  for (const int more : {FRA_DST, FRA_SRC, FRA_GOTO, FRA_FLOW, FRA_TUN_ID, FRA_OIFNAME,
                         FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE}) {
    if (a.has(static_cast<std::size_t>(more)))
      return false;
  }
  if (a.has(FRA_IIFNAME) == a.has(FRA_FWMARK) || a.number(FRA_FWMASK).value_or(~0U) != ~0U)
    return false;
  // Always present; all ones mean "none".
  return a.number(FRA_SUPPRESS_PREFIXLEN).value_or(~0U) == ~0U &&
         a.number(FRA_SUPPRESS_IFGROUP).value_or(~0U) == ~0U &&
         a.value<std::uint8_t>(FRA_L3MDEV).value_or(0) == 0;
}

}  // namespace

void for_each_message(std::span<const std::byte> bytes, const MessageVisitor& visit) {
  const auto* at = reinterpret_cast<const nlmsghdr*>(bytes.data());
  int remaining = static_cast<int>(bytes.size());
  while (nlmsg_ok(at, remaining) != 0) {
    visit(*at);
    at = nlmsg_next(const_cast<nlmsghdr*>(at), &remaining);
  }
}

std::optional<Link> parse_link(const nlmsghdr& message) {
  const auto head = body<ifinfomsg>(message);
  // Bridges announce their ports under AF_BRIDGE, too, without what matters here.
  if (!head || head->ifi_family != AF_UNSPEC || head->ifi_index <= 0)
    return std::nullopt;
  const auto a = attributes<ifinfomsg>(message);
  Link link{.index = static_cast<std::uint32_t>(head->ifi_index),
            .name = a.text(IFLA_IFNAME),
            .up = (head->ifi_flags & IFF_UP) != 0,
            .carrier = (head->ifi_flags & IFF_LOWER_UP) != 0,
            .resolves = (head->ifi_flags & IFF_NOARP) == 0,
            .master = a.number(IFLA_MASTER).value_or(0),
            .master_kind = {},
            .ipv6 = ipv6_is_on(a),
            .mtu = a.number(IFLA_MTU).value_or(0),
            .switch_id = in_hexadecimal(a.bytes(IFLA_PHYS_SWITCH_ID))};
  if (link.name.empty())
    return std::nullopt;
  link.carrier = link.carrier && a.value<std::uint8_t>(IFLA_CARRIER).value_or(1) != 0;
  if (link.master != 0)
    link.master_kind = a.nest(IFLA_LINKINFO).text(IFLA_INFO_SLAVE_KIND);
  return link;
}

std::optional<KernelNextHop> parse_next_hop(const nlmsghdr& message) {
  const auto head = body<nhmsg>(message);
  if (!head)
    return std::nullopt;
  const auto a = attributes<nhmsg>(message);
  const auto id = a.number(NHA_ID);
  if (!id || *id == 0)
    return std::nullopt;
  KernelNextHop result{.id = *id, .protocol = head->nh_protocol, .hop = {}, .members = {}};
  result.blackhole = a.has(NHA_BLACKHOLE);
  if (a.has(NHA_GROUP)) {
    auto members = a.bytes(NHA_GROUP);
    for (; members.size() >= sizeof(nexthop_grp) && result.members.size() < kMostHops;
         members = members.subspan(sizeof(nexthop_grp))) {
      nexthop_grp member;
      std::memcpy(&member, members.data(), sizeof member);
      result.members.push_back(member.id);
    }
  } else if (const auto out = a.number(NHA_OIF); out && !result.blackhole) {
    result.hop = Hop{.ifindex = *out,
                     .gateway = address(head->nh_family, a.bytes(NHA_GATEWAY)),
                     .onlink = (head->nh_flags & RTNH_F_ONLINK) != 0};
    parse_encapsulation(a, result);
  }
  return result;
}

std::optional<KernelRoute> parse_route(const nlmsghdr& message) {
  const auto head = body<rtmsg>(message);
  const auto family = head ? ip_family(head->rtm_family) : std::nullopt;
  if (!family || (head->rtm_flags & RTM_F_CLONED) != 0)
    return std::nullopt;
  const auto a = attributes<rtmsg>(message);
  KernelRoute route;
  route.destination.address.family = *family;
  if (head->rtm_dst_len > 8 * route.destination.address.size())
    return std::nullopt;
  route.table = a.number(RTA_TABLE).value_or(head->rtm_table);
  route.destination.length = head->rtm_dst_len;
  if (head->rtm_dst_len != 0) {
    const auto destination = address(head->rtm_family, a.bytes(RTA_DST));
    if (!destination)
      return std::nullopt;
    route.destination.address = *destination;
    clear_host_bits(route.destination);
  }
  route.tos = head->rtm_tos;
  route.some_sources = head->rtm_src_len != 0;
  route.protocol = head->rtm_protocol;
  route.metric = a.number(RTA_PRIORITY).value_or(0);
  route.unicast = head->rtm_type == RTN_UNICAST;
  route.offloaded = (head->rtm_flags & RTM_F_OFFLOAD) != 0;
  route.offload_failed = (head->rtm_flags & RTM_F_OFFLOAD_FAILED) != 0;
  route.next_hop_id = a.number(RTA_NH_ID).value_or(0);
  route.local_address = address(head->rtm_family, a.bytes(RTA_PREFSRC));
  if (route.next_hop_id != 0)
    return route;
  if (a.has(RTA_MULTIPATH)) {
    route.hops = multipath(a.bytes(RTA_MULTIPATH), head->rtm_family);
  } else if (const auto out = a.number(RTA_OIF)) {
    route.hops.push_back({.ifindex = *out,
                          .gateway = gateway(a, head->rtm_family),
                          .onlink = (head->rtm_flags & RTNH_F_ONLINK) != 0});
  }
  return route;
}

std::optional<KernelRule> parse_rule(const nlmsghdr& message) {
  const auto head = body<fib_rule_hdr>(message);
  const auto family = head ? ip_family(head->family) : std::nullopt;
  if (!family)
    return std::nullopt;
  const auto a = attributes<fib_rule_hdr>(message);
  return KernelRule{.priority = a.number(FRA_PRIORITY).value_or(0),
                    .protocol = a.value<std::uint8_t>(FRA_PROTOCOL).value_or(0),
                    .table = a.number(FRA_TABLE).value_or(head->table),
                    .in_port = a.text(FRA_IIFNAME),
                    .mark = a.number(FRA_FWMARK).value_or(0),
                    .plain = plain(*head, a),
                    .family = *family};
}

std::optional<Neighbour> parse_neighbour(const nlmsghdr& message) {
  const auto head = body<ndmsg>(message);
  if (!head || head->ndm_ifindex <= 0)
    return std::nullopt;
  const auto who = address(head->ndm_family, attributes<ndmsg>(message).bytes(NDA_DST));
  if (!who)
    return std::nullopt;
  constexpr std::uint16_t kUsable =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  return Neighbour{.ifindex = static_cast<std::uint32_t>(head->ndm_ifindex),
                   .address = *who,
                   .state = (head->ndm_state & kUsable) != 0      ? Resolution::resolved
                            : (head->ndm_state & NUD_FAILED) != 0 ? Resolution::failed
                                                                  : Resolution::pending};
}

std::optional<NetworkSettings> parse_settings(const nlmsghdr& message) {
  const auto head = body<netconfmsg>(message);
  const auto family = head ? ip_family(head->ncm_family) : std::nullopt;
  if (!family)
    return std::nullopt;
  const auto a = attributes<netconfmsg>(message);
  const auto ifindex = a.value<std::int32_t>(NETCONFA_IFINDEX);
  if (!ifindex)
    return std::nullopt;
  return NetworkSettings{
      .ifindex = *ifindex,
      .reverse_path = a.value<std::int32_t>(NETCONFA_RP_FILTER).value_or(0),
      .ignore_routes_with_linkdown =
          a.value<std::int32_t>(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN).value_or(0) != 0,
      .forwards = a.value<std::int32_t>(NETCONFA_FORWARDING).value_or(0) != 0,
      .family = *family};
}

std::optional<LinkCounters> parse_counters(const nlmsghdr& message) {
  const auto head = body<if_stats_msg>(message);
  if (!head)
    return std::nullopt;
  // The front of rtnl_link_stats64, whose end grows with the kernel: packets and bytes, each
  // received and sent.
  const auto front =
      attributes<if_stats_msg>(message).value<std::array<std::uint64_t, 4>>(IFLA_STATS_LINK_64);
  if (!front)
    return std::nullopt;
  return LinkCounters{.ifindex = head->ifindex, .tx_bytes = (*front)[3], .rx_bytes = (*front)[2]};
}

std::optional<Answer> parse_answer(const nlmsghdr& message) {
  const auto head = body<nlmsgerr>(message);
  if (message.nlmsg_type != NLMSG_ERROR || !head)
    return std::nullopt;
  // The kernel answers 0 or a negated error number; anything else, which may not even be negated,
  // is no success either.
  constexpr int kLargestError = 4095;
  const bool sane = head->error <= 0 && head->error >= -kLargestError;
  Answer answer{.error = sane ? -head->error : EPROTO, .message = {}};
  if ((message.nlmsg_flags & NLM_F_ACK_TLVS) != 0) {
    std::size_t skip = NLMSG_HDRLEN + sizeof(nlmsgerr);
    if ((message.nlmsg_flags & NLM_F_CAPPED) == 0 && head->msg.nlmsg_len > NLMSG_HDRLEN)
      skip += NLMSG_ALIGN(std::size_t{head->msg.nlmsg_len} - NLMSG_HDRLEN);
    if (skip < message.nlmsg_len) {
      const Attributes a(reinterpret_cast<const std::byte*>(&message) + skip,
                         message.nlmsg_len - skip);
      answer.message = a.text(NLMSGERR_ATTR_MSG);
    }
  }
  return answer;
}

std::optional<KernelEvent> parse_event(const nlmsghdr& message) {
  const std::uint16_t flags = message.nlmsg_flags;
  switch (message.nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      if (const auto link = parse_link(message))
        return LinkEvent{.link = *link, .removed = message.nlmsg_type == RTM_DELLINK};
      break;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      if (auto route = parse_route(message)) {
        using Kind = RouteEvent::Kind;
        const Kind kind = message.nlmsg_type == RTM_DELROUTE ? Kind::removed
                          : (flags & NLM_F_REPLACE) != 0     ? Kind::replaced
                          : (flags & NLM_F_APPEND) != 0      ? Kind::appended
                                                             : Kind::added;
        return RouteEvent{.route = std::move(*route), .kind = kind};
      }
      break;
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
      if (auto next_hop = parse_next_hop(message))
        return NextHopEvent{.next_hop = std::move(*next_hop),
                            .removed = message.nlmsg_type == RTM_DELNEXTHOP};
      break;
    case RTM_NEWRULE:
    case RTM_DELRULE:
      if (auto rule = parse_rule(message))
        return RuleEvent{.rule = std::move(*rule), .removed = message.nlmsg_type == RTM_DELRULE};
      break;
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      if (const auto neighbour = parse_neighbour(message))
        return NeighbourEvent{.neighbour = *neighbour,
                              .removed = message.nlmsg_type == RTM_DELNEIGH};
      break;
    case RTM_NEWNETCONF:
    case RTM_DELNETCONF:
      if (parse_settings(message))
        return SettingsEvent{};
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace heddle
