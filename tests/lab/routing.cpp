#include "tests/lab/routing.h"

#include <fmt/format.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace heddle::lab {
namespace {

// The neighbour first, so that the first packet over a new next hop finds it resolved.
void add_uplink(const FabricSpec& spec, Netlink& leaf_net, Netlink& spine_net, int leaf,
                int spine) {
  const std::string up = fmt::format("up{}", spine);
  const std::string down = fmt::format("d{}", leaf);
  leaf_net.resolve(up, downlink_address(leaf, spine));
  leaf_net.set_nexthop(nexthop_of(spine), downlink_address(leaf, spine), up);
  spine_net.resolve(down, uplink_address(leaf, spine));
  spine_net.add_route(
      {.destination = leaf_prefix(leaf), .gateway = uplink_address(leaf, spine), .device = down});
  if (!spec.segments)
    return;
  leaf_net.resolve(up, underlay_downlink_address(leaf, spine));
  leaf_net.set_nexthop(underlay_nexthop_of(spine), underlay_downlink_address(leaf, spine), up);
  leaf_net.add_route(
      {.destination = spine_segments(spine), .nexthop_id = underlay_nexthop_of(spine)});
  spine_net.resolve(down, underlay_uplink_address(leaf, spine));
  spine_net.add_route({.destination = leaf_segments(leaf),
                       .gateway = underlay_uplink_address(leaf, spine),
                       .device = down});
}

void set_group_route(const FabricSpec& spec, Netlink& net, int remote,
                     const std::vector<std::uint32_t>& members) {
  net.set_group(group_of(remote), members);
  net.add_route({.destination = leaf_prefix(remote), .nexthop_id = group_of(remote)});
  if (!spec.segments)
    return;
  std::vector<std::uint32_t> underlay;
  for (const std::uint32_t member : members)
    underlay.push_back(underlay_nexthop_of(static_cast<int>(member)));
  net.set_group(underlay_group_of(remote), underlay);
  net.add_route({.destination = leaf_segments(remote), .nexthop_id = underlay_group_of(remote)});
}

// The way of a host to the segments of a spine, which its leaf announces while it has it.
RouteSpec way_to_spine(int leaf, int host, int spine) {
  return {.destination = spine_segments(spine),
          .gateway = underlay_port_address(leaf, host),
          .device = "eth0"};
}

void add_host_underlay(const FabricSpec& spec, Netlink& leaf_net, Netlink& host_net, int leaf,
                       int host) {
  leaf_net.resolve(fmt::format("p{}", host), underlay_host_address(leaf, host));
  leaf_net.add_route({.destination = host_segments(leaf, host),
                      .gateway = underlay_host_address(leaf, host),
                      .device = fmt::format("p{}", host)});
  host_net.resolve("eth0", underlay_port_address(leaf, host));
  for (int spine = 1; spine <= spec.spines; ++spine)
    host_net.add_route(way_to_spine(leaf, host, spine));
  for (int remote = 1; remote <= spec.leaves; ++remote)
    host_net.add_route({.destination = leaf_segments(remote),
                        .gateway = underlay_port_address(leaf, host),
                        .device = "eth0"});
}

}  // namespace

Time boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

void run_before_others() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), -10);
}

std::uint32_t nexthop_of(int spine) {
  return static_cast<std::uint32_t>(spine);
}
std::uint32_t group_of(int leaf) {
  return static_cast<std::uint32_t>(100 + leaf);
}
std::uint32_t underlay_nexthop_of(int spine) {
  return static_cast<std::uint32_t>(200 + spine);
}
std::uint32_t underlay_group_of(int leaf) {
  return static_cast<std::uint32_t>(300 + leaf);
}

Result<void> program_routes(Fabric& fabric) {
  const FabricSpec& spec = fabric.spec();
  std::vector<std::uint32_t> all;
  for (int spine = 1; spine <= spec.spines; ++spine)
    all.push_back(nexthop_of(spine));
  for (int leaf = 1; leaf <= spec.leaves; ++leaf) {
    Netlink& net = fabric.netlink(NodeName::leaf(leaf));
    for (int spine = 1; spine <= spec.spines; ++spine)
      add_uplink(spec, net, fabric.netlink(NodeName::spine(spine)), leaf, spine);
    for (int remote = 1; remote <= spec.leaves; ++remote)
      if (remote != leaf)
        set_group_route(spec, net, remote, all);
    for (int host = 1; host <= spec.hosts; ++host)
      net.resolve(fmt::format("p{}", host), host_address(leaf, host));
    if (auto done = net.commit(); !done)
      return done;
    for (int host = 1; host <= spec.hosts; ++host) {
      Netlink& host_net = fabric.netlink(NodeName::host(leaf, host));
      host_net.add_route({.destination = {IpAddress::v4(0, 0, 0, 0), 0},
                          .gateway = leaf_port_address(leaf, host),
                          .device = "eth0",
                          .protocol = RTPROT_STATIC});
      host_net.resolve("eth0", leaf_port_address(leaf, host));
      if (spec.segments)
        add_host_underlay(spec, net, host_net, leaf, host);
      if (auto done = host_net.commit(); !done)
        return done;
    }
    if (auto done = net.commit(); !done)
      return done;
  }
  for (int spine = 1; spine <= spec.spines; ++spine)
    if (auto done = fabric.netlink(NodeName::spine(spine)).commit(); !done)
      return done;
  return {};
}

