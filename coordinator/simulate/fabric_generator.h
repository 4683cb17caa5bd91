// Makes regular leaf-spine fabrics, so that a sweep needs no fabric file. Pure; any thread.
#pragma once

#include <cstdint>

#include "common/core/result.h"
#include "common/core/topology.h"
#include "common/core/units.h"

namespace heddle::sim {

struct FabricSpec {
  std::uint32_t leaves{64};
  std::uint32_t nics_per_leaf{32};  // each on a host of its own
  std::uint32_t uplinks{32};        // of a leaf, if there were no oversubscription
  // 2: half the uplinks are left. The capacity of a link stays.
  double oversubscription{1.0};
  std::uint32_t bundle{1};  // parallel cables between a leaf and a spine; spines = uplinks / bundle
  double thin_bundles{0.0};  // the share of bundles that have one cable only
  Rate capacity{1e11};       // of every link
  std::uint64_t seed{1};     // says which bundles are thin
};

// Beyond these nothing is generated: some way above any fabric that there is, and still served.
inline constexpr std::uint32_t kMostLeaves = 4096;
inline constexpr std::uint32_t kMostPerLeaf = 1024;       // NICs, and uplinks
inline constexpr std::uint32_t kMostInFabric = 1U << 18;  // NICs, and cables

// Leaves "leaf1"..., spines "spine1"..., hosts "h<leaf>-<n>" with one NIC "eth0" on port "p<n>";
// NIC i of leaf l has the id l * nics_per_leaf + i, both from 0. Errc::invalid_argument where the
// numbers do not make a fabric.
Result<FabricDescription> describe_fabric(const FabricSpec& spec);
Result<Topology> generate_fabric(const FabricSpec& spec);

// What fails: whole spines, those with the highest ids first, and a share of all cables, both
// directions. The cables of a larger share include those of a smaller one with the same seed.
struct Failures {
  std::uint32_t spines{};
  double links{};
  std::uint64_t seed{1};
};
std::vector<CableId> failed_cables(const Topology& topology, const Failures& failures);

}  // namespace heddle::sim
