#include "agent/observe/flow_merger.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::seconds;

const IpAddress kHere = IpAddress::v4(10, 1, 1, 2);
const IpAddress kThere = IpAddress::v4(10, 2, 1, 2);
const IpAddress kElsewhere = IpAddress::v4(10, 3, 1, 2);

Time at(int second) {
  return Time(seconds(second));
}

// What the kernel's hook counted of the flow from queue pair 178 to 200.
FlowCounter on_wire(std::uint64_t bytes) {
  return {.source = kHere,
          .destination = kThere,
          .source_port = 51'986,
          .dest_qpn = 200,
          .out_port = "eth0",
          .first_seen = at(1),
          .bytes = {bytes},
          .packets = bytes / 1000,
          .message_length = {1 << 20}};
}

KnownQueuePair pair(std::uint32_t qpn = 178, std::uint32_t remote = 200) {
  return {.device = 3,
          .qpn = qpn,
          .remote_qpn = remote,
          .pid = 197,
          .netdev = "eth0",
          .software = false,
          .addresses = {kHere},
          .peer = std::nullopt,
          .origin = {},
          .source_port = 51'986,
          .first_seen = at(1),
          .bytes = std::nullopt};
}

FlowReading wire(std::vector<FlowCounter> flows) {
  return {.source = "ebpf", .gap = false, .flows = std::move(flows)};
}

RdmaView view(std::vector<KnownQueuePair> pairs) {
  RdmaView result;
  result.queue_pairs = std::move(pairs);
  return result;
}

FlowReading merged(Result<FlowReading> packets, const RdmaView& rdma) {
  FlowMerger merger;
  return merger.merge(std::move(packets), rdma, true, at(9)).value();
}

TEST(FlowMerger, JoinsTheQueuePairToTheFlowThatItSends) {
  const FlowReading reading = merged(wire({on_wire(5000)}), view({pair()}));
  ASSERT_EQ(reading.flows.size(), 1U) << "one subflow seen twice is one";
  const FlowCounter& flow = reading.flows[0];
  EXPECT_EQ(flow.bytes, Bytes{5000});
  EXPECT_EQ(flow.local_qpn, 178U);
  EXPECT_EQ(flow.pid, 197U);
  EXPECT_EQ(flow.peer, PeerOrigin::wire);
  EXPECT_EQ(flow.seen_by, "ebpf+rdma");
  EXPECT_FALSE(flow.unobservable);
  EXPECT_TRUE(reading.queue_pairs.empty()) << "its peer is on the packets";
}

// The packets are nearer to the truth than a counter that may have been bound late.
TEST(FlowMerger, BelievesThePacketsBeforeTheQueuePairsCounter) {
  KnownQueuePair counted = pair();
  counted.bytes = Bytes{77};
  EXPECT_EQ(merged(wire({on_wire(5000)}), view({counted})).flows.at(0).bytes, Bytes{5000});
}

TEST(FlowMerger, BelievesTheQueuePairsCounterWhereNoPacketIsSeen) {
  KnownQueuePair counted = pair();
  counted.peer = kThere;
  counted.origin = PeerOrigin::kernel;
  counted.bytes = Bytes{77};
  counted.packets = 2;
  const FlowReading reading = merged(wire({}), view({counted}));
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(reading.flows[0].bytes, Bytes{77});
  EXPECT_EQ(reading.flows[0].seen_by, "rdma");
  EXPECT_FALSE(reading.flows[0].unobservable);
}

// Looking takes rests: what it has counted meanwhile is not known, and not zero.
TEST(SafetyRule7, BetweenTwoLooksAQueuePairSendsUnobservably) {
  KnownQueuePair counted = pair();
  counted.peer = kThere;
  counted.bytes = Bytes{77};
  RdmaView looked = view({counted});
  FlowMerger merger;
  for (const int second : {1, 4}) {
    looked.looked = at(second);
    EXPECT_FALSE(merger.merge(wire({}), looked, true, at(second)).value().flows.at(0).unobservable);
    const FlowReading rest = merger.merge(wire({}), looked, true, at(second + 1)).value();
    EXPECT_TRUE(rest.flows.at(0).unobservable);
    EXPECT_EQ(rest.rdma_looked, at(second));
  }
}

