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
    counts_.reserve(model.resources().size());
    busy_.reserve(model.resources().size());
    for (const Model::Resource& resource : model.resources()) {
      counts_.push_back(resource.fixed);
      busy_.push_back(static_cast<double>(resource.fixed) / std::max(1U, resource.lanes));
    }
  }

  void add(const Model::Choice& choice, std::uint32_t subflows) {
    for (const ResourceId r : {model_.uplink(choice.up), model_.downlinks(choice)}) {
      counts_[r.value] += subflows;
      busy_[r.value] = static_cast<double>(counts_[r.value]) / model_.resources()[r.value].lanes;
    }
  }

  // The choice whose busier link is least busy, the first of equals. Parallel cables are as busy as
  // they are in the mean.
  Model::Choice least_busy(const Model::Unit& unit) const {
    Model::Choice best;
    double least = std::numeric_limits<double>::infinity();
    model_.for_each_choice(unit, [&](const Model::Choice& choice, ResourceId up, ResourceId down) {
      const double busy = std::max(busy_[up.value], busy_[down.value]);
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
  std::vector<double> busy_;           // by resource: subflows on each of its cables
};

// What the greedy scheme makes of the units: the largest set first, each where it is least busy.
inline std::vector<Model::Choice> greedy_choices(const Model& model) {
  std::vector<Model::Choice> choices(model.units().size());
  LinkCounts counts(model);
  for (const std::uint32_t u : largest_sets_first(model)) {
    choices[u] = counts.least_busy(model.units()[u]);
    counts.add(choices[u], model.units()[u].size());
  }
  return choices;
}

}  // namespace heddle
