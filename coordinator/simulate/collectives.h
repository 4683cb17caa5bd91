// The communication of collectives, as groups of rounds over a job's flows. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "coordinator/simulate/workload.h"

namespace heddle::sim {

// Adds communication to one job. Flows between the same NICs are made once. Each call adds one
// group to the last step, and `first_phase` says where its phases begin: groups that run at the
// same time share them.
class CollectiveBuilder {
 public:
  explicit CollectiveBuilder(SimJob& job) : job_(job) {}

  // Ring all-reduce of `bytes` held by each member: 2 (n - 1) rounds in which everyone sends bytes
  // / n to the next. One phase. Returns the phases used, as do the others; fewer than two members
  // need none.
  std::uint32_t ring(std::span<const NicId> members, double bytes, std::uint32_t first_phase);
  // The same with the number of bytes that one member sends in one round given.
  std::uint32_t ring_of_parts(std::span<const NicId> members, double bytes_in_round,
                              std::uint32_t first_phase);
  // Rabenseifner's all-reduce: partners at distance n/2, n/4 ... 1 exchange bytes / 2, bytes / 4
  // ..., and the same back: log2(n) phases. Of n = 2^k + r members the first r of every other pair
  // hand all their bytes to the other of the pair before, and get the result after: two phases
  // more (as MPICH does it).
  std::uint32_t halving_doubling(std::span<const NicId> members, double bytes,
                                 std::uint32_t first_phase);
  // Everyone sends bytes / n to everyone else at once. One phase.
  std::uint32_t all_to_all(std::span<const NicId> members, double bytes, std::uint32_t first_phase);
  // Every member sends `bytes` of each of the microbatches to the next; all stages are busy at
  // once. One phase.
  std::uint32_t pipeline(std::span<const NicId> stages, double bytes, std::uint32_t microbatches,
                         std::uint32_t first_phase);

 private:
  std::uint32_t flow(NicId source, NicId destination);
  void add(Group group);

  SimJob& job_;
  std::map<std::pair<NicId, NicId>, std::uint32_t> flows_;
};

}  // namespace heddle::sim
