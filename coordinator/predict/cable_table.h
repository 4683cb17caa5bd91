// What the agents hear from the other ends of their cables, compared with the fabric file: which
// cables are where the file says, which are missing, which are there and not in the file, which
// were swapped, and which ports run at another speed. What no agent hears of is unverified, which
// is neither right nor wrong (safety rule 7).
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/topology.h"

namespace heddle {

// One end of a cable, in the fabric file's words where it knows the node.
struct CableEnd {
  std::string node;
  std::string port;
  auto operator<=>(const CableEnd&) const = default;  // NOLINT(modernize-use-nullptr)
};

enum class CableFault : std::uint8_t {
  missing,  // an end of a cable of the file hears nobody, or somebody else
  extra,    // two nodes of the file are cabled where the file has no cable
  swapped,  // two cables of the file each end where the other should
  speed,    // a port runs at another speed than the file says
};

struct CableDifference {
  CableFault fault{};
  CableEnd at;
  CableEnd expected;  // the other end by the file; empty names: none
  CableEnd found;     // by what is heard; empty names: nobody
  // Of a swap: the other cable's end at the same side, which hears what `at` should.
  CableEnd other;
  Rate expected_speed;
  Rate found_speed;
  bool no_carrier{};  // of a missing one: the port is down
  bool operator==(const CableDifference&) const = default;
};

// Two nodes with more than one cable between them.
struct ParallelCables {
  std::string leaf;
  std::string spine;
  std::uint32_t expected{};
  std::uint32_t found{};  // of the leaf's ends, those that lead to this spine
  bool operator==(const ParallelCables&) const = default;
};

struct CableCheck {
  std::uint32_t expected{};
  std::uint32_t verified{};
  std::vector<std::pair<CableEnd, CableEnd>> unverified;
  std::vector<CableDifference> differences;  // sorted by kind and place
  std::vector<ParallelCables> parallel;
};

class CableTable {
 public:
  // Each takes the whole state of a node.
  void set_ports(const std::string& node, const std::vector<PortStatus>& ports);
  void set_neighbours(const std::string& node,
                      const std::optional<std::vector<LldpNeighbour>>& neighbours);
  // The node is not heard any more: what it said may not be so now.
  void forget(const std::string& node) { nodes_.erase(node); }
  // Whether this node tells of its neighbours.
  bool hears(const std::string& node) const;

  CableCheck check(const Topology& topology) const;

 private:
  struct Port {
    bool carrier{};
    Rate speed;
  };
  struct Node {
    std::map<std::string, Port> ports;
    std::optional<std::vector<LldpNeighbour>> neighbours;
  };
  class Check;

  std::map<std::string, Node> nodes_;
};

}  // namespace heddle
