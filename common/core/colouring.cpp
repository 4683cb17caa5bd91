// Divide and conquer (after Gabow and Kariv). An Euler partition splits the edges into two halves
// in which every vertex has half its edges, rounded up or down; halves are coloured by themselves,
// with half of the colours each. Where the number of colours is odd, both halves together may use
// one colour too many; the smallest class is then taken out, and its edges are put back one by one
// along alternating paths.
#include "common/core/colouring.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/core/check.h"

namespace heddle {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Two sides with vertices of their own; both are kept in one array, the right ones after the left
// ones.
class Colouring {
 public:
  Colouring(std::span<const ColourEdge> edges, std::uint32_t left, std::uint32_t right)
      : edges_(edges),
        left_(left),
        vertices_(left + right),
        colour_(edges.size(), 0),
        partner_left_(edges.size()),
        partner_right_(edges.size()),
        half_(edges.size()),
        pending_(vertices_, kNone),
        degree_(vertices_, 0) {}

  std::vector<std::uint32_t> run(std::uint32_t colours) {
    std::vector<std::uint32_t> all(edges_.size());
    for (std::uint32_t e = 0; e < all.size(); ++e)
      all[e] = e;
    cap_ = std::max(1U, (largest_degree(all) + colours - 1) / colours);
    split(all, 0, colours);
    return std::move(colour_);
  }

 private:
  std::uint32_t at_left(std::uint32_t e) const { return edges_[e].left; }
  std::uint32_t at_right(std::uint32_t e) const { return left_ + edges_[e].right; }

  std::uint32_t largest_degree(std::span<const std::uint32_t> edges) {
    std::uint32_t largest = 0;
    for (const std::uint32_t e : edges) {
      largest = std::max(largest, ++degree_[at_left(e)]);
      largest = std::max(largest, ++degree_[at_right(e)]);
    }
    for (const std::uint32_t e : edges)
      degree_[at_left(e)] = degree_[at_right(e)] = 0;
    return largest;
  }

  // Colours `edges` with the colours from `first` on; no vertex has more than cap_ * colours of
  // them.
  void split(std::span<std::uint32_t> edges, std::uint32_t first, std::uint32_t colours) {
    if (colours == 1 || edges.empty()) {
      for (const std::uint32_t e : edges)
        colour_[e] = first;
      return;
    }
    const std::size_t middle = halve(edges);
    const auto a = edges.first(middle), b = edges.subspan(middle);
    if (colours % 2 == 0) {
      split(a, first, colours / 2);
      split(b, first + colours / 2, colours / 2);
      return;
    }
    // Halves of an odd number of colours: one side needs one more than the other, if both are
    // lucky; else both do.
    const std::uint32_t k = colours / 2;
    const bool a_is_small = largest_degree(a) <= cap_ * k;
    if (a_is_small || largest_degree(b) <= cap_ * k) {
      const std::uint32_t of_a = a_is_small ? k : k + 1;
      split(a, first, of_a);
      split(b, first + of_a, colours - of_a);
      return;
    }
    split(a, first, k + 1);
    split(b, first + k + 1, k + 1);
    remove_smallest(edges, first, colours + 1);
  }

