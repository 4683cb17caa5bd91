// A job that comes to a fabric where all is alike: every leaf has one link to each spine, all of
// one capacity, and everybody keeps the same price, so that each link holds just so many subflows.
// There room is told by a bit for each link, and what must move to make it by following one
// alternating path. Of several the shortest is taken. Source: alternating paths as in edge
// colouring (Koenig).
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "common/core/heddle_improve.h"

namespace heddle {
namespace {

// Of a chain: the newcomer and those who make room for it.
constexpr std::size_t kShortest = 2;
constexpr std::size_t kShort = 3;
constexpr std::size_t kLongestChain = 800;
constexpr int kMostEnds = 3;  // open links to begin or end with that are tried, of each leaf

}  // namespace

// Whether the fabric and the units are such; found once.
void Improver::find_alike() {
  const auto spines = static_cast<std::uint32_t>(model_.topology().spines().size());
  const auto leaves = static_cast<std::uint32_t>(model_.topology().leaves().size());
  alike_ = leaves_alike_ && state_.units() > 0 && state_.items() == state_.units() &&
           model_.problem().forbidden.empty() && model_.problem().uplink_sets.empty() &&
           !sides_.empty() && sides_.front().links.front().count == spines;
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
  ends_.clear();
  for (std::uint32_t u = 0; alike_ && u < state_.units(); ++u) {
    const Model::Unit& unit = model_.units()[u];
    const Model::Way& way = model_.ways()[unit.first_way];
    ends_.push_back({.from = way.from_leaf.value, .to = way.to_leaf.value});
    alike_ = unit.end_way - unit.first_way == 1 && state_.whole(u) == 1 &&
             state_.own_need(u) == state_.own_need(0);
  }
  words_ = (spines + 63) / 64;
  open_.resize(alike_ ? std::size_t{2} * leaves * words_ : 0);
  open_since_.assign(alike_ ? std::size_t{2} * leaves : 0, 0);
}

// Nobody asks for a price here, so none is kept.
void Improver::shift(std::uint32_t item, const Model::Choice& to) {
  moves_ -= away(item, state_.choice(item)) ? 1 : 0;
  moves_ += away(item, to) ? 1 : 0;
  state_.move(item, to);
}

ResourceId Improver::link_of(Vertex at, std::uint32_t spine) const {
  return at.out ? uplinks_[at.leaf * spines_ + spine]
                : ResourceId{first_downlink_ + at.leaf * spines_ + spine};
}

// Looked up when a leaf is first met: most events meet few of them.
std::uint64_t* Improver::open_links(Vertex at) {
  const std::size_t vertex = 2 * std::size_t{at.leaf} + (at.out ? 0 : 1);
  std::uint64_t* open = &open_[vertex * words_];
  if (open_since_[vertex] != attempt_) {
    open_since_[vertex] = attempt_;
    for (std::uint32_t w = 0, s = 0; w < words_; ++w) {
      open[w] = 0;
      for (const std::uint32_t end = std::min(spines_, s + 64); s < end; ++s)
        open[w] |= std::uint64_t{state_.count(link_of(at, s)) < each_holds_} << (s % 64);
    }
  }
  return open;
}

void Improver::tell_open(Vertex at, std::uint32_t spine) {
  std::uint64_t& word = open_links(at)[spine / 64];
  const std::uint64_t bit = std::uint64_t{1} << (spine % 64);
  word = state_.count(link_of(at, spine)) < each_holds_ ? word | bit : word & ~bit;
}

Improver::Vertex Improver::end_of(std::uint32_t item, bool out) const {
  return {.leaf = out ? ends_[item].from : ends_[item].to, .out = out};
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
      shift(item, {});
    if (!state_.choice(item).placed())
      out.push_back(item);
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
  for (const auto& [item, spine] : moved) {
    const ResourceId up = link_of(end_of(item, true), spine);
    if (state_.count(up) < each_holds_ &&
        state_.count(link_of(end_of(item, false), spine)) < each_holds_)
      shift(item, {.way = model_.units()[item].first_way, .up = CableId{up.value}});
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
  // Most end soon, so none is followed far before each has been followed a little.
  for (std::size_t longest = kShort; best_chain_.empty() && longest < kLongestChain; longest *= 4)
    for (int i = 0; i < up_count; ++i)
      for (int k = 0; k < down_count && best_chain_.size() != kShortest; ++k) {
        find_chain(item, to, ups[i], downs[k], longest);
        find_chain(item, from, downs[k], ups[i], longest);
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
void Improver::find_chain(std::uint32_t newcomer, Vertex at, std::uint32_t full, std::uint32_t open,
                          std::size_t longest) {
  ++exchange_;
  shifted_[newcomer] = exchange_;
  chain_.assign({{.item = newcomer, .spine = full}});
  if (!best_chain_.empty())
    longest = best_chain_.size() - 1;
  while (chain_.size() < longest) {
    const std::uint32_t item = state_.first_on(
        link_of(at, full), [&](std::uint32_t other) { return shifted_[other] != exchange_; });
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
  for (const auto& [item, spine] : chain_) {
    const Model::Choice was = state_.choice(item);
    const Vertex from = end_of(item, true);
    shift(item, {.way = model_.units()[item].first_way, .up = {link_of(from, spine).value}});
    if (was.placed()) {
      const std::uint32_t left = model_.spine_of(was.up).value;
      tell_open(from, left);
      tell_open(end_of(item, false), left);
    }
  }
  for (const Shift& shifted : chain_)
    tell(shifted.item);
}

}  // namespace heddle
