#include "agent/observe/rdma_message.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

using test::RdmaBuilder;

RdmaAnswer parsed(const RdmaBuilder& builder) {
  RdmaAnswer answer;
  parse_rdma(builder.bytes(), answer);
  return answer;
}

TEST(RdmaMessage, TellsDevicesAndPorts) {
  RdmaBuilder b;
  test::device_message(b, 3, "mlx5_0", 0x506b4b0300a1b2c3);
  test::port_message(b, 3, "mlx5_0", "eth0");
  b.done();
  const RdmaAnswer answer = parsed(b);
  EXPECT_EQ(answer.devices, (std::vector<RdmaDevice>{{.index = 3,
                                                      .name = "mlx5_0",
                                                      .node_guid = 0x506b4b0300a1b2c3,
                                                      .ports = 1,
                                                      .protocol = "roce"}}));
  EXPECT_EQ(answer.ports,
            (std::vector<RdmaPort>{
                {.device = 3, .port = 1, .active = true, .ifindex = 3, .netdev = "eth0"}}));
  EXPECT_TRUE(answer.done);
  EXPECT_EQ(answer.error, 0);
  EXPECT_FALSE(answer.damaged);
}

TEST(RdmaMessage, TellsQueuePairs) {
  RdmaBuilder b;
  const QueuePair pair = test::connected(3, 178, 200, 197);
  test::pairs_message(b, 3, "mlx5_0", {pair});
  EXPECT_EQ(parsed(b.done()).queue_pairs, std::vector{pair});
}

// The general services' queue pair has no peer, nor has one of datagrams; of one in RESET the
// kernel tells the number that the memory held.
TEST(RdmaMessage, AQueuePairWithoutAPeerHasNone) {
  RdmaBuilder b;
  QueuePair gsi{.device = 3,
                .port = 1,
                .qpn = 1,
                .remote_qpn = std::nullopt,
                .type = QpType::gsi,
                .state = QpState::rts,
                .pid = 0};
  QueuePair datagram{.device = 3,
                     .port = 1,
                     .qpn = 5,
                     .remote_qpn = 9,
                     .type = QpType::ud,
                     .state = QpState::rts,
                     .pid = 1};
  QueuePair reset{.device = 3,
                  .port = 1,
                  .qpn = 6,
                  .remote_qpn = 0xBEEF,
                  .type = QpType::rc,
                  .state = QpState::reset,
                  .pid = 1};
  QueuePair nobody{.device = 3,
                   .port = 1,
                   .qpn = 7,
                   .remote_qpn = 0,
                   .type = QpType::rc,
                   .state = QpState::rts,
                   .pid = 1};
  test::pairs_message(b, 3, "mlx5_0", {gsi, datagram, reset, nobody});
  const RdmaAnswer answer = parsed(b);
  ASSERT_EQ(answer.queue_pairs.size(), 4U);
  for (const QueuePair& pair : answer.queue_pairs)
    EXPECT_FALSE(pair.remote_qpn) << pair.qpn;
}

