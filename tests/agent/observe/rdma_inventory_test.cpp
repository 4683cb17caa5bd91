#include "agent/observe/rdma_inventory.h"

#include <gtest/gtest.h>

#include "common/core/udp_source_port.h"
#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

using std::chrono::seconds;
using test::connected;

const IpAddress kHere = IpAddress::v4(10, 1, 1, 2);
const IpAddress kThere = IpAddress::v4(10, 2, 1, 2);

Time at(int second) {
  return Time(seconds(second));
}

// One device "mlx5_0" of one port with one address, and these queue pairs.
RdmaLook look_at(std::vector<QueuePair> pairs) {
  RdmaLook look;
  look.devices = {{.index = 3, .name = "mlx5_0", .node_guid = 7, .ports = 1, .protocol = "roce"}};
  look.ports = {{.device = 3, .port = 1, .active = true, .ifindex = 5, .netdev = "eth0"}};
  look.queue_pairs = std::move(pairs);
  look.addresses = {{3, 1, 0, *IpAddress::parse("fe80::1")}, {3, 1, 1, kHere}};
  return look;
}

CmId connection(std::uint32_t qpn, std::uint16_t here, std::uint16_t there) {
  return {.device = 3,
          .port = 1,
          .qpn = qpn,
          .listens = false,
          .pid = 197,
          .source = SocketAddress{kHere, here},
          .destination = SocketAddress{kThere, there}};
}

