// Samples as a kernel (Debian's 6.12) handed them out, recorded in the virtual machine by
// `heddle-agent record` on a leaf; see tests/agent/recordings/README.md.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <map>

#include "agent/observe/psample_message.h"
#include "agent/observe/roce_packet.h"
#include "agent/observe/sampled_flows.h"
#include "tests/agent/recorded_samples.h"

namespace heddle {
namespace {

Time at(int second) {
  return Time(std::chrono::seconds(second));
}

TEST(PsampleRecorded, SamplesOfARealKernelGiveTheFlowAndItsEstimate) {
  const auto messages = test::recorded_samples(test::recording("sampled-soft-roce-6.12"));
  ASSERT_GE(messages.size(), 20U);
  SampledFlows flows;
  double expected = 0;
  std::uint64_t packets = 0;
  Bytes longest;
  for (const auto& message : messages) {
    const auto sample = parse_sample(message);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->group, 7U);
    EXPECT_EQ(sample->rate, 50);
    EXPECT_NE(sample->out_port, 0) << "tc says where a packet leaves on egress";
    flows.watch({{sample->out_port, "up"}}, {});
    flows.add(*sample, at(1));
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
  const FlowReading reading = flows.read(at(2));
  EXPECT_FALSE(reading.gap) << "recorded without a loss";
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(static_cast<double>(reading.flows[0].bytes.value), expected);
  EXPECT_EQ(reading.flows[0].packets, packets);
  EXPECT_GT(reading.flows[0].bytes_error.value, 0U);
  EXPECT_TRUE(longest.value == 0 || longest.value == 1'048'576) << longest.value;
}

struct Sent {
  std::uint64_t packets{};
  std::uint64_t octets{};
};

// By the sender's own count, one flow a line: destination queue pair, packets, octets.
std::map<std::uint32_t, Sent> truth_of(const std::filesystem::path& folder) {
  std::map<std::uint32_t, Sent> truth;
  std::ifstream in(folder / "truth");
  std::uint32_t qpn = 0;
  Sent sent;
  while (in >> qpn >> sent.packets >> sent.octets)
    truth[qpn] = sent;
  return truth;
}

// One packet in a thousand of 64 flows, whose senders counted what they sent.
TEST(PsampleRecorded, OneInAThousandEstimates64KnownFlowsWithinTheirErrorBars) {
  const auto folder = test::recording("sampled-64-flows-6.12");
  const std::map<std::uint32_t, Sent> truth = truth_of(folder);
  ASSERT_EQ(truth.size(), 64U);
  SampledFlows flows;
  for (const auto& message : test::recorded_samples(folder)) {
    const auto sample = parse_sample(message);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->rate, 1000);
    flows.watch({{sample->out_port, "up1"}}, {});
    flows.add(*sample, at(1));
  }
  const FlowReading reading = flows.read(at(2));
  EXPECT_FALSE(reading.gap) << "recorded without a loss";
  ASSERT_EQ(reading.flows.size(), 64U);
  double all = 0, all_estimated = 0, all_variance = 0;
  for (const FlowCounter& flow : reading.flows) {
    ASSERT_TRUE(truth.contains(flow.dest_qpn)) << flow.dest_qpn;
    const Sent& sent = truth.at(flow.dest_qpn);
    const auto known = static_cast<double>(sent.octets);
    const auto estimated = static_cast<double>(flow.bytes.value);
    const auto error = static_cast<double>(flow.bytes_error.value);
    EXPECT_LE(std::abs(estimated - known), error) << "queue pair " << flow.dest_qpn;
    // An error bar that holds anything would say nothing. Three deviations of a count of n are
    // 3 sqrt(n); a count that happens to be high, and its being small, widen that.
    const double n = static_cast<double>(sent.packets) / 1000;
    EXPECT_LE(error, 2.5 * 3 / std::sqrt(n) * known) << "queue pair " << flow.dest_qpn;
    all += known;
    all_estimated += estimated;
    all_variance += error * error;
  }
  // Together they are told far more exactly.
  EXPECT_LE(std::abs(all_estimated - all), std::sqrt(all_variance));
  EXPECT_LE(std::sqrt(all_variance), 0.25 * all);
}

}  // namespace
}  // namespace heddle
