// Edge colouring of bipartite multigraphs: leaves to leaves, one edge for each subflow, one colour
// for each spine. Pure; no thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

struct ColourEdge {
  std::uint32_t left{};  // the leaf it comes from
  std::uint32_t
      right{};  // the leaf it goes to; another set of vertices, also when the numbers are the same
};

// A colour, 0 to colours - 1, for each edge, such that no vertex has more than ceil(D / colours)
// edges of one colour, D being the largest number of edges at a vertex. That is the least possible
// (Koenig). `left` and `right` are the numbers of vertices; colours is at least 1. Cost: O(E log
// colours) for the splitting, plus the alternating paths for a part of the edges where colours is
// not a power of two.
std::vector<std::uint32_t> colour_edges(std::span<const ColourEdge> edges, std::uint32_t left,
                                        std::uint32_t right, std::uint32_t colours);

}  // namespace heddle
