#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/lwtunnel.h>
#include <linux/nexthop.h>
#include <linux/seg6_iptunnel.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/core/check.h"
#include "tests/lab/netlink_message.h"

namespace heddle::lab {
namespace {

// The kernel's own words, when it has any (NLMSGERR_ATTR_MSG).
std::string words_of(const nlmsghdr& message) {
  if (!(message.nlmsg_flags & NLM_F_ACK_TLVS))
    return {};
  const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(&message));
  std::size_t skip = sizeof(nlmsgerr);
  if (!(message.nlmsg_flags & NLM_F_CAPPED))
    skip += error->msg.nlmsg_len - sizeof(nlmsghdr);
  const auto* begin = reinterpret_cast<const char*>(error) + NLMSG_ALIGN(skip);
  int left = static_cast<int>(message.nlmsg_len - NLMSG_HDRLEN - NLMSG_ALIGN(skip));
  for (auto* attribute = reinterpret_cast<const rtattr*>(begin); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left))
    if ((attribute->rta_type & NLA_TYPE_MASK) == NLMSGERR_ATTR_MSG)
      return fmt::format(" ({})", static_cast<const char*>(RTA_DATA(attribute)));
  return {};
}

// The list behind NHA_ENCAP of the type seg6, which the kernel keeps from its end to its begin.
std::vector<IpAddress> segments_from(const rtattr* nest) {
  std::vector<IpAddress> segments;
  const auto* attribute = static_cast<const rtattr*>(RTA_DATA(nest));
  auto left = static_cast<int>(RTA_PAYLOAD(nest));
  constexpr std::size_t kBefore = sizeof(seg6_iptunnel_encap) + sizeof(ipv6_sr_hdr);
  constexpr std::size_t kEach = 16;
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if ((attribute->rta_type & NLA_TYPE_MASK) != SEG6_IPTUNNEL_SRH)
      continue;
    const auto* bytes = static_cast<const char*>(RTA_DATA(attribute));
    for (std::size_t end = RTA_PAYLOAD(attribute); end >= kBefore + kEach; end -= kEach) {
      IpAddress segment;
      segment.family = Family::v6;
      std::memcpy(segment.octets.data(), bytes + end - kEach, kEach);
      segments.push_back(segment);
    }
  }
  return segments;
}

}  // namespace

Result<void> Netlink::commit() {
  if (queue_.empty())
    return {};
  // Only the last is acknowledged; refusals of the others come back all the same.
  nlmsghdr last;
  std::memcpy(&last, queue_.data() + last_offset_, sizeof(last));
  last.nlmsg_flags |= NLM_F_ACK;
  std::memcpy(queue_.data() + last_offset_, &last, sizeof(last));
  const std::vector<std::byte> bytes = std::move(queue_);
  const std::vector<std::string> what = std::move(queued_what_);
  queue_.clear();
  queued_what_.clear();
  index_.clear();
  const std::uint32_t first = first_queued_;
  first_queued_ = sequence_ + 1;

  Result<void> result;
  auto exchanged = exchange(bytes, last.nlmsg_seq, [&](const nlmsghdr& message) {
    if (message.nlmsg_type != NLMSG_ERROR)
      return;
    const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(&message));
    if (error->error == 0 || !result)
      return;
    const std::uint32_t at = message.nlmsg_seq - first;
    result = fail(error->error == -EPERM ? Errc::permission : Errc::kernel,
                  fmt::format("{}: {}{}", at < what.size() ? what[at] : "?",
                              std::strerror(-error->error), words_of(message)));
  });
  return exchanged ? result : exchanged;
}

Result<void> Netlink::exchange(std::span<const std::byte> bytes, std::uint32_t last,
                               const std::function<void(const nlmsghdr&)>& each) {
  if (::send(fd_, bytes.data(), bytes.size(), 0) < 0)
    return fail(Errc::kernel, fmt::format("netlink: {}", std::strerror(errno)));
  std::vector<char> buffer(1 << 17);
  while (true) {
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0)
      return fail(Errc::kernel, fmt::format("netlink: {}", std::strerror(errno)));
    auto left = static_cast<unsigned int>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      each(*message);
      const bool end = message->nlmsg_type == NLMSG_ERROR || message->nlmsg_type == NLMSG_DONE;
      if (end && message->nlmsg_seq == last)
        return {};
    }
  }
}

Result<void> Netlink::dump(std::uint16_t type, std::span<const std::byte> header,
                           const std::function<void(const nlmsghdr&)>& each) {
  HEDDLE_CHECK(queue_.empty());  // a dump in the middle of a batch would see half of it
  std::vector<std::byte> bytes;
  Message(bytes, type, NLM_F_REQUEST | NLM_F_DUMP, ++sequence_).raw(header);
  first_queued_ = sequence_ + 1;
  Result<void> result;
  auto exchanged = exchange(bytes, sequence_, [&](const nlmsghdr& message) {
    if (message.nlmsg_type == NLMSG_ERROR) {
      const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(&message));
      result = fail(Errc::kernel, fmt::format("dump: {}", std::strerror(-error->error)));
    } else if (message.nlmsg_type >= NLMSG_MIN_TYPE) {
      each(message);
    }
  });
  return exchanged ? result : exchanged;
}

int Netlink::index_of(std::string_view name) {
  if (const auto known = index_.find(name); known != index_.end())
    return known->second;
  std::vector<std::byte> bytes;
  // Queries count in the same sequence as the queued messages, so they take their number from far
  // away.
  constexpr std::uint32_t kQuery = 0x7fffffff;
  Message(bytes, RTM_GETLINK, NLM_F_REQUEST, kQuery).fixed(ifinfomsg{}).text(IFLA_IFNAME, name);
  if (::send(fd_, bytes.data(), bytes.size(), 0) < 0)
    return 0;
  alignas(nlmsghdr) std::array<char, 8192> buffer;
  const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(ifinfomsg))))
    return 0;
  const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (message->nlmsg_type != RTM_NEWLINK)
    return 0;
  const int index = static_cast<const ifinfomsg*>(NLMSG_DATA(message))->ifi_index;
  index_[std::string(name)] = index;
  return index;
}

