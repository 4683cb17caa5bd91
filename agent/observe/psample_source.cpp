#include "agent/observe/psample_source.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <linux/netlink.h>
#include <linux/psample.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "agent/observe/generic_family.h"
#include "agent/observe/psample_message.h"

namespace heddle {
namespace {

constexpr const char* kName = "psample";
constexpr std::size_t kLongestMessage = 64U << 10U;  // the kernel cuts the packet so that it fits
// A second of ten thousand samples, at what the kernel counts for each.
constexpr int kReceiveBuffer = 16 << 20;
constexpr int kMostAtOnce = 4096;

bool matches(const std::vector<std::string>& patterns, const char* name) {
  return std::ranges::any_of(patterns, [name](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name, 0) == 0;
  });
}

}  // namespace

SampleReceiver::SampleReceiver(SampledFlows& flows, std::uint32_t sender)
    : flows_(flows), sender_(sender), buffer_(kLongestMessage) {}

void SampleReceiver::drain(int fd, std::uint16_t type, Time now) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    sockaddr_nl from{};
    socklen_t length = sizeof(from);
    const ssize_t received =
        ::recvfrom(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC,
                   reinterpret_cast<sockaddr*>(&from), &length);
    if (received < 0) {
      if (errno == ENOBUFS)
        flows_.overrun();
      if (errno == ENOBUFS || errno == EINTR)
        continue;
      return;
    }
    if (length != sizeof(from) || from.nl_pid != sender_)
      continue;
    std::span<const std::byte> datagram(
        buffer_.data(), std::min<std::size_t>(static_cast<std::size_t>(received), buffer_.size()));
    if (tap_)
      tap_(datagram);
    while (datagram.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header{};
      std::memcpy(&header, datagram.data(), sizeof(header));
      if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > datagram.size())
        break;
      if (header.nlmsg_type == type)
        if (const std::optional<Sample> sample = parse_sample(datagram.first(header.nlmsg_len)))
          flows_.add(*sample, now);
      datagram =
          datagram.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size()));
    }
  }
}

PsampleSource::PsampleSource(std::vector<std::string> leaving, std::vector<std::string> entering)
    : leaving_(std::move(leaving)),
      entering_(std::move(entering)),
      receiver_(flows_, 0),
      fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC)) {
  // Without an address of its own a socket counts as the kernel itself, which hears none of its own
  // multicasts.
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  (void)::bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
  const int size = kReceiveBuffer;
  if (::setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
    (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  links_changed();
}

PsampleSource::~PsampleSource() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<void> PsampleSource::subscribe() {
  Result<GenericFamily> family = find_generic_family(PSAMPLE_GENL_NAME);
  if (!family) {
    type_ = 0;
    return tl::unexpected(family.error());
  }
  const auto group = family->groups.find(PSAMPLE_NL_MCGRP_SAMPLE_NAME);
  if (group == family->groups.end())
    return fail(Errc::unsupported, "the kernel's psample hands out no packets");
  if (type_ == family->id && group_ == group->second)
    return {};
  type_ = 0;
  if (::setsockopt(fd_, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group->second,
                   sizeof(group->second)) != 0)
    return fail(errno == EPERM ? Errc::permission : Errc::kernel, std::strerror(errno));
  type_ = family->id;
  group_ = group->second;
  return {};
}

SourceCapability PsampleSource::capability() {
  if (const Result<void> subscribed = subscribe(); !subscribed) {
    switch (subscribed.error().code) {
      case Errc::not_found:
        return {
            kName, false,
            "the kernel samples no packets; on a switch load the modules act_sample and psample "
            "and sample the uplinks: tc filter add dev UPLINK egress matchall action sample rate "
            "1000 group 7"};
      case Errc::permission:
        return {kName, false, "listening to samples takes CAP_NET_ADMIN"};
      default:
        return {kName, false, subscribed.error().message};
    }
  }
  if (flows_.samples() == 0)
    return {
        kName, true,
        "no packet was sampled yet; sample the uplinks: tc filter add dev UPLINK egress matchall "
        "action sample rate 1000 group 7"};
  return {kName, true, ""};
}

std::vector<SourceCapability> PsampleSource::probe() {
  return {capability()};
}

void PsampleSource::links_changed() {
  std::map<std::uint16_t, std::string> out;
  std::set<std::uint16_t> in;
  if (struct if_nameindex* const list = ::if_nameindex()) {
    for (const struct if_nameindex* i = list; i->if_index != 0; ++i) {
      const auto index = static_cast<std::uint16_t>(i->if_index);
      if (matches(leaving_, i->if_name))
        out[index] = i->if_name;
      if (matches(entering_, i->if_name))
        in.insert(index);
    }
    ::if_freenameindex(list);
  }
  flows_.watch(std::move(out), std::move(in));
}

void PsampleSource::ready(Time now) {
  receiver_.drain(fd_, type_, now);
}

Result<FlowReading> PsampleSource::read(Time now) {
  if (type_ == 0)
    return fail(Errc::unobservable, "psample is not listened to");
  ready(now);
  return flows_.read(now);
}

}  // namespace heddle
