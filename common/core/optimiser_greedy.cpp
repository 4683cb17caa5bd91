#include <algorithm>

#include "common/core/optimiser_counts.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

class Greedy final : public Optimiser {
 public:
  std::string_view name() const override { return "greedy"; }

  Placement place(const Problem& problem, std::uint64_t) const override {
    const Model model(problem);
    // All outgoing sets stand before all incoming ones, by leaf, so that a stable sort breaks ties
    // as the rule wants.
    const auto leaves = static_cast<std::uint32_t>(model.topology().leaves().size());
    std::vector<std::vector<std::uint32_t>> sets(std::size_t{2} * leaves);
    const auto units = model.units();
    for (std::uint32_t u = 0; u < units.size(); ++u) {
      const Model::Way& way = model.ways()[units[u].first_way];
      sets[way.from_leaf.value].push_back(u);
      sets[leaves + way.to_leaf.value].push_back(u);
    }
    std::ranges::stable_sort(sets, std::greater{}, &std::vector<std::uint32_t>::size);

    std::vector<Model::Choice> choices(units.size());
    LinkCounts counts(model);
    for (const auto& set : sets) {
      for (const std::uint32_t u : set) {
        if (choices[u].placed())
          continue;
        choices[u] = counts.least_busy(units[u]);
        counts.add(choices[u], units[u].size());
      }
    }
    return model.place(choices);
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_greedy() {
  return std::make_unique<Greedy>();
}

}  // namespace heddle
