// The command line with a coordinator of the test's own: exit codes, where output goes, --json,
// --watch.
#include "coordinator/cli/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/transport/keys.h"
#include "tests/tree.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Gives prepared answers, one after another, and keeps the questions.
struct Coordinator {
  std::deque<Result<Reply>> answers;
  std::vector<Ask> questions;
  Settings settings;
};

class FakeLine final : public CoordinatorLine {
 public:
  explicit FakeLine(Coordinator& coordinator) : coordinator_(coordinator) {}
  Result<Reply> ask(const std::string& command, const std::vector<std::string>& arguments,
                    Duration) override {
    coordinator_.questions.push_back({command, arguments, {}, {}});
    if (coordinator_.answers.empty())
      return fail(Errc::timeout, "nobody there");
    Result<Reply> answer = coordinator_.answers.front();
    coordinator_.answers.pop_front();
    return answer;
  }

 private:
  Coordinator& coordinator_;
};

class Run : public testing::Test {
 protected:
  Run()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("heddle_run_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Run() override { std::filesystem::remove_all(folder_); }

  Exit run(const std::vector<std::string>& arguments) {
    out_.str("");
    err_.str("");
    int left = turns_;
    return heddle::run(
        arguments,
        {.out = out_,
         .err = err_,
         .terminal = terminal_,
         .colour = false,
         .config = folder_ / "heddle.yaml",
         .version = "0.1.0",
         .connect = [this](const Settings& settings) -> Result<std::unique_ptr<CoordinatorLine>> {
           coordinator_.settings = settings;
           return std::make_unique<FakeLine>(coordinator_);
         },
         .pause = [this, &left](Duration pause) { return pauses_.push_back(pause), --left > 0; }});
  }
  void answer(const std::string& json) { coordinator_.answers.push_back(Reply{1, 0, json, ""}); }
  void refuse(std::uint8_t code, const std::string& why) {
    coordinator_.answers.push_back(Reply{1, code, "", why});
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
  Coordinator coordinator_;
  std::ostringstream out_;
  std::ostringstream err_;
  bool terminal_{};
  int turns_{1};
  std::vector<Duration> pauses_;
};

// A check that was done and has found something is no refusal: it is shown, and told by the exit
// code.
TEST_F(Run, ACheckOfCablesShowsWhatItFoundAndEndsWithOne) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) +
                   "/tests/coordinator/cli/replies/fabric-check.json");
  std::stringstream found;
  found << in.rdbuf();
  Reply reply;
  reply.exit_code = 1;
  reply.json = found.str();
  coordinator_.answers = {reply, reply};
  EXPECT_EQ(run({"fabric", "check"}), Exit::failed);
  EXPECT_THAT(out_.str(), HasSubstr("leaf1 up1 should lead to spine1 d1"));
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_EQ(run({"--json", "fabric", "check"}), Exit::failed);
  EXPECT_EQ(out_.str(), reply.json + "\n");
}

TEST_F(Run, PrintsATableToStandardOutput) {
  answer(R"({"nodes":[{"name":"leaf1","disabled":true,"confirmed":true}]})");
  EXPECT_EQ(run({"disable", "--node", "leaf1"}), Exit::ok);
  EXPECT_EQ(out_.str(), "NODE   STATE     CONFIRMED\nleaf1  disabled  yes\n");
  EXPECT_EQ(err_.str(), "");
  ASSERT_EQ(coordinator_.questions.size(), 1U);
  EXPECT_EQ(coordinator_.questions[0].command, "disable");
  EXPECT_THAT(coordinator_.questions[0].arguments, ElementsAre("--node", "leaf1"));
}

TEST_F(Run, JsonIsWhatTheCoordinatorSaid) {
  answer(R"({"links":[]})");
  EXPECT_EQ(run({"links", "--json"}), Exit::ok);
  EXPECT_EQ(out_.str(), "{\"links\":[]}\n");
}

TEST_F(Run, ARefusalKeepsTheCoordinatorsExitCodeAndReason) {
  refuse(4, "no job 'B'");
  EXPECT_EQ(run({"job", "remove", "B"}), Exit::not_found);
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(err_.str(), "heddle: no job 'B'\n");
  refuse(1, "not now");
  EXPECT_EQ(run({"enable", "--all"}), Exit::failed);
  refuse(77, "a code of a later version");
  EXPECT_EQ(run({"enable", "--all"}), Exit::failed);
}