TEST(RdmaInventory, AConnectedQueuePairHasAnAddressAndASourcePortButNoPeerOfItsOwn) {
  RdmaInventory inventory;
  const RdmaView view = inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  ASSERT_EQ(view.queue_pairs.size(), 1U);
  const KnownQueuePair& pair = view.queue_pairs[0];
  EXPECT_EQ(pair.qpn, 178U);
  EXPECT_EQ(pair.remote_qpn, 200U);
  EXPECT_EQ(pair.pid, 197U);
  EXPECT_EQ(pair.netdev, "eth0");
  EXPECT_EQ(pair.source_port, 51'986);
  EXPECT_EQ(pair.addresses, (std::vector{kHere, *IpAddress::parse("fe80::1")}));
  EXPECT_FALSE(pair.peer);
  EXPECT_FALSE(pair.bytes);
  EXPECT_EQ(pair.first_seen, at(1));
}

TEST(RdmaInventory, KnowsThePeerThatTheKernelWasSeenToConnect) {
  RdmaInventory inventory;
  inventory.connected(std::vector{test::connection(178, 200, at(0), 0x12345)});
  const RdmaView view = inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  const KnownQueuePair& pair = view.queue_pairs.at(0);
  EXPECT_EQ(pair.peer, kThere);
  EXPECT_EQ(pair.origin, PeerOrigin::kernel);
  EXPECT_EQ(pair.source_port, 58'177) << "of the label that the application set";
  EXPECT_EQ(pair.addresses, std::vector{kHere});
  EXPECT_EQ(pair.first_seen, at(0));
}

TEST(RdmaInventory, AConnectionToAnotherPeerIsOfAnEarlierQueuePair) {
  RdmaInventory inventory;
  inventory.connected(std::vector{test::connection(178, 201, at(0))});
  EXPECT_FALSE(
      inventory.update(look_at({connected(3, 178, 200, 197)}), at(1)).queue_pairs.at(0).peer);
}

// The caller's port is 40001, the service's 18515: see the vectors of the source port.
TEST(RdmaInventory, KnowsThePeerOfAConnectionByRdmaCmAtEitherEnd) {
  RdmaInventory inventory;
  RdmaLook caller = look_at({connected(3, 178, 200, 197)});
  caller.cm_ids = {connection(178, 40'001, 18'515)};
  const KnownQueuePair pair = inventory.update(caller, at(1)).queue_pairs.at(0);
  EXPECT_EQ(pair.peer, kThere);
  EXPECT_EQ(pair.origin, PeerOrigin::cm);
  EXPECT_EQ(pair.source_port, 62'526);

  RdmaLook called = look_at({connected(3, 178, 200, 197)});
  called.cm_ids = {connection(178, 18'515, 40'001)};
  EXPECT_EQ(inventory.update(called, at(2)).queue_pairs.at(0).source_port, 62'526);

  // A service may have a high port, too; its listener says who was called.
  RdmaLook high = look_at({connected(3, 178, 200, 197)});
  high.cm_ids = {connection(178, 60'000, 40'001),
                 {.device = 3,
                  .port = 0,
                  .qpn = 0,
                  .listens = true,
                  .pid = 197,
                  .source = SocketAddress{{}, 60'000},
                  .destination = std::nullopt}};
  EXPECT_EQ(inventory.update(high, at(3)).queue_pairs.at(0).source_port,
            udp_source_port(cm_flow_label(40'001, 60'000)));
}

TEST(RdmaInventory, TheKernelIsBelievedBeforeRdmaCm) {
  RdmaInventory inventory;
  inventory.connected(std::vector{test::connection(178, 200, at(0))});
  RdmaLook look = look_at({connected(3, 178, 200, 197)});
  look.cm_ids = {connection(178, 40'001, 18'515)};
  EXPECT_EQ(inventory.update(look, at(1)).queue_pairs.at(0).origin, PeerOrigin::kernel);
}

TEST(RdmaInventory, AQueuePairWithoutAPeersNumberIsNoFlow) {
  RdmaInventory inventory;
  QueuePair pair = connected(3, 1, 0, 0);
  pair.remote_qpn.reset();
  EXPECT_TRUE(inventory.update(look_at({pair}), at(1)).queue_pairs.empty());
}

TEST(RdmaInventory, ANumberThatAnotherProcessUsesAgainIsAnotherQueuePair) {
  RdmaInventory inventory;
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  const auto same = inventory.update(look_at({connected(3, 178, 200, 197)}), at(2));
  EXPECT_EQ(same.queue_pairs.at(0).first_seen, at(1));
  const auto other = inventory.update(look_at({connected(3, 178, 200, 555)}), at(3));
  EXPECT_EQ(other.queue_pairs.at(0).first_seen, at(3));
  EXPECT_EQ(other.queue_pairs.at(0).pid, 555U);
  // The same process to another peer.
  const auto third = inventory.update(look_at({connected(3, 178, 201, 555)}), at(4));
  EXPECT_EQ(third.queue_pairs.at(0).first_seen, at(4));
}

// Between two looks a process made, ended and made again: all numbers are the same.
TEST(RdmaInventory, AQueuePairThatWasConnectedAgainIsAnother) {
  RdmaInventory inventory;
  inventory.connected(std::vector{test::connection(178, 200, at(0))});
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  inventory.connected(std::vector{test::connection(178, 200, at(2))});
  const auto again = inventory.update(look_at({connected(3, 178, 200, 197)}), at(3));
  EXPECT_EQ(again.queue_pairs.at(0).first_seen, at(2));
}

TEST(RdmaInventory, AQueuePairOfAProcessThatHasJustEndedIsStillTheSame) {
  RdmaInventory inventory;
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  const auto view = inventory.update(look_at({connected(3, 178, 200, 0)}), at(2));
  EXPECT_EQ(view.queue_pairs.at(0).first_seen, at(1));
  EXPECT_EQ(view.queue_pairs.at(0).pid, 197U);
}

TEST(RdmaInventory, GoesOnUnderADevicesNewName) {
  RdmaInventory inventory;
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  RdmaLook renamed = look_at({connected(3, 178, 200, 197)});
  renamed.devices[0].name = "rocep1s0";
  const auto view = inventory.update(renamed, at(2));
  EXPECT_EQ(view.queue_pairs.at(0).first_seen, at(1));
  ASSERT_EQ(view.ports.size(), 1U);
  EXPECT_EQ(view.ports[0].device, "rocep1s0");
  EXPECT_EQ(view.ports[0].guid, 7U);
}

// The kernel gives a device that is added again another index, and all its queue pairs are new.
TEST(RdmaInventory, ADeviceThatWasRemovedAndAddedAgainHasNewQueuePairs) {
  RdmaInventory inventory;
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  RdmaLook again = look_at({connected(4, 178, 200, 197)});
  again.devices[0].index = again.ports[0].device = 4;
  for (RdmaAddress& address : again.addresses)
    address.device = 4;
  const auto view = inventory.update(again, at(2));
  EXPECT_EQ(view.queue_pairs.at(0).first_seen, at(2));
  ASSERT_EQ(view.ports.size(), 1U) << "it is not there twice";
}

TEST(SafetyRule7, ADeviceInAnExclusiveNamespaceIsHiddenAndNotGone) {
  RdmaLook there = look_at({});
  RdmaLook away;
  RdmaInventory shared;
  shared.update(there, at(1));
  EXPECT_TRUE(shared.update(away, at(2)).ports.empty()) << "where all are visible it is gone";

  there.system.shared = away.system.shared = false;
  RdmaInventory exclusive;
  exclusive.update(there, at(1));
  for (int second = 2; second <= 3; ++second) {
    const RdmaView view = exclusive.update(away, at(second));
    ASSERT_EQ(view.ports.size(), 1U);
    EXPECT_TRUE(view.ports[0].hidden);
    EXPECT_TRUE(view.ports[0].counters.empty());
  }
  const RdmaView back = exclusive.update(there, at(4));
  ASSERT_EQ(back.ports.size(), 1U);
  EXPECT_FALSE(back.ports[0].hidden);
}

QpCounter counter(std::vector<std::uint32_t> qpns, std::vector<NamedCount> values) {
  return {.device = 3,
          .port = 1,
          .id = 9,
          .automatic = false,
          .qpns = std::move(qpns),
          .values = std::move(values)};
}

TEST(RdmaInventory, CountsBytesByAQueuePairsOwnCounterAsSynthesisedFromTheUapiHeaders) {
  RdmaInventory inventory;
  RdmaLook look = look_at({connected(3, 178, 200, 197)});
  look.counters = {counter({178}, {{"rdma_tx_bytes", 4096}, {"rdma_tx_packets", 4}})};
  const KnownQueuePair pair = inventory.update(look, at(1)).queue_pairs.at(0);
  EXPECT_EQ(pair.bytes, Bytes{4096});
  EXPECT_EQ(pair.packets, 4U);
}

TEST(SafetyRule7, Mlx5WithoutByteCountersLeavesBytesUnobservableAsSynthesisedFromTheUapiHeaders) {
  RdmaInventory inventory;
  RdmaLook look = look_at({connected(3, 178, 200, 197)});
  look.counters = {counter({178}, {{"rx_write_requests", 12}, {"out_of_sequence", 0}})};
  EXPECT_FALSE(inventory.update(look, at(1)).queue_pairs.at(0).bytes);
}

TEST(SafetyRule7, ACounterThatQueuePairsShareSaysNothingOfOneOfThem) {
  RdmaInventory inventory;
  RdmaLook look = look_at({connected(3, 178, 200, 197), connected(3, 179, 201, 197)});
  look.counters = {counter({178, 179}, {{"rdma_tx_bytes", 4096}})};
  EXPECT_FALSE(inventory.update(look, at(1)).queue_pairs.at(0).bytes);
  look.counters = {counter({178}, {{"rdma_tx_bytes", 4096}})};
  look.counters[0].automatic = true;
  EXPECT_FALSE(inventory.update(look, at(2)).queue_pairs.at(0).bytes);
}

TEST(SafetyRule7, ALookThatWasCutOffIsAGapAndForgetsNothing) {
  RdmaInventory inventory;
  inventory.update(look_at({connected(3, 178, 200, 197)}), at(1));
  RdmaLook cut = look_at({});
  cut.incomplete = true;
  EXPECT_TRUE(inventory.update(cut, at(2)).gap);
  const auto view = inventory.update(look_at({connected(3, 178, 200, 197)}), at(3));
  EXPECT_FALSE(view.gap);
  EXPECT_EQ(view.queue_pairs.at(0).first_seen, at(1)) << "it was there all the time";
}

}  // namespace
}  // namespace heddle
