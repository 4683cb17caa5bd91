// How many subflows each link carries while units are placed one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/core/optimiser_model.h"

namespace heddle {

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
