#include "agent/netlink/netlink_kernel.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

#include "agent/netlink/mark_kernel.h"
#include "agent/netlink/requests.h"
#include "agent/netlink/socket.h"
#include "common/core/check.h"

namespace heddle {
namespace {

// Answers to failures and lookups wait in our receive buffer while the kernel still works through a
// batch; these many fit, whatever they say.
constexpr std::size_t kActionsAtOnce = 512;
constexpr std::size_t kLookupsAtOnce = 128;
constexpr int kRequestBuffer = 4 << 20;

constexpr int kGroups[] = {RTNLGRP_LINK,       RTNLGRP_NEIGH,     RTNLGRP_NEXTHOP,
                           RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV4_NETCONF,
                           RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE, RTNLGRP_IPV6_NETCONF};

// A kernel without IPv6 answers questions about it with what it has of IPv4, or not at all.
bool kernel_has_ipv6() {
  const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd >= 0)
    ::close(fd);
  return fd >= 0;
}

int number_of(Family family) {
  return family == Family::v4 ? AF_INET : AF_INET6;
}

}  // namespace

class NetlinkKernel::Impl {
 public:
  Impl(Options chosen, NetlinkSocket request_socket, MarkKernel mark_kernel)
      : options(chosen), requests(std::move(request_socket)), marks(std::move(mark_kernel)) {}
  ~Impl() {
    if (both >= 0)
      ::close(both);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Options options;
  NetlinkSocket requests;
  MarkKernel marks;
  std::optional<NetlinkSocket> events;
  int both{-1};  // readable when either kind of notification waits; -1 where there is one kind
  Handler handler;
  std::vector<Family> families{kernel_has_ipv6() ? std::vector{Family::v4, Family::v6}
                                                 : std::vector{Family::v4}};

  Result<void> watch_both() {
    both = ::epoll_create1(EPOLL_CLOEXEC);
    for (const int fd : {events->fd(), marks.fd()}) {
      epoll_event readable{.events = EPOLLIN, .data = {}};
      if (both < 0 || ::epoll_ctl(both, EPOLL_CTL_ADD, fd, &readable) != 0)
        return fail(Errc::io, fmt::format("epoll: {}", std::strerror(errno)));
    }
    return {};
  }

  // One change in the order of actions.
  Result<void> apply_marks(const ChangeMarks& change, std::size_t position,
                           std::vector<ActionFailure>& failures) {
    auto refusal = marks.apply(change, options.ranges.mark_table());
    if (!refusal)
      return tl::unexpected(refusal.error());
    if (*refusal)
      failures.push_back({.action = position,
                          .error = (*refusal)->error,
                          .message = std::move((*refusal)->message)});
    return {};
  }

  Result<void> apply_routing(std::span<const Action> actions, std::size_t position,
                             std::vector<ActionFailure>& failures) {
    Batch batch = requests.batch();
    for (const Action& action : actions)
      append_action(batch, action, options.ranges);
    batch.acknowledge_last();
    const std::uint32_t first =
        batch.last_sequence() - static_cast<std::uint32_t>(actions.size()) + 1;
    return requests.exchange(batch, [&](const nlmsghdr& message) {
      auto answer = parse_answer(message);
      if (answer && answer->error != 0)
        failures.push_back({.action = position + (message.nlmsg_seq - first),
                            .error = answer->error,
                            .message = std::move(answer->message)});
    });
  }

  // A next hop with an empty list of segments, which no kernel takes: one that can wrap packets
  // calls it invalid, any other does not support it.
  Result<void> probe_segments() {
    KernelState state;
    if (auto read = read_links(state); !read)
      return read;
    const auto up = std::ranges::find_if(
        state.links, [](const Link& link) { return link.up && link.carrier && link.ipv6; });
    if (up == state.links.end())
      return {};  // nothing to ask by
    Batch request = requests.batch();
    append_empty_segments(request, up->index);
    request.acknowledge_last();
    int error = 0;
    auto done = requests.exchange(request, [&](const nlmsghdr& message) {
      if (const auto answer = parse_answer(message))
        error = answer->error;
    });
    if (done && error == EOPNOTSUPP)
      return fail(Errc::unsupported,
                  "the kernel cannot wrap packets for segments; Linux 5.3 or later with "
                  "CONFIG_IPV6_SEG6_LWTUNNEL can");
    return done;
  }

  void emit(const KernelEvent& event) const {
    if (handler)
      handler(event);
  }

  // Everything of one kind, as `parse` understands it and `keep` wants it.
  template <class Header, class T, class Keep>
  Result<void> dump(std::uint16_t type, const Header& head, bool& inconsistent,
                    std::optional<T> (*parse)(const nlmsghdr&), std::vector<T>& into, Keep keep) {
    Batch request = requests.batch();
    request.begin(type, NLM_F_DUMP, head);
    return dump(request, inconsistent, parse, into, keep);
  }
  template <class T, class Keep>
  Result<void> dump(const Batch& request, bool& inconsistent,
                    std::optional<T> (*parse)(const nlmsghdr&), std::vector<T>& into, Keep keep) {
    const auto interrupted = requests.dump(
        request, [&] { into.clear(); },
        [&](const nlmsghdr& message) {
          if (auto value = parse(message); value && keep(*value))
            into.push_back(std::move(*value));
        });
    if (!interrupted)
      return tl::unexpected(interrupted.error());
    inconsistent = inconsistent || *interrupted;
    return {};
  }

  bool interesting(const KernelRoute& route) const {
    return route.table == RT_TABLE_MAIN || concerns_us(route);
  }
  bool concerns_us(const KernelRoute& route) const {
    return route.protocol == options.ranges.protocol || options.ranges.owns_table(route.table) ||
           options.ranges.owns_next_hop(route.next_hop_id);
  }

  // Everything of one kind in each family, one after another.
  template <class Header, class T, class Keep>
  Result<void> dump_families(std::uint16_t type, Header head, std::uint8_t Header::*family_field,
                             bool& inconsistent, std::optional<T> (*parse)(const nlmsghdr&),
                             std::vector<T>& into, Keep keep) {
    for (const Family family : families) {
      head.*family_field = static_cast<std::uint8_t>(number_of(family));
      std::vector<T> some;
      if (auto done = dump(type, head, inconsistent, parse, some,
                           [&](const T& t) { return family_of(t) == family && keep(t); });
          !done)
        return done;
      std::move(some.begin(), some.end(), std::back_inserter(into));
    }
    return {};
  }
  static Family family_of(const KernelRoute& route) { return route.destination.address.family; }
  static Family family_of(const KernelRule& rule) { return rule.family; }
  static Family family_of(const NetworkSettings& settings) { return settings.family; }

  template <class Keep>
  Result<void> read_routes(KernelState& state, const rtmsg& head, Keep keep) {
    return dump_families(RTM_GETROUTE, head, &rtmsg::rtm_family, state.inconsistent, parse_route,
                         state.routes, keep);
  }

  Result<void> read_next_hops_and_rules(KernelState& state) {
    const auto all = [](const auto&) { return true; };
    return dump(RTM_GETNEXTHOP, nhmsg{}, state.inconsistent, parse_next_hop, state.next_hops, all)
        .and_then([&] {
          return dump_families(RTM_GETRULE, fib_rule_hdr{}, &fib_rule_hdr::family,
                               state.inconsistent, parse_rule, state.rules, all);
        });
  }
  Result<void> read_objects(KernelState& state) {
    return read_next_hops_and_rules(state)
        .and_then([&] { return read_marks(MarkFormat::present, state, state.mark_table); })
        .and_then([&] { return read_marks(MarkFormat::former, state, state.former_mark_table); });
  }

  Result<void> read_marks(MarkFormat format, KernelState& state,
                          std::optional<KernelMarkTable>& into) {
    auto table = marks.read(format, options.ranges.mark_table(), state);
    if (!table)
      return tl::unexpected(table.error());
    into = *std::move(table);
    return {};
  }

  Result<void> read_links(KernelState& state) {
    Batch request = requests.batch();
    request.begin(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{})
        .number(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    return dump(request, state.inconsistent, parse_link, state.links,
                [](const Link&) { return true; });
  }

  Result<void> read_settings(KernelState& state) {
    std::vector<NetworkSettings> settings;
    if (auto done =
            dump_families(RTM_GETNETCONF, netconfmsg{}, &netconfmsg::ncm_family, state.inconsistent,
                          parse_settings, settings, [](const NetworkSettings&) { return true; });
        !done)
      return done;
    int everywhere = 0;
    std::map<std::uint32_t, InterfaceSettings> by_link;
    for (const NetworkSettings& s : settings) {
      const bool all = s.ifindex == NETCONFA_IFINDEX_ALL;
      if (all && s.family == Family::v4)
        everywhere = s.reverse_path;
      else if (all)
        state.forwards_ipv6 = s.forwards;
    }
    for (const NetworkSettings& s : settings) {
      if (s.ifindex <= 0)
        continue;
      InterfaceSettings& link = by_link[static_cast<std::uint32_t>(s.ifindex)];
      link.ifindex = static_cast<std::uint32_t>(s.ifindex);
      if (s.family == Family::v6) {
        link.ignore_routes_with_linkdown_v6 = s.ignore_routes_with_linkdown;
        continue;
      }
      link.strict_reverse_path = std::max(everywhere, s.reverse_path) == 1;
      link.ignore_routes_with_linkdown = s.ignore_routes_with_linkdown;
    }
    for (const auto& [index, link] : by_link)
      state.settings.push_back(link);
    return {};
  }
};

NetlinkKernel::NetlinkKernel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NetlinkKernel::~NetlinkKernel() = default;

Result<std::unique_ptr<NetlinkKernel>> NetlinkKernel::open(Options options) {
  auto requests = NetlinkSocket::open(kRequestBuffer);
  if (!requests)
    return tl::unexpected(requests.error());
  auto marks = MarkKernel::open(kRequestBuffer);
  if (!marks)
    return tl::unexpected(marks.error());
  auto impl = std::make_unique<Impl>(options, std::move(*requests), std::move(*marks));
  return std::unique_ptr<NetlinkKernel>(new NetlinkKernel(std::move(impl)));
}

void NetlinkKernel::on_event(Handler handler) {
  impl_->handler = std::move(handler);
}

int NetlinkKernel::fd() const {
  HEDDLE_CHECK(impl_->events.has_value());
  return impl_->both >= 0 ? impl_->both : impl_->events->fd();
}

Result<void> NetlinkKernel::subscribe() {
  auto socket = NetlinkSocket::open(impl_->options.event_buffer_bytes);
  if (!socket)
    return tl::unexpected(socket.error());
  for (const int group : kGroups) {
    if (auto joined = socket->join(group); !joined)
      return joined;
  }
  impl_->events = std::move(*socket);
  if (!impl_->options.marks)
    return {};
  // Without packet rules in the kernel, or the right to them, there is nothing to hear of; the
  // probe says so.
  if (auto heard = impl_->marks.subscribe(impl_->options.event_buffer_bytes); !heard)
    return heard.error().code == Errc::unsupported || heard.error().code == Errc::permission
               ? Result<void>{}
               : heard;
  return impl_->watch_both();
}

void NetlinkKernel::ready() {
  HEDDLE_CHECK(impl_->events.has_value());
  const std::uint32_t own_port = impl_->requests.port();
  const auto visit = [&](const nlmsghdr& message) {
    // What we did ourselves is read back, in the order in which we did it; its echo would be old
    // news.
    if (message.nlmsg_pid == own_port)
      return;
    if (const auto event = parse_event(message))
      impl_->emit(*event);
  };
  switch (impl_->marks.ready(impl_->options.ranges.mark_table())) {
    case MarkKernel::News::none:
      break;
    case MarkKernel::News::changed:
      impl_->emit(MarkEvent{});
      break;
    case MarkKernel::News::lost:
      impl_->emit(EventsLost{});
      break;
  }
  for (bool lost_before = false;;) {
    const auto more = impl_->events->receive_waiting(visit);
    if (!more) {
      // Twice in a row is a broken socket, not a full one; the loop comes back to it.
      if (std::exchange(lost_before, true))
        return;
      impl_->emit(EventsLost{});
      continue;
    }
    if (!*more)
      return;
    lost_before = false;
  }
}

void NetlinkKernel::use(const RoutingRanges& ranges) {
  impl_->options.ranges = ranges;
}

Result<void> NetlinkKernel::probe() {
  KernelState state;
  if (auto read = impl_->read_next_hops_and_rules(state); !read) {
    if (read.error().code == Errc::unsupported)
      return fail(Errc::unsupported,
                  "the kernel has no nexthop objects or no policy rules; Linux 5.3 or later with "
                  "CONFIG_IP_MULTIPLE_TABLES has both");
    return read;
  }
  // A removal that names no object: refused as such, but only to those who may remove.
  Batch request = impl_->requests.batch();
  request.begin(RTM_DELNEXTHOP, NLM_F_ACK, nhmsg{});
  int error = 0;
  auto done = impl_->requests.exchange(request, [&](const nlmsghdr& message) {
    if (const auto answer = parse_answer(message))
      error = answer->error;
  });
  if (!done)
    return done;
  if (error == EPERM)
    return fail(Errc::permission,
                "not allowed to change routes; give the agent CAP_NET_ADMIN (the unit file does)");
  if (impl_->options.segments) {
    if (auto able = impl_->probe_segments(); !able)
      return able;
  }
  return impl_->options.marks ? impl_->marks.probe(impl_->options.ranges.mark_table())
                              : Result<void>{};
}

Result<KernelState> NetlinkKernel::read() {
  Impl& k = *impl_;
  KernelState state;
  auto done =
      k.read_links(state)
          .and_then([&] { return k.read_objects(state); })
          .and_then([&] {
            return k.read_routes(state, {}, [&](const KernelRoute& r) { return k.interesting(r); });
          })
          .and_then([&] {
            return k.dump(RTM_GETNEIGH, ndmsg{}, state.inconsistent, parse_neighbour,
                          state.neighbours, [](const Neighbour&) { return true; });
          })
          .and_then([&] { return k.read_settings(state); });
  if (!done)
    return tl::unexpected(done.error());
  return state;
}

Result<KernelState> NetlinkKernel::read_ours() {
  Impl& k = *impl_;
  KernelState state;
  rtmsg routes{};
  routes.rtm_protocol = k.options.ranges.protocol;
  auto done = k.read_objects(state).and_then([&] {
    return k.read_routes(state, routes, [&](const KernelRoute& r) { return k.concerns_us(r); });
  });
  if (!done)
    return tl::unexpected(done.error());
  return state;
}

Result<std::vector<ActionFailure>> NetlinkKernel::apply(std::span<const Action> actions) {
  std::vector<ActionFailure> failures;
  for (std::size_t begin = 0; begin < actions.size();) {
    std::size_t count = 1;
    Result<void> done;
    if (const auto* const change = std::get_if<ChangeMarks>(&actions[begin])) {
      done = impl_->apply_marks(*change, begin, failures);
    } else {
      while (begin + count < actions.size() && count < kActionsAtOnce &&
             !std::holds_alternative<ChangeMarks>(actions[begin + count]))
        ++count;
      done = impl_->apply_routing(actions.subspan(begin, count), begin, failures);
    }
    if (!done)
      return tl::unexpected(done.error());
    begin += count;
  }
  return failures;
}

Result<std::vector<LookupAnswer>> NetlinkKernel::look_up(std::span<const Lookup> lookups) {
  std::vector<LookupAnswer> answers(lookups.size(), LookupAnswer{.error = ENODATA});
  for (std::size_t begin = 0; begin < lookups.size(); begin += kLookupsAtOnce) {
    const std::size_t count = std::min(kLookupsAtOnce, lookups.size() - begin);
    Batch batch = impl_->requests.batch();
    for (const Lookup& lookup : lookups.subspan(begin, count))
      append_lookup(batch, lookup);
    const std::uint32_t first = batch.last_sequence() - static_cast<std::uint32_t>(count) + 1;
    const auto done = impl_->requests.exchange(batch, [&](const nlmsghdr& message) {
      LookupAnswer& answer = answers[begin + (message.nlmsg_seq - first)];
      if (const auto refused = parse_answer(message)) {
        answer.error = refused->error;
      } else if (const auto route = parse_route(message)) {
        answer = {.error = 0, .table = route->table, .next_hop_id = route->next_hop_id};
      }
    });
    if (!done)
      return tl::unexpected(done.error());
  }
  return answers;
}

void NetlinkKernel::resolve(std::uint32_t ifindex, const IpAddress& address) {
  Batch batch = impl_->requests.batch();
  append_resolve(batch, ifindex, address);
  batch.acknowledge_last();
  // Whether it worked is told by the neighbour's own notification.
  (void)impl_->requests.exchange(batch, [](const nlmsghdr&) {});
}

Result<std::vector<PortStatus>> NetlinkKernel::ports() {
  KernelState state;
  std::vector<LinkCounters> counters;
  bool inconsistent = false;
  if_stats_msg head{};
  head.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64);
  const auto done = impl_->read_links(state).and_then([&] {
    return impl_->dump(RTM_GETSTATS, head, inconsistent, parse_counters, counters,
                       [](const LinkCounters&) { return true; });
  });
  if (!done)
    return tl::unexpected(done.error());
  std::map<std::uint32_t, LinkCounters> by_index;
  for (const LinkCounters& c : counters)
    by_index[c.ifindex] = c;
  std::vector<PortStatus> ports;
  for (const Link& link : state.links) {
    // A link that came or went between the two dumps has no counters: not seen, hence not zero.
    const auto found = by_index.find(link.index);
    if (found != by_index.end())
      ports.push_back({.name = link.name,
                       .carrier = link.up && link.carrier,
                       .tx_bytes = found->second.tx_bytes,
                       .rx_bytes = found->second.rx_bytes});
  }
  return ports;
}

}  // namespace heddle
