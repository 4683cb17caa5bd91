#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "common/core/optimiser_model.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

constexpr double kHottest = 1000.0;
constexpr double kColdest = 0.1;
constexpr double kCooling = 0.99;
constexpr std::uint32_t kStepsEach = 10;

// All units to one NIC. They share a spine where they can; a unit that cannot use the group's spine
// uses the next one that it can.
struct Group {
  std::vector<std::uint32_t> units;
  std::uint32_t leaf{};
  std::uint32_t spine{};
};

class Annealing {
 public:
  explicit Annealing(const Model& model, std::uint64_t seed)
      : model_(model), random_(seed), choices_(model.units().size()) {
    for (const Model::Resource& resource : model.resources())
      counts_.push_back(resource.fixed);
    for (const std::uint32_t count : counts_)
      bump(count, +1);
    group_units();
  }

  std::vector<Model::Choice> run() {
    const auto spines = static_cast<std::uint32_t>(model_.topology().spines().size());
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
      put(groups_[g], g % spines);
    std::vector<Model::Choice> best = choices_;
    std::uint64_t least = energy(), now = least;
    for (double heat = kHottest; heat > kColdest && !swaps_.empty(); heat *= kCooling) {
      for (std::uint32_t step = 0; step < kStepsEach; ++step) {
        const auto& leaf = swaps_[random_() % swaps_.size()];
        Group& a = groups_[leaf[random_() % leaf.size()]];
        Group& b = groups_[leaf[random_() % leaf.size()]];
        const std::uint32_t of_a = a.spine, of_b = b.spine;
        put(a, of_b);
        put(b, of_a);
        const std::uint64_t then = energy();
        const double worse = static_cast<double>(then) - static_cast<double>(now);
        if (worse > 0.0 && uniform() >= std::exp(-worse / heat)) {
          put(a, of_a);
          put(b, of_b);
          continue;
        }
        now = then;
        if (now < least) {
          least = now;
          best = choices_;
        }
      }
    }
    return best;
  }

 private:
  void group_units() {
    std::map<std::uint32_t, std::uint32_t> group_of;  // by destination NIC
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_leaf;
    const auto units = model_.units();
    for (std::uint32_t u = 0; u < units.size(); ++u) {
      const FlowDemand& flow = model_.demand_of(model_.members(units[u]).front());
      const auto [found, is_new] =
          group_of.try_emplace(flow.destination.value, static_cast<std::uint32_t>(groups_.size()));
      if (is_new) {
        const std::uint32_t leaf = model_.ways()[units[u].first_way].to_leaf.value;
        groups_.push_back({.units = {}, .leaf = leaf});
        by_leaf[leaf].push_back(found->second);
      }
      groups_[found->second].units.push_back(u);
    }
    for (auto& [leaf, groups] : by_leaf)
      if (groups.size() > 1)
        swaps_.push_back(std::move(groups));
  }

  void put(Group& group, std::uint32_t spine) {
    group.spine = spine;
    const auto spines = static_cast<std::uint32_t>(model_.topology().spines().size());
    for (const std::uint32_t u : group.units) {
      const Model::Unit& unit = model_.units()[u];
      Model::Choice found;
      std::uint32_t nearest = spines;
      model_.for_each_choice(unit, [&](const Model::Choice& choice, ResourceId, ResourceId) {
        const std::uint32_t own = model_.spine_of(choice.up).value;
        const std::uint32_t distance = (own + spines - spine) % spines;
        if (distance < nearest) {
          nearest = distance;
          found = choice;
        }
      });
      count(choices_[u], unit, -1);
      choices_[u] = found;
      count(found, unit, +1);
    }
  }

  void count(const Model::Choice& choice, const Model::Unit& unit, int sign) {
    if (!choice.placed())
      return;
    for (const ResourceId r : {model_.uplink(choice.up), model_.downlinks(choice)}) {
      std::uint32_t& subflows = counts_[r.value];
      bump(subflows, -1);
      subflows += static_cast<std::uint32_t>(sign) * unit.size();
      bump(subflows, +1);
    }
  }

  void bump(std::uint32_t subflows, int sign) {
    if (links_with_.size() <= subflows)
      links_with_.resize(subflows + 1, 0);
    links_with_[subflows] += static_cast<std::uint32_t>(sign);
  }

  // The flows on the links that carry the most. Weighing the maximum itself keeps a lower one
  // always better.
  std::uint64_t energy() {
    while (links_with_.size() > 1 && links_with_.back() == 0)
      links_with_.pop_back();
    return std::uint64_t{links_with_.back()} * (links_with_.size() - 1) +
           (links_with_.size() - 1) * std::uint64_t{counts_.size()};
  }

  // In [0, 1), the same on every machine.
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  const Model& model_;
  std::mt19937_64 random_;
  std::vector<Model::Choice> choices_;
  std::vector<std::uint32_t> counts_;      // subflows by resource
  std::vector<std::uint32_t> links_with_;  // resources by their count
  std::vector<Group> groups_;
  std::vector<std::vector<std::uint32_t>>
      swaps_;  // by leaf with two destinations or more: its groups
};

class AnnealingScheme final : public Optimiser {
 public:
  std::string_view name() const override { return "annealing"; }

  Placement place(const Problem& problem, std::uint64_t seed) const override {
    const Model model(problem);
    return model.place(Annealing(model, seed).run());
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_annealing() {
  return std::make_unique<AnnealingScheme>();
}

}  // namespace heddle
