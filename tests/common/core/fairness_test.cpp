#include "common/core/fairness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace heddle {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;

FairFlow over(std::initializer_list<std::uint32_t> links) {
  FairFlow flow;
  for (const std::uint32_t l : links)
    flow.links.push_back(LinkId{l});
  return flow;
}

// Link 0 carries A; link 1 carries A and B. Link 0 holds A to 30, so fairness hands A's unused
// share of link 1 to B.
TEST(MaxMinFair, GivesShareAFlowCannotUseToItsNeighbour) {
  const std::vector flows{over({0, 1}), over({1})};
  EXPECT_EQ(max_min_fair(flows, std::vector{30_gbps, 100_gbps}), (std::vector{30_gbps, 70_gbps}));
}

// Three links of 1 in a row: the long flow shares each with one short flow, 1/2 each.
TEST(MaxMinFair, HoldsALongFlowToItsShareOnEveryLink) {
  const std::vector flows{over({0, 1, 2}), over({0}), over({1}), over({2})};
  EXPECT_EQ(max_min_fair(flows, std::vector(3, 10_gbps)), (std::vector(4, 5_gbps)));
}

// Level 10: link 0 (30 by 3) is full. Link 1 has 50 - 10 left for its one other flow.
TEST(MaxMinFair, FillsTheNextLinkAfterTheNarrowestIsFull) {
  const std::vector flows{over({0}), over({0}), over({0, 1}), over({1})};
  EXPECT_EQ(max_min_fair(flows, std::vector{30_gbps, 50_gbps}),
            (std::vector{10_gbps, 10_gbps, 10_gbps, 40_gbps}));
}

TEST(MaxMinFair, GivesNothingOverADeadLinkAndDoesNotCountItElsewhere) {
  const std::vector flows{over({0, 1}), over({1})};
  EXPECT_EQ(max_min_fair(flows, std::vector{0_gbps, 100_gbps}), (std::vector{0_gbps, 100_gbps}));
}

TEST(MaxMinFair, LeavesAFlowWithoutLinksUnlimited) {
  const std::vector flows{over({}), over({0})};
  const auto rates = max_min_fair(flows, std::vector{1_gbps});
  EXPECT_EQ(rates[0].bits_per_second, std::numeric_limits<double>::infinity());
  EXPECT_EQ(rates[1], 1_gbps);
  EXPECT_TRUE(max_min_fair({}, {}).empty());
}

// A and B are hashed over two cables of 100, C is on the first alone: x + 1/2 (x + x) = 100, so all
// get 50, and the second cable, where only 50 are wanted, stays half empty.
TEST(MaxMinFair, SpreadsAHashedFlowOverParallelCables) {
  FairNetwork network;
  for (int i = 0; i < 2; ++i) {
    network.cross(LinkId{0}, 0.5);
    network.cross(LinkId{1}, 0.5);
    network.end_flow();
  }
  network.cross(LinkId{0});
  network.end_flow();
  MaxMin solver;
  const auto rates = solver.solve(network, std::vector{100.0, 100.0});
  EXPECT_THAT(std::vector(rates.begin(), rates.end()),
              ElementsAre(DoubleEq(50), DoubleEq(50), DoubleEq(50)));
}

// The definition itself: rates fit every link, and each flow has a bottleneck, a full link on which
// no flow is faster. Together these make the rates the max-min fair ones, and there is only one
// such set.
TEST(MaxMinFair, EveryFlowHasABottleneckOnRandomInstances) {
  constexpr std::uint64_t kSeed = 20250305;
  std::mt19937_64 random(kSeed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  MaxMin solver;
  for (int instance = 0; instance < 2000; ++instance) {
    const std::uint32_t links = 1 + below(30);
    std::vector<double> capacities;
    for (std::uint32_t l = 0; l < links; ++l)
      capacities.push_back(below(20) == 0 ? 0.0 : 1.0 + below(5) + (below(2) ? 0.0 : 0.37));
    FairNetwork network;
    const std::uint32_t flows = 1 + below(60);
    for (std::uint32_t f = 0; f < flows; ++f) {
      for (std::uint32_t crossed = 1 + below(5); crossed > 0; --crossed)
        network.cross(LinkId{below(links)}, below(4) == 0 ? 1.0 / 3 : 1.0);
      network.end_flow();
    }
    const auto rates = solver.solve(network, capacities);
    std::vector<double> load(links, 0.0), fastest(links, 0.0);
    for (std::uint32_t f = 0; f < flows; ++f)
      for (std::uint32_t i = network.first[f]; i < network.first[f + 1]; ++i) {
        load[network.links[i].value] += rates[f] * network.parts[i];
        fastest[network.links[i].value] = std::max(fastest[network.links[i].value], rates[f]);
      }
    for (std::uint32_t l = 0; l < links; ++l)
      ASSERT_LE(load[l], capacities[l] * (1 + 1e-9))
          << "seed " << kSeed << " instance " << instance;
    for (std::uint32_t f = 0; f < flows; ++f) {
      bool has_bottleneck = false;
      for (std::uint32_t i = network.first[f]; i < network.first[f + 1]; ++i) {
        const std::uint32_t l = network.links[i].value;
        has_bottleneck |=
            load[l] >= capacities[l] * (1 - 1e-9) && rates[f] >= fastest[l] * (1 - 1e-9);
      }
      ASSERT_TRUE(has_bottleneck) << "seed " << kSeed << " instance " << instance << " flow " << f;
    }
  }
}

}  // namespace
}  // namespace heddle
