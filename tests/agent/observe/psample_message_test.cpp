// psample messages, whole and damaged; and the kernel's answer that names the family's numbers.
#include "agent/observe/psample_message.h"

#include <gtest/gtest.h>

#include <limits>

#include "agent/observe/generic_family.h"
#include "tests/agent/observe/psample_builder.h"

namespace heddle {
namespace {

using test::psample_message;
using test::PsampleMessage;

const test::Octets kData = test::roce_frame({});

test::Octets whole() {
  return psample_message({.in_port = 3, .out_port = 4, .sequence = 22}, kData).bytes();
}

TEST(PsampleMessage, BuiltFromTheHeaderIsUnderstood) {
  const test::Octets bytes = whole();
  const auto sample = parse_sample(bytes);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->in_port, 3);
  EXPECT_EQ(sample->out_port, 4);
  EXPECT_EQ(sample->size.value, 4154U);
  EXPECT_EQ(sample->rate, 1000);
  EXPECT_EQ(sample->group, 7U);
  EXPECT_EQ(sample->sequence, 22U);
  EXPECT_TRUE(std::ranges::equal(sample->data, kData));
}

TEST(PsampleMessage, UnknownAttributesArePassedOver) {
  const test::Octets bytes = psample_message({.sequence = 22}, kData)
                                 .number(PSAMPLE_ATTR_OUT_TC, std::uint16_t{3})
                                 .number(PSAMPLE_ATTR_TIMESTAMP, std::uint64_t{1})
                                 .number(15, std::uint32_t{0xdddd})  // a cookie of its user
                                 .number(0x3fff, std::uint8_t{1})
                                 .attribute(NLA_F_NESTED | 200, kData)
                                 .bytes();
  const auto sample = parse_sample(bytes);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->size.value, 4154U);
  EXPECT_EQ(sample->rate, 1000);
}

// Since 6.11 the rate may be a chance of 2^32 instead: 2^32 / 4,294,967 is 1000.00007.
TEST(PsampleMessage, ARateThatIsAChanceIsTurnedRound) {
  const test::Octets bytes = psample_message({.rate = 4'294'967}, kData).attribute(16, {}).bytes();
  ASSERT_TRUE(parse_sample(bytes));
  EXPECT_NEAR(parse_sample(bytes)->rate, 1000, 0.001);
  const test::Octets certain =
      psample_message({.rate = std::numeric_limits<std::uint32_t>::max()}, kData)
          .attribute(16, {})
          .bytes();
  EXPECT_EQ(parse_sample(certain)->rate, 1);
}

TEST(PsampleMessage, WhatAnEstimateNeedsIsNeeded) {
  const auto without = [](std::uint16_t left_out) {
    PsampleMessage message;
    for (const std::uint16_t type : {PSAMPLE_ATTR_SAMPLE_RATE, PSAMPLE_ATTR_ORIGSIZE,
                                     PSAMPLE_ATTR_SAMPLE_GROUP, PSAMPLE_ATTR_GROUP_SEQ})
      if (type != left_out)
        message.number(type, std::uint32_t{9});
    return parse_sample(message.bytes()).has_value();
  };
  EXPECT_TRUE(without(PSAMPLE_ATTR_DATA));
  EXPECT_FALSE(without(PSAMPLE_ATTR_SAMPLE_RATE));
  EXPECT_FALSE(without(PSAMPLE_ATTR_ORIGSIZE));
  EXPECT_FALSE(without(PSAMPLE_ATTR_SAMPLE_GROUP));
  EXPECT_FALSE(without(PSAMPLE_ATTR_GROUP_SEQ));
  EXPECT_FALSE(parse_sample(psample_message({.rate = 0}, kData).bytes())) << "of no packet";
  EXPECT_FALSE(parse_sample(PsampleMessage(PSAMPLE_CMD_NEW_GROUP).bytes())) << "no sample";
}

TEST(PsampleMessage, SafetyRule10EveryCutAndEveryDamagedOctetIsHarmless) {
  const test::Octets bytes = whole();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(parse_sample(std::span(bytes).first(size))) << size;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
      test::Octets damaged = bytes;
      damaged[at] ^= static_cast<std::byte>(change);
      if (const auto sample = parse_sample(damaged)) {
        EXPECT_GE(sample->rate, 1);
        EXPECT_LE(sample->data.size(), damaged.size());
      }
    }
  }
}

TEST(GenericFamily, NumbersAreReadFromTheKernelsAnswer) {
  const auto group = [](const char* name, std::uint32_t id) {
    test::Octets out;
    const std::size_t length = std::strlen(name) + 1;
    const nlattr name_header{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + length),
                             .nla_type = CTRL_ATTR_MCAST_GRP_NAME};
    const nlattr id_header{.nla_len = NLA_HDRLEN + 4, .nla_type = CTRL_ATTR_MCAST_GRP_ID};
    const auto append = [&out](const void* from, std::size_t size) {
      const auto* const begin = static_cast<const std::byte*>(from);
      out.insert(out.end(), begin, begin + size);
      out.resize(NLA_ALIGN(out.size()));
    };
    append(&name_header, sizeof(name_header));
    append(name, length);
    append(&id_header, sizeof(id_header));
    append(&id, sizeof(id));
    return out;
  };
  const auto answer = [&](std::uint16_t type) {
    PsampleMessage groups;  // as a carrier of nested attributes
    groups.attribute(1, group("config", 11)).attribute(2, group("packets", 12));
    const test::Octets nested = groups.bytes();
    test::Octets bytes = PsampleMessage(CTRL_CMD_NEWFAMILY)
                             .number(CTRL_ATTR_FAMILY_ID, std::uint16_t{0x1d})
                             .attribute(CTRL_ATTR_MCAST_GROUPS,
                                        std::span(nested).subspan(NLMSG_HDRLEN + GENL_HDRLEN))
                             .bytes();
    std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_type), &type, sizeof(type));
    return bytes;
  };
  EXPECT_EQ(parse_generic_family(answer(GENL_ID_CTRL)),
            (GenericFamily{.id = 0x1d, .groups = {{"config", 11}, {"packets", 12}}}));
  EXPECT_EQ(parse_generic_family(answer(NLMSG_ERROR)), std::nullopt);
  const test::Octets bytes = answer(GENL_ID_CTRL);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(parse_generic_family(std::span(bytes).first(size)), std::nullopt) << size;
}

// Every kernel has the family that answers for all others.
TEST(GenericFamily, IsAskedOfThisKernel) {
  const auto family = find_generic_family("nlctrl");
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_EQ(family->id, GENL_ID_CTRL);
  EXPECT_TRUE(family->groups.contains("notify"));
  const auto none = find_generic_family("heddle_none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::not_found);
}

}  // namespace
}  // namespace heddle
