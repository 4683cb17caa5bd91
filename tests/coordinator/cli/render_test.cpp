// Every command's table from a recorded reply: replies/NAME.json is what a coordinator sends,
// replies/NAME.txt what is shown. The pairs are also the reference of what the replies look like.
#include "coordinator/cli/render.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "coordinator/cli/command_line.h"
#include "coordinator/cli/human.h"
#include "coordinator/cli/table.h"
#include "tests/coordinator/cli/recorded.h"

namespace heddle {
namespace {

struct Recorded {
  const char* command;
  const char* name;
};

class RecordedReply : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedReply, IsShownAsItsTable) {
  const auto [command, name] = GetParam();
  const auto shown = render(command, recorded(std::string(name) + ".json"), false);
  ASSERT_TRUE(shown);
  EXPECT_EQ(*shown, recorded(std::string(name) + ".txt"));
}

INSTANTIATE_TEST_SUITE_P(
    Render, RecordedReply,
    testing::Values(
        Recorded{"status", "status"}, Recorded{"status", "status-idle"},
        Recorded{"agents", "agents"}, Recorded{"agents", "agents-none"}, Recorded{"flows", "flows"},
        Recorded{"jobs", "jobs"}, Recorded{"job list", "job-list"}, Recorded{"links", "links"},
        Recorded{"fabric check", "fabric-check"}, Recorded{"fabric check", "fabric-check-good"},
        Recorded{"plan show", "plan-show"}, Recorded{"plan show", "plan-show-empty"},
        Recorded{"plan diff", "plan-diff"}, Recorded{"plan diff", "plan-diff-same"},
        Recorded{"plan explain", "plan-explain"}, Recorded{"plan explain", "plan-explain-mouse"},
        Recorded{"plan preview", "plan-preview"}, Recorded{"plan preview", "plan-preview-none"},
        Recorded{"jobs explain", "jobs-explain"}, Recorded{"jobs explain", "jobs-explain-unknown"},
        Recorded{"rollout status", "rollout"}, Recorded{"rollout start", "rollout-none"},
        Recorded{"rollout abort", "rollout-off"}, Recorded{"drain status", "drain"},
        Recorded{"undrain", "drain-none"}, Recorded{"plan log", "plan-log"},
        Recorded{"plan log", "plan-log-none"}, Recorded{"disable", "disable"},
        Recorded{"enable", "enable"}),
    [](const testing::TestParamInfo<Recorded>& recorded_reply) {
      std::string name = recorded_reply.param.name;
      for (char& c : name)
        if (c == '-')
          c = '_';
      return name;
    });

// A reply without a table of its own is shown as its JSON: nobody who adds a command is to forget
// the table.
TEST(Render, EveryCommandOfTheCoordinatorHasATable) {
  static const std::set<std::string> kElsewhere{
      "",        "plan",     "job",        "fabric",         "key",     "rollout", "keygen",
      "key add", "key list", "key revoke", "support-bundle", "simulate"};
  for (const CommandWords& words : all_command_words())
    if (!kElsewhere.contains(words.command)) {
      EXPECT_NE(render(words.command, "{}", false), "{}\n") << words.command;
    }
}

TEST(Render, ListsThePinsOfSeveralNodesOnAFlowsWay) {
  const auto shown = render(
      "plan explain",
      R"({"flow":"10.1.1.2 10.3.1.2","path":"spine1","reason":"r","alternatives":[],"pins":[)"
      R"({"node":"h1-1","unit":"> 10.3.1.2","target":"via eth1","applies":"later","reason":"a"},)"
      R"({"node":"leaf2","unit":"p1 > 10.3.1.2","target":"via up1","applies":"at once","reason":"b"}]})",
      false);
  ASSERT_TRUE(shown);
  EXPECT_NE(shown->find("h1-1   > 10.3.1.2     via eth1  later    a\n"), std::string::npos)
      << *shown;
  EXPECT_NE(shown->find("leaf2  p1 > 10.3.1.2  via up1   at once  b\n"), std::string::npos)
      << *shown;
}

TEST(Render, NamesTheSegmentsOfAgents) {
  const auto shown = render("agents",
                            R"({"agents":[{"name":"spine1","role":"spine","segments":[)"
                            R"({"address":"fd00:5::1","behaviour":"leads on"}]}]})",
                            false);
  ASSERT_TRUE(shown);
  EXPECT_NE(shown->find("Segments\n  spine1: segment fd00:5::1 leads on\n"), std::string::npos)
      << *shown;
}

TEST(Render, ColoursWhatNeedsALook) {
  EXPECT_EQ(render("links", recorded("links.json"), true), recorded("links.colour.txt"));
  EXPECT_EQ(render("agents", recorded("agents.json"), true), recorded("agents.colour.txt"));
}

// A coordinator of another version may send other things than expected under every key: nothing may
// be shown as zero for that (safety rule 7), and nothing may fail.
TEST(SafetyRule7, AReplyThatLacksEverythingIsShownAsUnknown) {
  const auto links = render("links", R"({"links":[{},7,null,[[]]]})", false);
  ASSERT_TRUE(links);
  EXPECT_EQ(links->find('0'), std::string::npos) << *links;
  for (const char* command :
       {"status", "agents", "flows", "jobs", "job list", "links", "plan show", "plan diff",
        "plan explain", "plan preview", "jobs explain", "disable", "enable"})
    for (const char* json :
         {"{}", "[]", "null", "3", R"("x")",
          R"({"agents":[{"failed":[1],"enforcers":[[]],"conflict":3}]})",
          R"({"flows":[{"seen_by":{"a":1},"source":[],"rate_bps":"fast"}]})",
          R"({"links":{"down":-1}})",
          R"({"efficiency":{"worst":"1","by_job":[1]},"pins":[{}],"moves":[{}]})",
          R"({"nodes":[{}],"alternatives":[{}],"set":[{}],"removed":[3]})"})
      EXPECT_TRUE(render(command, json, false)) << command << json;
}

TEST(Render, AStatusThatSaysNothingClaimsNoZeros) {
  const auto status = render("status", "{}", false);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->find('0'), std::string::npos) << *status;
}

