#include "common/core/heddle_session.h"

#include <limits>
#include <utility>

#include "common/core/optimiser_colouring.h"

namespace heddle {
namespace {

// Items to inspect for one event, beyond which the rest stays as it is.
constexpr std::int64_t kEffort = 400'000;

Problem without_present(Problem problem) {
  if (problem.fixed.empty())
    problem.current.clear();
  problem.max_moves = std::numeric_limits<std::uint32_t>::max();
  return problem;
}

}  // namespace

HeddleSession::HeddleSession(Problem problem, const std::vector<bool>& running)
    : problem_(without_present(std::move(problem))),
      model_(problem_),
      evaluator_(*problem_.topology, *problem_.links, problem_.demand, problem_.residual),
      bounds_(find_bounds(model_, evaluator_)),
      state_(model_, evaluator_, {}),
      improver_(state_, {.effort = kEffort, .max_moves = problem_.max_moves}) {
  for (std::uint32_t j = 0; j < running.size(); ++j)
    if (!running[j])
      for (const std::uint32_t item : state_.items_of({j}))
        state_.stop(item);
  improver_.prepare();
  seen_.assign(state_.items(), 0);
  place_running();
}

void HeddleSession::place_running() {
  std::vector<std::uint32_t> units;
  for (std::uint32_t u = 0; u < state_.units(); ++u)
    if (state_.active(u))
      units.push_back(u);
  std::vector<Model::Choice> choices(state_.units());
  colour_some(model_, units, choices);
  for (const std::uint32_t u : units)
    state_.move(u, choices[u]);
  improver_.judge();
  improver_.run(bounds_.by_job);
}

std::vector<std::uint32_t> HeddleSession::start(JobId job) {
  const auto items = state_.items_of(job);
  for (const std::uint32_t item : items)
    state_.start(item);
  state_.forget_journal();
  if (!improver_.arrive(job, bounds_.by_job)) {
    std::vector<std::uint32_t> units(items.begin(), items.end());
    std::erase_if(units, [this](std::uint32_t item) { return item >= state_.units(); });
    improver_.place_new(units);
    improver_.run(bounds_.by_job, improver_.assess(items));
  }

  ++event_;
  for (const std::uint32_t item : items)
    seen_[item] = event_;
  std::vector<std::uint32_t> subflows;
  state_.for_each_moved(0, [&](std::uint32_t item, const Model::Choice& first) {
    // The first move of an item tells where it was.
    if (std::exchange(seen_[item], event_) != event_ && !(state_.choice(item) == first))
      subflows.push_back(model_.members(model_.units()[item]).front());
  });
  return subflows;
}

void HeddleSession::stop(JobId job) {
  for (const std::uint32_t item : state_.items_of(job))
    state_.stop(item);
  improver_.assess(state_.items_of(job));
}

Routing HeddleSession::routing() const {
  std::vector<Model::Choice> choices(state_.units());
  for (std::uint32_t u = 0; u < state_.units(); ++u)
    if (state_.active(u))
      choices[u] = state_.choice(u);
  return model_.routing(choices);
}

}  // namespace heddle
