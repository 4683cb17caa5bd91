// The kernel's messages as values. Every length is checked before it is believed: a message that is
// cut off, lies about its size or nests nonsense yields nothing (safety rule 10). Pure; any thread.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "agent/program/route_kernel.h"

namespace heddle {

using MessageVisitor = std::function<void(const nlmsghdr&)>;

// Each whole message of a datagram, in order; stops where the rest does not hold one. `bytes`
// begins at an address that is a multiple of four.
void for_each_message(std::span<const std::byte> bytes, const MessageVisitor& visit);

std::optional<Link> parse_link(const nlmsghdr& message);
std::optional<KernelNextHop> parse_next_hop(const nlmsghdr& message);
std::optional<KernelRoute> parse_route(const nlmsghdr& message);  // no cache entries
std::optional<KernelRule> parse_rule(const nlmsghdr& message);
std::optional<Neighbour> parse_neighbour(const nlmsghdr& message);

// Of one interface, or of "all", whose reverse-path filter holds for every interface.
struct NetworkSettings {
  std::int32_t ifindex{};  // NETCONFA_IFINDEX_ALL for "all"
  int reverse_path{};
  bool ignore_routes_with_linkdown{};
  bool forwards{};
  Family family{};
};
std::optional<NetworkSettings> parse_settings(const nlmsghdr& message);

struct LinkCounters {
  std::uint32_t ifindex{};
  std::uint64_t tx_bytes{};
  std::uint64_t rx_bytes{};
};
std::optional<LinkCounters> parse_counters(const nlmsghdr& message);

// What NLMSG_ERROR says: 0 is an acknowledgement.
struct Answer {
  int error{};          // errno
  std::string message;  // the kernel's words where it gives any
};
std::optional<Answer> parse_answer(const nlmsghdr& message);

// A notification as an event; nothing if it is of no interest here.
std::optional<KernelEvent> parse_event(const nlmsghdr& message);

}  // namespace heddle
