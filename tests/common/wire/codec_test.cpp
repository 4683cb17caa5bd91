#include "common/wire/codec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/wire/limits.h"
#include "tests/common/wire/examples.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Result<Envelope> through(const Envelope& envelope) {
  return decode(encode(envelope));
}

// Refused by the receiver, for the reason given.
void expect_refused(Message message, const std::string& reason) {
  const auto decoded = through({"leaf1", 0, std::move(message)});
  ASSERT_FALSE(decoded) << reason;
  EXPECT_EQ(decoded.error().code, Errc::parse);
  EXPECT_THAT(decoded.error().message, HasSubstr(reason));
}

TEST(Codec, EveryMessageIsReadAsItWasWritten) {
  for (const auto& [name, envelope] : test::examples()) {
    const auto decoded = through(envelope);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, envelope) << name;
  }
}

// The examples leave no kind of message out.
TEST(Codec, ExamplesCoverEveryKind) {
  std::vector<bool> seen(std::variant_size_v<Message>);
  for (const auto& [name, envelope] : test::examples())
    seen[envelope.message.index()] = true;
  EXPECT_EQ(std::ranges::count(seen, false), 0);
}

TEST(Codec, EmptyMessagesAreMessages) {
  for (const Message& message :
       {Message(Report{}), Message(LinkChange{}), Message(Acknowledgement{}), Message(Heartbeat{}),
        Message(Snapshot{{"leaf1", {}, {}}, digest({})})}) {
    const auto decoded = through({"leaf1", 0, message});
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->message, message);
  }
}

TEST(Codec, ABufferThatIsNotAlignedIsRead) {
  const auto [name, envelope] = test::examples().front();
  const auto bytes = encode(envelope);
  for (std::size_t offset = 0; offset < 8; ++offset) {
    std::vector<std::byte> shifted(offset);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    const auto decoded = decode(std::span(shifted).subspan(offset));
    ASSERT_TRUE(decoded) << offset;
    EXPECT_EQ(*decoded, envelope);
  }
}

// As a leaf sees them: 32 hosts of its own, 500 elsewhere, counters of a second at 400 Gb/s shared
// by 1,000 subflows, first seen within an hour.
Report leaf_report(std::uint32_t flows, std::uint32_t sources, std::uint32_t destinations) {
  std::mt19937_64 random(1);
  Report report{.number = 1,
                .begin = Time(std::chrono::hours(900)),
                .length = std::chrono::seconds(1),
                .gap = false,
                .flows = {},
                .ports = {}};
  for (std::uint32_t i = 0; i < 64; ++i) {
    report.ports.push_back({fmt::format("up{}", i), true, random() >> 8, random() >> 8});
  }
  const auto address = [](std::uint32_t n) {
    return IpAddress::v4(10, static_cast<std::uint8_t>(n >> 16), static_cast<std::uint8_t>(n >> 8),
                         static_cast<std::uint8_t>(n));
  };
  for (std::uint32_t i = 0; i < flows; ++i) {
    const auto second = static_cast<std::int64_t>(random() % 3'600'000'000'000ULL);
    report.flows.push_back({{address(0x10000 + i % sources), address(0x20000 + i % destinations),
                             static_cast<std::uint16_t>(0xC000 | random()),
                             static_cast<std::uint32_t>(random() & 0xFFFFFF),
                             WallTime(Duration(1'764'500'000'000'000'000 + second))},
                            Bytes{random() % 100'000'000},
                            random() % 25'000,
                            Bytes{1ULL << (random() % 24)},
                            fmt::format("up{}", random() % 32),
                            "ebpf",
                            false});
  }
  return report;
}

