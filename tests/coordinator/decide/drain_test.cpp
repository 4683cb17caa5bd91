#include "coordinator/decide/drain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/small_fabric.h"

namespace heddle::testing {
namespace {

TEST(Drain, ASpineIsClosedForEveryPair) {
  const Topology topology = small_fabric(3, 4, 2);
  const auto scope = scope_of(topology, {"spine", "spine2"});
  ASSERT_TRUE(scope);
  EXPECT_EQ(scope->cables.size(), 3U);
  EXPECT_EQ(scope->links.size(), 6U);
  const auto closed = keep_away_from(topology, scope->cables);
  EXPECT_EQ(closed.size(), 6U) << "3 x 2 pairs, one way each";
  EXPECT_TRUE(std::ranges::all_of(closed, [&](const Forbidden& way) {
    return topology[topology[way.up].spine].name == "spine2";
  }));
}

TEST(Drain, ACableIsClosedAtBothEnds) {
  const Topology topology = small_fabric(3, 4, 2);
  for (const char* name : {"leaf1-spine2", "spine2-leaf1"}) {
    const auto scope = scope_of(topology, {"cable", name});
    ASSERT_TRUE(scope) << name;
    EXPECT_EQ(scope->cables.size(), 1U);
    // Two from leaf 1, and one from each of the others to it.
    EXPECT_EQ(keep_away_from(topology, scope->cables).size(), 4U);
  }
}

TEST(Drain, APairThatWouldHaveNoWayKeepsItsWays) {
  const Topology topology = small_fabric(3, 4, 2);
  const auto scope = scope_of(topology, {"leaf", "leaf1"});
  ASSERT_TRUE(scope);
  EXPECT_EQ(scope->leaves.size(), 1U);
  EXPECT_EQ(scope->links.size(), 2U * (4 + 2)) << "its cables and its hosts' ports";
  EXPECT_TRUE(keep_away_from(topology, scope->cables).empty());
  EXPECT_EQ(scope_of(topology, {"rack", "rack1"})->cables, scope->cables);
}

TEST(Drain, SaysWhatTheFabricDoesNotHave) {
  const Topology topology = small_fabric(2, 2, 1);
  EXPECT_EQ(scope_of(topology, {"spine", "spine9"}).error().code, Errc::not_found);
  EXPECT_EQ(scope_of(topology, {"cable", "leaf1-leaf2"}).error().code, Errc::not_found);
  EXPECT_EQ(scope_of(topology, {"host", "h1-1"}).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace heddle::testing