Result<std::vector<RouteSeen>> Netlink::routes(Family family) {
  std::vector<RouteSeen> seen;
  rtmsg head{};
  head.rtm_family = static_cast<std::uint8_t>(family_of(family));
  auto done = dump(RTM_GETROUTE, bytes_of(head), [&](const nlmsghdr& message) {
    const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(&message));
    RouteSeen entry;
    entry.table = route->rtm_table;
    entry.protocol = route->rtm_protocol;
    entry.destination.address.family = family;
    entry.destination.length = route->rtm_dst_len;
    for_each_attribute<rtmsg>(message, [&](int type, const rtattr* attribute) {
      if (type == RTA_DST)
        entry.destination.address = address_from(attribute, route->rtm_family);
      if (type == RTA_TABLE)
        entry.table = u32_from(attribute);
      if (type == RTA_NH_ID)
        entry.nexthop_id = u32_from(attribute);
      if (type == RTA_OIF)
        entry.out_index = static_cast<int>(u32_from(attribute));
    });
    seen.push_back(entry);
  });
  if (!done)
    return tl::unexpected(done.error());
  return seen;
}

Result<std::vector<RuleSpec>> Netlink::rules(Family family) {
  std::vector<RuleSpec> seen;
  fib_rule_hdr head{};
  head.family = static_cast<std::uint8_t>(family_of(family));
  auto done = dump(RTM_GETRULE, bytes_of(head), [&](const nlmsghdr& message) {
    const auto* rule = static_cast<const fib_rule_hdr*>(NLMSG_DATA(&message));
    RuleSpec entry;
    entry.table = rule->table;
    for_each_attribute<fib_rule_hdr>(message, [&](int type, const rtattr* attribute) {
      if (type == FRA_IIFNAME)
        entry.in_port = static_cast<const char*>(RTA_DATA(attribute));
      if (type == FRA_TABLE)
        entry.table = u32_from(attribute);
      if (type == FRA_PRIORITY)
        entry.priority = u32_from(attribute);
      if (type == FRA_PROTOCOL)
        entry.protocol = *static_cast<std::uint8_t*>(RTA_DATA(attribute));
    });
    seen.push_back(entry);
  });
  if (!done)
    return tl::unexpected(done.error());
  return seen;
}

Result<std::vector<NexthopSeen>> Netlink::nexthops() {
  std::vector<NexthopSeen> seen;
  auto done = dump(RTM_GETNEXTHOP, bytes_of(nhmsg{}), [&](const nlmsghdr& message) {
    const auto* head = static_cast<const nhmsg*>(NLMSG_DATA(&message));
    NexthopSeen entry;
    entry.protocol = head->nh_protocol;
    const rtattr* encapsulation = nullptr;
    std::uint16_t kind = 0;
    for_each_attribute<nhmsg>(message, [&](int type, const rtattr* attribute) {
      if (type == NHA_ENCAP)
        encapsulation = attribute;
      if (type == NHA_ENCAP_TYPE)
        std::memcpy(&kind, RTA_DATA(attribute), sizeof(kind));
      if (type == NHA_ID)
        entry.id = u32_from(attribute);
      if (type == NHA_OIF)
        entry.out_index = static_cast<int>(u32_from(attribute));
      if (type == NHA_GATEWAY)
        entry.gateway = address_from(attribute, head->nh_family);
      if (type == NHA_GROUP) {
        const auto* group = static_cast<const nexthop_grp*>(RTA_DATA(attribute));
        for (std::size_t i = 0; i < RTA_PAYLOAD(attribute) / sizeof(nexthop_grp); ++i)
          entry.members.push_back(group[i].id);
      }
    });
    if (encapsulation != nullptr && kind == LWTUNNEL_ENCAP_SEG6)
      entry.segments = segments_from(encapsulation);
    seen.push_back(entry);
  });
  if (!done)
    return tl::unexpected(done.error());
  return seen;
}

Result<std::vector<LinkSeen>> Netlink::links() {
  std::vector<LinkSeen> seen;
  auto done = dump(RTM_GETLINK, bytes_of(ifinfomsg{}), [&](const nlmsghdr& message) {
    const auto* head = static_cast<const ifinfomsg*>(NLMSG_DATA(&message));
    LinkSeen entry;
    entry.index = head->ifi_index;
    entry.up = (head->ifi_flags & IFF_UP) != 0;
    for_each_attribute<ifinfomsg>(message, [&](int type, const rtattr* attribute) {
      if (type == IFLA_IFNAME)
        entry.name = static_cast<const char*>(RTA_DATA(attribute));
      if (type == IFLA_CARRIER)
        entry.carrier = *static_cast<std::uint8_t*>(RTA_DATA(attribute));
      if (type == IFLA_STATS64) {
        rtnl_link_stats64 counters{};
        std::memcpy(&counters, RTA_DATA(attribute),
                    std::min<std::size_t>(RTA_PAYLOAD(attribute), sizeof(counters)));
        entry.tx_bytes = counters.tx_bytes;
        entry.rx_bytes = counters.rx_bytes;
        entry.tx_dropped = counters.tx_dropped;
      }
    });
    seen.push_back(std::move(entry));
  });
  if (!done)
    return tl::unexpected(done.error());
  return seen;
}

}  // namespace heddle::lab