  // Pairs the edges at each vertex, two by two. The pairs chain the edges into paths and cycles
  // that change sides at every step, so that colouring each chain alternately gives the two edges
  // of every pair different halves. Puts the one half before the other, and returns where the other
  // begins.
  std::size_t halve(std::span<std::uint32_t> edges) {
    const auto pair_up = [&](std::uint32_t e, std::uint32_t vertex,
                             std::vector<std::uint32_t>& partner) {
      std::uint32_t& other = pending_[vertex];
      if (other == kNone) {
        other = e;
        partner[e] = kNone;
        return;
      }
      partner[e] = other;
      partner[other] = e;
      other = kNone;
    };
    for (const std::uint32_t e : edges) {
      half_[e] = kUnknown;
      pair_up(e, at_left(e), partner_left_);
      pair_up(e, at_right(e), partner_right_);
    }
    for (const std::uint32_t e : edges)
      pending_[at_left(e)] = pending_[at_right(e)] = kNone;
    for (const std::uint32_t start : edges) {
      if (half_[start] != kUnknown)
        continue;
      // To the one end of the chain, then to the other; in a cycle the first walk comes back to the
      // start.
      for (const bool rightwards : {true, false}) {
        bool over_right = rightwards;
        std::uint8_t side = 0;
        std::uint32_t e = start;
        half_[start] = kUnknown;
        while (e != kNone && half_[e] == kUnknown) {
          half_[e] = side;
          side ^= 1;
          e = over_right ? partner_right_[e] : partner_left_[e];
          over_right = !over_right;
        }
        if (e == start)
          break;
      }
    }
    const auto middle = std::partition(edges.begin(), edges.end(),
                                       [this](std::uint32_t e) { return half_[e] == 0; });
    return static_cast<std::size_t>(middle - edges.begin());
  }

  // Of `classes` colours from `first` on, gives up the one with the fewest edges.
  void remove_smallest(std::span<const std::uint32_t> edges, std::uint32_t first,
                       std::uint32_t classes);

  static constexpr std::uint8_t kUnknown = 2;

  std::span<const ColourEdge> edges_;
  std::uint32_t left_;
  std::uint32_t vertices_;
  std::uint32_t cap_{1};
  std::vector<std::uint32_t> colour_;
  std::vector<std::uint32_t> partner_left_;
  std::vector<std::uint32_t> partner_right_;
  std::vector<std::uint8_t> half_;
  std::vector<std::uint32_t> pending_;
  std::vector<std::uint32_t> degree_;
};

// The edges of each colour at each vertex, in the order in which they came, and which colours have
// room.
class Incidence {
 public:
  Incidence(std::uint32_t vertices, std::uint32_t colours, std::uint32_t cap, std::size_t edges)
      : colours_(colours),
        cap_(cap),
        words_((colours + 63) / 64),
        count_(std::size_t{vertices} * colours, 0),
        tail_(std::size_t{vertices} * colours, kNone),
        next_(2 * edges),
        previous_(2 * edges),
        room_(std::size_t{vertices} * words_, ~std::uint64_t{0}) {
    if (colours % 64 != 0)
      for (std::uint32_t v = 0; v < vertices; ++v)
        room_[std::size_t{v} * words_ + words_ - 1] = (std::uint64_t{1} << (colours % 64)) - 1;
  }

  // `half` is 2 * edge at its left end and 2 * edge + 1 at its right end.
  void add(std::uint32_t vertex, std::uint32_t colour, std::uint32_t half) {
    const std::size_t cell = std::size_t{vertex} * colours_ + colour;
    std::uint32_t& tail = tail_[cell];
    if (tail == kNone) {
      next_[half] = previous_[half] = half;
    } else {
      next_[half] = next_[tail];
      previous_[half] = tail;
      previous_[next_[tail]] = half;
      next_[tail] = half;
    }
    tail = half;
    if (++count_[cell] == cap_)
      room_[std::size_t{vertex} * words_ + colour / 64] &= ~(std::uint64_t{1} << (colour % 64));
  }

  void remove(std::uint32_t vertex, std::uint32_t colour, std::uint32_t half) {
    const std::size_t cell = std::size_t{vertex} * colours_ + colour;
    if (next_[half] == half) {
      tail_[cell] = kNone;
    } else {
      next_[previous_[half]] = next_[half];
      previous_[next_[half]] = previous_[half];
      if (tail_[cell] == half)
        tail_[cell] = previous_[half];
    }
    if (count_[cell]-- == cap_)
      room_[std::size_t{vertex} * words_ + colour / 64] |= std::uint64_t{1} << (colour % 64);
  }

  bool overfull(std::uint32_t vertex, std::uint32_t colour) const {
    return count_[std::size_t{vertex} * colours_ + colour] > cap_;
  }
  // The one that has been there longest.
  std::uint32_t oldest(std::uint32_t vertex, std::uint32_t colour) const {
    return next_[tail_[std::size_t{vertex} * colours_ + colour]];
  }

