// Placing units one by one: in which order, and how many subflows each link carries meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/core/optimiser_model.h"

namespace heddle {

// Units in the order of the greedy scheme: each leaf has the set of what leaves it and the set of
// what enters it; the largest set comes first, of equals outgoing before incoming, then by leaf.
// Each unit stands where it first occurs.
inline std::vector<std::uint32_t> largest_sets_first(const Model& model) {
  const auto leaves = static_cast<std::uint32_t>(model.topology().leaves().size());
  std::vector<std::vector<std::uint32_t>> sets(std::size_t{2} * leaves);
  const auto units = model.units();
  for (std::uint32_t u = 0; u < units.size(); ++u) {
    const Model::Way& way = model.ways()[units[u].first_way];
    sets[way.from_leaf.value].push_back(u);
    sets[leaves + way.to_leaf.value].push_back(u);
  }
  // All outgoing sets stand before all incoming ones, by leaf: a stable sort keeps that among
  // equals.
  std::ranges::stable_sort(sets, std::greater{}, &std::vector<std::uint32_t>::size);
  std::vector<std::uint32_t> order;
  order.reserve(units.size());
  std::vector<bool> seen(units.size(), false);
  for (const auto& set : sets)
    for (const std::uint32_t u : set)
      if (!seen[u]) {
        seen[u] = true;
        order.push_back(u);
      }
  return order;
}

class LinkCounts {
 public:
  explicit LinkCounts(const Model& model) : model_(model) {
    for (const Model::Resource& resource : model.resources())
      counts_.push_back(resource.fixed);
  }

  void add(const Model::Choice& choice, std::uint32_t subflows) {
    counts_[model_.uplink(choice.up).value] += subflows;
    counts_[model_.downlinks(choice).value] += subflows;
  }

  // The busier of the choice's two links; over parallel cables their mean.
  double busier(const Model::Choice& choice) const {
    const ResourceId down = model_.downlinks(choice);
    return std::max(
        static_cast<double>(counts_[model_.uplink(choice.up).value]),
        static_cast<double>(counts_[down.value]) / model_.resources()[down.value].lanes);
  }

  // The choice whose busier link is least busy, the first of equals.
  Model::Choice least_busy(const Model::Unit& unit) const {
    Model::Choice best;
    double least = std::numeric_limits<double>::infinity();
    model_.for_each_choice(unit, [&](const Model::Choice& choice, SpineId) {
      const double busy = busier(choice);
      if (busy < least) {
        least = busy;
        best = choice;
      }
    });
    return best;
  }

 private:
  const Model& model_;
  std::vector<std::uint32_t> counts_;  // by resource
};

}  // namespace heddle
