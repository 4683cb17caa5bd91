// Every command, as it is typed, with a coordinator that gives the recorded reply: its table, its
// JSON, and what it says where the coordinator does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "coordinator/cli/run.h"
#include "tests/coordinator/cli/recorded.h"

namespace heddle {
namespace {

struct Typed {
  const char* command;  // as the coordinator is asked
  const char* arguments;
  const char* reply;  // replies/NAME.json, replies/NAME.txt
};

constexpr Typed kTyped[] = {
    {"status", "", "status"},
    {"agents", "", "agents"},
    {"flows", "", "flows"},
    {"links", "", "links"},
    {"jobs", "", "jobs"},
    {"jobs explain", "ring-a", "jobs-explain"},
    {"job list", "", "job-list"},
    {"job declare", "ring-a h1-1 h2-1", "job-list"},
    {"job remove", "ring-a", "job-list"},
    {"plan show", "3.17", "plan-show"},
    {"plan diff", "3.16 3.17", "plan-diff"},
    {"plan explain", "10.1.1.2 10.2.1.2", "plan-explain"},
    {"plan preview", "--down spine3", "plan-preview"},
    {"plan log", "--last 5", "plan-log"},
    {"fabric check", "", "fabric-check-good"},
    {"disable", "--all", "disable"},
    {"enable", "--all", "enable"},
    {"drain", "--spine spine2", "drain"},
    {"drain status", "", "drain"},
    {"undrain", "--spine spine2", "drain-none"},
    {"rollout start", "--waves WAVES", "rollout"},
    {"rollout status", "", "rollout"},
    {"rollout pause", "", "rollout"},
    {"rollout resume", "", "rollout"},
    {"rollout abort", "", "rollout-off"},
    {"rollout rollback", "", "rollout-none"},
};

// They ask no coordinator: their tests are in key_test, run_test and support_bundle_test, and
// below.
const std::set<std::string> kAlone{"keygen",     "key add",        "key list",
                                   "key revoke", "support-bundle", "simulate"};
// Names of families.
const std::set<std::string> kFamilies{"", "plan", "job", "fabric", "key", "rollout"};

class OneAnswer final : public CoordinatorLine {
 public:
  OneAnswer(Result<Reply> answer, std::string& asked) : answer_(std::move(answer)), asked_(asked) {}
  Result<Reply> ask(const std::string& command, const std::vector<std::string>&,
                    Duration) override {
    asked_ = command;
    return answer_;
  }

