#include "coordinator/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin < line.size()) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin)
      out.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

Invocation parsed(const std::string& line) {
  auto invocation = parse_command_line(words(line), "0.1.0");
  EXPECT_TRUE(invocation) << line << ": " << invocation.error().text;
  return invocation ? *invocation : Invocation{};
}

Ask asked(const std::string& line) {
  const Invocation invocation = parsed(line);
  EXPECT_TRUE(std::holds_alternative<Ask>(invocation.action)) << line;
  return std::get<Ask>(invocation.action);
}

Usage refused(const std::string& line) {
  auto invocation = parse_command_line(words(line), "0.1.0");
  EXPECT_FALSE(invocation) << line;
  return invocation ? Usage{} : invocation.error();
}

TEST(CommandLine, QueriesGoToTheCoordinatorByTheirName) {
  for (const char* command : {"status", "agents", "flows", "links", "jobs"}) {
    const Ask ask = asked(command);
    EXPECT_EQ(ask.command, command);
    EXPECT_THAT(ask.arguments, IsEmpty());
    EXPECT_FALSE(ask.watch);
  }
}

TEST(CommandLine, WatchHasAPeriodOfTwoSecondsUnlessGiven) {
  EXPECT_EQ(asked("flows --watch").watch, Duration(std::chrono::seconds(2)));
  EXPECT_EQ(asked("status --watch 0.5").watch, Duration(std::chrono::milliseconds(500)));
  EXPECT_EQ(asked("links --watch --json").watch, Duration(std::chrono::seconds(2)));
  EXPECT_EQ(refused("agents --watch 0").exit, Exit::usage);
  EXPECT_EQ(refused("agents --watch nan").exit, Exit::usage);
  EXPECT_THAT(refused("agents --watch soon").text, HasSubstr("'soon' is no number"));
  EXPECT_EQ(refused("plan show --watch").exit, Exit::usage);
}

TEST(CommandLine, PlanCommandsCarryTheirArguments) {
  EXPECT_EQ(asked("plan show").command, "plan show");
  EXPECT_THAT(asked("plan show").arguments, IsEmpty());
  EXPECT_THAT(asked("plan show 3.17").arguments, ElementsAre("3.17"));
  EXPECT_THAT(asked("plan diff").arguments, IsEmpty());
  EXPECT_EQ(asked("plan diff 3.16 3.17").command, "plan diff");
  EXPECT_THAT(asked("plan diff 3.16 3.17").arguments, ElementsAre("3.16", "3.17"));
  EXPECT_EQ(refused("plan diff 3.16").exit, Exit::usage);
  EXPECT_EQ(refused("plan").exit, Exit::usage);
}

TEST(CommandLine, APreviewCarriesItsAssumptionsAndItsFile) {
  EXPECT_THAT(asked("plan preview").arguments, IsEmpty());
  const Ask ask = asked(
      "plan preview --down spine3 --up leaf1-spine2 --down leaf2 --jobs next.yaml --scheme greedy");
  EXPECT_EQ(ask.command, "plan preview");
  EXPECT_THAT(ask.arguments, ElementsAre("--down", "spine3", "--down", "leaf2", "--up",
                                         "leaf1-spine2", "--scheme", "greedy"));
  ASSERT_EQ(ask.files.size(), 1U);
  EXPECT_EQ(ask.files[0].first, "--jobs");
  EXPECT_EQ(ask.files[0].second, "next.yaml");
  EXPECT_EQ(refused("plan preview spine3").exit, Exit::usage);
}

TEST(CommandLine, AJobIsExplainedByItsName) {
  const Ask ask = asked("jobs explain llama --watch 5");
  EXPECT_EQ(ask.command, "jobs explain");
  EXPECT_THAT(ask.arguments, ElementsAre("llama"));
  EXPECT_EQ(ask.watch, Duration(std::chrono::seconds(5)));
  EXPECT_EQ(asked("jobs --watch").command, "jobs");
  EXPECT_EQ(refused("jobs explain").exit, Exit::usage);
}

