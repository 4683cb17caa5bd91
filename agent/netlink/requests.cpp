#include "agent/netlink/requests.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/lwtunnel.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/netlink/segments.h"
#include "common/core/check.h"

namespace heddle {
namespace {

constexpr std::uint16_t kRocePort = 4791;
// Any of the range that RoCE draws its source ports from; it decides nothing in a port table.
constexpr std::uint16_t kSomeSourcePort = 0xC000;
constexpr std::uint16_t kCreate = NLM_F_CREATE | NLM_F_EXCL;

std::uint8_t family_of(const IpAddress& address) {
  return address.family == Family::v4 ? AF_INET : AF_INET6;
}

struct Append {
  Batch& batch;
  const RoutingRanges& ranges;

  void operator()(const AddNextHop& a) const {
    const NextHop& n = a.next_hop;
    nhmsg head{};
    head.nh_family = n.action ? AF_INET6 : family_of(n.gateway);
    head.nh_protocol = ranges.protocol;
    head.nh_flags = n.onlink ? RTNH_F_ONLINK : 0;
    batch.begin(RTM_NEWNEXTHOP, kCreate, head).number(NHA_ID, n.id).number(NHA_OIF, n.ifindex);
    if (n.action)
      append_segment_action(batch, *n.action);
    else
      batch.address(NHA_GATEWAY, n.gateway);
    if (!n.segments.empty())
      append_segments(batch, n.segments);
  }
  void operator()(const RemoveNextHop& a) const {
    batch.begin(RTM_DELNEXTHOP, 0, nhmsg{}).number(NHA_ID, a.id);
  }
  void operator()(const AddRoute& a) const { route(RTM_NEWROUTE, kCreate, a.route); }
  void operator()(const MoveRoute& a) const { route(RTM_NEWROUTE, NLM_F_REPLACE, a.route); }
  void operator()(const RemoveRoute& a) const { route(RTM_DELROUTE, 0, a.route); }
  void operator()(const AddRule& a) const { rule(RTM_NEWRULE, kCreate, a.rule); }
  void operator()(const RemoveRule& a) const { rule(RTM_DELRULE, 0, a.rule); }
  void operator()(const ChangeMarks&) const { HEDDLE_CHECK(false); }  // not by this protocol

 private:
  void route(std::uint16_t type, std::uint16_t flags, const PinRoute& r) const {
    rtmsg head{};
    head.rtm_family = family_of(r.destination);
    head.rtm_protocol = ranges.protocol;
    head.rtm_scope = RT_SCOPE_UNIVERSE;
    head.rtm_type = RTN_UNICAST;
    if (!r.destination.is_unspecified())
      head.rtm_dst_len = static_cast<std::uint8_t>(8 * r.destination.size());
    batch.begin(type, flags, head).number(RTA_TABLE, r.table).number(RTA_NH_ID, r.next_hop);
    if (head.rtm_dst_len != 0)
      batch.address(RTA_DST, r.destination);
    if (r.source)
      batch.address(RTA_PREFSRC, *r.source);
    // Where IPv6 is asked for no metric, it removes a route of any.
    if (r.destination.family == Family::v6)
      batch.number(RTA_PRIORITY, usual_metric(Family::v6));
  }
  void rule(std::uint16_t type, std::uint16_t flags, const TableRule& r) const {
    fib_rule_hdr head{};
    head.family = r.family == Family::v4 ? AF_INET : AF_INET6;
    head.action = FR_ACT_TO_TBL;
    batch.begin(type, flags, head)
        .number(FRA_TABLE, r.table)
        .number(FRA_PRIORITY, ranges.rule_priority)
        .octet(FRA_PROTOCOL, ranges.protocol);
    if (r.in_port.empty())
      batch.number(FRA_FWMARK, r.table).number(FRA_FWMASK, ~0U);
    else
      batch.text(FRA_IIFNAME, r.in_port);
  }
};

}  // namespace

void append_action(Batch& batch, const Action& action, const RoutingRanges& ranges) {
  std::visit(Append{batch, ranges}, action);
}

void append_lookup(Batch& batch, const Lookup& lookup) {
  const std::uint16_t source_port = htons(kSomeSourcePort);
  const std::uint16_t destination_port = htons(kRocePort);
  rtmsg head{};
  head.rtm_family = family_of(lookup.destination);
  head.rtm_dst_len = static_cast<std::uint8_t>(8 * lookup.destination.size());
  const bool from_somewhere = !lookup.source.is_unspecified();
  head.rtm_src_len = from_somewhere ? head.rtm_dst_len : 0;
  // IPv6 names the table anyway, and refuses to be asked for it.
  head.rtm_flags = lookup.destination.family == Family::v4 ? RTM_F_FIB_MATCH | RTM_F_LOOKUP_TABLE
                                                           : RTM_F_FIB_MATCH;
  batch.begin(RTM_GETROUTE, 0, head).address(RTA_DST, lookup.destination);
  if (from_somewhere)
    batch.address(RTA_SRC, lookup.source);
  if (lookup.in_ifindex != 0)
    batch.number(RTA_IIF, lookup.in_ifindex);
  batch.number(RTA_MARK, lookup.mark)
      .octet(RTA_IP_PROTO, IPPROTO_UDP)
      .attribute(RTA_SPORT, &source_port, sizeof source_port)
      .attribute(RTA_DPORT, &destination_port, sizeof destination_port);
}

void append_empty_segments(Batch& batch, std::uint32_t ifindex) {
  nhmsg head{};
  head.nh_family = AF_INET6;
  const std::uint16_t kind = LWTUNNEL_ENCAP_SEG6;
  batch.begin(RTM_NEWNEXTHOP, kCreate, head)
      .number(NHA_OIF, ifindex)
      .attribute(NHA_ENCAP_TYPE, &kind, sizeof kind)
      .open(NHA_ENCAP)
      .close();
}

void append_resolve(Batch& batch, std::uint32_t ifindex, const IpAddress& address) {
  ndmsg head{};
  head.ndm_family = family_of(address);
  head.ndm_ifindex = static_cast<int>(ifindex);
  head.ndm_state = NUD_NONE;
  head.ndm_flags = NTF_USE;
  batch.begin(RTM_NEWNEIGH, NLM_F_CREATE, head).address(NDA_DST, address);
}

}  // namespace heddle
