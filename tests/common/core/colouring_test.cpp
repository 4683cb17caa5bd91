#include "common/core/colouring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace heddle {
namespace {

std::uint32_t largest(const std::vector<ColourEdge>& edges, std::uint32_t vertices,
                      const std::vector<std::uint32_t>& colour, std::uint32_t colours) {
  std::vector<std::uint32_t> left(std::size_t{vertices} * colours, 0), right(left);
  std::uint32_t most = 0;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    most = std::max(most, ++left[edges[e].left * colours + colour[e]]);
    most = std::max(most, ++right[edges[e].right * colours + colour[e]]);
  }
  return most;
}

std::uint32_t degree(const std::vector<ColourEdge>& edges, std::uint32_t vertices) {
  return largest(edges, vertices, std::vector<std::uint32_t>(edges.size(), 0), 1);
}

TEST(EdgeColouring, ColoursNothing) {
  EXPECT_TRUE(colour_edges({}, 3, 3, 5).empty());
}

// Three parallel edges in two colours: two of one, one of the other.
TEST(EdgeColouring, SplitsParallelEdges) {
  const std::vector<ColourEdge> edges(3, {.left = 1, .right = 1});
  EXPECT_EQ(largest(edges, 2, colour_edges(edges, 2, 2, 2), 2), 2U);
  EXPECT_EQ(largest(edges, 2, colour_edges(edges, 2, 2, 3), 3), 1U);
}

// Every number of colours from 1 to 70, far below and far above the degree.
TEST(EdgeColouring, ReachesKoenigsBoundOnRandomMultigraphs) {
  constexpr std::uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int instance = 0; instance < 1400; ++instance) {
    const auto vertices = static_cast<std::uint32_t>(1 + random() % 24);
    const auto colours = static_cast<std::uint32_t>(1 + instance % 70);
    std::vector<ColourEdge> edges(random() % 600);
    for (ColourEdge& e : edges)
      e = {.left = static_cast<std::uint32_t>(random() % vertices),
           .right = static_cast<std::uint32_t>(random() % vertices)};
    const auto colour = colour_edges(edges, vertices, vertices, colours);
    const std::uint32_t d = degree(edges, vertices);
    ASSERT_EQ(largest(edges, vertices, colour, colours), (d + colours - 1) / colours)
        << "seed " << kSeed << " instance " << instance << " colours " << colours << " degree "
        << d;
    for (const std::uint32_t c : colour)
      ASSERT_LT(c, colours);
  }
}

// The tight case: every vertex full, so that no colour is to spare anywhere.
TEST(EdgeColouring, ReachesKoenigsBoundOnRegularMultigraphs) {
  constexpr std::uint64_t kSeed = 8;
  std::mt19937_64 random(kSeed);
  for (const std::uint32_t colours : {2U, 3U, 5U, 7U, 12U, 23U, 24U, 31U, 32U, 33U, 63U}) {
    for (const std::uint32_t times : {1U, 2U, 3U, 8U}) {
      constexpr std::uint32_t kVertices = 20;
      std::vector<ColourEdge> edges;
      std::vector<std::uint32_t> to(kVertices);
      for (std::uint32_t v = 0; v < kVertices; ++v)
        to[v] = v;
      for (std::uint32_t i = 0; i < colours * times; ++i) {
        std::ranges::shuffle(to, random);
        for (std::uint32_t v = 0; v < kVertices; ++v)
          edges.push_back({.left = v, .right = to[v]});
      }
      ASSERT_EQ(
          largest(edges, kVertices, colour_edges(edges, kVertices, kVertices, colours), colours),
          times)
          << "seed " << kSeed << " colours " << colours << " times " << times;
    }
  }
}

}  // namespace
}  // namespace heddle