 private:
  Result<Reply> answer_;
  std::string& asked_;
};

class EveryCommand : public testing::TestWithParam<Typed> {
 protected:
  EveryCommand()
      : waves_(testing::TempDir() + "heddle_waves_" + std::to_string(getpid()) + ".yaml") {
    std::ofstream(waves_) << "soak_s: 60\nwaves:\n  - racks: [rack1]\n";
  }
  ~EveryCommand() override { std::remove(waves_.c_str()); }
  Exit run(const Result<Reply>& answer, const std::vector<std::string>& options = {}) {
    out_.str("");
    err_.str("");
    std::vector<std::string> all{"--coordinator", "tcp://127.0.0.1:7117", "--plain"};
    all.insert(all.end(), options.begin(), options.end());
    std::istringstream in(std::string(GetParam().command) + " " + GetParam().arguments);
    for (std::string word; in >> word;)
      all.push_back(word == "WAVES" ? waves_ : word);
    return heddle::run(
        all, {.out = out_,
              .err = err_,
              .terminal = false,
              .colour = false,
              .config = testing::TempDir() + "heddle_every_command_no_such.yaml",
              .version = "0.1.0",
              .connect = [&](const Settings&) -> Result<std::unique_ptr<CoordinatorLine>> {
                return std::make_unique<OneAnswer>(answer, asked_);
              },
              .pause = [](Duration) { return false; }});
  }
  static Reply reply() {
    Reply said;
    said.json = recorded(std::string(GetParam().reply) + ".json");
    return said;
  }
  std::string waves_;
  std::string asked_;
  std::ostringstream out_, err_;
};

TEST_P(EveryCommand, HasItsTable) {
  EXPECT_EQ(run(reply()), Exit::ok) << err_.str();
  EXPECT_EQ(asked_, GetParam().command);
  EXPECT_EQ(out_.str(), recorded(std::string(GetParam().reply) + ".txt"));
}

TEST_P(EveryCommand, HasItsJson) {
  EXPECT_EQ(run(reply(), {"--json"}), Exit::ok) << err_.str();
  EXPECT_EQ(out_.str(), reply().json + "\n");
  EXPECT_TRUE(nlohmann::json::accept(out_.str()));
}

TEST_P(EveryCommand, SaysWhyItFailsWithTheDocumentedCode) {
  for (const auto& [code, exit] :
       {std::pair(1, Exit::failed), std::pair(2, Exit::usage), std::pair(4, Exit::not_found)}) {
    Reply refused;
    refused.exit_code = static_cast<std::uint8_t>(code);
    refused.error = "not today";
    EXPECT_EQ(run(refused), exit);
    EXPECT_EQ(out_.str(), "");
    EXPECT_THAT(err_.str(), testing::HasSubstr("not today"));
    EXPECT_EQ(run(refused, {"--json"}), exit);
    EXPECT_EQ(nlohmann::json::parse(out_.str())["error"], "not today");
  }
  EXPECT_EQ(run(fail(Errc::timeout, "nobody there")), Exit::unreachable);
  EXPECT_THAT(err_.str(), testing::HasSubstr("nobody there"));
}

INSTANTIATE_TEST_SUITE_P(Cli, EveryCommand, testing::ValuesIn(kTyped),
                         [](const testing::TestParamInfo<Typed>& typed) {
                           std::string name = typed.param.command;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// A row for each scheme, as a table and as JSON; no coordinator is asked.
TEST(SimulateCommand, HasItsTableAndItsJson) {
  const auto simulate = [](std::vector<std::string> options) {
    std::ostringstream out, err;
    std::istringstream words(
        "simulate --leaves 4 --uplinks 4 --nics 4 --preset model --model GPT_3 --tensor 2 "
        "--pipeline 2 --ring 2 --concurrent 1 --schemes ecmp,heddle --seconds 0 --no-times");
    for (std::string word; words >> word;)
      options.push_back(word);
    EXPECT_EQ(
        heddle::run(options,
                    {.out = out,
                     .err = err,
                     .terminal = false,
                     .colour = false,
                     .config = testing::TempDir() + "heddle_every_command_no_such.yaml",
                     .version = "0.1.0",
                     .connect = [](const Settings&) -> Result<std::unique_ptr<CoordinatorLine>> {
                       return fail(Errc::unsupported, "nobody is to be asked");
                     },
                     .pause = [](Duration) { return false; }}),
        Exit::ok)
        << err.str();
    return out.str();
  };
  const std::string table = simulate({});
  EXPECT_THAT(table, testing::HasSubstr("all-reduce ms"));
  EXPECT_THAT(table, testing::HasSubstr("\nheddle: at the bound in 1 of 1 cells"));
  const auto rows = nlohmann::json::parse(simulate({"--json"}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["scheme"], "ecmp");
  EXPECT_EQ(rows[1]["worst"], 1.0);
}

TEST(EveryCommandThereIs, IsAmongThoseTestedHere) {
  std::set<std::string> tested;
  for (const Typed& typed : kTyped)
    tested.insert(typed.command);
  for (const CommandWords& words : all_command_words())
    EXPECT_TRUE(tested.contains(words.command) || kAlone.contains(words.command) ||
                kFamilies.contains(words.command))
        << words.command;
}

}  // namespace
}  // namespace heddle
