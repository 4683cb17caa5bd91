#include "agent/observe/tc_filter.h"

#include <gtest/gtest.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <random>
#include <vector>

namespace heddle {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const void* data, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(data);
  return {begin, begin + size};
}

void append(Bytes& to, unsigned short type, const Bytes& content) {
  const rtattr header{.rta_len = static_cast<unsigned short>(RTA_LENGTH(content.size())),
                      .rta_type = type};
  const Bytes head = bytes_of(&header, sizeof(header));
  to.insert(to.end(), head.begin(), head.end());
  to.insert(to.end(), content.begin(), content.end());
  to.resize(RTA_ALIGN(to.size()));
}

// As the kernel answers for a BPF filter.
Bytes answer() {
  constexpr char kKind[] = "bpf";
  constexpr char kName[] = "heddle_egress:[17]";
  constexpr std::uint32_t kId = 17;
  Bytes options;
  append(options, TCA_BPF_NAME, bytes_of(kName, sizeof(kName)));
  append(options, TCA_BPF_ID, bytes_of(&kId, sizeof(kId)));
  Bytes attributes;
  append(attributes, TCA_KIND, bytes_of(kKind, sizeof(kKind)));
  append(attributes, TCA_OPTIONS, options);
  return attributes;
}

// On the heap and no larger than said, so that a sanitizer sees any reading beyond.
TcFilter parse_exactly(Bytes bytes) {
  bytes.shrink_to_fit();
  return parse_tc_filter(bytes);
}

TEST(TcFilter, IsReadFromTheKernelsAnswer) {
  const TcFilter filter = parse_exactly(answer());
  EXPECT_EQ(filter.kind, "bpf");
  EXPECT_EQ(filter.name, "heddle_egress:[17]");
  EXPECT_EQ(filter.program_id, 17U);
}

TEST(SafetyRule10TcFilter, ATruncatedAnswerYieldsNoMoreThanWasThere) {
  const Bytes good = answer();
  for (std::size_t size = 0; size < good.size(); ++size) {
    SCOPED_TRACE(size);
    const TcFilter filter = parse_exactly({good.begin(), good.begin() + static_cast<long>(size)});
    EXPECT_TRUE(filter.kind.empty() || filter.kind == "bpf");
    // The options' length says more than there is, so nothing in them counts.
    EXPECT_EQ(filter.name, "");
    EXPECT_EQ(filter.program_id, 0U);
  }
}

TEST(SafetyRule10TcFilter, DamagedAnswersAreReadWithinTheirBounds) {
  const Bytes good = answer();
  constexpr unsigned kSeed = 20261130;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = good;
    for (int i = 0; i < 1 + round % 4; ++i)
      bytes[random() % bytes.size()] = std::byte{static_cast<unsigned char>(random())};
    bytes.resize(1 + random() % bytes.size());
    const TcFilter filter = parse_exactly(bytes);
    EXPECT_LE(filter.kind.size() + filter.name.size(), bytes.size()) << "round " << round;
  }
}

TEST(SafetyRule10TcFilter, AnAttributeThatIsShorterThanItsHeaderEndsTheReading) {
  for (const unsigned short length : {0, 1, 3}) {
    const rtattr header{.rta_len = length, .rta_type = TCA_KIND};
    Bytes bytes = bytes_of(&header, sizeof(header));
    append(bytes, TCA_KIND, bytes_of("bpf", 4));
    EXPECT_EQ(parse_exactly(bytes).kind, "") << length;
  }
}

}  // namespace
}  // namespace heddle
