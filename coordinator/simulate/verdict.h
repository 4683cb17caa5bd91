// How the schemes of a sweep compare, cell by cell and epoch by epoch. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/simulate/cell.h"

namespace heddle::sim {

struct Verdict {
  std::string scheme{};
  std::uint64_t cells{};
  std::uint64_t cells_at_bound{};
  std::uint64_t epochs{};
  std::uint64_t epochs_at_bound{};
  double least_percent{100.0};  // of the bound, over cells and epochs
  // Where another scheme's ascending vector of efficiencies is lexicographically above this one's.
  // Epochs are compared where both schemes met the same jobs communicating over the same
  // links; the worst of this one's with the best of the other's.
  std::uint64_t cells_below{};
  std::uint64_t epochs_below{};
  std::vector<std::string> below{};  // the first few, for people
};

// In the order of the schemes in the rows. Rows of "ilp" that are not proven are left out of the
// comparisons.
std::vector<Verdict> judge(const std::vector<Row>& rows);

// What carrying each flow by several queue pairs gains: the worst-off job's efficiency over the
// same with one, in the cells that the sweep has with both.
struct Gain {
  std::string scheme{};
  std::uint32_t qps{};
  std::uint64_t cells{};
  double least{};
  double mean{};
  double most{};
};
std::vector<Gain> gains(const std::vector<Row>& rows);

// "5 jobs, 8 spines down, seed 3".
std::string describe(const Coordinates& at);

}  // namespace heddle::sim
