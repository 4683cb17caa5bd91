// Route netlink for the laboratory: links, addresses, next hops, routes, rules and queues, queued
// as raw messages and sent in one batch. It shares no code with the agent's netlink on purpose:
// what the agent did is checked by other eyes. One thread at a time; the socket stays in the
// namespace it was opened in.
#pragma once

#include <linux/rtnetlink.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/netns.h"

namespace heddle::lab {

enum class Write : std::uint8_t { create, replace };

struct RouteSpec {
  Prefix destination;
  // Either a nexthop object, or a device with a gateway or without one.
  std::uint32_t nexthop_id{};
  std::optional<IpAddress> gateway{};
  std::string device{};
  std::uint32_t table{RT_TABLE_MAIN};
  std::uint8_t protocol{RTPROT_BGP};
  std::uint32_t metric{};
};

struct RuleSpec {
  std::string in_port{};  // empty: any
  std::uint32_t table{RT_TABLE_MAIN};
  std::uint32_t priority{};
  std::uint8_t protocol{};
  bool operator==(const RuleSpec&) const = default;
};

// What a dump of the kernel's tables holds.
struct RouteSeen {
  Prefix destination;
  std::uint32_t table{};
  std::uint8_t protocol{};
  std::uint32_t nexthop_id{};
  int out_index{};  // 0 where the kernel names none
  bool operator==(const RouteSeen&) const = default;
};
struct NexthopSeen {
  std::uint32_t id{};
  std::uint8_t protocol{};
  int out_index{};
  std::optional<IpAddress> gateway;
  std::vector<std::uint32_t> members;  // of a group
  std::vector<IpAddress> segments{};   // that packets are wrapped with, as they are visited
  bool operator==(const NexthopSeen&) const = default;
};
struct LinkSeen {
  std::string name;
  int index{};
  bool up{};
  bool carrier{};
  std::uint64_t tx_bytes{};
  std::uint64_t rx_bytes{};
  std::uint64_t tx_dropped{};
};

class Netlink {
 public:
  static Result<Netlink> open(const NetNamespace& where);
  Netlink(Netlink&& other) noexcept;
  Netlink& operator=(Netlink&& other) noexcept;
  ~Netlink();

  // Queued until commit(). Names of interfaces are looked up at once, except those of veths queued
  // here. Both ends are created down; `peer` may be this object.
  void add_veth(std::string_view name, Netlink& peer, std::string_view peer_name, int mtu = 1500);
  void add_bridge(std::string_view name);
  void set_master(std::string_view port, std::string_view bridge);
  void set_up(std::string_view name, bool up = true);
  void set_mtu(std::string_view name, int mtu);
  void delete_link(std::string_view name);
  void add_address(std::string_view name, const IpAddress& address, int prefix_length);
  // Makes the kernel ask for a neighbour's address now, as a routing protocol's own packets would
  // have done.
  void resolve(std::string_view device, const IpAddress& neighbour);
  void set_nexthop(std::uint32_t id, const IpAddress& gateway, std::string_view device,
                   Write write = Write::replace, std::uint8_t protocol = RTPROT_BGP);
  void set_group(std::uint32_t id, std::span<const std::uint32_t> members,
                 Write write = Write::replace, std::uint8_t protocol = RTPROT_BGP);
  void delete_nexthop(std::uint32_t id);
  void add_route(const RouteSpec& route, Write write = Write::replace);
  void delete_route(const RouteSpec& route);
  void add_rule(const RuleSpec& rule, Family family = Family::v4);
  void delete_rule(const RuleSpec& rule, Family family = Family::v4);
  // Token bucket; `limit` and `burst` in bytes.
  void add_tbf(std::string_view name, Rate rate, std::uint32_t burst, std::uint32_t limit);
  // Inside a tbf: packets wait in one of three bands by their type of service; those that want low
  // delay go first.
  void add_priority_bands(std::string_view name);
  void add_clsact(std::string_view name);
  void delete_root_qdisc(std::string_view name);

  // Sends what is queued in one message. All of it is tried; the first refusal comes back, with
  // what it was and the kernel's own words.
  Result<void> commit();

  // 0 if there is none of that name.
  int index_of(std::string_view name);
  Result<std::vector<RouteSeen>> routes(Family family = Family::v4);
  Result<std::vector<RuleSpec>> rules(Family family = Family::v4);
  Result<std::vector<NexthopSeen>> nexthops();
  Result<std::vector<LinkSeen>> links();

 private:
  class Message;
  Netlink() = default;
  Message begin(std::uint16_t type, std::uint16_t flags, std::string what);
  Result<void> dump(std::uint16_t type, std::span<const std::byte> header,
                    const std::function<void(const nlmsghdr&)>& each);
  Result<void> exchange(std::span<const std::byte> bytes, std::uint32_t last,
                        const std::function<void(const nlmsghdr&)>& each);

  int fd_{-1};
  int namespace_fd_{-1};
  std::uint32_t sequence_{0};
  std::uint32_t first_queued_{1};
  std::vector<std::byte> queue_;
  std::size_t last_offset_{0};
  std::vector<std::string> queued_what_;
  std::map<std::string, int, std::less<>> index_;
};

}  // namespace heddle::lab
