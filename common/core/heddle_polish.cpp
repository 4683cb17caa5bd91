#include "common/core/heddle_polish.h"

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

namespace heddle {
namespace {

// Subflows to evaluate in all, and how many evaluations make a search worth while.
constexpr std::size_t kEffort = 40'000;
constexpr std::size_t kFewest = 100;
constexpr double kEqual = 1e-9;

struct Score {
  Efficiency efficiency;
  double flows{};  // how near the flows are to what they need: breaks ties on the way, never at the
                   // end
};

class Polisher {
 public:
  Polisher(const Model& model, Evaluator& evaluator, std::uint32_t max_moves,
           std::size_t evaluations)
      : model_(model), evaluator_(evaluator), max_moves_(max_moves), left_(evaluations) {
    for (const Model::Unit& unit : model.units()) {
      current_.push_back(model.current(unit));
      options_.emplace_back();
      model.for_each_choice(unit, [&](const Model::Choice& choice, ResourceId, ResourceId) {
        options_.back().push_back(choice);
      });
    }
  }

  void run(std::vector<Model::Choice>& choices) {
    max_moves_ = std::max(max_moves_, away(choices));
    const Score before = score(choices);
    std::vector<Model::Choice> best = choices;
    Score best_score = before;
    climb(best, best_score);
    while (left_ > 0) {
      std::vector<Model::Choice> other = best;
      for (int i = 0; i < 3; ++i) {
        const std::size_t u = random_() % other.size();
        other[u] = options_[u][random_() % options_[u].size()];
      }
      if (away(other) > max_moves_) {
        --left_;
        continue;
      }
      Score other_score = score(other);
      climb(other, other_score);
      if (better(other_score, best_score)) {
        best = std::move(other);
        best_score = std::move(other_score);
      }
    }
    if (compare(best_score.efficiency, before.efficiency) <= 0)
      return;
    put_back(best, best_score);
    choices = std::move(best);
  }

 private:
  std::uint32_t away(const std::vector<Model::Choice>& choices) const {
    std::uint32_t n = 0;
    for (std::size_t u = 0; u < choices.size(); ++u)
      n += current_[u].placed() && !(current_[u] == choices[u]) ? 1 : 0;
    return n;
  }

  Score score(const std::vector<Model::Choice>& choices) {
    left_ -= left_ > 0 ? 1 : 0;
    Score result{.efficiency = evaluator_.evaluate(model_.routing(choices))};
    for (std::uint32_t s = 0; s < result.efficiency.subflow_rates.size(); ++s) {
      const std::uint32_t flow = model_.flow_of(s);
      const double need = evaluator_.needed_rate(flow) / model_.demand_of(s).subflows;
      if (need > 0.0)
        result.flows += std::min(1.0, result.efficiency.subflow_rates[s].bits_per_second / need);
    }
    return result;
  }

  static bool better(const Score& a, const Score& b) {
    const int order = compare(a.efficiency, b.efficiency);
    return order > 0 || (order == 0 && a.flows > b.flows + kEqual);
  }

  // Takes the change if it is better.
  bool try_change(std::vector<Model::Choice>& choices, Score& at,
                  std::initializer_list<std::pair<std::size_t, Model::Choice>> changes) {
    std::vector<Model::Choice> changed = choices;
    for (const auto& [unit, choice] : changes)
      changed[unit] = choice;
    if (changed == choices || away(changed) > max_moves_)
      return false;
    Score then = score(changed);
    if (!better(then, at))
      return false;
    choices = std::move(changed);
    at = std::move(then);
    return true;
  }

  void climb(std::vector<Model::Choice>& choices, Score& at) {
    for (bool again = true; again && left_ > 0;) {
      again = false;
      for (std::size_t u = 0; u < choices.size() && left_ > 0; ++u)
        for (const Model::Choice& option : options_[u])
          again |= try_change(choices, at, {{u, option}});
      if (again)
        continue;
      for (std::size_t u = 0; u < choices.size() && left_ > 0; ++u)
        for (std::size_t v = u + 1; v < choices.size() && left_ > 0; ++v)
          again |= try_swap(choices, at, u, v);
    }
  }

  // Each to the other's spine, if both can.
  bool try_swap(std::vector<Model::Choice>& choices, Score& at, std::size_t u, std::size_t v) {
    const auto to_spine_of = [&](std::size_t from, std::size_t to) {
      const SpineId spine = model_.spine_of(choices[to].up);
      return std::ranges::find_if(options_[from], [&](const Model::Choice& choice) {
        return model_.spine_of(choice.up) == spine;
      });
    };
    const auto a = to_spine_of(u, v), b = to_spine_of(v, u);
    if (a == options_[u].end() || b == options_[v].end())
      return false;
    return try_change(choices, at, {{u, *a}, {v, *b}});
  }

  void put_back(std::vector<Model::Choice>& choices, Score& at) {
    for (std::size_t u = 0; u < choices.size(); ++u) {
      if (!current_[u].placed() || current_[u] == choices[u])
        continue;
      const Model::Choice was = std::exchange(choices[u], current_[u]);
      Score then = score(choices);
      if (compare(then.efficiency, at.efficiency) >= 0)
        at = std::move(then);
      else
        choices[u] = was;
    }
  }

  const Model& model_;
  Evaluator& evaluator_;
  std::uint32_t max_moves_;
  std::size_t left_;
  std::mt19937_64 random_{1};  // the same always: the search needs variety, not chance
  std::vector<Model::Choice> current_;
  std::vector<std::vector<Model::Choice>> options_;
};

}  // namespace

void polish(const Model& model, Evaluator& evaluator, std::uint32_t max_moves,
            std::vector<Model::Choice>& choices) {
  const std::size_t subflows = model.subflows();
  if (choices.empty() || kEffort / subflows < kFewest)
    return;
  Polisher(model, evaluator, max_moves, kEffort / subflows).run(choices);
}

}  // namespace heddle