TEST(CommandLine, KeysAreAddedWithARoleListedAndRevoked) {
  const auto add = std::get<KeyAdd>(parsed("key add --role viewer wall.pub").action);
  EXPECT_EQ(add.role, KeyRole::viewer_key);
  EXPECT_EQ(add.file, "wall.pub");
  EXPECT_EQ(add.folder, "/etc/heddle/authorised");
  EXPECT_EQ(std::get<KeyList>(parsed("key list --dir /x").action).folder, "/x");
  const auto revoke = std::get<KeyRevoke>(parsed("key revoke wall").action);
  EXPECT_EQ(revoke.name, "wall");
  EXPECT_FALSE(revoke.role);
  EXPECT_EQ(refused("key add wall.pub").exit, Exit::usage);
  EXPECT_EQ(std::get<SupportBundle>(parsed("support-bundle --output /tmp/b").action).file,
            "/tmp/b");
}

TEST(CommandLine, AFlowIsOneArgumentHoweverItWasQuoted) {
  EXPECT_THAT(asked("plan explain 10.1.1.2:51986 10.2.1.2").arguments,
              ElementsAre("10.1.1.2:51986 10.2.1.2"));
  const auto quoted = parse_command_line({"plan", "explain", "10.1.1.2 10.2.1.2"}, "");
  ASSERT_TRUE(quoted);
  EXPECT_EQ(std::get<Ask>(quoted->action).command, "plan explain");
  EXPECT_THAT(std::get<Ask>(quoted->action).arguments, ElementsAre("10.1.1.2 10.2.1.2"));
  EXPECT_EQ(refused("plan explain").exit, Exit::usage);
}

TEST(CommandLine, TheOffSwitchNamesExactlyOneScope) {
  EXPECT_EQ(asked("disable --all").command, "disable");
  EXPECT_THAT(asked("disable --all").arguments, ElementsAre("--all"));
  EXPECT_THAT(asked("enable --rack rack7").arguments, ElementsAre("--rack", "rack7"));
  EXPECT_THAT(asked("enable --node leaf1").arguments, ElementsAre("--node", "leaf1"));
  EXPECT_THAT(asked("disable --job A").arguments, ElementsAre("--job", "A"));
  for (const char* line : {"disable", "disable leaf1", "enable --all --node leaf1",
                           "disable --node", "disable --rack a --job b"})
    EXPECT_EQ(refused(line).exit, Exit::usage) << line;
}

TEST(CommandLine, JobsAreDeclaredListedAndRemoved) {
  EXPECT_EQ(asked("job declare A h1-1 h2-1").command, "job declare");
  EXPECT_THAT(asked("job declare A h1-1 h2-1").arguments, ElementsAre("A", "h1-1", "h2-1"));
  EXPECT_EQ(asked("job list").command, "job list");
  EXPECT_EQ(asked("job remove A").command, "job remove");
  EXPECT_THAT(asked("job remove A").arguments, ElementsAre("A"));
  for (const char* line :
       {"job declare", "job declare A", "job remove", "job remove A B", "job list A"})
    EXPECT_EQ(refused(line).exit, Exit::usage) << line;
}

TEST(CommandLine, KeygenAndFabricCheckStandAlone) {
  const Keygen keygen = std::get<Keygen>(parsed("keygen --dir /k leaf1").action);
  EXPECT_EQ(keygen.folder, "/k");
  EXPECT_EQ(keygen.name, "leaf1");
  EXPECT_EQ(std::get<Keygen>(parsed("keygen leaf1").action).folder, ".");
  const FabricCheck check =
      std::get<FabricCheck>(parsed("fabric check f.yaml --jobs j.yaml").action);
  EXPECT_EQ(check.fabric, "f.yaml");
  EXPECT_EQ(check.jobs, "j.yaml");
  EXPECT_FALSE(std::get<FabricCheck>(parsed("fabric check f.yaml").action).jobs);
  EXPECT_EQ(refused("keygen").exit, Exit::usage);
  EXPECT_EQ(std::get<Ask>(parsed("fabric check").action).command, "fabric check");
  EXPECT_EQ(refused("fabric check --jobs j.yaml").exit, Exit::usage) << "of which fabric?";
  EXPECT_EQ(refused("fabric").exit, Exit::usage);
}

