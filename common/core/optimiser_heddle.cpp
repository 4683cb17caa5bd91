// The heddle scheme: start from what runs, or else from the exact colouring; raise jobs from the
// worst off upwards; keep the better of what was found, by the metric itself.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "common/core/bounds.h"
#include "common/core/heddle_improve.h"
#include "common/core/heddle_polish.h"
#include "common/core/optimiser_colouring.h"
#include "common/core/optimiser_counts.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

constexpr double kEqual = 1e-9;
// Items to inspect, at all and for each unit: what keeps 2,048 units below 10 ms and 16,384 below
// 60 ms.
constexpr std::int64_t kEffort = 200'000;
constexpr std::int64_t kEffortForEach = 65;
// A start from what runs gets this part: 2,048 units stay below 2 ms.
constexpr std::int64_t kPartForRepair = 18;
// What runs is worth a repair if jobs have this of what each could have, in the mean, or this of
// what they would have where a fresh start begins. (One dead link leaves more, hashing half.)
constexpr double kGoodOfBound = 0.7;
constexpr double kGoodOfFresh = 0.9;

std::int64_t budget(std::size_t units) {
  return kEffort + kEffortForEach * static_cast<std::int64_t>(units);
}

class Solver {
 public:
  explicit Solver(const Problem& problem)
      : problem_(problem),
        evaluator_(*problem.topology, *problem.links, problem.demand, problem.residual),
        model_(problem) {}

  Placement solve() {
    find_groups();
    std::size_t running = 0;
    std::vector<Model::Choice> choices;
    choices.reserve(model_.units().size());
    for (const Model::Unit& unit : model_.units()) {
      choices.push_back(model_.current(unit));
      running += choices.back().placed() ? 1 : 0;
    }
    const bool free_to_move = problem_.max_moves >= choices.size();
    const bool warm = running > 0 && (2 * running >= choices.size() || !free_to_move);
    if (!warm)
      start_afresh(choices);
    bool optimal = everybody_has_enough(choices) || improve(choices, warm);
    if (warm && !optimal && free_to_move && !good_start_)
      optimal = try_afresh(choices);
    place_lighter_phases(choices);
    if (!optimal && !warm)
      take_better_of_others(choices);
    if (!optimal)
      polish(model_, evaluator_, problem_.max_moves, choices);
    Placement placement = model_.place(choices);
    placement.proven = optimal && groups_.size() == 1;
    return placement;
  }

 private:
  // Units that run at the same time: those of the jobs' heaviest phases, and those of each lighter
  // phase of a job, which meet only the former. A unit is in the first group that it has a part in.
  struct Group {
    PlacementState::Layer layer;
    std::vector<std::uint32_t> units;
  };

  void find_groups() {
    groups_.assign(1, {});
    std::map<std::pair<JobId, std::uint32_t>, std::size_t> group_of;
    for (std::uint32_t u = 0; u < model_.units().size(); ++u) {
      const auto members = model_.members(model_.units()[u]);
      if (std::ranges::any_of(members, [this](std::uint32_t s) {
            const FlowDemand& flow = model_.demand_of(s);
            return flow.phase == evaluator_.heaviest_phase(flow.job);
          })) {
        groups_.front().units.push_back(u);
        continue;
      }
      const FlowDemand& flow = model_.demand_of(members.front());
      const auto [found, is_new] = group_of.try_emplace({flow.job, flow.phase}, groups_.size());
      if (is_new)
        groups_.push_back({.layer = {.job = flow.job, .phase = flow.phase}, .units = {}});
      groups_[found->second].units.push_back(u);
    }
  }

  // The exact colouring; or, where dead links or uneven bundles leave it no colouring, one by one
  // by capacity, if that is better for the worst off.
  void start_afresh(std::vector<Model::Choice>& choices) {
    std::ranges::fill(choices, Model::Choice{});
    bool served = true;
    for (const Group& group : groups_)
      served = colour_some(model_, group.units, choices) && served;
    if (served)
      return;
    std::vector<Model::Choice> by_capacity(choices.size());
    if (standing(by_capacity) > standing(choices))
      choices = std::move(by_capacity);
  }

