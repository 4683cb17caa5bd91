#include "common/core/optimiser_counts.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

class Greedy final : public Optimiser {
 public:
  std::string_view name() const override { return "greedy"; }

  Placement place(const Problem& problem, std::uint64_t) const override {
    const Model model(problem);
    std::vector<Model::Choice> choices(model.units().size());
    LinkCounts counts(model);
    for (const std::uint32_t u : largest_sets_first(model)) {
      choices[u] = counts.least_busy(model.units()[u]);
      counts.add(choices[u], model.units()[u].size());
    }
    return model.place(choices);
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_greedy() {
  return std::make_unique<Greedy>();
}

}  // namespace heddle