TEST(RdmaMessage, TellsConnectionsOfRdmaCm) {
  RdmaBuilder b;
  b.message(RdmaCommand::cm_ids, [](RdmaBuilder& m) {
    test::handle(m, 3, "rxe1");
    m.nest(RDMA_NLDEV_ATTR_RES_CM_ID, [](RdmaBuilder& t) {
      t.nest(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, [](RdmaBuilder& e) {
        sockaddr_storage source{}, destination{};
        auto* four = reinterpret_cast<sockaddr_in*>(&source);
        four->sin_family = AF_INET;
        four->sin_port = htons(40'001);
        four->sin_addr.s_addr = ::inet_addr("10.1.1.2");
        auto* six = reinterpret_cast<sockaddr_in6*>(&destination);
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(18'515);
        six->sin6_addr.s6_addr[0] = 0xfd;
        six->sin6_addr.s6_addr[15] = 2;
        e.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_LQPN, 18)
            .put<std::uint8_t>(RDMA_NLDEV_ATTR_RES_STATE, 4)
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_PID, 203)
            .attribute(RDMA_NLDEV_ATTR_RES_SRC_ADDR, &source, sizeof(source))
            .attribute(RDMA_NLDEV_ATTR_RES_DST_ADDR, &destination, sizeof(destination));
      });
      t.nest(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
             [](RdmaBuilder& e) { e.put<std::uint8_t>(RDMA_NLDEV_ATTR_RES_STATE, 7); });
    });
  });
  const RdmaAnswer answer = parsed(b);
  ASSERT_EQ(answer.cm_ids.size(), 2U);
  const CmId& id = answer.cm_ids[0];
  EXPECT_EQ(id.qpn, 18U);
  EXPECT_EQ(id.pid, 203U);
  EXPECT_FALSE(id.listens);
  EXPECT_EQ(id.source, (SocketAddress{IpAddress::v4(10, 1, 1, 2), 40'001}));
  EXPECT_EQ(id.destination, (SocketAddress{*IpAddress::parse("fd00::2"), 18'515}));
  EXPECT_TRUE(answer.cm_ids[1].listens);
  EXPECT_FALSE(answer.cm_ids[1].source);
}

void counter_message(RdmaBuilder& b) {
  b.message(RdmaCommand::stat, [](RdmaBuilder& m) {
    test::handle(m, 3, "mlx5_0");
    m.nest(RDMA_NLDEV_ATTR_STAT_COUNTER, [](RdmaBuilder& t) {
      t.nest(RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, [](RdmaBuilder& e) {
        e.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 4)
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL)
            .nest(RDMA_NLDEV_ATTR_RES_QP,
                  [](RdmaBuilder& q) {
                    q.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [](RdmaBuilder& one) {
                      one.put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_LQPN, 178);
                    });
                  })
            .nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, [](RdmaBuilder& v) {
              v.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [](RdmaBuilder& one) {
                one.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "rdma_tx_bytes")
                    .put<std::uint64_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, 1ULL << 40);
              });
            });
      });
    });
  });
}

TEST(RdmaMessage, TellsBoundCountersAsTheUapiHeadersHaveThem) {
  RdmaBuilder b;
  counter_message(b);
  EXPECT_EQ(parsed(b).counters,
            (std::vector<QpCounter>{{.device = 3,
                                     .port = 1,
                                     .id = 4,
                                     .automatic = false,
                                     .qpns = {178},
                                     .values = {{"rdma_tx_bytes", 1ULL << 40}}}}));
}

TEST(RdmaMessage, TellsOptionalCountersAsTheUapiHeadersHaveThem) {
  RdmaBuilder b;
  b.message(RdmaCommand::stat_status, [](RdmaBuilder& m) {
    test::handle(m, 3, "mlx5_0");
    m.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, [](RdmaBuilder& t) {
      t.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [](RdmaBuilder& e) {
        e.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "out_of_sequence")
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 0);
      });
      t.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [](RdmaBuilder& e) {
        e.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "rdma_tx_bytes")
            .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 21)
            .put<std::uint8_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, 0);
      });
    });
  });
  EXPECT_EQ(parsed(b.answer(0)).optional_counters,
            (std::vector<OptionalCounter>{{.name = "rdma_tx_bytes", .number = 21, .on = false}}));
}

TEST(RdmaMessage, TellsWhetherNamespacesShareDevicesAndTheKernelAnnounces) {
  RdmaBuilder b;
  b.message(RdmaCommand::system, [](RdmaBuilder& m) {
    m.put<std::uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0).put<std::uint8_t>(103, 1);
  });
  const RdmaAnswer answer = parsed(b.answer(0));
  ASSERT_TRUE(answer.system);
  EXPECT_FALSE(answer.system->shared);
  EXPECT_TRUE(answer.system->monitor);
}

TEST(RdmaMessage, AnAnnouncementIsAChange) {
  RdmaBuilder b;
  b.message(RdmaCommand::monitor, [](RdmaBuilder& m) {
    test::handle(m, 3, "mlx5_0");
    m.put<std::uint8_t>(102, 4);  // renamed
  });
  EXPECT_TRUE(parsed(b).changed);
}

