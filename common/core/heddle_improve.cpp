#include "common/core/heddle_improve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {
namespace {

// Ratios of sums of rates: equal if they differ by less than this part.
constexpr double kEqual = 1e-9;
constexpr std::uint32_t kLongestExchange = 200;

}  // namespace

Improver::Improver(PlacementState& state, const Limits& limits)
    : state_(state),
      model_(state.model()),
      limits_(limits),
      effort_(limits.effort),
      floor_(state.jobs(), 0.0),
      settled_(state.items(), 0),
      shifted_(state.items(), 0) {
  current_.reserve(state.units());
  for (std::uint32_t u = 0; u < state.units(); ++u) {
    current_.push_back(model_.current(model_.units()[u]));
    if (state.choice(u).placed() && away(u, state.choice(u)))
      ++moves_;
  }
  efficiency_.assign(state.jobs(), 1.0);
}

bool Improver::away(std::uint32_t item, const Model::Choice& choice) const {
  return current_[item].placed() && !(choice == current_[item]);
}

void Improver::move(std::uint32_t item, const Model::Choice& to) {
  moves_ += away(item, to) ? 1 : 0;
  moves_ -= state_.choice(item).placed() && away(item, state_.choice(item)) ? 1 : 0;
  state_.move(item, to);
}

double Improver::price(std::uint32_t item) const {
  double price = 0.0;
  state_.for_each_job(item, [&](JobId job, double need) {
    const bool unsettled = job == raised_ && settled_[item] != attempt_;
    price = std::max(price, need * (unsettled ? raised_from_ : floor_[job.value]));
  });
  return price;
}

// Whether everybody on the link, and the newcomer, would keep their price.
bool Improver::fits(ResourceId r, std::uint32_t newcomer, double own_price) {
  const double subflows = state_.count(r) + state_.size(newcomer);
  const double most = state_.capacity(r) * (1.0 + kEqual) / subflows;
  spend(1);
  if (own_price > most)
    return false;
  return !state_.any_on(r, [&](std::uint32_t item) {
    spend(1);
    return price(item) > most;
  });
}

bool Improver::overfull(ResourceId r) {
  if (state_.count(r) == 0)
    return false;
  const double most = state_.capacity(r) * (1.0 + kEqual) / state_.count(r);
  return state_.any_on(r, [&](std::uint32_t item) {
    spend(1);
    return price(item) > most;
  });
}

void Improver::place_new() {
  for (std::uint32_t u = 0; u < state_.units(); ++u) {
    if (state_.choice(u).placed() || !state_.active(u))
      continue;
    // The choice whose links keep the largest share, after this one has come.
    Model::Choice best;
    double most = -1.0;
    model_.for_each_choice(model_.units()[u], [&](const Model::Choice& choice, SpineId) {
      const ResourceId up = model_.uplink(choice.up), down = model_.downlinks(choice);
      const double share = std::min(state_.capacity(up) / (state_.count(up) + state_.size(u)),
                                    state_.capacity(down) / (state_.count(down) + state_.size(u)));
      if (share > most) {
        most = share;
        best = choice;
      }
    });
    state_.move(u, best);
  }
  for (std::uint32_t j = 0; j < state_.jobs(); ++j)
    efficiency_[j] = state_.efficiency({j});
}

bool Improver::run() {
  std::vector<std::uint32_t> order(state_.jobs());
  bool changed = false, again = true;
  while (again && effort_ > 0) {
    again = false;
    std::iota(order.begin(), order.end(), 0U);
    // Worst first; of equals the one with the least to place, so that the damage that must be ends
    // on few.
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
      if (std::abs(efficiency_[a] - efficiency_[b]) > kEqual)
        return efficiency_[a] < efficiency_[b];
      return state_.items_of({a}).size() < state_.items_of({b}).size();
    });
    for (const std::uint32_t job : order)
      if (raise({job}))
        again = changed = true;
  }
  return changed;
}

void Improver::run_only(JobId job) {
  while (raise(job)) {
  }
}

// As far as it can go, or at least a step.
bool Improver::raise(JobId job) {
  const double limit = limits_.by_job[job.value];
  if (efficiency_[job.value] >= limit * (1.0 - kEqual) || effort_ == 0)
    return false;
  const double step = next_level(job);
  return raise_to(job, limit) || (step < limit * (1.0 - kEqual) && raise_to(job, step));
}

