// Cables as agents hear of them against those of a fabric file: everything in place, and each way
// in which it may not be.
#include "coordinator/predict/cable_table.h"

#include <gtest/gtest.h>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

// Two leaves, two spines, one host a leaf: 4 cables and 2 attachments, in which every node tells.
class CableTableTest : public ::testing::Test {
 protected:
  CableTableTest() : CableTableTest(testing::small_fabric(2, 2, 1, Rate{100e9})) {}
  explicit CableTableTest(Topology fabric) : topology(std::move(fabric)) {
    for (const Topology::Cable& cable : topology.cables())
      connect({topology[cable.leaf].name, cable.leaf_port},
              {topology[cable.spine].name, cable.spine_port});
    for (const Topology::Attachment& end : topology.attachments())
      connect({topology[end.leaf].name, end.leaf_port},
              {topology[topology[end.nic].host].name, topology[end.nic].name});
  }

  void hear(const CableEnd& at, const CableEnd& whom) {
    heard[at.node].push_back({at.port, whom.node, whom.port, ""});
  }
  void connect(const CableEnd& a, const CableEnd& b) {
    hear(a, b);
    hear(b, a);
  }
  void unplug(const CableEnd& a, const CableEnd& b) {
    for (const auto& [at, whom] : {std::pair(a, b), std::pair(b, a)})
      std::erase_if(heard[at.node], [&](const LldpNeighbour& one) {
        return one.port == at.port && one.node == whom.node && one.node_port == whom.port;
      });
  }
  CableCheck check() {
    for (const auto& [node, neighbours] : heard)
      table.set_neighbours(node, neighbours);
    return table.check(topology);
  }
  // The only difference.
  CableDifference only() {
    const CableCheck checked = check();
    EXPECT_EQ(checked.differences.size(), 1U);
    return checked.differences.empty() ? CableDifference{} : checked.differences.front();
  }

  Topology topology;
  CableTable table;
  std::map<std::string, std::vector<LldpNeighbour>> heard;
};

TEST_F(CableTableTest, EverythingInItsPlaceIsNoDifference) {
  const CableCheck checked = check();
  EXPECT_EQ(checked.expected, 6U);
  EXPECT_EQ(checked.verified, 6U);
  EXPECT_TRUE(checked.unverified.empty());
  EXPECT_TRUE(checked.differences.empty());
  EXPECT_TRUE(checked.parallel.empty());
}

TEST_F(CableTableTest, OneEndThatTellsIsEnough) {
  for (const char* const node : {"spine1", "spine2", "h1-1", "h2-1"})
    heard.erase(node);
  EXPECT_EQ(check().verified, 6U);
}

TEST_F(CableTableTest, SafetyRule7WhatNobodyTellsOfIsUnverifiedAndNotMissing) {
  heard = {{"leaf1", heard["leaf1"]}};
  const CableCheck checked = check();
  EXPECT_EQ(checked.verified, 3U);
  EXPECT_EQ(checked.unverified.size(), 3U);
  EXPECT_TRUE(checked.differences.empty());
  table.forget("leaf1");
  heard.clear();
  EXPECT_EQ(check().unverified.size(), 6U);
  table.set_neighbours("leaf1", std::nullopt);
  EXPECT_EQ(check().unverified.size(), 6U) << "its lldpd is not known to hear";
}

TEST_F(CableTableTest, ACableOfTheFileThatNobodyHearsIsMissing) {
  unplug({"leaf1", "up2"}, {"spine2", "d1"});
  table.set_ports("leaf1", {{.name = "up2", .carrier = false}});
  const CableDifference missing = only();
  EXPECT_EQ(missing.fault, CableFault::missing);
  EXPECT_EQ(missing.at, (CableEnd{"leaf1", "up2"}));
  EXPECT_EQ(missing.expected, (CableEnd{"spine2", "d1"}));
  EXPECT_EQ(missing.found, CableEnd{});
  EXPECT_TRUE(missing.no_carrier);
}

TEST_F(CableTableTest, ACableThatIsNotInTheFileIsExtraAndToldOnce) {
  connect({"leaf1", "up9"}, {"spine1", "d9"});
  const CableDifference extra = only();
  EXPECT_EQ(extra.fault, CableFault::extra);
  EXPECT_EQ(extra.at, (CableEnd{"leaf1", "up9"}));
  EXPECT_EQ(extra.found, (CableEnd{"spine1", "d9"}));
  EXPECT_EQ(extra.expected, CableEnd{});
}

TEST_F(CableTableTest, NeighboursThatAreNoNodesOfTheFileDoNotMatter) {
  hear({"leaf1", "mgmt0"}, {"office-switch", "17"});
  hear({"leaf1", "up1"}, {"a-hub", "3"});
  EXPECT_TRUE(check().differences.empty());
}

TEST_F(CableTableTest, APortThatLeadsToAStrangerLacksItsCable) {
  unplug({"leaf1", "up2"}, {"spine2", "d1"});
  hear({"leaf1", "up2"}, {"storage7", "e0"});
  const CableDifference missing = only();
  EXPECT_EQ(missing.fault, CableFault::missing);
  EXPECT_EQ(missing.found, (CableEnd{"storage7", "e0"}));
}