TEST(RdmaMessage, SaysWhatTheKernelRefused) {
  RdmaBuilder b;
  EXPECT_EQ(parsed(b.answer(-EPERM)).error, EPERM);
  RdmaBuilder cut;
  EXPECT_EQ(parsed(cut.done(-EINVAL)).error, EINVAL);
  RdmaBuilder odd;
  EXPECT_EQ(parsed(odd.answer(5)).error, EPROTO);
}

TEST(RdmaMessage, PassesOverAttributesThatItDoesNotKnow) {
  RdmaBuilder b;
  const QueuePair pair = test::connected(3, 178, 200, 197);
  b.message(RdmaCommand::queue_pairs, [&](RdmaBuilder& m) {
    m.put<std::uint64_t>(900, ~0ULL);
    test::handle(m, 3, "mlx5_0");
    m.nest(901, [](RdmaBuilder& x) { x.put<std::uint32_t>(902, 1); });
    m.nest(RDMA_NLDEV_ATTR_RES_QP, [&](RdmaBuilder& t) {
      test::pair_entry(t, pair);
      t.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [](RdmaBuilder& e) { e.put<std::uint32_t>(903, 1); });
    });
  });
  const RdmaAnswer answer = parsed(b);
  EXPECT_EQ(answer.queue_pairs, std::vector{pair});
  EXPECT_FALSE(answer.damaged);
}

TEST(SafetyRule7, ADumpThatIsCutInTheMiddleIsNotWhole) {
  RdmaBuilder b;
  test::pairs_message(b, 3, "mlx5_0", {test::connected(3, 1'000, 2'000, 9)});
  EXPECT_FALSE(parsed(b).done) << "its end did not come";
  test::pairs_message(b, 3, "mlx5_0", {test::connected(3, 1'001, 2'001, 9)}, NLM_F_DUMP_INTR);
  EXPECT_TRUE(parsed(b.done()).interrupted) << "the tables changed meanwhile";
}

// Every beginning of a good answer, and every octet of it changed: no crash, and nothing invented.
TEST(SafetyRule10, DamagedAnswersOfRdmaNetlinkYieldNothingFalse) {
  RdmaBuilder b;
  test::device_message(b, 3, "mlx5_0", 7);
  test::pairs_message(b, 3, "mlx5_0", {test::connected(3, 178, 200, 197)});
  counter_message(b);
  b.done();
  const std::vector<std::byte>& good = b.bytes();
  for (std::size_t size = 0; size < good.size(); ++size) {
    // Of exactly that size, so that a sanitizer sees a read beyond it.
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(size));
    RdmaAnswer answer;
    parse_rdma(cut, answer);
    EXPECT_FALSE(answer.done);
    EXPECT_LE(answer.queue_pairs.size(), 1U);
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0xFF};
    RdmaAnswer answer;
    parse_rdma(bad, answer);
    for (const QueuePair& pair : answer.queue_pairs)
      EXPECT_LT(pair.qpn, 1U << 24U);
  }
}

// What goes to the kernel, octet for octet as its headers have it.
TEST(RdmaMessage, AsksForADevicesQueuePairs) {
  const RdmaRequest request = dump_request(RdmaCommand::queue_pairs, 3);
  ASSERT_EQ(request.size(), 24U);
  nlmsghdr header{};
  std::memcpy(&header, request.data(), sizeof(header));
  EXPECT_EQ(header.nlmsg_len, 24U);
  EXPECT_EQ(header.nlmsg_type, (5 << 10) + 10);
  EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
  nlattr device{};
  std::memcpy(&device, request.data() + 16, sizeof(device));
  EXPECT_EQ(device.nla_type, RDMA_NLDEV_ATTR_DEV_INDEX);
  EXPECT_EQ(device.nla_len, 8);
}

TEST(RdmaMessage, SwitchesOnATableOfOptionalCounters) {
  const std::vector<std::uint32_t> numbers{20, 21};
  const RdmaRequest request = optional_request(3, 1, numbers);
  // Header, two numbers, then a table of two: 16 + 8 + 8 + 4 + 8 + 8.
  ASSERT_EQ(request.size(), 52U);
  nlattr table{};
  std::memcpy(&table, request.data() + 32, sizeof(table));
  EXPECT_EQ(table.nla_type, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
  EXPECT_EQ(table.nla_len, 20);
}

}  // namespace
}  // namespace heddle