Routing::Routing(const FabricSpec& spec, Duration delay)
    : spec_(spec), delay_(delay), carrier_(spec), offered_(spec), nexthop_(spec) {}

Result<std::unique_ptr<Routing>> Routing::start(Fabric& fabric, Duration delay) {
  const FabricSpec& spec = fabric.spec();
  std::unique_ptr<Routing> routing(new Routing(spec, delay));
  routing->stop_ = ::eventfd(0, EFD_CLOEXEC);
  for (int leaf = 1; leaf <= spec.leaves; ++leaf) {
    const NetNamespace& space = fabric.space(NodeName::leaf(leaf));
    auto net = Netlink::open(space);
    if (!net)
      return tl::unexpected(net.error());
    auto monitor = space.socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (!monitor)
      return tl::unexpected(monitor.error());
    routing->monitors_.push_back(*monitor);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (::bind(*monitor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return fail(Errc::kernel, "subscribing to links");
    std::vector<int> indices;
    for (int spine = 1; spine <= spec.spines; ++spine) {
      indices.push_back(net->index_of(fmt::format("up{}", spine)));
      // A fabric that another process cut before: begin with what is.
      if (!fabric.cable_up(leaf, spine)) {
        routing->carrier_.set(leaf, spine, false);
        routing->nexthop_.set(leaf, spine, false);
        routing->offered_.set(leaf, spine, false);
      }
    }
    routing->uplink_index_.push_back(std::move(indices));
    routing->leaf_nets_.push_back(std::move(*net));
    auto& hosts = routing->host_nets_.emplace_back();
    for (int host = 1; host <= spec.hosts && spec.segments; ++host) {
      auto host_net = Netlink::open(fabric.space(NodeName::host(leaf, host)));
      if (!host_net)
        return tl::unexpected(host_net.error());
      hosts.push_back(std::move(*host_net));
    }
  }
  for (int spine = 1; spine <= spec.spines; ++spine) {
    auto net = Netlink::open(fabric.space(NodeName::spine(spine)));
    if (!net)
      return tl::unexpected(net.error());
    routing->spine_nets_.push_back(std::move(*net));
  }
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    for (int remote = 1; remote <= spec.leaves; ++remote)
      routing->members_.push_back(routing->wanted_members(leaf, remote));
  routing->thread_ = std::thread([raw = routing.get()] { raw->run(); });
  return routing;
}

Routing::~Routing() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one))
      thread_.join();
  }
  for (const int monitor : monitors_)
    ::close(monitor);
  if (stop_ >= 0)
    ::close(stop_);
}

std::vector<RoutingEvent> Routing::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

Result<RoutingEvent> Routing::await(RoutingEvent::Kind kind, int count, Time since,
                                    Duration patience) const {
  std::unique_lock lock(mutex_);
  RoutingEvent found;
  const bool came = news_.wait_for(lock, patience, [&] {
    int seen = 0;
    for (const RoutingEvent& event : events_) {
      if (event.kind != kind || event.at < since || ++seen < count)
        continue;
      found = event;
      return true;
    }
    return false;
  });
  if (!came)
    return fail(Errc::timeout, "routing has not got there");
  return found;
}

std::vector<std::string> Routing::complaints() const {
  const std::lock_guard lock(mutex_);
  return complaints_;
}

void Routing::note(RoutingEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  news_.notify_all();
}

void Routing::complain(const Result<void>& result) {
  if (result)
    return;
  const std::lock_guard lock(mutex_);
  complaints_.push_back(result.error().message);
}

void Routing::run() {
  run_before_others();
  std::vector<pollfd> watched{{.fd = stop_, .events = POLLIN, .revents = 0}};
  for (const int monitor : monitors_)
    watched.push_back({.fd = monitor, .events = POLLIN, .revents = 0});
  while (true) {
    timespec wait{};
    if (!pending_.empty()) {
      const Duration left = std::max(Duration::zero(), pending_.front().due - boot_now());
      wait.tv_sec = left / std::chrono::seconds(1);
      wait.tv_nsec = (left % std::chrono::seconds(1)).count();
    }
    ::ppoll(watched.data(), watched.size(), pending_.empty() ? nullptr : &wait, nullptr);
    if (watched[0].revents != 0)
      return;
    for (std::size_t i = 0; i < monitors_.size(); ++i)
      if (watched[i + 1].revents != 0)
        read_carrier(static_cast<int>(i) + 1);
    while (!pending_.empty() && pending_.front().due <= boot_now()) {
      const Pending change = pending_.front();
      pending_.erase(pending_.begin());
      apply(change);
    }
  }
}

