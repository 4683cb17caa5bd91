// Samples as a kernel (Debian's 6.12) handed them out while ib_write_bw sent over Soft-RoCE:
// recorded in the virtual machine by `heddle-agent record`, on a leaf whose uplinks were sampled by
// `tc ... action sample rate 50 group 7`; the first of them, in order, one a file.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/observe/psample_message.h"
#include "agent/observe/roce_packet.h"
#include "agent/observe/sampled_flows.h"
#include "tests/tree.h"

namespace heddle {
namespace {

std::vector<std::vector<char>> recorded() {
  std::vector<std::vector<char>> messages;
  const std::filesystem::path folder =
      std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/agent/observe/psample";
  for (int i = 0;; ++i) {
    std::ifstream in(folder / std::to_string(i), std::ios::binary);
    if (!in)
      return messages;
    messages.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
}

TEST(PsampleRecorded, SamplesOfARealKernelGiveTheFlowAndItsEstimate) {
  const auto messages = recorded();
  ASSERT_GE(messages.size(), 20U);
  SampledFlows flows;
  double expected = 0;
  std::uint64_t packets = 0;
  Bytes longest;
  for (const std::vector<char>& message : messages) {
    const auto sample = parse_sample(std::as_bytes(std::span(message)));
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->group, 7U);
    EXPECT_EQ(sample->rate, 50);
    EXPECT_NE(sample->out_port, 0) << "tc says where a packet leaves on egress";
    flows.watch({{sample->out_port, "up"}}, {});
    flows.add(*sample, Time(std::chrono::seconds(1)));
    const auto packet = parse_roce(sample->data);
    if (!packet)
      continue;
    EXPECT_EQ(packet->source, IpAddress::v4(10, 1, 1, 2));
    EXPECT_EQ(packet->destination, IpAddress::v4(10, 2, 1, 2));
    EXPECT_GE(packet->source_port, 0xc000) << "as RoCEv2 chooses it";
    longest = std::max(longest, packet->message_length);
    expected += static_cast<double>(sample->size.value) * 50;
    packets += 50;
  }
  const FlowReading reading = flows.read(Time(std::chrono::seconds(2)));
  EXPECT_FALSE(reading.gap) << "recorded without a loss";
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(static_cast<double>(reading.flows[0].bytes.value), expected);
  EXPECT_EQ(reading.flows[0].packets, packets);
  EXPECT_GT(reading.flows[0].bytes_error.value, 0U);
  EXPECT_TRUE(longest.value == 0 || longest.value == 1'048'576) << longest.value;
}

}  // namespace
}  // namespace heddle
