// Estimates from samples against flows whose bytes are known, and what loss does to them.
#include "agent/observe/sampled_flows.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "tests/agent/observe/psample_builder.h"

namespace heddle {
namespace {

using std::chrono::seconds;
using test::psample_message;
using test::roce_frame;
using test::SampleOf;

constexpr std::uint16_t kUp1 = 4, kUp2 = 5, kHostPort = 9;
constexpr std::uint64_t kSeed = 20'261'130;
constexpr std::uint32_t kRate = 1000;

Time at(int second) {
  return Time(seconds(second));
}

SampledFlows watching() {
  SampledFlows flows;
  flows.watch({{kUp1, "up1"}, {kUp2, "up2"}}, {kHostPort});
  return flows;
}

// As a message, so that what is tested is what the kernel's octets become.
void add(SampledFlows& flows, const SampleOf& of, std::uint32_t qpn, Time now = at(1)) {
  const test::Octets bytes = psample_message(of, roce_frame({.dest_qpn = qpn})).bytes();
  const auto sample = parse_sample(bytes);
  ASSERT_TRUE(sample);
  flows.add(*sample, now);
}

const FlowCounter* find(const FlowReading& reading, std::uint32_t qpn) {
  for (const FlowCounter& flow : reading.flows)
    if (flow.dest_qpn == qpn)
      return &flow;
  return nullptr;
}

double distance(const FlowCounter& flow, double known) {
  return std::abs(static_cast<double>(flow.bytes.value) - known);
}

struct Truth {
  std::uint64_t packets{};
  double bytes{};
};

// 64 flows of 20,000 to 650,000 packets, most of 4,154 octets and every eighth of 1,082; each
// packet is sampled with one chance in a thousand, as the tc action does. `keep` says which samples
// arrive.
template <class Keep>
std::vector<Truth> sample_64_flows(SampledFlows& flows, Keep keep) {
  std::mt19937_64 random(kSeed);
  std::uint32_t sequence = 0xfffffff0;  // wraps on the way
  std::vector<Truth> truth(64);
  for (std::uint32_t i = 0; i < truth.size(); ++i) {
    truth[i].packets = 20'000 + 10'000 * i;
    for (std::uint64_t n = 0; n < truth[i].packets; ++n) {
      const std::uint32_t size = n % 8 == 0 ? 1'082 : 4'154;
      truth[i].bytes += size;
      if (random() % kRate != 0)
        continue;
      if (keep(sequence))
        add(flows, {.size = size, .rate = kRate, .sequence = sequence}, i);
      ++sequence;
    }
  }
  return truth;
}

TEST(SampledFlows, OfBuiltMessagesEstimate64FlowsWithinTheirErrorBars) {
  SampledFlows flows = watching();
  const std::vector<Truth> truth = sample_64_flows(flows, [](std::uint32_t) { return true; });
  const FlowReading reading = flows.read(at(2));
  EXPECT_FALSE(reading.gap);
  ASSERT_EQ(reading.flows.size(), 64U);
  double all = 0, all_estimated = 0, all_variance = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const FlowCounter* const flow = find(reading, i);
    ASSERT_NE(flow, nullptr) << i;
    const auto error = static_cast<double>(flow->bytes_error.value);
    EXPECT_LE(distance(*flow, truth[i].bytes), error) << "flow " << i << ", seed " << kSeed;
    EXPECT_EQ(flow->out_port, "up1");
    // An error bar that holds anything would say nothing. Three deviations of a count of n are
    // 3 sqrt(n); unequal sizes, and the count being small, widen that to at most twice as much.
    const double n = static_cast<double>(truth[i].packets) / kRate;
    EXPECT_LE(error, 2 * 3 / std::sqrt(n) * truth[i].bytes) << i;
    all += truth[i].bytes;
    all_estimated += static_cast<double>(flow->bytes.value);
    all_variance += error * error;
  }
  // Together they are told far more exactly: an estimator that is wrong by a tenth is found out.
  EXPECT_LE(std::abs(all_estimated - all), std::sqrt(all_variance));
  EXPECT_LE(std::sqrt(all_variance), 0.1 * all);
}

// What a bar of 99.7 % promises: of 2,000 flows of 50 expected samples, at most 0.3 % and what
// chance adds (six flows, and four deviations of 2.4 more) lie outside.
TEST(SampledFlows, ErrorBarsHoldWhatTheyPromise) {
  std::mt19937_64 random(kSeed);
  constexpr int kFlows = 2'000;
  constexpr double kKnown = 50 * 1000 * 4154.0;
  std::poisson_distribution<int> samples(50);
  int outside = 0;
  for (int i = 0; i < kFlows; ++i) {
    Estimate estimate;
    for (int n = samples(random); n > 0; --n)
      estimate.add(4154, kRate);
    outside += std::abs(estimate.bytes - kKnown) > estimate.error() ? 1 : 0;
  }
  EXPECT_LE(outside, 16) << "seed " << kSeed;
}

// One packet in one: nothing is estimated.
TEST(SampledFlows, OfEveryPacketAreExact) {
  SampledFlows flows = watching();
  for (std::uint32_t i = 0; i < 10; ++i)
    add(flows, {.size = 100 + i, .rate = 1, .sequence = i}, 7);
  const FlowReading reading = flows.read(at(2));
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(reading.flows[0].bytes.value, 1'045U);
  EXPECT_EQ(reading.flows[0].packets, 10U);
  EXPECT_EQ(reading.flows[0].bytes_error.value, 0U);
}

// Every second sample is lost. The others stand for it, less exactly, and the reading says so.
TEST(SampledFlows, WhoseSamplesAreLostAreEstimatedFromTheRest) {
  SampledFlows flows = watching();
  std::mt19937_64 losses(kSeed + 1);
  const std::vector<Truth> truth =
      sample_64_flows(flows, [&](std::uint32_t) { return losses() % 2 == 0; });
  const FlowReading reading = flows.read(at(2));
  EXPECT_TRUE(reading.gap);
  for (std::uint32_t i = 0; i < 64; ++i) {
    const FlowCounter* const flow = find(reading, i);
    ASSERT_NE(flow, nullptr) << i;
    EXPECT_LE(distance(*flow, truth[i].bytes), static_cast<double>(flow->bytes_error.value))
        << "flow " << i << ", seed " << kSeed;
  }
  // Two lost of four: factor 2. Variance of two samples at rate 20 instead of 10.
  Estimate two;
  two.add(100, 10);
  two.add(100, 10);
  Estimate twice;
  twice.add(100, 20);
  twice.add(100, 20);
  EXPECT_DOUBLE_EQ(two.scaled(2).bytes, twice.bytes);
  EXPECT_DOUBLE_EQ(two.scaled(2).variance, twice.variance);
}

TEST(SampledFlows, LossIsToldByTheSequenceNumbersOfEachGroup) {
  SampledFlows flows = watching();
  const auto sample = [&flows](std::uint32_t group, std::uint32_t sequence) {
    add(flows, {.rate = 10, .group = group, .sequence = sequence}, 1);
  };
  sample(7, 100);
  sample(8, 5);
  sample(7, 102);  // two processors: neighbours swap
  sample(7, 101);
  EXPECT_FALSE(flows.read(at(1)).gap) << "what was before the first is not known to be lost";
  sample(7, 103);
  sample(8, 6);
  EXPECT_FALSE(flows.read(at(2)).gap);
  EXPECT_FALSE(flows.read(at(3)).gap) << "silence";
  sample(7, 105);
  EXPECT_TRUE(flows.read(at(4)).gap) << "104 is lost";
  sample(7, 106);
  sample(7, 106 - 0x7fffff);  // the group was removed and made again
  EXPECT_TRUE(flows.read(at(5)).gap);
  sample(7, 106 - 0x7fffff + 1);
  EXPECT_FALSE(flows.read(at(6)).gap);
  flows.overrun();
  EXPECT_TRUE(flows.read(at(7)).gap);
  EXPECT_FALSE(flows.read(at(8)).gap);
}

TEST(SampledFlows, CountFromTheBeginningAndStateTheErrorOfWhatIsNew) {
  SampledFlows flows = watching();
  add(flows, {.size = 1'000, .rate = 100, .sequence = 1}, 7, at(1));
  const FlowReading first = flows.read(at(2));
  EXPECT_EQ(find(first, 7)->bytes.value, 100'000U);
  EXPECT_EQ(find(first, 7)->first_seen, at(1));
  add(flows, {.size = 1'000, .rate = 100, .sequence = 2}, 7, at(3));
  const FlowReading second = flows.read(at(4));
  EXPECT_EQ(find(second, 7)->bytes.value, 200'000U);
  EXPECT_EQ(find(second, 7)->packets, 200U);
  EXPECT_EQ(find(second, 7)->bytes_error, find(first, 7)->bytes_error);
  EXPECT_EQ(find(flows.read(at(5)), 7)->bytes_error.value, 0U) << "nothing was added";
  EXPECT_NE(find(flows.read(at(3 + 900)), 7), nullptr);
  EXPECT_EQ(find(flows.read(at(3 + 901)), 7), nullptr) << "forgotten after a quarter of an hour";
}

TEST(SampledFlows, ThatLeaveByTwoUplinksAreCountedByUplink) {
  SampledFlows flows = watching();
  add(flows, {.out_port = kUp1, .size = 10, .rate = 1, .sequence = 1}, 7);
  add(flows, {.out_port = kUp2, .size = 20, .rate = 1, .sequence = 2}, 7);
  std::map<std::string, std::uint64_t> bytes;
  for (const FlowCounter& flow : flows.read(at(2)).flows)
    bytes[flow.out_port] = flow.bytes.value;
  EXPECT_EQ(bytes, (std::map<std::string, std::uint64_t>{{"up1", 10}, {"up2", 20}}));
}

// A packet that is sampled where it comes in and where it leaves is still one packet.
TEST(SampledFlows, AreCountedOnceWhereTheyComeInAndWhereTheyLeave) {
  SampledFlows flows = watching();
  const SampleOf enters{.in_port = kHostPort, .out_port = 0, .size = 10, .rate = 1};
  add(flows, enters, 7);
  const FlowReading only_entering = flows.read(at(2));
  ASSERT_EQ(only_entering.flows.size(), 1U);
  EXPECT_EQ(only_entering.flows[0].out_port, "") << "where it left was not seen";
  EXPECT_EQ(only_entering.flows[0].bytes.value, 10U);

  SampledFlows both = watching();
  add(both, {.in_port = kHostPort, .out_port = 0, .size = 10, .rate = 1, .sequence = 1}, 7);
  add(both, {.in_port = kHostPort, .out_port = kUp2, .size = 10, .rate = 1, .sequence = 2}, 7);
  const FlowReading reading = both.read(at(2));
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(reading.flows[0].out_port, "up2");
}

TEST(SampledFlows, AreThoseOfWatchedPortsAndOfRoce) {
  SampledFlows flows = watching();
  add(flows, {.in_port = kUp1, .out_port = 0, .sequence = 1}, 1);  // down from a spine
  add(flows, {.in_port = 77, .out_port = 78, .sequence = 2}, 2);   // between ports of no concern
  add(flows, {.in_port = kHostPort, .out_port = 78, .sequence = 3}, 3);
  const test::Octets noise(200);
  const test::Octets bytes = psample_message({.sequence = 4}, noise).bytes();
  flows.add(*parse_sample(bytes), at(1));
  EXPECT_TRUE(flows.read(at(2)).flows.empty());
  EXPECT_EQ(flows.samples(), 4U);
}

TEST(SampledFlows, BeyondTheTablesSizeAreAGap) {
  SampledFlows flows = watching();
  for (std::uint32_t i = 0; i < 16'384; ++i)
    add(flows, {.rate = 1, .sequence = i}, i);
  EXPECT_FALSE(flows.read(at(2)).gap);
  add(flows, {.rate = 1, .sequence = 16'384}, 16'384);
  const FlowReading reading = flows.read(at(3));
  EXPECT_TRUE(reading.gap);
  EXPECT_EQ(reading.flows.size(), 16'384U);
}

}  // namespace
}  // namespace heddle