void Routing::read_carrier(int leaf) {
  const auto at = static_cast<std::size_t>(leaf - 1);
  alignas(nlmsghdr) std::array<char, 1 << 15> buffer;
  while (true) {
    const ssize_t got = ::recv(monitors_[at], buffer.data(), buffer.size(), 0);
    if (got <= 0)
      return;
    auto left = static_cast<unsigned int>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != RTM_NEWLINK)
        continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
      const auto& indices = uplink_index_[at];
      const auto found = std::find(indices.begin(), indices.end(), link->ifi_index);
      if (found == indices.end())
        continue;
      const int spine = static_cast<int>(found - indices.begin()) + 1;
      const bool up = (link->ifi_flags & (IFF_UP | IFF_LOWER_UP)) == (IFF_UP | IFF_LOWER_UP);
      if (up == carrier_.up(leaf, spine))
        continue;
      carrier_.set(leaf, spine, up);
      if (!up) {  // the kernel has removed the next hop, from the groups too
        nexthop_.set(leaf, spine, false);
        for (int remote = 1; remote <= spec_.leaves; ++remote)
          std::erase(members(leaf, remote), nexthop_of(spine));
      }
      const Time now = boot_now();
      note(
          {now, up ? RoutingEvent::Kind::cable_back : RoutingEvent::Kind::cable_lost, leaf, spine});
      pending_.push_back({.due = now + delay_, .leaf = leaf, .spine = spine, .up = up});
    }
  }
}

void Routing::apply(const Pending& change) {
  // The cable may have changed again; then the later entry speaks.
  if (change.up && !carrier_.up(change.leaf, change.spine))
    return;
  offered_.set(change.leaf, change.spine, change.up);
  Netlink& own = leaf_nets_[static_cast<std::size_t>(change.leaf - 1)];
  if (change.up) {
    Netlink& spine_net = spine_nets_[static_cast<std::size_t>(change.spine - 1)];
    add_uplink(spec_, own, spine_net, change.leaf, change.spine);
    nexthop_.set(change.leaf, change.spine, true);
    complain(spine_net.commit());
    for (int remote = 1; remote <= spec_.leaves; ++remote)
      if (remote != change.leaf)
        update_group(change.leaf, remote);
    complain(own.commit());
  }
  tell_hosts(change);
  for (int other = 1; other <= spec_.leaves; ++other) {
    if (other == change.leaf)
      continue;
    update_group(other, change.leaf);
    complain(leaf_nets_[static_cast<std::size_t>(other - 1)].commit());
  }
  if (spec_.segments && !change.up)
    repair_underlay(change);
  note({boot_now(), change.up ? RoutingEvent::Kind::restored : RoutingEvent::Kind::withdrawn,
        change.leaf, change.spine});
}

// The underlay knows all its links, as a link-state protocol does: a spine that has lost its cable
// to a leaf sends what is on its way there by another leaf, which no longer sends it back.
void Routing::repair_underlay(const Pending& change) {
  for (int other = 1; other <= spec_.leaves; ++other) {
    if (other == change.leaf || !carrier_.up(other, change.spine) ||
        wanted_members(other, change.leaf).empty())
      continue;
    Netlink& net = spine_nets_[static_cast<std::size_t>(change.spine - 1)];
    net.add_route({.destination = leaf_segments(change.leaf),
                   .gateway = underlay_uplink_address(other, change.spine),
                   .device = fmt::format("d{}", other)});
    complain(net.commit());
    return;
  }
}

// Leaves announce to their hosts which spines' segments they reach.
void Routing::tell_hosts(const Pending& change) {
  std::vector<Netlink>& hosts = host_nets_[static_cast<std::size_t>(change.leaf - 1)];
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const RouteSpec way = way_to_spine(change.leaf, static_cast<int>(i) + 1, change.spine);
    if (change.up)
      hosts[i].add_route(way);
    else
      hosts[i].delete_route(way);
    complain(hosts[i].commit());
  }
}

std::vector<std::uint32_t>& Routing::members(int leaf, int remote) {
  return members_[static_cast<std::size_t>((leaf - 1) * spec_.leaves + remote - 1)];
}

std::vector<std::uint32_t> Routing::wanted_members(int leaf, int remote) const {
  std::vector<std::uint32_t> wanted;
  for (int spine = 1; spine <= spec_.spines; ++spine)
    if (nexthop_.up(leaf, spine) && offered_.up(remote, spine))
      wanted.push_back(nexthop_of(spine));
  return wanted;
}

void Routing::update_group(int leaf, int remote) {
  // An unchanged group is left alone: a replacement would be news to everybody who watches.
  std::vector<std::uint32_t> wanted = wanted_members(leaf, remote);
  std::vector<std::uint32_t>& present = members(leaf, remote);
  if (wanted == present)
    return;
  Netlink& net = leaf_nets_[static_cast<std::size_t>(leaf - 1)];
  if (!wanted.empty()) {
    set_group_route(spec_, net, remote, wanted);
  } else {
    net.delete_nexthop(group_of(remote));  // its route goes with it
    if (spec_.segments)
      net.delete_nexthop(underlay_group_of(remote));
  }
  present = std::move(wanted);
}

}  // namespace heddle::lab