  // Places what is nowhere, and tells the jobs' efficiencies by equal shares, ascending.
  std::vector<double> standing(std::vector<Model::Choice>& choices) {
    PlacementState state(model_, evaluator_, {});
    load(state, choices);
    Improver improver(state, {});
    improver.place_new(largest_sets_first(model_));
    improver.judge();
    unload(state, choices);
    std::vector<double> standing(improver.efficiencies().begin(), improver.efficiencies().end());
    std::ranges::sort(standing);
    return standing;
  }

  static void load(PlacementState& state, const std::vector<Model::Choice>& choices) {
    for (std::uint32_t u = 0; u < state.units(); ++u)
      if (choices[u].placed())
        state.move(u, choices[u]);
    state.forget_journal();
  }
  static void unload(const PlacementState& state, std::vector<Model::Choice>& choices) {
    for (std::uint32_t u = 0; u < state.units(); ++u)
      choices[u] = state.choice(u);
  }

  // Whether every subflow gets what it needs, by its links' equal shares: the usual case, told
  // without any search.
  bool everybody_has_enough(const std::vector<Model::Choice>& choices) const {
    if (!no_fixed())
      return false;
    std::vector<std::uint32_t> counts(model_.resources().size(), 0);
    for (std::uint32_t u = 0; u < choices.size(); ++u) {
      if (!choices[u].placed())
        return false;
      for (const ResourceId r : {model_.uplink(choices[u].up), model_.downlinks(choices[u])})
        counts[r.value] += model_.units()[u].size();
    }
    const auto share = [&](ResourceId r) {
      return model_.resources()[r.value].capacity * (1.0 + kEqual) / counts[r.value];
    };
    for (std::uint32_t u = 0; u < choices.size(); ++u) {
      const double least =
          std::min(share(model_.uplink(choices[u].up)), share(model_.downlinks(choices[u])));
      for (const std::uint32_t s : model_.members(model_.units()[u]))
        if (evaluator_.needed_rate(model_.flow_of(s)) > least * model_.demand_of(s).subflows)
          return false;
    }
    return true;
  }

  bool no_fixed() const { return std::ranges::find(problem_.fixed, true) == problem_.fixed.end(); }