TEST_F(Run, AFilesTextGoesToTheCoordinator) {
  const std::string file = write("jobs.yaml", "jobs: []\n");
  answer(R"({"jobs":[],"moves":[]})");
  EXPECT_EQ(run({"plan", "preview", "--jobs", file}), Exit::ok) << err_.str();
  EXPECT_THAT(coordinator_.questions.at(0).arguments, ElementsAre("--jobs", "jobs: []\n"));
  EXPECT_EQ(run({"plan", "preview", "--jobs", file + ".none"}), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("cannot be read"));
  EXPECT_EQ(coordinator_.questions.size(), 1U);
}

TEST_F(Run, WithJsonAnErrorIsAnObjectToo) {
  refuse(4, "no job 'B'");
  EXPECT_EQ(run({"--json", "job", "remove", "B"}), Exit::not_found);
  EXPECT_EQ(out_.str(), "{\n  \"error\": \"no job 'B'\",\n  \"exit_code\": 4\n}\n");
}

TEST_F(Run, AnUnreachableCoordinatorIsThreeAndSaysWhatToDo) {
  EXPECT_EQ(run({"status"}), Exit::unreachable);
  EXPECT_THAT(err_.str(), HasSubstr("nobody there"));
  EXPECT_THAT(err_.str(), HasSubstr("systemctl status heddle-coordinator"));
  EXPECT_THAT(err_.str(), HasSubstr("heddle-agent disable"));
}

TEST_F(Run, AWrongKeyIsThreeAndSaysWhereOurKeyBelongs) {
  coordinator_.answers.push_back(
      fail(Errc::permission, "the coordinator at tcp://c refused: wrong key"));
  EXPECT_EQ(run({"status"}), Exit::unreachable);
  EXPECT_THAT(err_.str(), HasSubstr("wrong key"));
  EXPECT_THAT(err_.str(), HasSubstr("authorised keys"));
}

TEST_F(Run, AReplyThatIsNotJsonIsAFailure) {
  answer("<html>");
  EXPECT_EQ(run({"status"}), Exit::failed);
  EXPECT_THAT(err_.str(), HasSubstr("not JSON"));
}

TEST_F(Run, WrongUsageIsTwoAndAsksNobody) {
  EXPECT_EQ(run({"stats"}), Exit::usage);
  EXPECT_EQ(out_.str(), "");
  EXPECT_THAT(err_.str(), HasSubstr("heddle --help"));
  EXPECT_THAT(coordinator_.questions, IsEmpty());
}

