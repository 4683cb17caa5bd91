// Draining a spine, a cable, a leaf or a rack before maintenance: pins keep away from its cables,
// and counters tell when it is empty. What is not steered by heddle (mice, flows of racks that are
// off) cannot be moved by it, and is named.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/optimiser.h"
#include "common/core/result.h"
#include "common/core/topology.h"

namespace heddle {

struct DrainTarget {
  std::string kind;  // "spine", "leaf", "cable", "rack"
  std::string name;  // of a cable, its uplink's: "leaf1-spine2", "leaf1-spine2#2"
  bool operator==(const DrainTarget&) const = default;
};

struct DrainOrder {
  DrainTarget target;
  WallTime since;
  bool operator==(const DrainOrder&) const = default;
};

struct DrainScope {
  std::set<CableId> cables;
  std::set<LeafId> leaves;    // whose own hosts' traffic goes on whatever way it takes
  std::vector<LinkId> links;  // all that must be empty
};

// Errc::not_found, Errc::invalid_argument.
Result<DrainScope> scope_of(const Topology& topology, const DrainTarget& target);

// Where no pin may lead, sorted: over none of the cables, nor by a spine that would have to use
// one. A pair of leaves that would be left without any way keeps all of its ways.
std::vector<Forbidden> keep_away_from(const Topology& topology, const std::set<CableId>& cables);

}  // namespace heddle