  // Between what the worst-off job is, as if all units ran at once and nobody else. On each link
  // somebody gets no more than the equal share, and nobody less.
  struct Range {
    double least{1.0};
    double most{1.0};
  };
  Range worst_job(const std::vector<Model::Choice>& choices) const {
    struct Load {
      std::uint32_t count{};
      double most_needed{};
      double least_needed{std::numeric_limits<double>::infinity()};
    };
    std::vector<Load> loads(model_.resources().size());
    for (std::uint32_t u = 0; u < choices.size(); ++u)
      for (const std::uint32_t s : model_.members(model_.units()[u])) {
        const double need =
            evaluator_.needed_rate(model_.flow_of(s)) / model_.demand_of(s).subflows;
        for (const ResourceId r : {model_.uplink(choices[u].up), model_.downlinks(choices[u])}) {
          Load& load = loads[r.value];
          ++load.count;
          load.most_needed = std::max(load.most_needed, need);
          load.least_needed = std::min(load.least_needed, need);
        }
      }
    Range range;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      if (loads[r].count == 0)
        continue;
      const double share = model_.resources()[r].capacity / loads[r].count;
      range.least = std::min(range.least, share / loads[r].most_needed);
      range.most = std::min(range.most, share / loads[r].least_needed);
    }
    return range;
  }

  // Whether every job ends at its bound.
  bool improve(std::vector<Model::Choice>& choices, bool warm) {
    PlacementState state(model_, evaluator_, {});
    load(state, choices);
    Improver improver(state, {.effort = budget(choices.size()), .max_moves = problem_.max_moves});
    improver.place_new(groups_.front().units);
    improver.judge();
    state.forget_journal();
    const auto below = [&](std::span<const double> most) {
      for (std::size_t j = 0; j < most.size(); ++j)
        if (improver.efficiencies()[j] < most[j] * (1.0 - kEqual))
          return true;
      return false;
    };
    if (!below(std::vector<double>(state.jobs(), 1.0))) {
      unload(state, choices);
      return true;
    }
    good_start_ = warm && good_start(improver.efficiencies());
    // Where all leaves are alike the bound can be reached, and effort goes on until it is.
    if (good_start_ && !improver.leaves_alike())
      improver.allow(budget(choices.size()) / kPartForRepair);
    if (improver.run(bounds().by_job) && warm)
      improver.undo_needless();
    unload(state, choices);
    return !below(bounds().by_job);
  }

  const Bounds& bounds() {
    if (!bounds_)
      bounds_ = find_bounds(model_, evaluator_);
    return *bounds_;
  }

  bool good_start(std::span<const double> efficiencies) {
    const auto n = static_cast<double>(efficiencies.size());
    double mean = 0.0, mean_of_bound = 0.0;
    for (std::size_t j = 0; j < efficiencies.size(); ++j) {
      mean += efficiencies[j] / n;
      const double most = bounds().by_job[j];
      mean_of_bound += (most > 0.0 ? efficiencies[j] / most : 1.0) / n;
    }
    if (mean_of_bound >= kGoodOfBound)
      return true;
    std::vector<Model::Choice> fresh(model_.units().size());
    start_afresh(fresh);
    const std::vector<double> by_fresh = standing(fresh);
    return mean >= kGoodOfFresh * std::accumulate(by_fresh.begin(), by_fresh.end(), 0.0) / n;
  }

  // From what runs there may be no way up in small steps. Where moves are free, a fresh start shows
  // it.
  bool try_afresh(std::vector<Model::Choice>& choices) {
    std::vector<Model::Choice> fresh(choices.size());
    start_afresh(fresh);
    const bool optimal = improve(fresh, false);
    if (compare(evaluator_.evaluate(model_.routing(fresh)),
                evaluator_.evaluate(model_.routing(choices))) > 0) {
      choices = std::move(fresh);
      return optimal;
    }
    return false;
  }

  // The search goes by equal shares, which are less than what water-filling gives; by the metric
  // itself, another scheme's placement may be ahead of what it found.
  void take_better_of_others(std::vector<Model::Choice>& choices) {
    const bool comparable = groups_.size() == 1 && no_fixed();
    std::optional<Efficiency> best;
    for (std::vector<Model::Choice> other :
         {greedy_choices(model_), colour_units(model_).choices}) {
      if (comparable && worst_job(other).most < worst_job(choices).least - kEqual)
        continue;
      if (!best)
        best = evaluator_.evaluate(model_.routing(choices));
      Efficiency reached = evaluator_.evaluate(model_.routing(other));
      if (compare(reached, *best) <= 0)
        continue;
      best = std::move(reached);
      choices = std::move(other);
    }
  }

  // Each in turn, with all that is placed already staying where it is.
  void place_lighter_phases(std::vector<Model::Choice>& choices) {
    std::vector<bool> settled(choices.size(), false);
    for (const Group& group : groups_) {
      if (&group != &groups_.front()) {
        PlacementState state(model_, evaluator_, group.layer);
        load(state, choices);
        for (std::uint32_t u = 0; u < state.units(); ++u)
          if (settled[u])
            state.pin_down(u);
        const std::vector<double> limits(state.jobs(), 1.0);
        Improver improver(state,
                          {.effort = budget(group.units.size()), .max_moves = problem_.max_moves});
        improver.place_new(group.units);
        improver.judge();
        improver.run_only(group.layer.job, limits);
        for (const std::uint32_t u : group.units)
          choices[u] = state.choice(u);
      }
      for (const std::uint32_t u : group.units)
        settled[u] = true;
    }
  }

  const Problem& problem_;
  // In this order the memory that the one needs for a while is free again before the other is made.
  Evaluator evaluator_;
  Model model_;
  std::optional<Bounds> bounds_;
  std::vector<Group> groups_;
  bool good_start_{};  // what runs is worth a repair
};

class Heddle final : public Optimiser {
 public:
  std::string_view name() const override { return "heddle"; }
  Placement place(const Problem& problem, std::uint64_t) const override {
    return Solver(problem).solve();
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_heddle() {
  return std::make_unique<Heddle>();
}

}  // namespace heddle