// The least that counts as better: the slowest subflows' links with one less on each, or the next
// slowest.
double Improver::next_level(JobId job) const {
  const double now = efficiency_[job.value];
  double next = limits_.by_job[job.value];
  for (const std::uint32_t item : state_.items_of(job)) {
    const double need = state_.need(item, job);
    const double ratio = state_.share(item) / need;
    if (ratio > now * (1.0 + kEqual)) {
      next = std::min(next, ratio);
      continue;
    }
    for (const ResourceId r : {state_.up(item), state_.down(item)}) {
      const double level = state_.capacity(r) / std::max(1U, state_.count(r) - 1) / need;
      if (level > now * (1.0 + kEqual))
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
  raised_ = job;
  raised_from_ = efficiency_[job.value];
  ++attempt_;
  const std::size_t mark = state_.mark();
  const std::uint32_t moves_before = moves_;
  for (const std::uint32_t item : state_.items_of(job)) {
    settled_[item] = attempt_;
    if (!settle(item) || moves_ > limits_.max_moves) {
      state_.roll_back(mark);
      moves_ = moves_before;
      raised_ = {};
      return false;
    }
  }
  raised_ = {};
  refresh(mark);
  return true;
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
    if (touched[j])
      efficiency_[j] = state_.efficiency({j});
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
      if (effort_ == 0)
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
  model_.for_each_choice(model_.units()[item],
                         [&](const Model::Choice& choice, SpineId) { choices.push_back(choice); });
  for (const Model::Choice& choice : choices) {
    if (effort_ == 0)
      return false;
    if (!(choice == state_.choice(item)) && exchange(item, choice))
      return true;
  }
  return false;
}

// To the fullest links that still have room for it, so that empty ones remain for those who need
// them.
bool Improver::move_directly(std::uint32_t item, ResourceId avoid) {
  const double own = price(item);
  Model::Choice best;
  std::uint32_t fullest = 0;
  model_.for_each_choice(model_.units()[item], [&](const Model::Choice& choice, SpineId) {
    const ResourceId up = model_.uplink(choice.up), down = model_.downlinks(choice);
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

// Moves the item there all the same, and whoever then is too many on to the spine it came from, and
// so on along an alternating path, until the path ends where there is room.
bool Improver::exchange(std::uint32_t item, const Model::Choice& to) {
  const SpineId a = state_.spine(state_.up(item));
  const SpineId b = model_.topology()[to.up].spine;
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
    if (++steps > kLongestExchange || effort_ == 0 || !shift_one(r, a, b)) {
      state_.roll_back(mark);
      moves_ = moves_before;
      return false;
    }
  }
  return true;
}

// Sends one item of an overfull link elsewhere: to any spine where it fits, or else to the other
// one of the two that the exchange is about, where its near end has just lost one, and its far end
// may be the next overfull.
bool Improver::shift_one(ResourceId from, SpineId a, SpineId b) {
  const SpineId here = state_.spine(from);
  const SpineId other = here == a ? b : a;
  const auto shift = [&](std::uint32_t item, bool anywhere) {
    if (!state_.movable(item) || shifted_[item] == exchange_)
      return false;
    if (anywhere) {
      if (!move_directly(item, from))
        return false;
      shifted_[item] = exchange_;
      return true;
    }
    const double own = price(item);
    Model::Choice found;
    model_.for_each_choice(model_.units()[item], [&](const Model::Choice& choice, SpineId spine) {
      const ResourceId near =
          state_.is_uplink(from) ? model_.uplink(choice.up) : model_.downlinks(choice);
      if (!found.placed() && spine == other && fits(near, item, own))
        found = choice;
    });
    if (!found.placed())
      return false;
    shifted_[item] = exchange_;
    move(item, found);
    crowded_.push_back(state_.is_uplink(from) ? state_.down(item) : state_.up(item));
    return true;
  };
  return state_.any_on(from, [&](std::uint32_t item) { return shift(item, true); }) ||
         state_.any_on(from, [&](std::uint32_t item) { return shift(item, false); });
}

void Improver::undo_needless() {
  raised_ = {};
  for (bool again = true; again && effort_ > 0;) {
    again = false;
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