TEST(Render, WhatIsNotJsonIsAnError) {
  for (const char* json : {"", "{", "{\"agents\":", "\xff"})
    EXPECT_FALSE(render("agents", json, false)) << json;
}

TEST(Render, DeepNestingIsCutOff) {
  const std::string deep =
      R"({"agents":[{"name":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}]}";
  EXPECT_TRUE(render("agents", deep, false));
  EXPECT_TRUE(render("something new", deep, false));
}

TEST(Render, ACommandWithoutATableShowsItsJson) {
  EXPECT_EQ(render("something new", R"({"a":1})", false), "{\n  \"a\": 1\n}\n");
}

TEST(Render, AReasonFromAnAgentCannotMoveTheCursor) {
  const auto shown =
      render("agents", R"({"agents":[{"name":"leaf1\u001b[2J","conflict":"a\nb\u009bc"}]})", false);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->find('\x1b'), std::string::npos);
  EXPECT_NE(shown->find("leaf1?[2J: conflict: a?b?c"), std::string::npos) << *shown;
}

TEST(Table, AlignsByWhatIsSeenNotByBytes) {
  Table table({{"A"}, {"B", Align::right}});
  table.add({{"Zürich"}, {"1"}});
  table.add({{"x"}, {"100"}});
  EXPECT_EQ(table.text(false),
            "A         B\n"
            "Zürich    1\n"
            "x       100\n");
}

TEST(Table, LeavesNoBlanksAtLineEnds) {
  Table table({{"A"}, {"B"}});
  table.add({{"1"}, {""}});
  EXPECT_EQ(table.text(false), "A  B\n1\n");
}

TEST(Harmless, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(harmless("a\tb\x7f"), "a?b?");
  EXPECT_EQ(harmless("é→😀"), "é→😀");
  EXPECT_EQ(harmless("\xc3"), "?");
  EXPECT_EQ(harmless("\xc3(\xff"), "?(?");
}

TEST(Human, RatesHaveThreeDigitsAndADecimalUnit) {
  EXPECT_EQ(human_rate(0), "0 bit/s");
  EXPECT_EQ(human_rate(25e6), "25 Mbit/s");
  EXPECT_EQ(human_rate(94.32e6), "94.3 Mbit/s");
  EXPECT_EQ(human_rate(999.9e6), "1 Gbit/s");
  EXPECT_EQ(human_rate(123.4e9), "123 Gbit/s");
  EXPECT_EQ(human_rate(4e15), "4000 Tbit/s");
}

TEST(Human, BytesAreDecimal) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(4096), "4.1 kB");
  EXPECT_EQ(human_bytes(1.5e12), "1.5 TB");
}

TEST(Human, TimesUseTheUnitsOfTheirSize) {
  EXPECT_EQ(human_milliseconds(0), "0 ms");
  EXPECT_EQ(human_milliseconds(0.041), "41 us");
  EXPECT_EQ(human_milliseconds(12.34), "12.3 ms");
  EXPECT_EQ(human_milliseconds(1500), "1.5 s");
  EXPECT_EQ(human_milliseconds(125'000), "2 min 5 s");
  EXPECT_EQ(human_seconds(3600), "1 h");
  EXPECT_EQ(human_seconds(273'600), "3 d 4 h");
}

TEST(Human, AnEfficiencyIsNotRoundedUpToAOneThatWasNotReached) {
  EXPECT_EQ(human_efficiency(0.99999), "0.999");
  EXPECT_EQ(human_efficiency(1.0), "1.000");
  EXPECT_EQ(human_efficiency(0.875), "0.875");
}

}  // namespace
}  // namespace heddle
