// What the node's own routing (`main`, its next hops, links and neighbours) offers at this moment:
// loaded from a full read, kept up by notifications. It decides nothing. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/program/route_kernel.h"
#include "common/core/messages.h"

namespace heddle {

// Shell patterns, as in a configuration: "up*".
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

class MainView {
 public:
  explicit MainView(std::vector<std::string> uplinks) : uplink_patterns_(std::move(uplinks)) {}

  void load(const KernelState& state);

  // What an event meant for us.
  enum class Effect : std::uint8_t {
    none,
    changed,    // something may be offered, resolved or missing now that was not, or the other way
                // round
    read_again  // the kernel changes more on this occasion than it says
  };
  Effect apply(const LinkEvent& event);
  Effect apply(const RouteEvent& event);
  Effect apply(const NextHopEvent& event);
  Effect apply(const NeighbourEvent& event);

  const Link* link(std::string_view name) const;
  const Link* link(std::uint32_t ifindex) const;
  const std::map<std::uint32_t, Link>& links() const { return links_; }
  bool is_uplink(std::uint32_t ifindex) const { return uplinks_.contains(ifindex); }

  // The hop by which `main` offers `destination` through this interface now: longest prefix, then
  // least metric, among routes with a hop whose link has carrier.
  std::optional<Hop> offer(const IpAddress& destination, std::uint32_t ifindex) const;
  // The address that `main` gives to what this node sends to a destination without choosing one;
  // nothing if it leaves that to the way.
  std::optional<IpAddress> source_for(const IpAddress& destination) const;
  // The interface by which `main` reaches an address; nothing if it does not, or by several.
  std::optional<std::uint32_t> way_to(const IpAddress& address) const;
  // The interfaces by which `main` reaches any address of a network, now or when they have carrier.
  std::set<std::uint32_t> ways_into(const Prefix& network) const;
  Resolution resolution(std::uint32_t ifindex, const IpAddress& gateway) const;
  const InterfaceSettings* settings(std::uint32_t ifindex) const;

  // This node's own address on the network of a port; nothing if `main` has none on it.
  std::optional<IpAddress> own_address(std::uint32_t ifindex, Family family) const;
  // An address behind a port, to ask the kernel for the way of a packet from there; nothing if
  // `main` has no network on it.
  std::optional<IpAddress> neighbour_address(std::uint32_t ifindex,
                                             Family family = Family::v4) const;

  // Uplinks that take part in a multipath route of the old kind, which goes on using a hop without
  // carrier unless ignore_routes_with_linkdown is set.
  std::set<std::uint32_t> legacy_multipath_uplinks(Family family = Family::v4) const;
  bool forwards_ipv6() const { return forwards_ipv6_; }

  // An uplink for which an ASIC forwards; nullptr: the kernel does so itself for all of them.
  const Link* uplink_of_asic() const;
  // Whether some route of `main` was shown as offloaded when everything was read.
  bool shows_offload() const { return shows_offload_; }

  // See LinkChange. Networks that several uplinks offer, or did since this object was made, and
  // each of `also`.
  std::vector<Withdrawal> withdrawn(const std::vector<IpAddress>& also);

 private:
  struct Entry {
    std::uint32_t metric{};
    std::uint32_t next_hop_id{};
    bool unicast{true};
    std::vector<Hop> hops;
    std::optional<IpAddress> source{};
    bool operator==(const Entry&) const = default;
  };
  using Entries = std::vector<Entry>;  // by metric; the kernel uses the first that has a live hop

  struct PrefixHash {
    std::size_t operator()(const Prefix& prefix) const noexcept {
      return std::hash<IpAddress>{}(prefix.address) * 37 + prefix.length;
    }
  };

  bool usable(const Hop& hop) const;
  template <class Visit>
  void for_each_hop(const Entry& entry, Visit visit) const;
  // The entry that the kernel would use for a destination, looking no further than `longest` bits.
  const Entry* find(const IpAddress& destination, std::uint8_t longest = 128) const;
  bool drops(const Entry& entry) const;
  const Entry* live(const Entries& entries) const;
  std::set<std::uint32_t> offering(const Entry* entry) const;
  Effect merge(const RouteEvent& event);
  void add(const KernelRoute& route, RouteEvent::Kind kind);
  void forget_network(const Prefix& network);
  void forget_routes_over(std::uint32_t next_hop_id);
  void index_links();

  std::vector<std::string> uplink_patterns_;
  std::map<std::uint32_t, Link> links_;
  std::set<std::uint32_t> uplinks_;
  std::unordered_map<std::uint32_t, KernelNextHop> next_hops_;
  std::unordered_map<Prefix, Entries, PrefixHash> routes_;
  // By family, longest first: the number of prefixes of a length.
  std::array<std::map<std::uint8_t, std::size_t, std::greater<>>, 2> lengths_;
  std::map<std::pair<std::uint32_t, Family>, std::pair<Prefix, IpAddress>>
      connected_;  // by port and family: network, own address
  std::map<std::pair<std::uint32_t, IpAddress>, Resolution> neighbours_;  // of uplinks
  std::map<std::uint32_t, InterfaceSettings> settings_;
  bool forwards_ipv6_{true};
  bool shows_offload_{};
  std::set<Prefix> shared_;  // networks that more than one uplink has offered
};

}  // namespace heddle