TEST(CommandLine, GlobalOptionsMayStandBeforeOrAfterTheCommand) {
  for (const char* line : {"--json --coordinator tcp://c:1 --key k --server-key s --config f "
                           "--timeout 0.5 --plain plan show",
                           "plan show --json --coordinator tcp://c:1 --key k --server-key s "
                           "--config f --timeout 0.5 --plain"}) {
    const Invocation invocation = parsed(line);
    EXPECT_TRUE(invocation.json);
    EXPECT_EQ(invocation.connection.coordinator, "tcp://c:1");
    EXPECT_EQ(invocation.connection.key, "k");
    EXPECT_EQ(invocation.connection.server_key, "s");
    EXPECT_EQ(invocation.connection.config, "f");
    EXPECT_TRUE(invocation.connection.plain);
    EXPECT_EQ(invocation.connection.timeout, Duration(std::chrono::milliseconds(500)));
  }
}

TEST(CommandLine, WhatIsNotGivenIsLeftToTheConfiguration) {
  const Invocation invocation = parsed("status");
  EXPECT_FALSE(invocation.json);
  EXPECT_FALSE(invocation.connection.coordinator);
  EXPECT_FALSE(invocation.connection.key);
  EXPECT_FALSE(invocation.connection.plain);
  EXPECT_EQ(invocation.connection.timeout, Duration(std::chrono::seconds(3)));
}

TEST(CommandLine, WrongUsageSaysWhatAndWhereHelpIs) {
  for (const char* line : {"", "stat", "status extra", "--colour status", "--timeout 0 status",
                           "--timeout x status"}) {
    const Usage usage = refused(line);
    EXPECT_EQ(usage.exit, Exit::usage) << line;
    EXPECT_THAT(usage.text, testing::StartsWith("heddle: "));
    EXPECT_THAT(usage.text, HasSubstr("heddle --help"));
  }
}

TEST(CommandLine, HelpIsOfTheCommandAskedAboutAndHasExamples) {
  const Usage whole = refused("--help");
  EXPECT_EQ(whole.exit, Exit::ok);
  EXPECT_THAT(whole.text, HasSubstr("Exit codes"));
  EXPECT_THAT(whole.text, HasSubstr("keygen"));
  for (const char* command : {"status", "agents", "flows", "links", "jobs", "plan", "plan show",
                              "plan diff", "plan explain", "disable", "enable", "job",
                              "job declare", "job list", "job remove", "keygen", "fabric check"}) {
    const Usage usage = refused(std::string(command) + " --help");
    EXPECT_EQ(usage.exit, Exit::ok) << command;
    EXPECT_THAT(usage.text, HasSubstr("Example")) << command;
    EXPECT_THAT(usage.text, HasSubstr(std::string("heddle ") + command)) << command;
  }
}

TEST(CommandLine, HelpBeginsWithTheWholeCommand) {
  for (const CommandWords& known : all_command_words()) {
    if (known.command.empty())
      continue;
    const Usage usage = refused(known.command + " --help");
    EXPECT_EQ(usage.exit, Exit::ok) << known.command;
    EXPECT_THAT(usage.text, HasSubstr("Usage: heddle " + known.command + " [OPTIONS]"));
  }
}

TEST(CommandLine, SaysItsVersion) {
  EXPECT_EQ(refused("--version").text, "heddle 0.1.0\n");
  EXPECT_EQ(refused("--version").exit, Exit::ok);
}

}  // namespace
}  // namespace heddle
