#include "common/core/optimiser_model.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

class Ecmp final : public Optimiser {
 public:
  std::string_view name() const override { return "ecmp"; }

  Placement place(const Problem& problem, std::uint64_t seed) const override {
    const Model model(problem);
    Routing routing = model.base();
    std::vector<Model::Choice> choices;
    for (const Model::Unit& unit : model.units()) {
      choices.clear();
      model.for_each_choice(
          unit, [&](const Model::Choice& c, ResourceId, ResourceId) { choices.push_back(c); });
      for (const std::uint32_t s : model.members(unit)) {
        // Queue pairs of one flow differ in their UDP source port, so each has a hash of its own.
        const FlowDemand& demand = model.demand_of(s);
        std::uint64_t hash = mix(seed);
        for (const std::uint32_t part :
             {demand.source.value, demand.destination.value, model.queue_pair_of(s)})
          hash = mix(hash ^ part);
        routing[s] = model.path(unit, s, choices[hash % choices.size()]);
      }
    }
    return model.place(std::move(routing));
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_ecmp() {
  return std::make_unique<Ecmp>();
}

}  // namespace heddle
