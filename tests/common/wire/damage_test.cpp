// Safety rule 10 for bytes: whatever is done to a message, decode() neither crashes nor yields what
// a whole message could not. The seeds are fixed; a failure prints the one that found it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "common/wire/codec.h"
#include "common/wire/limits.h"
#include "tests/common/wire/examples.h"

namespace heddle {
namespace {

using Bytes_ = std::vector<std::byte>;

// What decode() promises of anything that it yields, checked without its help.
void expect_wholesome(const Envelope& envelope, const std::string& trace) {
  SCOPED_TRACE(trace);
  EXPECT_FALSE(envelope.node.empty());
  EXPECT_LE(envelope.node.size(), wire::kMaxNameBytes);
  if (const auto* snapshot = std::get_if<Snapshot>(&envelope.message)) {
    EXPECT_TRUE(validate(snapshot->plan));
    EXPECT_EQ(digest(snapshot->plan.pins), snapshot->digest);
  }
  if (const auto* change = std::get_if<PlanDiff>(&envelope.message)) {
    EXPECT_TRUE(validate(NodePlan{change->node, change->version, change->set}));
    EXPECT_GE(change->version, change->base);
  }
  if (const auto* welcome = std::get_if<Welcome>(&envelope.message)) {
    EXPECT_GE(welcome->report_interval, wire::kShortestReportInterval);
    EXPECT_GE(welcome->lease.count(), 0);
    EXPECT_LE(welcome->lease, wire::kLongestLease);
  }
  if (const auto* report = std::get_if<Report>(&envelope.message)) {
    for (const FlowDelta& flow : report->flows)
      EXPECT_LT(flow.key.dest_qpn, 1U << 24);
  }
  // What is wholesome can be said again, and is understood as the same.
  const auto again = decode(encode(envelope));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, envelope);
}

TEST(DamagedMessage, SafetyRule10EveryTruncationIsRefused) {
  for (const auto& [name, envelope] : test::examples()) {
    const Bytes_ bytes = encode(envelope);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode(std::span(bytes).first(length))) << name << " cut to " << length;
    }
  }
}

TEST(DamagedMessage, SafetyRule10EveryDamagedBitIsRefusedOrHarmless) {
  int refused = 0, total = 0;
  for (const auto& [name, envelope] : test::examples()) {
    const Bytes_ bytes = encode(envelope);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      Bytes_ damaged = bytes;
      damaged[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto decoded = decode(damaged);
      ++total;
      if (decoded) {
        expect_wholesome(*decoded, fmt::format("{}, bit {}", name, bit));
      } else {
        ++refused;
      }
    }
  }
  std::printf("%d of %d damaged messages were refused\n", refused, total);
  EXPECT_GT(refused, total / 4);
}

TEST(DamagedMessage, SafetyRule10RandomDamageIsRefusedOrHarmless) {
  const auto examples = test::examples();
  for (unsigned seed = 1; seed <= 50'000; ++seed) {
    std::mt19937 random(seed);
    const auto& [name, envelope] = examples[random() % examples.size()];
    Bytes_ bytes = encode(envelope);
    for (unsigned n = random() % 8 + 1; n > 0; --n) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 1:
          bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 2:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                       static_cast<std::byte>(random()));
          break;
        default:
          bytes[at] = bytes[random() % bytes.size()];
          break;
      }
      if (bytes.empty())
        break;
    }
    if (const auto decoded = decode(bytes))
      expect_wholesome(*decoded, fmt::format("{}, seed {}", name, seed));
  }
}

TEST(DamagedMessage, SafetyRule10NoiseIsRefused) {
  for (unsigned seed = 1; seed <= 20'000; ++seed) {
    std::mt19937 random(seed);
    Bytes_ bytes(random() % 200);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(random());
    EXPECT_FALSE(decode(bytes)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace heddle
