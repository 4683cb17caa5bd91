// A job that comes to a fabric where all is alike: every leaf has one link to each spine, all of
// one capacity, and everybody keeps the same price, so that each link holds just so many subflows.
// There room is told by a bit for each link, and what must move to make it by following one
// alternating path. Of several the shortest is taken. Source: alternating paths as in edge
// colouring (Koenig).
#include <algorithm>
#include <bit>
#include <cmath>

#include "common/core/heddle_improve.h"

namespace heddle {
namespace {

constexpr std::uint32_t kLongestChain = 400;
constexpr int kMostEnds = 3;  // open links to begin or end with that are tried, of each leaf

}  // namespace

// Whether the fabric and the units are such; found once.
void Improver::find_alike() {
  const auto spines = static_cast<std::uint32_t>(model_.topology().spines().size());
  const auto leaves = static_cast<std::uint32_t>(model_.topology().leaves().size());
  alike_ = leaves_alike_ && state_.units() > 0 && state_.items() == state_.units() &&
           model_.problem().forbidden.empty() && !sides_.empty() &&
           sides_.front().links.front().count == spines;
  spines_ = spines;
  first_downlink_ = model_.downlinks(SpineId{0}, LeafId{0}).value;
  uplinks_.clear();
  for (std::uint32_t l = 0; alike_ && l < leaves; ++l)
    for (std::uint32_t s = 0; alike_ && s < spines; ++s) {
      const auto cables = model_.uplinks({l}, {s});
      alike_ = cables.size() == 1;
      if (alike_)
        uplinks_.push_back(model_.uplink(cables.front().cable));
    }
  for (std::uint32_t u = 0; alike_ && u < state_.units(); ++u) {
    const Model::Unit& unit = model_.units()[u];
    alike_ = unit.end_way - unit.first_way == 1 && state_.whole(u) == 1 &&
             state_.own_need(u) == state_.own_need(0);
  }
  words_ = (spines + 63) / 64;
}

ResourceId Improver::link_of(Vertex at, std::uint32_t spine) const {
  return at.out ? uplinks_[at.leaf * spines_ + spine]
                : ResourceId{first_downlink_ + at.leaf * spines_ + spine};
}

std::uint64_t* Improver::open_links(Vertex at) {
  return &open_[(2 * std::size_t{at.leaf} + (at.out ? 0 : 1)) * words_];
}

void Improver::tell_open(Vertex at, std::uint32_t spine) {
  std::uint64_t& word = open_links(at)[spine / 64];
  const std::uint64_t bit = std::uint64_t{1} << (spine % 64);
  word = state_.count(link_of(at, spine)) < each_holds_ ? word | bit : word & ~bit;
}

Improver::Vertex Improver::end_of(std::uint32_t item, bool out) const {
  const Model::Way& way = model_.ways()[model_.units()[item].first_way];
  return {.leaf = out ? way.from_leaf.value : way.to_leaf.value, .out = out};
}

std::uint32_t Improver::common_spine(Vertex a, Vertex b) {
  for (std::uint32_t w = 0; w < words_; ++w)
    if (const std::uint64_t both = open_links(a)[w] & open_links(b)[w]; both != 0)
      return w * 64 + static_cast<std::uint32_t>(std::countr_zero(both));
  return PlacementState::kNone;
}

bool Improver::arrive_alike(JobId job) {
  const double own = floor_[job.value];
  for (std::uint32_t j = 0; j < state_.jobs(); ++j)
    if (std::abs(floor_[j] - own) > kEqual && !state_.items_of({j}).empty() &&
        state_.active(state_.items_of({j}).front()))
      return false;
  const auto items = state_.items_of(job);
  if (items.empty())
    return true;
  const double room = state_.capacity(link_of({.leaf = 0, .out = true}, 0)) * (1.0 + kEqual);
  each_holds_ = static_cast<std::uint32_t>(
      std::min(1e9, std::floor(room / (own * state_.own_need(items.front())))));
  std::vector<std::uint32_t> out;
  for (const std::uint32_t item : items) {
    if (state_.choice(item).placed() && (state_.count(state_.up(item)) > each_holds_ ||
                                         state_.count(state_.down(item)) > each_holds_))
      move(item, {});
    if (!state_.choice(item).placed())
      out.push_back(item);
  }
  const auto leaves = static_cast<std::uint32_t>(model_.topology().leaves().size());
  open_.assign(std::size_t{2} * leaves * words_, 0);
  for (std::uint32_t l = 0; l < leaves; ++l)
    for (const bool outwards : {true, false}) {
      const Vertex at{.leaf = l, .out = outwards};
      std::uint64_t* open = open_links(at);
      for (std::uint32_t s = 0; s < spines_; ++s)
        if (state_.count(link_of(at, s)) < each_holds_)
          open[s / 64] |= std::uint64_t{1} << (s % 64);
    }
  const std::size_t mark = state_.mark();
  if (!std::ranges::all_of(out, [this](std::uint32_t item) { return insert_alike(item); }))
    return false;
  go_back(mark);
  return true;
}

// A later chain may have left the links that an earlier one took somebody from.
void Improver::go_back(std::size_t mark) {
  std::vector<Shift> moved;  // and where each was at first
  ++exchange_;
  state_.for_each_moved(mark, [&](std::uint32_t item, const Model::Choice& first) {
    if (std::exchange(shifted_[item], exchange_) != exchange_ && first.placed() &&
        !(first == state_.choice(item)))
      moved.push_back({.item = item, .spine = model_.spine_of(first.up).value});
  });
  for (const Shift& shift : moved) {
    const ResourceId up = link_of(end_of(shift.item, true), shift.spine);
    if (state_.count(up) < each_holds_ &&
        state_.count(link_of(end_of(shift.item, false), shift.spine)) < each_holds_)
      move(shift.item, {.way = model_.units()[shift.item].first_way, .up = CableId{up.value}});
  }
}

bool Improver::insert_alike(std::uint32_t item) {
  const Vertex from = end_of(item, true), to = end_of(item, false);
  if (const std::uint32_t spine = common_spine(from, to); spine != PlacementState::kNone) {
    chain_.assign({{.item = item, .spine = spine}});
    follow_chain();
    return true;
  }
  best_chain_.clear();
  std::uint32_t ups[kMostEnds], downs[kMostEnds];
  const int up_count = first_open(from, ups), down_count = first_open(to, downs);
  for (int i = 0; i < up_count; ++i)
    for (int k = 0; k < down_count; ++k) {
      find_chain(item, to, ups[i], downs[k]);
      find_chain(item, from, downs[k], ups[i]);
    }
  if (best_chain_.empty() || moves_ + best_chain_.size() > limits_.max_moves)
    return false;
  chain_.swap(best_chain_);
  follow_chain();
  return true;
}

int Improver::first_open(Vertex at, std::uint32_t* spines) {
  int n = 0;
  for (std::uint32_t w = 0; w < words_; ++w)
    for (std::uint64_t left = open_links(at)[w]; left != 0 && n < kMostEnds; left &= left - 1)
      spines[n++] = w * 64 + static_cast<std::uint32_t>(std::countr_zero(left));
  return n;
}

// The item goes over `full`, which has room at its other end but not at `at`; there somebody goes
// over to `open`, and so on, until there is room. Nobody goes twice.
void Improver::find_chain(std::uint32_t newcomer, Vertex at, std::uint32_t full,
                          std::uint32_t open) {
  ++exchange_;
  shifted_[newcomer] = exchange_;
  chain_.assign({{.item = newcomer, .spine = full}});
  const std::size_t longest = best_chain_.empty() ? kLongestChain : best_chain_.size() - 1;
  while (chain_.size() < longest) {
    std::uint32_t item = PlacementState::kNone;
    state_.any_on(link_of(at, full), [&](std::uint32_t other) {
      if (shifted_[other] == exchange_)
        return false;
      item = other;
      return true;
    });
    if (item == PlacementState::kNone)
      return;
    shifted_[item] = exchange_;
    const Vertex far = end_of(item, !at.out);
    const std::uint32_t anywhere = common_spine(at, far);
    const bool ends =
        anywhere != PlacementState::kNone || (open_links(far)[open / 64] >> (open % 64) & 1) != 0;
    chain_.push_back({.item = item, .spine = anywhere != PlacementState::kNone ? anywhere : open});
    if (ends) {
      best_chain_ = chain_;
      return;
    }
    at = far;
    std::swap(full, open);
  }
}

void Improver::follow_chain() {
  spend(chain_.size());
  const auto tell = [this](std::uint32_t item) {
    const std::uint32_t spine = model_.spine_of(state_.choice(item).up).value;
    tell_open(end_of(item, true), spine);
    tell_open(end_of(item, false), spine);
  };
  for (const Shift& shift : chain_) {
    const Model::Choice was = state_.choice(shift.item);
    const Vertex from = end_of(shift.item, true);
    move(shift.item,
         {.way = model_.units()[shift.item].first_way, .up = {link_of(from, shift.spine).value}});
    if (was.placed()) {
      const std::uint32_t left = model_.spine_of(was.up).value;
      tell_open(from, left);
      tell_open(end_of(shift.item, false), left);
    }
  }
  for (const Shift& shift : chain_)
    tell(shift.item);
}

}  // namespace heddle
