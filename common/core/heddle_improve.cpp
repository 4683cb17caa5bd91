#include "common/core/heddle_improve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {
namespace {

constexpr std::uint32_t kLongestExchange = 200;
// Items to inspect for one that has to be settled, before the attempt is given up.
constexpr std::int64_t kEffortForOne = 20'000;

}  // namespace

Improver::Improver(PlacementState& state, const Limits& limits)
    : state_(state),
      model_(state.model()),
      limits_(limits),
      effort_(limits.effort),
      floor_(state.jobs(), 0.0),
      prices_(state.model().resources().size()),
      settled_(state.items(), 0),
      shifted_(state.items(), 0),
      failures_(state.jobs()),
      hardest_(state.jobs(), PlacementState::kNone) {
  current_.reserve(state.units());
  for (std::uint32_t u = 0; u < state.units(); ++u) {
    current_.push_back(model_.current(model_.units()[u]));
    if (state.choice(u).placed() && away(u, state.choice(u)))
      ++moves_;
  }
  efficiency_.assign(state.jobs(), 1.0);
}

bool Improver::away(std::uint32_t item, const Model::Choice& choice) const {
  return current_[item].placed() && choice.placed() && !(choice == current_[item]);
}

void Improver::move(std::uint32_t item, const Model::Choice& to) {
  if (state_.choice(item).placed()) {
    moves_ -= away(item, state_.choice(item)) ? 1 : 0;
    const double own = price(item);
    for (const ResourceId r : {state_.up(item), state_.down(item)})
      if (own >= prices_[r.value].highest)
        forget_price(r);
  }
  moves_ += away(item, to) ? 1 : 0;
  state_.move(item, to);
  if (to.placed())
    raise_price(item);
}

// After the item has come, or asks for more.
void Improver::raise_price(std::uint32_t item) {
  const double own = price(item);
  for (const ResourceId r : {state_.up(item), state_.down(item)})
    prices_[r.value].highest = std::max(prices_[r.value].highest, own);
}

void Improver::roll_back(std::size_t mark) {
  state_.for_each_moved(mark, [this](std::uint32_t item, const Model::Choice& from) {
    forget_price(state_.up(item));
    forget_price(state_.down(item));
    if (!from.placed())
      return;
    forget_price(model_.uplink(from.up));
    forget_price(model_.downlinks(from));
  });
  state_.roll_back(mark);
}

double Improver::find_highest_price(ResourceId r) {
  Price known{.attempt = attempt_, .highest = 0.0};
  state_.any_on(r, [&](std::uint32_t item) {
    spend(1);
    known.highest = std::max(known.highest, price(item));
    return false;
  });
  prices_[r.value] = known;
  return known.highest;
}

void Improver::place_new(std::span<const std::uint32_t> order) {
  // By resource: what each would get if one more came. Most units are single subflows.
  std::vector<double> after(model_.resources().size());
  const auto share_after = [this](ResourceId r, std::uint32_t newcomers) {
    return state_.capacity(r) / (state_.count(r) + newcomers);
  };
  for (std::uint32_t r = 0; r < after.size(); ++r)
    after[r] = share_after({r}, 1);
  for (const std::uint32_t u : order) {
    if (state_.choice(u).placed() || !state_.active(u))
      continue;
    const std::uint32_t size = state_.size(u);
    Model::Choice best;
    double most = -1.0;
    model_.for_each_choice(
        model_.units()[u], [&](const Model::Choice& choice, ResourceId up, ResourceId down) {
          const double share = size == 1 ? std::min(after[up.value], after[down.value])
                                         : std::min(share_after(up, size), share_after(down, size));
          if (share > most) {
            most = share;
            best = choice;
          }
        });
    state_.move(u, best);
    for (const ResourceId r : {state_.up(u), state_.down(u)})
      after[r.value] = share_after(r, 1);
  }
}

void Improver::judge() {
  for (std::uint32_t j = 0; j < state_.jobs(); ++j)
    efficiency_[j] = state_.efficiency({j});
}

std::vector<std::uint32_t> Improver::assess(std::span<const std::uint32_t> items) {
  std::vector<bool> touched(state_.jobs(), false);
  const auto touch = [&](std::uint32_t item) {
    state_.for_each_job(item, [&](JobId job, double) { touched[job.value] = true; });
    return false;
  };
  for (const std::uint32_t item : items) {
    touch(item);
    state_.any_on(state_.up(item), touch);
    state_.any_on(state_.down(item), touch);
  }
  std::vector<std::uint32_t> jobs;
  for (std::uint32_t j = 0; j < touched.size(); ++j) {
    if (!touched[j])
      continue;
    jobs.push_back(j);
    efficiency_[j] = state_.efficiency({j});
  }
  effort_ = limits_.effort;
  ++changes_;
  return jobs;
}

bool Improver::run(std::span<const double> most) {
  std::vector<std::uint32_t> all(state_.jobs());
  std::iota(all.begin(), all.end(), 0U);
  return run(most, std::move(all));
}