  // A colour with room at both, or none.
  std::uint32_t room_at_both(std::uint32_t v, std::uint32_t w) const {
    for (std::uint32_t i = 0; i < words_; ++i) {
      const std::uint64_t both =
          room_[std::size_t{v} * words_ + i] & room_[std::size_t{w} * words_ + i];
      if (both != 0)
        return i * 64 + static_cast<std::uint32_t>(std::countr_zero(both));
    }
    return kNone;
  }
  std::uint32_t room_at(std::uint32_t v) const { return room_at_both(v, v); }

 private:
  std::uint32_t colours_;
  std::uint32_t cap_;
  std::uint32_t words_;
  std::vector<std::uint32_t> count_;
  std::vector<std::uint32_t> tail_;  // by vertex and colour: the newest; the list is a ring
  std::vector<std::uint32_t> next_;  // by half edge
  std::vector<std::uint32_t> previous_;
  std::vector<std::uint64_t> room_;
};

void Colouring::remove_smallest(std::span<const std::uint32_t> edges, std::uint32_t first,
                                std::uint32_t classes) {
  std::vector<std::size_t> sizes(classes, 0);
  for (const std::uint32_t e : edges)
    ++sizes[colour_[e] - first];
  const auto smallest = static_cast<std::uint32_t>(std::ranges::min_element(sizes) - sizes.begin());
  const std::uint32_t last = classes - 1;

  // Here the colours count from 0, and the given-up one swaps places with the last.
  Incidence incidence(vertices_, last, cap_, edges.size());
  std::vector<std::uint32_t> colour(edges.size());
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < edges.size(); ++i) {
    std::uint32_t c = colour_[edges[i]] - first;
    c = c == smallest ? last : c == last ? smallest : c;
    colour[i] = c;
    if (c == last) {
      open.push_back(i);
      continue;
    }
    incidence.add(at_left(edges[i]), c, 2 * i);
    incidence.add(at_right(edges[i]), c, 2 * i + 1);
  }

  for (const std::uint32_t i : open) {
    const std::uint32_t u = at_left(edges[i]), v = at_right(edges[i]);
    std::uint32_t a = incidence.room_at_both(u, v);
    std::uint32_t b = a;
    if (a == kNone) {
      a = incidence.room_at(u);
      b = incidence.room_at(v);
      HEDDLE_CHECK(a != kNone && b != kNone);
    }
    colour[i] = a;
    incidence.add(u, a, 2 * i);
    incidence.add(v, a, 2 * i + 1);
    // Where the newcomer makes one too many, the oldest of its colour changes to the other colour,
    // and moves the surplus to its far end. Each vertex hands on edges that have not changed yet
    // before those that have (they queue up), so no edge changes twice and the walk ends: at the
    // latest where b had room.
    std::uint32_t at = v, surplus = a, other = b;
    while (incidence.overfull(at, surplus)) {
      const std::uint32_t half = incidence.oldest(at, surplus);
      const std::uint32_t e = half / 2;
      const std::uint32_t ends[2] = {at_left(edges[e]), at_right(edges[e])};
      for (std::uint32_t side = 0; side < 2; ++side) {
        incidence.remove(ends[side], surplus, 2 * e + side);
        incidence.add(ends[side], other, 2 * e + side);
      }
      colour[e] = other;
      at = ends[1 - half % 2];
      std::swap(surplus, other);
    }
  }
  for (std::uint32_t i = 0; i < edges.size(); ++i)
    colour_[edges[i]] = first + colour[i];
}

}  // namespace

std::vector<std::uint32_t> colour_edges(std::span<const ColourEdge> edges, std::uint32_t left,
                                        std::uint32_t right, std::uint32_t colours) {
  HEDDLE_CHECK(colours > 0);
  return Colouring(edges, left, right).run(colours);
}

}  // namespace heddle
