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
  // down". A host has a say about the links behind its own ports where its NIC has several: a link
  // is up as long as neither end says otherwise. Spines have none: their leaves tell.
  std::vector<std::string> set_ports(const std::string& node, std::span<const PortStatus> ports);
  std::vector<std::string> set_withdrawn(const std::string& node,
                                         const std::vector<Withdrawal>& withdrawn);
  // Counters count towards rates only when a report says how long the interval was.
  void count(const std::string& node, const Report& report);

  const LinkState& state() const { return state_; }
  // Sorted.
  const std::vector<Forbidden>& forbidden() const { return forbidden_; }
  // Attachments by which a host that has several does not reach these destinations.
  std::set<std::pair<AttachmentId, NicId>> unreached() const;
  // Nothing if the link's leaf end was not reported twice in a row (safety rule 7).
  std::optional<Rate> rate(LinkId link) const { return rates_[link.value]; }

 private:
  struct Counter {
    std::uint64_t tx{};
    std::uint64_t rx{};
    std::uint64_t report{};
    Time read;  // of the sender
  };

  const std::vector<LeafId>& leaves_behind(const Prefix& prefix);
  void rebuild_forbidden();

  const Topology& topology_;
  std::optional<std::string> tell(LinkState& by, LinkId first, LinkId second, bool up);

  LinkState by_leaf_;
  LinkState by_host_;
  LinkState state_;  // both
  std::vector<std::optional<Rate>> rates_;
  std::map<std::pair<LeafId, std::string>, Counter> counters_;
  std::map<NodeId, std::set<Withdrawal>> withdrawn_;  // by leaf and by host
  std::map<Prefix, std::vector<LeafId>> leaves_behind_;
  std::vector<Forbidden> forbidden_;
};

}  // namespace heddle
