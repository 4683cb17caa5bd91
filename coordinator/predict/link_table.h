// What the agents see of the links: carriers, counters, and which next hops routing has withdrawn.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/optimiser.h"
#include "common/core/topology.h"

namespace heddle {

class LinkTable {
 public:
  explicit LinkTable(const Topology& topology);

  // Each takes the whole state of a node and answers the names of what changed: "leaf1-spine2
  // down". Nodes that are no leaf have nothing to say about links.
  std::vector<std::string> set_ports(const std::string& node, std::span<const PortStatus> ports);
  std::vector<std::string> set_withdrawn(const std::string& node,
                                         const std::vector<Withdrawal>& withdrawn);
  // Counters count towards rates only when a report says how long the interval was.
  void count(const std::string& node, const Report& report);

  const LinkState& state() const { return state_; }
  // Sorted.
  const std::vector<Forbidden>& forbidden() const { return forbidden_; }
  // Nothing if the link's leaf end was not reported twice in a row (safety rule 7).
  std::optional<Rate> rate(LinkId link) const { return rates_[link.value]; }

 private:
  struct Counter {
    std::uint64_t tx{};
    std::uint64_t rx{};
    std::uint64_t report{};
  };

  const std::vector<LeafId>& leaves_behind(const Prefix& prefix);
  void rebuild_forbidden();

  const Topology& topology_;
  LinkState state_;
  std::vector<std::optional<Rate>> rates_;
  std::map<std::pair<LeafId, std::string>, Counter> counters_;
  std::map<LeafId, std::set<Withdrawal>> withdrawn_;
  std::map<Prefix, std::vector<LeafId>> leaves_behind_;
  std::vector<Forbidden> forbidden_;
};

}  // namespace heddle