bool Improver::run(std::span<const double> most, std::vector<std::uint32_t> jobs) {
  most_ = most;
  bool changed = false, again = true;
  while (again && effort_ > 0) {
    again = false;
    // Worst first; of equals the one with the least to place, so that the damage that must be ends
    // on few.
    std::ranges::stable_sort(jobs, [&](std::uint32_t a, std::uint32_t b) {
      if (std::abs(efficiency_[a] - efficiency_[b]) > kEqual)
        return efficiency_[a] < efficiency_[b];
      return state_.items_of({a}).size() < state_.items_of({b}).size();
    });
    for (const std::uint32_t job : jobs)
      if (raise({job}))
        again = changed = true;
  }
  return changed;
}

void Improver::run_only(JobId job, std::span<const double> most) {
  most_ = most;
  while (raise(job)) {
  }
}

// One level at a time, because what a higher one would take may be what others need to leave the
// lowest. Steps below a twentieth are skipped if they can be.
bool Improver::raise(JobId job) {
  const double now = efficiency_[job.value];
  const double limit = most_[job.value] * (1.0 - kEqual);
  Failure& failure = failures_[job.value];
  if (now >= limit || effort_ <= 0 || failure.at_change == changes_)
    return false;
  const double step = next_level(job, now);
  const double stride = step < 1.05 * now ? next_level(job, 1.05 * now) : step;
  if (raise_to(job, stride) || (step < stride && raise_to(job, step))) {
    ++changes_;
    return true;
  }
  failure.at_change = changes_;
  return false;
}

// The least level above the given one that the slowest subflows can reach: their links with one
// less on each, or what the next slowest have.
double Improver::next_level(JobId job, double least) {
  double next = most_[job.value];
  spend(state_.items_of(job).size());
  for (const std::uint32_t item : state_.items_of(job)) {
    if (!state_.active(item))
      continue;
    const double need = state_.need(item, job);
    const double ratio = state_.share(item) / need;
    if (ratio > least * (1.0 + kEqual)) {
      next = std::min(next, ratio);
      continue;
    }
    for (const ResourceId r : {state_.up(item), state_.down(item)}) {
      // With as many less as it takes.
      const double bearable = state_.capacity(r) / (least * (1.0 + kEqual) * need);
      const double others = std::max(1.0, std::ceil(bearable) - 1.0);
      const double level = state_.capacity(r) / others / need;
      if (level > least * (1.0 + kEqual))
        next = std::min(next, level);
    }
  }
  return next;
}

// All or nothing: every subflow of the job gets the target, nobody who had less gets still less,
// nobody who had more gets less than the target.
bool Improver::raise_to(JobId job, double target) {
  for (std::uint32_t j = 0; j < state_.jobs(); ++j)
    floor_[j] = std::min(efficiency_[j], target);
  floor_[job.value] = target;
  raised_from_ = efficiency_[job.value];
  ++attempt_;
  raised_ = {};
  if (!room_in_all_leaves(job))
    return false;
  const std::size_t mark = state_.mark();
  const std::uint32_t moves_before = moves_;
  if (leaves_alike_) {
    if (place_again(job)) {
      refresh(mark);
      return true;
    }
    roll_back(mark);
    moves_ = moves_before;
    ++attempt_;
  }
  raised_ = job;
  const auto try_item = [&](std::uint32_t item) {
    if (settled_[item] == attempt_ || !state_.active(item))
      return true;
    settled_[item] = attempt_;
    raise_price(item);
    stop_at_ = std::max<std::int64_t>(0, effort_ - kEffortForOne);
    if (settle(item) && moves_ <= limits_.max_moves)
      return true;
    hardest_[job.value] = item;
    return false;
  };
  // What failed last time is tried first, so that a hopeless attempt fails early again.
  const std::uint32_t hardest = hardest_[job.value];
  const bool raised = (hardest == PlacementState::kNone || try_item(hardest)) &&
                      std::ranges::all_of(state_.items_of(job), try_item);
  raised_ = {};
  if (raised) {
    refresh(mark);
    return true;
  }
  roll_back(mark);
  moves_ = moves_before;
  return false;
}

void Improver::refresh(std::size_t mark) {
  std::vector<bool> touched(state_.jobs(), false);
  const auto touch = [&](std::uint32_t item) {
    state_.for_each_job(item, [&](JobId job, double) { touched[job.value] = true; });
    return false;
  };
  state_.for_each_moved(mark, [&](std::uint32_t item, const Model::Choice& from) {
    touch(item);
    for (const ResourceId r : {state_.up(item), state_.down(item)})
      state_.any_on(r, touch);
    if (!from.placed())
      return;
    state_.any_on(model_.uplink(from.up), touch);
    state_.any_on(model_.downlinks(from), touch);
  });
  for (std::uint32_t j = 0; j < touched.size(); ++j)
    if (touched[j]) {
      efficiency_[j] = state_.efficiency({j});
      spend(state_.items_of({j}).size() / 2);
    }
}