TEST_F(Run, HelpGoesToStandardOutput) {
  EXPECT_EQ(run({"--help"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("Usage"));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(Run, SettingsComeFromTheCommandLineThenFromTheFile) {
  write("heddle.yaml", "coordinator: tcp://from-file:7117\nkey: /from/file\n");
  answer("{}");
  EXPECT_EQ(run({"status", "--key", "/typed", "--timeout", "1.5"}), Exit::ok);
  EXPECT_EQ(coordinator_.settings.coordinator, "tcp://from-file:7117");
  EXPECT_EQ(coordinator_.settings.key, "/typed");
  EXPECT_EQ(coordinator_.settings.server_key, "/etc/heddle/coordinator.pub");
  EXPECT_EQ(coordinator_.settings.timeout, Duration(std::chrono::milliseconds(1500)));
}

TEST_F(Run, AMistakeInTheConfigurationNamesFileLineAndKey) {
  const std::string file = write("mine.yaml", "coordinator: tcp://c:1\ncoordinater: tcp://c:1\n");
  EXPECT_EQ(run({"status", "--config", file}), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("mine.yaml:2"));
  EXPECT_THAT(err_.str(), HasSubstr("coordinater"));
  EXPECT_EQ(run({"status", "--config", (folder_ / "absent.yaml").string()}), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("absent.yaml"));
  EXPECT_THAT(coordinator_.questions, IsEmpty());
}

TEST_F(Run, WatchAsksAgainAfterEachPause) {
  turns_ = 3;
  for (int i = 0; i < 3; ++i)
    answer(R"({"links":[]})");
  EXPECT_EQ(run({"links", "--watch", "0.5", "--json"}), Exit::ok);
  EXPECT_EQ(out_.str(), "{\"links\":[]}\n{\"links\":[]}\n{\"links\":[]}\n");
  EXPECT_THAT(pauses_, ElementsAre(Duration(std::chrono::milliseconds(500)),
                                   Duration(std::chrono::milliseconds(500)),
                                   Duration(std::chrono::milliseconds(500))));
}

TEST_F(Run, WatchOutlivesACoordinatorThatRestarts) {
  turns_ = 3;
  answer(R"({"links":[]})");
  coordinator_.answers.push_back(fail(Errc::io, "gone"));
  answer(R"({"links":[]})");
  EXPECT_EQ(run({"links", "--watch"}), Exit::ok);
  EXPECT_EQ(out_.str(), "The fabric has no links.\n\n\nThe fabric has no links.\n\n");
  EXPECT_THAT(err_.str(), HasSubstr("gone"));
}

TEST_F(Run, WatchDoesNotBeginWithoutACoordinator) {
  turns_ = 3;
  EXPECT_EQ(run({"links", "--watch"}), Exit::unreachable);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(Run, OnATerminalWatchDrawsOverItself) {
  terminal_ = true;
  answer(R"({"links":[]})");
  EXPECT_EQ(run({"links", "--watch"}), Exit::ok);
  EXPECT_EQ(out_.str(), "\x1b[HThe fabric has no links.\x1b[K\n\x1b[J");
}

TEST_F(Run, KeygenMakesBothHalvesAndNeverOverwrites) {
  const std::filesystem::path file = folder_ / "keys" / "leaf1";
  EXPECT_EQ(run({"keygen", "--dir", file.parent_path().string(), "leaf1"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr(file.string()));
  const auto keys = load_keys(file);
  ASSERT_TRUE(keys);
  EXPECT_EQ(load_public_key(file.string() + ".pub"), keys->public_key);
  EXPECT_EQ(std::filesystem::status(file).permissions() & std::filesystem::perms::all,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  EXPECT_EQ(run({"keygen", "--dir", file.parent_path().string(), "leaf1"}), Exit::failed);
  EXPECT_EQ(load_keys(file)->public_key, keys->public_key);
  EXPECT_THAT(coordinator_.questions, IsEmpty());
}

TEST_F(Run, KeygenTakesNoNameThatIsAPath) {
  for (const char* name : {"../leaf1", "a/b", "two words"})
    EXPECT_EQ(run({"keygen", "--dir", folder_.string(), name}), Exit::usage) << name;
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Run, KeygenInJsonGivesThePublicKeyOnly) {
  EXPECT_EQ(run({"keygen", "--dir", folder_.string(), "leaf1", "--json"}), Exit::ok);
  const auto keys = load_keys(folder_ / "leaf1");
  ASSERT_TRUE(keys);
  EXPECT_THAT(out_.str(), HasSubstr(keys->public_key.substr(0, 8)));
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr(keys->secret_key.substr(0, 8))));
}

constexpr const char* kFabric =
    "fabric: demo\nleaves: [{name: leaf1}]\nspines: [{name: spine1}]\n"
    "hosts:\n- name: h1-1\n  nics:\n  - {name: eth0, address: 10.1.1.2, attachments: "
    "[{leaf: leaf1, port: p1, capacity: 100G}]}\n"
    "cables: [{leaf: leaf1, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 100G}]\n";

TEST_F(Run, FabricCheckCountsWhatItRead) {
  const std::string fabric = write("fabric.yaml", kFabric);
  const std::string jobs = write("jobs.yaml", "jobs: [{name: A, hosts: [h1-1]}]\n");
  EXPECT_EQ(run({"fabric", "check", fabric, "--jobs", jobs}), Exit::ok);
  EXPECT_EQ(out_.str(),
            "fabric demo: 1 leaves, 1 spines, 1 hosts, 1 NICs, 1 cables; no mistakes\n1 job; no "
            "mistakes\n");
  EXPECT_EQ(run({"fabric", "check", fabric, "--json"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("\"valid\": true"));
}

TEST_F(Run, FabricCheckPrintsEveryMistake) {
  const std::string fabric =
      write("fabric.yaml",
            "fabric: demo\nleaves: [{name: a}, {name: a}]\nspines: 3\nhosts: []\ncables: []\n");
  EXPECT_EQ(run({"fabric", "check", fabric}), Exit::failed);
  EXPECT_THAT(out_.str(), HasSubstr("fabric.yaml:2: "));
  EXPECT_THAT(out_.str(), HasSubstr("fabric.yaml:3: "));
  EXPECT_THAT(err_.str(), HasSubstr("2 mistakes"));
  EXPECT_EQ(run({"fabric", "check", fabric, "--json"}), Exit::failed);
  EXPECT_THAT(out_.str(), HasSubstr("\"line\": 3"));
}

TEST_F(Run, FabricCheckNamesTheJobsHostThatDoesNotExist) {
  const std::string fabric = write("fabric.yaml", kFabric);
  const std::string jobs = write("jobs.yaml", "jobs:\n- {name: A, hosts: [h9-9]}\n");
  EXPECT_EQ(run({"fabric", "check", fabric, "--jobs", jobs}), Exit::failed);
  EXPECT_THAT(out_.str(), HasSubstr("jobs.yaml:2: job 'A': the fabric has no host 'h9-9'"));
}

}  // namespace
}  // namespace heddle
