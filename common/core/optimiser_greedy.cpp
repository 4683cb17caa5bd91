#include "common/core/optimiser_counts.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

class Greedy final : public Optimiser {
 public:
  std::string_view name() const override { return "greedy"; }

  Placement place(const Problem& problem, std::uint64_t) const override {
    const Model model(problem);
    return model.place(greedy_choices(model));
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_greedy() {
  return std::make_unique<Greedy>();
}

}  // namespace heddle