// Makes the item's two links keep everybody's price: it leaves, or others do.
bool Improver::settle(std::uint32_t item) {
  if (!overfull(state_.up(item)) && !overfull(state_.down(item)))
    return true;
  if (state_.movable(item) && relocate(item))
    return true;
  for (const bool up : {true, false}) {
    const ResourceId r = up ? state_.up(item) : state_.down(item);
    while (overfull(r)) {
      if (exhausted_here())
        return false;
      const bool relieved = state_.any_on(r, [&](std::uint32_t other) {
        return other != item && state_.movable(other) && relocate(other);
      });
      if (!relieved)
        return false;
    }
  }
  return true;
}

bool Improver::relocate(std::uint32_t item) {
  if (move_directly(item, {}))
    return true;
  std::vector<Model::Choice> choices;
  model_.for_each_choice(model_.units()[item], [&](const Model::Choice& choice, ResourceId,
                                                   ResourceId) { choices.push_back(choice); });
  for (const Model::Choice& choice : choices) {
    if (exhausted_here())
      return false;
    if (!(choice == state_.choice(item)) && exchange(item, choice, state_.spine(state_.up(item))))
      return true;
  }
  return false;
}

// To the fullest links that still have room for it, so that empty ones remain for those who need
// them.
bool Improver::move_directly(std::uint32_t item, ResourceId avoid) {
  const double own = price(item);
  spend(16);
  Model::Choice best;
  std::uint32_t fullest = 0;
  model_.for_each_choice(model_.units()[item],
                         [&](const Model::Choice& choice, ResourceId up, ResourceId down) {
                           if (choice == state_.choice(item) || up == avoid || down == avoid)
                             return;
                           const std::uint32_t full = state_.count(up) + state_.count(down) + 1;
                           if (full <= fullest || !fits(up, item, own) || !fits(down, item, own))
                             return;
                           fullest = full;
                           best = choice;
                         });
  if (!best.placed())
    return false;
  move(item, best);
  return true;
}

// Moves the item there all the same, and whoever then is too many on to the other spine, and so on
// along an alternating path, until the path ends where there is room.
bool Improver::exchange(std::uint32_t item, const Model::Choice& to, SpineId a) {
  const SpineId b = model_.spine_of(to.up);
  if (a == b)
    return false;
  const std::size_t mark = state_.mark();
  const std::uint32_t moves_before = moves_;
  ++exchange_;
  shifted_[item] = exchange_;
  move(item, to);
  crowded_.assign({state_.up(item), state_.down(item)});
  std::uint32_t steps = 0;
  while (!crowded_.empty()) {
    const ResourceId r = crowded_.back();
    if (!overfull(r)) {
      crowded_.pop_back();
      continue;
    }
    if (++steps > kLongestExchange || exhausted_here() || !shift_one(r, a, b)) {
      roll_back(mark);
      moves_ = moves_before;
      return false;
    }
  }
  return true;
}

// Sends one item of an overfull link elsewhere: to the other one of the two spines that the
// exchange is about, where its near end has just lost one; best if its far end has room too; or to
// any spine where it fits; or else to the other spine although the far end is then the next
// overfull.
bool Improver::shift_one(ResourceId from, SpineId a, SpineId b) {
  const SpineId other = state_.spine(from) == a ? b : a;
  const bool is_up = state_.is_uplink(from);
  const auto shift = [&](std::uint32_t item, bool far_must_fit) {
    if (!state_.movable(item) || shifted_[item] == exchange_)
      return false;
    const double own = price(item);
    Model::Choice found;
    model_.for_each_choice_over(other, model_.units()[item], [&](const Model::Choice& choice) {
      const ResourceId up = model_.uplink(choice.up), down = model_.downlinks(choice);
      if (!found.placed() && fits(is_up ? up : down, item, own) &&
          (!far_must_fit || fits(is_up ? down : up, item, own)))
        found = choice;
    });
    if (!found.placed())
      return false;
    shifted_[item] = exchange_;
    move(item, found);
    if (!far_must_fit)
      crowded_.push_back(is_up ? state_.down(item) : state_.up(item));
    return true;
  };
  const auto shift_anywhere = [&](std::uint32_t item) {
    if (!state_.movable(item) || shifted_[item] == exchange_ || !move_directly(item, from))
      return false;
    shifted_[item] = exchange_;
    return true;
  };
  return state_.any_on(from, [&](std::uint32_t item) { return shift(item, true); }) ||
         state_.any_on(from, shift_anywhere) ||
         state_.any_on(from, [&](std::uint32_t item) { return shift(item, false); });
}

void Improver::undo_needless() {
  raised_ = {};
  for (bool again = true; again && effort_ > 0;) {
    again = false;
    ++attempt_;  // prices are others now
    for (std::uint32_t j = 0; j < state_.jobs(); ++j)
      floor_[j] = efficiency_[j];
    for (std::uint32_t u = 0; u < state_.units() && moves_ > 0; ++u) {
      if (!state_.movable(u) || !away(u, state_.choice(u)))
        continue;
      const double own = price(u);
      const ResourceId up = model_.uplink(current_[u].up), down = model_.downlinks(current_[u]);
      if ((up == state_.up(u) || fits(up, u, own)) &&
          (down == state_.down(u) || fits(down, u, own))) {
        move(u, current_[u]);
        again = true;
      }
    }
  }
}

}  // namespace heddle
