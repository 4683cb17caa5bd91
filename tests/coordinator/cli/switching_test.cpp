// The commands of the roll-out, of drains and of the log of decisions, from what is typed to what
// the coordinator is asked and what is shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "coordinator/cli/run.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}
Ask asked(const std::string& line) {
  auto invocation = parse_command_line(words(line), "0.1.0");
  EXPECT_TRUE(invocation) << line << ": " << invocation.error().text;
  return invocation ? std::get<Ask>(invocation->action) : Ask{};
}
Exit refused(const std::string& line) {
  auto invocation = parse_command_line(words(line), "0.1.0");
  EXPECT_FALSE(invocation) << line;
  return invocation ? Exit::ok : invocation.error().exit;
}

TEST(SwitchingCommands, NameARollOutsVerbs) {
  for (const char* verb : {"status", "pause", "resume", "abort", "rollback"}) {
    EXPECT_EQ(asked(std::string("rollout ") + verb).command, std::string("rollout ") + verb);
    EXPECT_THAT(asked(std::string("rollout ") + verb).arguments, IsEmpty());
  }
  const Ask start = asked("rollout start --waves w.yaml");
  ASSERT_EQ(start.files.size(), 1U);
  EXPECT_EQ(start.files[0].second, "w.yaml");
  EXPECT_EQ(asked("rollout status --watch").watch, Duration(std::chrono::seconds(2)));
  EXPECT_EQ(refused("rollout"), Exit::usage);
  EXPECT_EQ(refused("rollout start"), Exit::usage);
  EXPECT_EQ(refused("rollout status --watch 0"), Exit::usage);
  EXPECT_EQ(refused("rollout pause now"), Exit::usage);
}

TEST(SwitchingCommands, DrainExactlyOneThing) {
  EXPECT_THAT(asked("drain --spine spine3").arguments, ElementsAre("--spine", "spine3"));
  EXPECT_EQ(asked("drain --spine spine3").command, "drain");
  EXPECT_THAT(asked("drain --cable leaf1-spine2").arguments,
              ElementsAre("--cable", "leaf1-spine2"));
  EXPECT_EQ(asked("undrain --rack rack1").command, "undrain");
  EXPECT_EQ(asked("drain status").command, "drain status");
  EXPECT_THAT(asked("drain status").arguments, IsEmpty());
  EXPECT_EQ(asked("drain status --watch 1").watch, Duration(std::chrono::seconds(1)));
  EXPECT_EQ(refused("drain"), Exit::usage);
  EXPECT_EQ(refused("undrain"), Exit::usage);
  EXPECT_EQ(refused("drain --spine a --leaf b"), Exit::usage);
}

TEST(SwitchingCommands, AskForTheLogOfDecisions) {
  EXPECT_EQ(asked("plan log").command, "plan log");
  EXPECT_THAT(asked("plan log").arguments, IsEmpty());
  EXPECT_FALSE(asked("plan log").watch);
  EXPECT_THAT(asked("plan log --last 7").arguments, ElementsAre("--last", "7"));
  EXPECT_TRUE(asked("plan log --follow").follow);
  EXPECT_EQ(refused("plan log --last 0"), Exit::usage);
}

// Gives prepared answers, one after another, and keeps the questions.
struct FakeCoordinator {
  std::deque<Reply> answers;
  std::vector<std::pair<std::string, std::vector<std::string>>> questions;
};
class FakeLine final : public CoordinatorLine {
 public:
  explicit FakeLine(FakeCoordinator& coordinator) : coordinator_(coordinator) {}
  Result<Reply> ask(const std::string& command, const std::vector<std::string>& arguments,
                    Duration) override {
    coordinator_.questions.emplace_back(command, arguments);
    if (coordinator_.answers.empty())
      return fail(Errc::timeout, "nobody there");
    const Reply answer = coordinator_.answers.front();
    coordinator_.answers.pop_front();
    return answer;
  }

 private:
  FakeCoordinator& coordinator_;
};

