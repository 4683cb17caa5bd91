#include "tests/lab/collective.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace heddle::lab {
namespace {

// Delivers messages in random order; how often each pair was used.
std::map<Transfer, int> play(Collective& collective, unsigned seed) {
  std::mt19937 random(seed);
  std::map<Transfer, int> used;
  std::vector<std::pair<Transfer, bool>> events;  // true: acknowledged
  const auto send = [&](const std::vector<Transfer>& messages) {
    for (const Transfer& message : messages) {
      ++used[message];
      events.emplace_back(message, false);
    }
  };
  send(collective.begin());
  while (!events.empty()) {
    EXPECT_FALSE(collective.finished());
    const std::size_t pick = random() % events.size();
    const auto [message, acknowledged] = events[pick];
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(pick));
    if (acknowledged) {
      send(collective.on_acknowledged(message));
    } else {
      events.emplace_back(message, true);
      send(collective.on_received(message));
    }
  }
  EXPECT_TRUE(collective.finished());
  return used;
}

TEST(Collective, ARingPassesTwoTimesNMinusOnePiecesOverEachOfItsEdges) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto ring = make_collective(Pattern::ring_all_reduce, 8);
    const auto used = play(*ring, seed);
    EXPECT_EQ(used.size(), 8U);
    for (const auto& [pair, count] : used) {
      EXPECT_EQ(pair.to, (pair.from + 1) % 8);
      EXPECT_EQ(count, 14);
    }
  }
}

TEST(Collective, ARankOfARingPassesOnNothingItDoesNotHold) {
  const auto ring = make_collective(Pattern::ring_all_reduce, 4);
  EXPECT_EQ(ring->begin().size(), 4U);
  EXPECT_TRUE(ring->on_acknowledged({0, 1}).empty());
  EXPECT_EQ(ring->on_received({0, 1}), (std::vector<Transfer>{{1, 2}}));
}

TEST(Collective, AllToAllUsesEveryOrderedPairOnce) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto exchange = make_collective(Pattern::all_to_all, 6);
    const auto used = play(*exchange, seed);
    EXPECT_EQ(used.size(), 30U);
    for (const auto& [pair, count] : used)
      EXPECT_EQ(count, 1);
  }
}

TEST(Collective, CanBePlayedAgain) {
  for (const Pattern pattern : {Pattern::ring_all_reduce, Pattern::all_to_all}) {
    const auto collective = make_collective(pattern, 5);
    EXPECT_EQ(play(*collective, 1), play(*collective, 2));
  }
}

}  // namespace
}  // namespace heddle::lab
