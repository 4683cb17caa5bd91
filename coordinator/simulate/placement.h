// Which NICs a job gets. The rules are those that clusters have; the choice is by seed. Single
// threaded; one NicPool lives as long as a workload is being made.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/core/ids.h"
#include "common/core/topology.h"
#include "coordinator/simulate/random.h"

namespace heddle::sim {

enum class Placement : std::uint8_t {
  // Rebuilt from the paper's simulator: a random leaf; all of it while the job needs that many NICs
  // or more,
  // else a slice of it.
  slices,
  random,  // every NIC anywhere
  packed,  // leaf after leaf, no gap
  // The n-th NIC of a machine of eight is on the n-th leaf of a group of eight leaves.
  rail,
};

std::optional<Placement> placement_named(std::string_view name);

class NicPool {
 public:
  explicit NicPool(const Topology& topology);

  // `count` free NICs, in the order in which the job numbers them; nothing, and no NIC taken, if it
  // cannot be done.
  std::optional<std::vector<NicId>> take(std::uint32_t count, Placement rule, Random& random);
  std::uint32_t free() const { return free_; }

 private:
  bool take_slices(std::uint32_t count, Random& random, std::vector<NicId>& taken) const;
  std::vector<NicId> free_in(std::uint32_t leaf, const std::vector<NicId>& taken) const;
  std::vector<NicId> all_free() const;
  std::vector<NicId> by_rail() const;

  std::vector<std::vector<NicId>> leaves_;  // the NICs of each leaf, by their first attachment
  std::vector<bool> used_;
  std::uint32_t free_{};
};

}  // namespace heddle::sim