class SwitchingRun : public testing::Test {
 protected:
  SwitchingRun() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-waves-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~SwitchingRun() override { std::filesystem::remove_all(folder); }
  Exit run(const std::string& line, int turns = 1) {
    std::vector<std::string> all{"--coordinator", "tcp://127.0.0.1:7117", "--plain"};
    for (std::string& word : words(line))
      all.push_back(std::move(word));
    return heddle::run(
        all, {.out = out,
              .err = err,
              .terminal = false,
              .colour = false,
              .config = folder / "heddle.yaml",
              .version = "0.1.0",
              .connect = [this](const Settings&) -> Result<std::unique_ptr<CoordinatorLine>> {
                return std::make_unique<FakeLine>(coordinator);
              },
              .pause = [&turns](Duration) { return --turns > 0; }});
  }
  std::filesystem::path folder;
  FakeCoordinator coordinator;
  std::ostringstream out, err;
};

TEST_F(SwitchingRun, SendsTheWavesOfAFileAsWords) {
  std::ofstream(folder / "w.yaml")
      << "soak_s: 60\nwaves:\n  - racks: [rack1]\n  - {racks: [rack2, rack3], soak_s: 5}\n";
  coordinator.answers.push_back(
      {1, 0, R"({"mode":"required","phase":"running","waves":[],"gates":[],"racks":[]})", ""});
  EXPECT_EQ(run("rollout start --waves " + (folder / "w.yaml").string()), Exit::ok) << err.str();
  ASSERT_EQ(coordinator.questions.size(), 1U);
  EXPECT_THAT(coordinator.questions[0].second,
              ElementsAre("--wave", "60", "rack1", "--wave", "5", "rack2", "rack3"));
  EXPECT_THAT(out.str(), HasSubstr("Roll-out: running"));
}

TEST_F(SwitchingRun, SaysWhatIsWrongInAFileOfWavesAndAsksNobody) {
  std::ofstream(folder / "w.yaml") << "waves:\n  - racks: [rack1]\n";
  EXPECT_EQ(run("rollout start --waves " + (folder / "w.yaml").string()), Exit::usage);
  EXPECT_THAT(err.str(), HasSubstr("w.yaml:2: a wave lacks 'soak_s'"));
  EXPECT_EQ(run("rollout start --waves " + (folder / "none.yaml").string()), Exit::usage);
  EXPECT_THAT(coordinator.questions, IsEmpty());
}

TEST_F(SwitchingRun, FollowsTheLogAndShowsEachDecisionOnce) {
  const auto log = [](const std::string& reason, const std::string& next) {
    return Reply{1, 0,
                 R"({"decisions":[{"wall":"W","outcome":"held","reason":")" + reason +
                     R"(","version":"1.2","times":1,"moves":0}],"next":")" + next + R"("})",
                 ""};
  };
  coordinator.answers = {
      log("first", "11"), {1, 0, R"({"decisions":[],"next":"0"})", ""}, log("second", "22")};
  EXPECT_EQ(run("plan log --follow", 3), Exit::ok);
  EXPECT_EQ(out.str(), "W  1.2      held   first\nW  1.2      held   second\n");
  ASSERT_EQ(coordinator.questions.size(), 3U);
  EXPECT_THAT(coordinator.questions[0].second, IsEmpty());
  EXPECT_THAT(coordinator.questions[1].second, ElementsAre("--after", "11"));
  EXPECT_THAT(coordinator.questions[2].second, ElementsAre("--after", "11"));
}

TEST_F(SwitchingRun, PassesOnRefusalsWithTheirExitCodes) {
  coordinator.answers = {{1, 4, "", "no leaf is in a rack 'rack9'"},
                         {1, 1, "", "no roll-out is running"}};
  EXPECT_EQ(run("drain --rack rack9"), Exit::not_found);
  EXPECT_EQ(run("rollout pause"), Exit::failed);
  EXPECT_THAT(err.str(), HasSubstr("no roll-out is running"));
}

}  // namespace
}  // namespace heddle
