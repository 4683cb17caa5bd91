// Raising a job as edge colouring would: what is in the way is taken out and put back one by one,
// each along an alternating path. Where all links are alike and full this cannot fail (Koenig),
// because what is not placed yet takes no room. Elsewhere settle() finds more.
#include <algorithm>

#include "common/core/heddle_improve.h"

namespace heddle {
namespace {

// Items to inspect for one insertion, before the attempt is given up.
constexpr std::int64_t kEffortForOne = 10'000;

}  // namespace

bool Improver::arrive(JobId job, std::span<const double> most) {
  most_ = most;
  effort_ = limits_.effort;
  floor_ = efficiency_;
  floor_[job.value] = most[job.value];
  raised_ = {};
  ++attempt_;
  const std::size_t mark = state_.mark();
  const std::uint32_t moves_before = moves_;
  const auto take_back = [&] {
    roll_back(mark);
    moves_ = moves_before;
    ++attempt_;
  };
  bool placed = alike_ && arrive_alike(job);
  if (!placed) {
    take_back();
    placed = place_again(job);
  }
  if (!placed) {
    take_back();
    return false;
  }
  // Who has all that can be had keeps it.
  for (std::uint32_t j = 0; j < state_.jobs(); ++j)
    if (efficiency_[j] < most[j] * (1.0 - kEqual)) {
      refresh(mark);
      break;
    }
  efficiency_[job.value] = state_.efficiency(job);
  ++changes_;
  return true;
}

// Every item of the job must fit at its floor.
bool Improver::place_again(JobId job) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t item : state_.items_of(job)) {
    if (!state_.active(item) || !state_.movable(item))
      continue;
    if (!state_.choice(item).placed())
      out.push_back(item);
    else if (overfull(state_.up(item)) || overfull(state_.down(item))) {
      move(item, {});
      out.push_back(item);
    }
  }
  for (const std::uint32_t item : state_.items_of(job))
    if (state_.active(item) && !state_.movable(item) &&
        (overfull(state_.up(item)) || overfull(state_.down(item))))
      return false;
  return std::ranges::all_of(out, [this](std::uint32_t item) {
    stop_at_ = std::max<std::int64_t>(0, effort_ - kEffortForOne);
    return insert(item) && moves_ <= limits_.max_moves;
  });
}

// Where it fits; or else over a spine with room at one end, from whose other end the path
// alternates with a spine that has room there.
bool Improver::insert(std::uint32_t item) {
  if (move_directly(item, {}))
    return true;
  const double own = price(item);
  std::vector<Model::Choice> room_up, room_down;
  model_.for_each_choice(model_.units()[item],
                         [&](const Model::Choice& choice, ResourceId up, ResourceId down) {
                           if (fits(up, item, own))
                             room_up.push_back(choice);
                           if (fits(down, item, own))
                             room_down.push_back(choice);
                         });
  for (const Model::Choice& a : room_up) {
    for (const Model::Choice& b : room_down) {
      if (exhausted_here())
        return false;
      if (exchange(item, a, model_.spine_of(b.up)) || exchange(item, b, model_.spine_of(a.up)))
        return true;
    }
  }
  return false;
}

}  // namespace heddle
