#include "common/core/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/core/routing.h"

namespace heddle {
namespace {

using testing::ElementsAre;

// Two leaves, two spines, a host on each leaf; leaf1 has two cables to spine2.
FabricDescription small() {
  FabricDescription d;
  d.name = "small";
  d.leaves = {{"leaf1", "rack1", 2}, {"leaf2", "", 3}};
  d.spines = {{"spine1", 5}, {"spine2", 6}};
  d.hosts = {{"h1", "rack1", {{"eth0", "10.1.1.2", {{"leaf1", "p1", 100_gbps, 9}}, 8}}, 7},
             {"h2", "rack2", {{"eth0", "10.2.1.2", {{"leaf2", "p1", 100_gbps, 12}}, 11}}, 10}};
  d.cables = {{"leaf1", "spine1", "up1", "d1", 100_gbps, 14},
              {"leaf1", "spine2", "up2", "d1", 100_gbps, 15},
              {"leaf1", "spine2", "up3", "d9", 100_gbps, 16},
              {"leaf2", "spine1", "up1", "d2", 100_gbps, 17},
              {"leaf2", "spine2", "up2", "d2", 40_gbps, 18}};
  return d;
}

TEST(Topology, FindsByNamePortAndAddress) {
  const Topology t = Topology::build(small()).value();
  const LeafId leaf1 = t.find_leaf("leaf1").value();
  EXPECT_EQ(t[t.find_nic(IpAddress::v4(10, 2, 1, 2)).value()].name, "eth0");
  EXPECT_FALSE(t.find_nic(IpAddress::v4(10, 2, 1, 3)));
  EXPECT_FALSE(t.find_leaf("spine1"));
  EXPECT_EQ(t[t.cable_at(leaf1, "up3").value()].spine, t.find_spine("spine2").value());
  EXPECT_FALSE(t.cable_at(leaf1, "p1"));
  EXPECT_EQ(t.attachment_at(leaf1, "p1").value(), AttachmentId{0});
  EXPECT_EQ(t[LeafId{1}].rack, "leaf2") << "a leaf without a rack is one by itself";
}

TEST(Topology, FindsNodesOfEveryKindAndTheRacksThatTheyAreIn) {
  FabricDescription description = small();
  description.hosts[1].nics[0].attachments.push_back({"leaf1", "p9", 100_gbps, 13, "eth1"});
  const Topology t = Topology::build(description).value();
  ASSERT_EQ(t.nodes().size(), 6U);
  for (const NodeId node : t.nodes())
    EXPECT_EQ(t.find_node(t.name_of(node)), node);
  EXPECT_FALSE(t.find_node("h3"));
  EXPECT_THAT(t.racks_of(LeafId{0}), ElementsAre("rack1"));
  EXPECT_THAT(t.racks_of(HostId{0}), ElementsAre("rack1"));
  EXPECT_THAT(t.racks_of(HostId{1}), ElementsAre("leaf2", "rack1")) << "of both its leaves";
  EXPECT_THAT(t.racks_of(SpineId{0}), ElementsAre());
  EXPECT_EQ(t.cable_at(SpineId{1}, "d9"), CableId{2});
  EXPECT_FALSE(t.cable_at(SpineId{0}, "d9"));
  EXPECT_EQ(t.attachment_at(HostId{1}, "eth0"), AttachmentId{1}) << "by its NIC's name";
  EXPECT_EQ(t.attachment_at(HostId{1}, "eth1"), AttachmentId{2});
}

TEST(Topology, TellsParallelCablesApart) {
  const Topology t = Topology::build(small()).value();
  EXPECT_THAT(t.cables_between(LeafId{0}, SpineId{1}), ElementsAre(CableId{1}, CableId{2}));
  EXPECT_EQ(t.link_name(t.uplink(CableId{1})), "leaf1-spine2");
  EXPECT_EQ(t.link_name(t.uplink(CableId{2})), "leaf1-spine2#2");
  EXPECT_EQ(t.link_name(t.downlink(CableId{2})), "spine2-leaf1#2");
  EXPECT_EQ(to_string(t, Path{AttachmentId{0}, CableId{2}, CableId{4}, AttachmentId{1}}),
            "spine2#2");
  EXPECT_EQ(to_string(t, Path{AttachmentId{0}, CableId{0}, CableId{3}, AttachmentId{1}}), "spine1");
}

TEST(Topology, NumbersEveryLinkOnce) {
  const Topology t = Topology::build(small()).value();
  EXPECT_EQ(t.link_count(), 2 * (5 + 2));
  EXPECT_EQ(t.link_name(t.nic_tx(AttachmentId{1})), "h2/eth0-leaf2");
  EXPECT_EQ(t.link_name(t.nic_rx(AttachmentId{1})), "leaf2-h2/eth0");
  EXPECT_EQ(t.capacity(t.downlink(CableId{4})), 40_gbps);
  EXPECT_EQ(t.nic_rx(AttachmentId{1}), LinkId{13});
  EXPECT_FALSE(t.is_core(t.nic_tx(AttachmentId{0})));
}

TEST(Topology, KnowsTheLeafAtTheEndOfEveryLink) {
  const Topology t = Topology::build(small()).value();
  for (std::uint32_t i = 0; i < t.cables().size(); ++i)
    for (const LinkId link : {t.uplink(CableId{i}), t.downlink(CableId{i})}) {
      EXPECT_EQ(t.leaf_end(link).leaf, t[CableId{i}].leaf) << t.link_name(link);
      EXPECT_EQ(t.leaf_end(link).port, t[CableId{i}].leaf_port) << t.link_name(link);
    }
  for (std::uint32_t i = 0; i < t.attachments().size(); ++i)
    for (const LinkId link : {t.nic_tx(AttachmentId{i}), t.nic_rx(AttachmentId{i})}) {
      EXPECT_EQ(t.leaf_end(link).leaf, t[AttachmentId{i}].leaf) << t.link_name(link);
      EXPECT_EQ(t.leaf_end(link).port, t[AttachmentId{i}].leaf_port) << t.link_name(link);
    }
}

TEST(Topology, ReportsEveryMistakeWithItsLine) {
  FabricDescription d = small();
  d.spines[1].name = "leaf1";
  d.hosts[0].nics[0].attachments[0].leaf = "leaf9";
  d.hosts[1].nics[0].address = "10.1.1.2";
  d.cables[0].capacity = 0_gbps;
  d.cables[3].leaf_port = "up2";
  d.cables.push_back({"leaf2", "leaf2", "up7", "up8", 100_gbps, 19});
  d.cables.push_back(
      {"leaf2", "spine1", "up5", "d5", {std::numeric_limits<double>::infinity()}, 20});
  const auto result = Topology::build(d);
  ASSERT_FALSE(result);
  EXPECT_THAT(
      result.error(),
      ElementsAre(
          Mistake{6, "the name 'leaf1' is used twice; first on line 2"},
          Mistake{9, "h1/eth0 is attached to 'leaf9', which is no leaf"},
          Mistake{11, "h2/eth0: the address 10.1.1.2 is used twice"},
          Mistake{14, "cable leaf1-spine1 has a capacity of 0 bit/s; it must be above zero"},
          Mistake{15, "cable leaf1-spine2: 'spine2' is no spine"},
          Mistake{16, "cable leaf1-spine2: 'spine2' is no spine"},
          Mistake{18, "cable leaf2-spine2: 'spine2' is no spine"},
          Mistake{19, "a cable goes from 'leaf2' to itself"},
          Mistake{20, "cable leaf2-spine1 has a capacity of inf bit/s; it must be above zero"}));
}

TEST(Topology, RefusesAPortUsedTwiceAndANicInNoLeaf) {
  FabricDescription d = small();
  d.cables[4].leaf_port = "up1";
  d.hosts[1].nics[0].attachments.clear();
  const auto result = Topology::build(d);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error(),
              ElementsAre(Mistake{11, "h2/eth0 is attached to no leaf"},
                          Mistake{18, "port 'up1' of 'leaf2' is used twice; first on line 17"}));
}

TEST(LinkState, ACableIsTwoLinks) {
  const Topology t = Topology::build(small()).value();
  LinkState links(t);
  links.set(t, CableId{1}, false);
  EXPECT_FALSE(links.up(t.uplink(CableId{1})));
  EXPECT_FALSE(links.up(t.downlink(CableId{1})));
  EXPECT_TRUE(links.up(t.uplink(CableId{2})));
  links.set(t, CableId{1}, true);
  EXPECT_EQ(links, LinkState(t));
}

}  // namespace
}  // namespace heddle
