#include "common/core/address.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(IpAddress, ComesBackAsItWasWritten) {
  for (const char* text : {"10.1.0.2", "0.0.0.0", "255.255.255.255", "::", "::1", "2001:db8::1",
                           "fe80::1:0:0:2", "1:2:3:4:5:6:7:8", "2001:db8:0:1:1:1:1:1"}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
}

TEST(IpAddress, WritesTheShortForm) {
  EXPECT_EQ(to_string(*IpAddress::parse("2001:0db8:0:0:0:0:0:1")), "2001:db8::1");
  EXPECT_EQ(to_string(*IpAddress::parse("1:0:0:2:0:0:0:3")), "1:0:0:2::3");
  EXPECT_EQ(to_string(*IpAddress::parse("::ffff:10.1.0.2")), "::ffff:a01:2");
}

TEST(IpAddress, RefusesWhatIsNone) {
  for (const char* text :
       {"", "10.1.0", "10.1.0.256", "10.1.0.2.3", "10.1.0.02", "10.1.0.2 ", "1:2:3", "1::2::3",
        "1:2:3:4:5:6:7:8:9", "12345::", ":1", "1:", ":::", "g::", "1:2:3:4:5:6:7::8", "10.1..2"}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(Prefix, ContainsWhatItsBitsSay) {
  const Prefix prefix = *Prefix::parse("10.1.128.0/17");
  EXPECT_TRUE(prefix.contains(*IpAddress::parse("10.1.128.0")));
  EXPECT_TRUE(prefix.contains(*IpAddress::parse("10.1.255.255")));
  EXPECT_FALSE(prefix.contains(*IpAddress::parse("10.1.127.255")));
  EXPECT_FALSE(prefix.contains(*IpAddress::parse("::1")));
  EXPECT_TRUE(Prefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("8.8.8.8")));
}

TEST(Prefix, RefusesHostBitsAndBadLengths) {
  for (const char* text :
       {"10.1.0.1/24", "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/x", "::1/64", "::/129"})
    EXPECT_FALSE(Prefix::parse(text)) << text;
  EXPECT_EQ(to_string(*Prefix::parse("10.1.0.7")), "10.1.0.7/32");
}

}  // namespace
}  // namespace heddle