TEST(Codec, AReportOfAThousandFlowsTakesAtMost40Kilobytes) {
  const auto usual = encode({"leaf1", 1, leaf_report(1'000, 32, 500)});
  const auto worst = encode({"leaf1", 1, leaf_report(1'000, 1'000, 1'000)});
  RecordProperty("octets", static_cast<int>(usual.size()));
  std::printf("1,000 flows: %zu octets; with no address twice: %zu\n", usual.size(), worst.size());
  EXPECT_LE(usual.size(), 40'000U);
  EXPECT_LE(worst.size(), 40'000U);
}

// As a host of eight NICs sees them: each with its own queue pair, of one of eight processes that
// the job's label names, and beside them what eight RDMA ports counted.
TEST(Codec, AReportOfAThousandFlowsWithTheirQueuePairsTakesAtMost40Kilobytes) {
  std::mt19937_64 random(2);
  Report report = leaf_report(1'000, 8, 500);
  report.ports.resize(8);
  for (FlowDelta& flow : report.flows) {
    flow.out_port.clear();
    flow.local_qpn = static_cast<std::uint32_t>(random() & 0xFFFFFF);
    flow.pid = 1'000'000 + static_cast<std::uint32_t>(random() % 8);
    flow.source = "ebpf+rdma";
    flow.label = "slurm:1234.0";
    flow.label_origin = "cgroup";
  }
  for (std::uint32_t i = 0; i < 8; ++i) {
    report.rdma_ports.push_back({fmt::format("mlx5_{}", i),
                                 1,
                                 fmt::format("eth{}", i),
                                 random(),
                                 false,
                                 {{"tx_bytes", random() >> 28, false},
                                  {"rx_bytes", random() >> 28, false},
                                  {"cnp_sent", random() >> 50, false},
                                  {"cnp_handled", random() >> 50, false},
                                  {"ecn_marked", random() >> 50, false},
                                  {"out_of_sequence", 0, false}}});
  }
  const auto bytes = encode({"host1", 1, report});
  RecordProperty("octets", static_cast<int>(bytes.size()));
  std::printf("1,000 flows with queue pairs and ports: %zu octets\n", bytes.size());
  EXPECT_LE(bytes.size(), 40'000U);
}

// decode() takes this from a sender, so that encode() must not lose it.
TEST(Codec, AnOriginThatNoLabelCameFromPasses) {
  Report report = leaf_report(2, 2, 2);
  report.flows[1].label_origin = "cgroup";
  const Envelope envelope{"leaf1", 1, report};
  const auto decoded = through(envelope);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, envelope);
}

// What a receiver reads is used where rows are alike, and only then.
TEST(Codec, ColumnsOfOneAreWrittenToWhoReadsThem) {
  constexpr ReceiverReads kShort{.columns_of_one = true};
  for (const auto& [name, envelope] : test::examples()) {
    const auto decoded = decode(encode(envelope, kShort));
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, envelope) << name;
  }
  FlowDelta flow;
  flow.key.source = IpAddress::v4(10, 1, 1, 2);
  flow.key.destination = IpAddress::v4(10, 2, 1, 2);
  flow.source = "rdma";
  flow.label = "slurm:1.0";
  flow.label_origin = "cgroup";
  Report report;
  report.flows.assign(1'000, flow);
  const Envelope alike{"host1", 1, report};
  EXPECT_EQ(decode(encode(alike, kShort)), alike);
  EXPECT_EQ(decode(encode(alike)), alike);
  EXPECT_LT(encode(alike, kShort).size() * 10, encode(alike).size());
}

// The kernel's table of flows holds 65,536.
TEST(Codec, AReportOfAFullFlowTablePasses) {
  const Envelope envelope{"leaf1", 1, leaf_report(65'536, 4'096, 65'536)};
  const auto decoded = through(envelope);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, envelope);
}

TEST(Codec, APlanOfManyPinsPasses) {
  NodePlan plan{"leaf1", {1, 1}, {}};
  for (std::uint32_t i = 0; i < 32'768; ++i) {
    plan.pins.push_back(
        {ByPortAndDestination{fmt::format("p{:02}", i / 1'024),
                              IpAddress::v4(10, 1, static_cast<std::uint8_t>(i / 256 % 4 + 1),
                                            static_cast<std::uint8_t>(i))},
         PortTableRoute{"up1"}, "off leaf3-spine7: 3 elephants, now 1"});
  }
  const Envelope envelope{"coordinator", 1, Snapshot{plan, digest(plan.pins)}};
  const auto decoded = through(envelope);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, envelope);
}

TEST(Codec, ALongReasonIsCutBetweenCharacters) {
  std::string reason = std::string(wire::kMaxTextBytes - 1, 'x') + "\xc3\xa9" + "tail";
  const auto decoded = through({"leaf1", 0, Refusal{Errc::gap, reason}});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Refusal>(decoded->message).reason, std::string(wire::kMaxTextBytes - 1, 'x'));
}

// A plan that is not well formed is refused on the wire, before any other part sees it.
TEST(Codec, SafetyRule10APlanThatIsNotWellFormedIsRefused) {
  const NodePlan good = test::plan_example();
  const auto snapshot = [](NodePlan plan) {
    const std::uint64_t d = digest(plan.pins);
    return Snapshot{std::move(plan), d};
  };
  NodePlan plan = good;
  std::swap(plan.pins[0], plan.pins[1]);
  expect_refused(snapshot(plan), "out of order");
  plan = good;
  plan.pins.push_back(plan.pins.back());
  expect_refused(snapshot(plan), "there twice");
  plan = good;
  plan.pins[1].unit = ByPortAndDestination{"p1", IpAddress{}};
  expect_refused(snapshot(plan), "steering unit is malformed");
  for (const char* port : {"", "sixteen-letters-", "a/b", "a b", "a\nb"}) {
    plan = good;
    plan.pins[1].target = PortTableRoute{port};
    expect_refused(snapshot(plan), "a port's name");
  }
  plan = good;
  plan.pins[3].target = SegmentList{};
  expect_refused(snapshot(plan), "target is malformed");
  plan = good;
  plan.node = "";
  expect_refused(snapshot(plan), "a plan's node");
  expect_refused(Snapshot{good, digest(good.pins) + 1}, "digest");
}

TEST(Codec, SafetyRule10ADiffThatIsNotWellFormedIsRefused) {
  const NodePlan plan = test::plan_example();
  PlanDiff good{"leaf1", {3, 16}, {3, 17}, {plan.pins[0]}, {plan.pins[1].unit, plan.pins[2].unit},
                1};
  ASSERT_TRUE(through({"coordinator", 0, good}));
  PlanDiff change = good;
  change.base = {3, 18};
  expect_refused(change, "below its base");
  change = good;
  change.removed = {plan.pins[2].unit, plan.pins[1].unit};
  expect_refused(change, "the removed pins");
  change = good;
  change.removed.push_back(ByQueuePair{test::v6_example(1), IpAddress::v4(10, 0, 0, 1), 1});
  expect_refused(change, "the removed pins");
  change = good;
  change.removed = {plan.pins[0].unit};
  expect_refused(change, "both set and removed");
}

TEST(Codec, SafetyRule10FieldsOutOfRangeAreRefused) {
  expect_refused(Welcome{{}, std::chrono::microseconds(999), {}}, "report interval");
  expect_refused(Welcome{{}, std::chrono::seconds(1), Duration(-1)}, "lease");
  expect_refused(Heartbeat{{}, 0, std::chrono::hours(24) + Duration(1)}, "lease");
  expect_refused(Report{.number = 0,
                        .begin = Time(Duration(-1)),
                        .length = {},
                        .gap = false,
                        .flows = {},
                        .ports = {}},
                 "begin");
  expect_refused(
      Report{
          .number = 0, .begin = {}, .length = Duration(-1), .gap = false, .flows = {}, .ports = {}},
      "length");
  expect_refused(LinkChange{{}, {{{IpAddress::v4(10, 0, 0, 0), 33}, "up1"}}}, "prefix's length");
  expect_refused(LinkChange{{}, {{{IpAddress::v4(10, 0, 0, 1), 24}, "up1"}}}, "beyond its length");
  expect_refused(LinkChange{{{"a very long port", true, 0, 0}}, {}}, "port's name");
  for (const char* command : {"", " plan", "plan ", "plan  show", "plan\nshow", "plan/show"}) {
    expect_refused(Request{0, command, {}}, "command");
  }
  expect_refused(Request{0, "job", {std::string(1'025, 'x')}}, "argument");
  expect_refused(Hello{.role = {},
                       .mode = {},
                       .disabled = {},
                       .software = std::string(65, 'x'),
                       .boot_id = {},
                       .instance = {},
                       .installed = {},
                       .highest_seen = {},
                       .digest = {},
                       .enforcers = {},
                       .sources = {},
                       .ports = {}},
                 "software");

  FlowDelta flow = test::flows_example()[0];
  const auto refuse_flow = [](const FlowDelta& f, const std::string& reason) {
    expect_refused(
        Report{.number = 0, .begin = {}, .length = {}, .gap = false, .flows = {f}, .ports = {}},
        reason);
  };
  flow.key.dest_qpn = 1U << 24;
  refuse_flow(flow, "24 bits");
  flow = test::flows_example()[0];
  flow.key.destination = test::v6_example(1);
  refuse_flow(flow, "mixes");
  flow = test::flows_example()[0];
  flow.out_port = "sixteen-letters-";
  refuse_flow(flow, "too long");

  for (const std::string& node :
       {std::string(), std::string("two words"), std::string("a/b"), std::string("a\n"),
        std::string(65, 'x'), std::string("a\0b", 3)}) {
    EXPECT_FALSE(through({node, 0, Heartbeat{}})) << node;
  }
}

TEST(Codec, SafetyRule10BytesThatAreNoMessageAreRefused) {
  EXPECT_EQ(decode({}).error().code, Errc::parse);
  std::vector<std::byte> bytes = encode({"leaf1", 0, Heartbeat{}});
  bytes.push_back(std::byte{0});
  EXPECT_THAT(decode(bytes).error().message, HasSubstr("follow"));
  EXPECT_EQ(decode(std::vector<std::byte>(kMaxMessageBytes + 1)).error().code, Errc::parse);
  EXPECT_EQ(decode(std::vector<std::byte>(1'000)).error().code, Errc::parse);
  EXPECT_EQ(decode(std::vector<std::byte>(1'000, std::byte{0xff})).error().code, Errc::parse);
}

}  // namespace
}  // namespace heddle