// leaf1's two uplinks, each in the other spine: one mistake, and not four.
TEST_F(CableTableTest, TwoCablesWithExchangedEndsAreSwapped) {
  unplug({"leaf1", "up1"}, {"spine1", "d1"});
  unplug({"leaf1", "up2"}, {"spine2", "d1"});
  connect({"leaf1", "up1"}, {"spine2", "d1"});
  connect({"leaf1", "up2"}, {"spine1", "d1"});
  const CableDifference swapped = only();
  EXPECT_EQ(swapped.fault, CableFault::swapped);
  EXPECT_EQ(swapped.at, (CableEnd{"leaf1", "up1"}));
  EXPECT_EQ(swapped.expected, (CableEnd{"spine1", "d1"}));
  EXPECT_EQ(swapped.found, (CableEnd{"spine2", "d1"}));
  EXPECT_EQ(swapped.other, (CableEnd{"leaf1", "up2"}));
  EXPECT_EQ(check().verified, 4U);
}

// The same seen by the spines alone, which hear two leaves exchanged.
TEST_F(CableTableTest, ASwapIsSeenFromEitherSide) {
  unplug({"leaf1", "up1"}, {"spine1", "d1"});
  unplug({"leaf2", "up1"}, {"spine1", "d2"});
  connect({"leaf1", "up1"}, {"spine1", "d2"});
  connect({"leaf2", "up1"}, {"spine1", "d1"});
  heard = {{"spine1", heard["spine1"]}};
  const CableCheck checked = check();
  ASSERT_EQ(checked.differences.size(), 1U);
  EXPECT_EQ(checked.differences[0].fault, CableFault::swapped);
  EXPECT_EQ(checked.differences[0].at, (CableEnd{"spine1", "d1"}));
  EXPECT_EQ(checked.differences[0].other, (CableEnd{"spine1", "d2"}));
}

// Plugged into a free port of another spine: the file's cable is missing and another one is extra.
TEST_F(CableTableTest, ACableInAWrongPortIsMissingThereAndExtraHere) {
  unplug({"leaf1", "up2"}, {"spine2", "d1"});
  connect({"leaf1", "up2"}, {"spine1", "d9"});
  const CableCheck checked = check();
  ASSERT_EQ(checked.differences.size(), 2U);
  EXPECT_EQ(checked.differences[0].fault, CableFault::missing);
  EXPECT_EQ(checked.differences[0].found, (CableEnd{"spine1", "d9"}));
  EXPECT_EQ(checked.differences[1].fault, CableFault::extra);
}

TEST_F(CableTableTest, APortOfAnotherSpeedIsADifference) {
  table.set_ports("leaf1", {{.name = "up1", .carrier = true, .speed = Rate{25e9}},
                            {.name = "up2", .carrier = true, .speed = Rate{103.125e9}},
                            {.name = "p1", .carrier = true},
                            {.name = "mgmt0", .carrier = true, .speed = Rate{1e9}}});
  const CableDifference slow = only();
  EXPECT_EQ(slow.fault, CableFault::speed);
  EXPECT_EQ(slow.at, (CableEnd{"leaf1", "up1"}));
  EXPECT_EQ(slow.expected_speed, Rate{100e9});
  EXPECT_EQ(slow.found_speed, Rate{25e9});
}

// Hosts' names differ in case and domain; ports may be told by id or by description.
TEST_F(CableTableTest, NamesAgreeUpToCaseAndDomain) {
  for (auto& [node, neighbours] : heard)
    for (LldpNeighbour& one : neighbours)
      one = {one.port, "S" + one.node.substr(1) + ".Fabric.Example", "b2:60:92:de:ee:08",
             one.node_port};
  for (LldpNeighbour& one : heard["spine1"])
    one.node = one.port == "d1" ? "LEAF1.x" : "LEAF2.x";
  heard = {{"leaf1", heard["leaf1"]}, {"spine1", heard["spine1"]}};
  const CableCheck checked = check();
  EXPECT_EQ(checked.verified, 3U) << "leaf1 to both spines, and spine1 to leaf2";
}

class ParallelCablesTest : public CableTableTest {
 protected:
  ParallelCablesTest() : CableTableTest(fabric()) {}
  static Topology fabric() {
    FabricDescription two;
    two.name = "parallel";
    two.leaves = {{.name = "leaf1", .rack = "r", .line = 0}};
    two.spines = {{.name = "spine1", .line = 0}};
    for (const char* const n : {"1", "2"})
      two.cables.push_back({.leaf = "leaf1",
                            .spine = "spine1",
                            .leaf_port = std::string("up") + n,
                            .spine_port = std::string("d") + n,
                            .capacity = Rate{100e9},
                            .line = 0});
    return *Topology::build(two);
  }
};

TEST_F(ParallelCablesTest, AreListedWithHowManyAreThere) {
  EXPECT_EQ(check().parallel, (std::vector<ParallelCables>{{"leaf1", "spine1", 2, 2}}));
  unplug({"leaf1", "up2"}, {"spine1", "d2"});
  const CableCheck checked = check();
  EXPECT_EQ(checked.parallel, (std::vector<ParallelCables>{{"leaf1", "spine1", 2, 1}}));
  EXPECT_EQ(checked.differences.size(), 1U);
}

TEST_F(ParallelCablesTest, SwappedAmongThemselvesAreStillTwo) {
  unplug({"leaf1", "up1"}, {"spine1", "d1"});
  unplug({"leaf1", "up2"}, {"spine1", "d2"});
  connect({"leaf1", "up1"}, {"spine1", "d2"});
  connect({"leaf1", "up2"}, {"spine1", "d1"});
  EXPECT_EQ(only().fault, CableFault::swapped);
  EXPECT_EQ(check().parallel, (std::vector<ParallelCables>{{"leaf1", "spine1", 2, 2}}));
}

}  // namespace
}  // namespace heddle