TEST(SafetyRule7, AQueuePairOfHardwareWithoutACounterSendsUnobservably) {
  KnownQueuePair known = pair();
  known.peer = kThere;
  known.origin = PeerOrigin::cm;
  const FlowReading reading = merged(wire({}), view({known}));
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_TRUE(reading.flows[0].unobservable);
  EXPECT_EQ(reading.flows[0].source, kHere);
  EXPECT_EQ(reading.flows[0].destination, kThere);
  EXPECT_EQ(reading.flows[0].source_port, 51'986);
  EXPECT_EQ(reading.flows[0].peer, PeerOrigin::cm);
}

TEST(FlowMerger, LeavesAQueuePairWithoutAPeerToTheCoordinator) {
  const FlowReading reading = merged(wire({}), view({pair()}));
  EXPECT_TRUE(reading.flows.empty());
  EXPECT_EQ(reading.queue_pairs, (std::vector<OpenPair>{{{kHere, 178, 200, 197}, at(1)}}));
}

// Soft-RoCE's packets all pass the kernel's hook.
TEST(FlowMerger, ASilentQueuePairOfSoftwareHasSentNothing) {
  KnownQueuePair soft = pair();
  soft.software = true;
  soft.peer = kThere;
  EXPECT_TRUE(merged(wire({}), view({soft})).flows.empty());
  const FlowReading blind = merged(fail(Errc::unobservable, "no CAP_BPF"), view({soft}));
  ASSERT_EQ(blind.flows.size(), 1U) << "but not where nobody looks at the hook";
  EXPECT_TRUE(blind.flows[0].unobservable);
  EXPECT_FALSE(blind.gap);
}

// Two peers have given out the number 200; the peer, or the source port, tells which is which.
TEST(FlowMerger, TellsQueuePairsToTheSameNumberApart) {
  KnownQueuePair other = pair(300);
  other.source_port = 50'000;
  EXPECT_EQ(merged(wire({on_wire(5000)}), view({other, pair()})).flows.at(0).local_qpn, 178U);
  KnownQueuePair elsewhere = pair(300);
  elsewhere.peer = kElsewhere;
  EXPECT_EQ(merged(wire({on_wire(5000)}), view({elsewhere, pair()})).flows.at(0).local_qpn, 178U);
}

TEST(FlowMerger, JoinsNothingWhereItCannotTell) {
  const FlowReading reading = merged(wire({on_wire(5000)}), view({pair(178), pair(179)}));
  EXPECT_EQ(reading.flows.at(0).local_qpn, 0U);
  EXPECT_EQ(reading.flows.at(0).seen_by, "");
}

// The kernel's hook goes on counting what has the same key; the next process gets only its own.
TEST(FlowMerger, GivesAProcessThatUsesTheNumbersAgainOnlyItsOwnBytes) {
  FlowMerger merger;
  merger.merge(wire({on_wire(5000)}), view({pair()}), true, at(2)).value();
  KnownQueuePair next = pair();
  next.pid = 555;
  next.first_seen = at(3);
  const FlowReading second = merger.merge(wire({on_wire(7000)}), view({next}), true, at(4)).value();
  EXPECT_EQ(second.flows.at(0).bytes, Bytes{2000});
  EXPECT_EQ(second.flows.at(0).packets, 2U);
  EXPECT_EQ(second.flows.at(0).pid, 555U);
  EXPECT_EQ(second.flows.at(0).first_seen, at(3)) << "another subflow";
  const FlowReading third = merger.merge(wire({on_wire(9000)}), view({next}), true, at(5)).value();
  EXPECT_EQ(third.flows.at(0).bytes, Bytes{4000});
}

TEST(SafetyRule7, AReadingOfPacketsThatFailedIsNoReading) {
  FlowMerger merger;
  const auto failed = merger.merge(fail(Errc::kernel, "no memory"), view({pair()}), true, at(1));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kernel);
}

TEST(SafetyRule7, WithNeitherPacketsNorDevicesNothingIsObservable) {
  FlowMerger merger;
  const auto nothing = merger.merge(fail(Errc::unobservable, "no port"), view({}), false, at(1));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Errc::unobservable);
}

TEST(SafetyRule7, AnIncompleteLookAtQueuePairsIsAGap) {
  RdmaView cut;
  cut.gap = true;
  EXPECT_TRUE(merged(wire({}), cut).gap);
}

}  // namespace
}  // namespace heddle
