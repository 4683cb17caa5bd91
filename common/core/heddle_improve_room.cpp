// Whether a raise can succeed at all: what each leaf by itself has to hold, checked before anything
// is moved.
#include <algorithm>
#include <cmath>
#include <functional>

#include "common/core/heddle_improve.h"

namespace heddle {
namespace {

constexpr double kEqual = 1e-9;

}  // namespace

void Improver::find_sides() {
  const std::size_t leaves = model_.topology().leaves().size();
  sides_.resize(2 * leaves);
  for (std::uint32_t l = 0; l < leaves; ++l) {
    for (const Model::Uplink& up : model_.uplinks({l}))
      sides_[2 * l].resources.push_back(model_.uplink(up.cable));
    for (std::uint32_t s = 0; s < model_.topology().spines().size(); ++s)
      if (const ResourceId down = model_.downlinks({s}, {l});
          model_.resources()[down.value].lanes > 0)
        sides_[2 * l + 1].resources.push_back(down);
  }
  for (Side& side : sides_)
    side.alike = std::ranges::all_of(side.resources, [&](ResourceId r) {
      return state_.capacity(r) == state_.capacity(side.resources.front());
    });
  leaves_alike_ = std::ranges::all_of(sides_, [this](const Side& side) {
    return side.alike && side.resources.size() == sides_.front().resources.size();
  });
  for (std::uint32_t u = 0; u < state_.units(); ++u) {
    const Model::Unit& unit = model_.units()[u];
    if (unit.end_way - unit.first_way != 1 || state_.whole(u) != 1)
      continue;
    const Model::Way& way = model_.ways()[unit.first_way];
    sides_[2 * way.from_leaf.value].items.push_back(u);
    sides_[2 * way.to_leaf.value + 1].items.push_back(u);
  }
}

// A necessary condition that is quickly checked: by itself, each leaf that the job is in could give
// everybody their price. Most raises that cannot succeed fail here.
bool Improver::room_in_all_leaves(JobId job) {
  if (sides_.empty())
    find_sides();
  const auto has_room = [&](std::uint32_t side) {
    if (sides_[side].checked == attempt_)
      return true;
    sides_[side].checked = attempt_;
    if (room_on(sides_[side]))
      return true;
    failures_[job.value].side = side;
    return false;
  };
  if (const std::uint32_t side = failures_[job.value].side;
      side != PlacementState::kNone && !has_room(side))
    return false;
  return std::ranges::all_of(state_.items_of(job), [&](std::uint32_t item) {
    if (item >= state_.units())
      return true;
    const Model::Way& way = model_.ways()[model_.units()[item].first_way];
    return has_room(2 * way.from_leaf.value) && has_room(2 * way.to_leaf.value + 1);
  });
}

// Links of several capacities: those that ask for a price or more must fit between them, whatever
// the price.
bool Improver::room_on_unlike(const Side& side) {
  std::vector<double> prices;
  for (const std::uint32_t item : side.items)
    if (state_.active(item))
      prices.push_back(price(item));
  std::ranges::sort(prices, std::greater{});
  for (std::size_t n = 1; n <= prices.size(); ++n) {
    if (n < prices.size() && prices[n] == prices[n - 1])
      continue;
    double places = 0.0;
    for (const ResourceId r : side.resources)
      places += std::floor(state_.capacity(r) * (1.0 + kEqual) / prices[n - 1]);
    if (places < static_cast<double>(n))
      return false;
  }
  return true;
}

bool Improver::room_on(const Side& side) {
  // On a link of the typical capacity, an item with the tolerance k bears at most k in all.
  constexpr std::uint32_t kMost = 63;  // beyond it nobody is counted: there is room enough
  double capacity = 0.0;
  for (const ResourceId r : side.resources)
    capacity = std::max(capacity, state_.capacity(r));
  by_tolerance_.assign(kMost + 1, 0);
  spend(side.items.size());
  std::size_t unseen = 0;
  for (const std::uint32_t item : side.items) {
    if (!state_.active(item))
      continue;
    const double bears = capacity * (1.0 + kEqual) / price(item);
    ++by_tolerance_[bears < kMost ? static_cast<std::uint32_t>(bears) : kMost];
    unseen += bears < kMost ? 1 : 0;
  }
  if (by_tolerance_[0] > 0)
    return false;
  if (!side.alike)
    return room_on_unlike(side);
  // The strictest share links with the next strictest: no packing needs fewer links.
  std::size_t links = 0, places = 0;
  for (std::uint32_t k = 1; k < kMost && unseen > 0; ++k) {
    unseen -= by_tolerance_[k];
    const std::size_t rest = by_tolerance_[k] - std::min<std::size_t>(places, by_tolerance_[k]);
    places -= std::min<std::size_t>(places, by_tolerance_[k]);
    links += (rest + k - 1) / k;
    if (rest > 0)
      places = (k - rest % k) % k;
  }
  return links <= side.resources.size();
}

}  // namespace heddle
