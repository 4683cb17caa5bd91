// Whether a raise can succeed at all: what each leaf by itself has to hold, checked before anything
// is moved.
#include <algorithm>
#include <cmath>
#include <functional>

#include "common/core/heddle_improve.h"

namespace heddle {
namespace {

constexpr double kMostParts = 1e6;

}  // namespace

void Improver::prepare() {
  if (!sides_.empty())
    return;
  find_sides();
  find_alike();
}

void Improver::find_sides() {
  const std::size_t leaves = model_.topology().leaves().size();
  sides_.resize(2 * leaves);
  const auto add = [this](Side& side, ResourceId r) {
    const auto known = std::ranges::find(side.links, state_.capacity(r), &Side::Links::capacity);
    if (known != side.links.end())
      ++known->count;
    else
      side.links.push_back({.capacity = state_.capacity(r), .count = 1});
  };
  for (std::uint32_t l = 0; l < leaves; ++l) {
    for (const Model::Uplink& up : model_.uplinks({l}))
      add(sides_[2 * l], model_.uplink(up.cable));
    for (std::uint32_t s = 0; s < model_.topology().spines().size(); ++s)
      if (const ResourceId down = model_.downlinks({s}, {l});
          model_.resources()[down.value].lanes > 0)
        add(sides_[2 * l + 1], down);
  }
  for (Side& side : sides_) {
    std::ranges::sort(side.links, std::greater{}, &Side::Links::capacity);
    side.multiples = true;
    for (Side::Links& links : side.links) {
      const double part = std::round(side.links.front().capacity / links.capacity);
      side.multiples = side.multiples && part < kMostParts &&
                       part * links.capacity == side.links.front().capacity;
      links.part = side.multiples ? static_cast<std::uint32_t>(part) : 0;
    }
  }
  leaves_alike_ = std::ranges::all_of(sides_, [this](const Side& side) {
    return side.links.size() == 1 && sides_.front().links.size() == 1 &&
           side.links.front().count == sides_.front().links.front().count;
  });
  for (std::uint32_t u = 0; u < state_.units(); ++u) {
    const Model::Unit& unit = model_.units()[u];
    if (unit.end_way - unit.first_way != 1 || state_.whole(u) != 1)
      continue;
    const Model::Way& way = model_.ways()[unit.first_way];
    group(sides_[2 * way.from_leaf.value], u);
    group(sides_[2 * way.to_leaf.value + 1], u);
  }
  for (Side& side : sides_)
    side.spacious =
        side.items == 0 || (side.links.size() == 1 && side.items <= side.links.front().count);
}

// A unit of one subflow has one job. Those that are alike mostly follow each other.
void Improver::group(Side& side, std::uint32_t item) {
  ++side.items;
  const JobId job = state_.job(item);
  const double need = state_.own_need(item);
  if (!side.groups.empty() && side.groups.back().job == job && side.groups.back().need == need)
    ++side.groups.back().count;
  else
    side.groups.push_back({.item = item, .count = 1, .job = job, .need = need});
}

// A necessary condition that is quickly checked: by itself, each leaf that the job is in could give
// everybody their price. Most raises that cannot succeed fail here.
bool Improver::room_in_all_leaves(JobId job) {
  prepare();
  const auto has_room = [&](std::uint32_t side) {
    if (sides_[side].checked == attempt_ || sides_[side].spacious)
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
  by_price_.clear();
  for (const Side::Group& group : side.groups)
    if (const double own = price(group); own > 0.0)
      by_price_.emplace_back(own, group.count);
  std::ranges::sort(by_price_, std::greater{});
  double asking = 0.0;
  for (std::size_t i = 0; i < by_price_.size(); ++i) {
    const auto& [price, count] = by_price_[i];
    asking += count;
    if (i + 1 < by_price_.size() && by_price_[i + 1].first == price)
      continue;
    double places = 0.0;
    for (const Side::Links& links : side.links)
      places += links.count * std::floor(links.capacity * (1.0 + kEqual) / price);
    if (places < asking)
      return false;
    if (places >= side.items)
      return true;  // the others ask for less
  }
  return true;
}

// Whether a packing exists as far as counting can tell. An item with the tolerance k bears at most
// k on a link of the widest capacity, and k / m (rounded down) on one of an m-th of it.
bool Improver::room_on(const Side& side) {
  constexpr std::uint32_t kMost = 63;  // beyond it nobody is counted: there is room enough
  spend(side.groups.size() / 2);
  if (side.links.empty())
    return side.groups.empty();
  if (!side.multiples)
    return room_on_unlike(side);
  const double room = side.links.front().capacity * (1.0 + kEqual);
  by_tolerance_.assign(kMost + 1, 0);
  std::size_t unseen = 0;
  for (const Side::Group& group : side.groups) {
    const double bears = room / price(group);
    if (bears >= kMost)
      continue;
    by_tolerance_[static_cast<std::uint32_t>(bears)] += group.count;
    unseen += group.count;
  }
  if (by_tolerance_[0] > 0)
    return false;
  if (side.links.size() > 1)
    return places_for_all(side, unseen);
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
  return links <= side.links.front().count;
}

// Those that bear k or fewer must fit between all links, whatever k.
bool Improver::places_for_all(const Side& side, std::size_t unseen) const {
  std::size_t asking = 0;
  for (std::uint32_t k = 1; asking < unseen; ++k) {
    if (by_tolerance_[k] == 0)
      continue;
    asking += by_tolerance_[k];
    std::size_t places = 0;
    for (const Side::Links& links : side.links)
      places += std::size_t{links.count} * (k / links.part);
    if (places < asking)
      return false;
  }
  return true;
}

}  // namespace heddle
