#include "common/runtime/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Colour : std::uint8_t { red, green };

struct Settings {
  std::string node{"unset"};
  std::filesystem::path file{"/default"};
  std::vector<std::string> globs{"up*"};
  bool enabled{true};
  std::uint16_t port{7117};
  std::uint32_t count{5};
  std::uint64_t big{6};
  double part{0.5};
  Duration lease{120s};
  Colour colour{Colour::red};
  std::uint32_t protocol{188};
};

Result<Settings> read(std::string_view text) {
  auto reader = ConfigReader::parse(text, "agent.yaml");
  if (!reader)
    return tl::unexpected(reader.error());
  Settings s;
  reader->read("node", s.node, Need::required);
  reader->read("file", s.file);
  reader->read("globs", s.globs);
  reader->read("enabled", s.enabled);
  reader->read("port", s.port, {.min = 1, .max = 65'535});
  reader->read("count", s.count, {.min = 1, .max = 10});
  reader->read("big", s.big);
  reader->read("part", s.part, {.min = 0.0, .max = 1.0});
  reader->read_duration("lease_s", s.lease, 1s, {1s, 24h});
  reader->read_choice("colour", s.colour, {{"red", Colour::red}, {"green", Colour::green}});
  ConfigReader routing = reader->section("routing");
  routing.read("protocol", s.protocol, {.min = 1, .max = 255});
  if (auto ok = reader->finish(); !ok)
    return tl::unexpected(ok.error());
  return s;
}

std::string error_of(std::string_view text) {
  const auto settings = read(text);
  return settings ? "no error" : settings.error().message;
}

TEST(Config, ValuesAreReadAndAbsentOnesKeepTheirDefaults) {
  const auto s = read(R"(
# A comment.
node: leaf1
file: /etc/heddle/key
globs: ["up*", 'p*']
enabled: false
port: 65535
big: 18446744073709551615
part: 0.25
lease_s: 30
colour: green
routing:
  protocol: 99
)");
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->node, "leaf1");
  EXPECT_EQ(s->file, "/etc/heddle/key");
  EXPECT_THAT(s->globs, ElementsAre("up*", "p*"));
  EXPECT_FALSE(s->enabled);
  EXPECT_EQ(s->port, 65'535);
  EXPECT_EQ(s->count, 5U);
  EXPECT_EQ(s->big, 18'446'744'073'709'551'615U);
  EXPECT_EQ(s->part, 0.25);
  EXPECT_EQ(s->lease, 30s);
  EXPECT_EQ(s->colour, Colour::green);
  EXPECT_EQ(s->protocol, 99U);

  const auto defaults = read("node: leaf1");
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->lease, 120s);
  EXPECT_EQ(defaults->protocol, 188U);
  EXPECT_THAT(defaults->globs, ElementsAre("up*"));
}

TEST(Config, AMistakeNamesFileLineAndKey) {
  EXPECT_EQ(error_of("node: a\nports: 1"), "agent.yaml:2: ports: no such key");
  EXPECT_EQ(error_of("node: a\nrouting:\n  protcol: 1"),
            "agent.yaml:3: routing.protcol: no such key");
  EXPECT_EQ(error_of(""), "agent.yaml:1: node: missing");
  EXPECT_EQ(error_of("node: a\nnode: b"), "agent.yaml:2: node: given twice");
  EXPECT_EQ(error_of("node: [a]"), "agent.yaml:1: node: must be a text, not a list");
  EXPECT_EQ(error_of("node:"), "agent.yaml:1: node: must be a text, not nothing");
  EXPECT_EQ(error_of("node: a\nenabled: yes"),
            "agent.yaml:2: enabled: must be true or false, not \"yes\"");
  EXPECT_EQ(error_of("node: a\ncolour: blue"),
            "agent.yaml:2: colour: must be one of red, green, not \"blue\"");
  EXPECT_EQ(error_of("node: a\nrouting: 5"), "agent.yaml:2: routing: must be a mapping, not \"5\"");
  EXPECT_EQ(error_of("node: a\nglobs: up"),
            "agent.yaml:2: globs: must be a list of texts, not \"up\"");
  EXPECT_EQ(error_of("node: a\nglobs:\n  - up\n  - {a: b}"),
            "agent.yaml:4: globs: must be a list of texts, not a mapping");
}

TEST(Config, ANumberIsTheWholeTextInDecimalAndInItsRange) {
  for (const char* count : {"0", "11", "-1", "1.5", "0x5", "05x", "5 5", "five",
                            "99999999999999999999", "1e0", "\"\""}) {
    EXPECT_THAT(error_of(std::string("node: a\ncount: ") + count),
                HasSubstr("count: must be a whole number from 1 to 10"))
        << count;
  }
  for (const char* part : {"nan", ".nan", "inf", ".inf", "-0.1", "1.1", "half"}) {
    EXPECT_THAT(error_of(std::string("node: a\npart: ") + part),
                HasSubstr("part: must be a number from 0 to 1"))
        << part;
  }
  for (const char* lease : {"0", "86401", "-5", "18446744073709551616", "1s"}) {
    EXPECT_THAT(error_of(std::string("node: a\nlease_s: ") + lease),
                HasSubstr("lease_s: must be a whole number from 1 to 86400"))
        << lease;
  }
  // Not in octal, as YAML would once have had it.
  EXPECT_EQ(read("node: a\ncount: 010")->count, 10U);
}

TEST(Config, AllMistakesAreToldTogetherInTheOrderOfTheFile) {
  EXPECT_EQ(error_of("zebra: 1\ncount: 0\nrouting:\n  protocol: 0\n  x: 1"),
            "agent.yaml:1: node: missing\n"
            "agent.yaml:1: zebra: no such key\n"
            "agent.yaml:2: count: must be a whole number from 1 to 10, not \"0\"\n"
            "agent.yaml:4: routing.protocol: must be a whole number from 1 to 255, not \"0\"\n"
            "agent.yaml:5: routing.x: no such key");
}

TEST(Config, WhatIsNotAMappingIsRefusedWithItsLine) {
  for (const char* text :
       {"- a\n- b", "just text", "a: [1, 2", "a: b: c", "\t- x", "{a: &x 1, b: *y}", "a: 'open"}) {
    const auto reader = ConfigReader::parse(text, "agent.yaml");
    ASSERT_FALSE(reader) << text;
    EXPECT_EQ(reader.error().code, Errc::parse);
    EXPECT_THAT(reader.error().message, testing::StartsWith("agent.yaml:")) << text;
  }
}

TEST(Config, ListsOfMappingsAreReadOneByOne) {
  auto reader =
      ConfigReader::parse("jobs:\n  - name: a\n  - name: b\n    host: x\n  - 5", "jobs.yaml");
  ASSERT_TRUE(reader);
  std::vector<std::string> names;
  for (ConfigReader& job : reader->list("jobs"))
    job.read("name", names.emplace_back(), Need::required);
  EXPECT_THAT(names, ElementsAre("a", "b"));
  EXPECT_EQ(reader->finish().error().message,
            "jobs.yaml:4: jobs[1].host: no such key\n"
            "jobs.yaml:5: jobs: must be a list of mappings, not \"5\"");
}

TEST(Config, ACallersOwnCheckIsToldWithTheOthers) {
  auto reader = ConfigReader::parse("a: 1\nb: 2", "x.yaml");
  ASSERT_TRUE(reader);
  std::uint32_t a = 0, b = 0;
  reader->read("a", a);
  reader->read("b", b);
  EXPECT_TRUE(reader->has("a"));
  EXPECT_FALSE(reader->has("c"));
  EXPECT_EQ(reader->where("b"), "x.yaml:2");
  reader->problem("b", "is above a");
  EXPECT_EQ(reader->finish().error().message, "x.yaml:2: b: is above a");
}

TEST(Config, AFileThatCannotBeReadIsAnErrorThatNamesIt) {
  for (const char* file : {"/nonexistent/agent.yaml", "/proc"}) {
    const auto reader = ConfigReader::load(file);
    ASSERT_FALSE(reader) << file;
    EXPECT_EQ(reader.error().code, Errc::io);
    EXPECT_THAT(reader.error().message, HasSubstr(file));
  }
}

// A value that is quoted in a message is cut: it may be a whole secret, or a whole book.
TEST(Config, ALongValueIsCutInItsMessage) {
  EXPECT_LT(error_of("node: a\ncount: " + std::string(10'000, 'x')).size(), 200U);
}

}  // namespace
}  // namespace heddle
