// The support bundle: what is in it, and above all what is not.
#include "coordinator/cli/support_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/transport/keys.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class SupportBundleTest : public testing::Test {
 protected:
  SupportBundleTest()
      // Of letters that keys may have, too: after another one, as long a rest of a path as a key
      // has would be taken for one, and the number of the process decides how long it is.
      : base_(fs::path(testing::TempDir()) / ("heddle-bundle-" + std::to_string(getpid()))) {
    fs::create_directories(base_ / "etc" / "keys");
    fs::create_directories(base_ / "state" / "coordinator" / "history");
    EXPECT_TRUE(write_keys(own_, base_ / "etc" / "keys" / "coordinator"));
    EXPECT_TRUE(write_keys(stray_, base_ / "etc" / "stray"));
    write("etc/coordinator.yaml", "fabric: fabric.yaml\n# key: " + own_.secret_key + "\n");
    write("etc/heddle.yaml", "key: \"" + stray_.secret_key + "\"\nsecond=" + stray_.secret_key);
    write("state/coordinator/audit.log", "{\"command\":\"disable\"}\n");
    write("state/coordinator/history/000012.log", "binary");
  }
  ~SupportBundleTest() override { fs::remove_all(base_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(base_ / name) << text;
  }
  Exit collect(bool as_json = false, bool reachable = true) {
    out_.str("");
    err_.str("");
    fs::remove(file_);
    return collect_bundle(
        {.file = file_},
        {.ask = [&](const std::string& command) -> Result<Reply> {
           if (!reachable)
             return fail(Errc::timeout, "the coordinator does not answer");
           if (command == "plan log")
             return Reply{1, 2, "", "does not know the command"};
           return Reply{
               1, 0, "{\"asked\":\"" + command + "\",\"leaked\":\"" + own_.secret_key + "\"}", ""};
         },
         .shell =
             [&](const std::string& command) {
               return command + " printed " + own_.secret_key + " and (" + own_.secret_key + ")\n";
             },
         .configuration = base_ / "etc",
         .state = base_ / "state",
         .version = "0.1.0",
         .now = WallTime(std::chrono::seconds(1700000000))},
        as_json, out_, err_);
  }
  // The archive as tar has it, not compressed.
  std::string unpacked() const {
    gzFile in = gzopen(file_.c_str(), "rb");
    EXPECT_NE(in, nullptr);
    std::string tar;
    std::array<char, 4096> block{};
    int count = 0;
    while ((count = gzread(in, block.data(), block.size())) > 0)
      tar.append(block.data(), static_cast<std::size_t>(count));
    EXPECT_EQ(count, 0) << "it is damaged";
    gzclose(in);
    return tar;
  }
  // What tar itself says is in it.
  std::string listed() const {
    std::FILE* pipe =
        popen(("tar -tzf '" + file_.string() + "' 2>&1; echo status $?").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string out;
    std::array<char, 4096> block{};
    while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe))
      out.append(block.data(), count);
    pclose(pipe);
    return out;
  }

  const KeyPair own_ = generate_keys().value();
  const KeyPair stray_ = generate_keys().value();
  fs::path base_, file_ = base_ / "bundle.tar.gz";
  std::ostringstream out_, err_;
};

TEST_F(SupportBundleTest, HasNoSecretKeyInIt) {
  ASSERT_EQ(collect(), Exit::ok) << err_.str();
  const std::string tar = unpacked();
  ASSERT_GT(tar.size(), 10'000U);
  EXPECT_THAT(tar, Not(HasSubstr(own_.secret_key)));
  EXPECT_THAT(tar, Not(HasSubstr(stray_.secret_key)));
  EXPECT_THAT(tar, HasSubstr("[key removed]")) << "what was in the texts is gone from them";
  EXPECT_THAT(tar, HasSubstr("fabric: fabric.yaml"));
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms(0600));
}

TEST_F(SupportBundleTest, HasWhatABugReportNeeds) {
  ASSERT_EQ(collect(), Exit::ok);
  const std::string names = listed();
  EXPECT_THAT(names, HasSubstr("status 0"));
  for (const char* name :
       {"version.txt", "coordinator/status.json", "coordinator/plan-show.json",
        "coordinator/plan-log.json", "configuration/coordinator.yaml", "configuration/files.txt",
        "state/audit.log", "state/files.txt", "machine/journal.txt", "machine/rules.txt"})
    EXPECT_THAT(names, HasSubstr(std::string("heddle-support-20231114T221320Z/") + name + "\n"));
  EXPECT_THAT(names, Not(HasSubstr("keys/"))) << "files with keys are listed, not copied";
  EXPECT_THAT(unpacked(), HasSubstr("000012.log")) << "a history is listed";
  EXPECT_THAT(out_.str(), HasSubstr("no secret key"));
}

TEST_F(SupportBundleTest, TellsOfThisMachineWithoutACoordinator) {
  ASSERT_EQ(collect(false, false), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("did not answer: the coordinator does not answer"));
  EXPECT_THAT(listed(), HasSubstr("coordinator/not-reached.txt"));
  EXPECT_THAT(listed(), HasSubstr("machine/routes.txt"));
}

TEST_F(SupportBundleTest, SaysInJsonWhatIsInIt) {
  ASSERT_EQ(collect(true), Exit::ok);
  const json said = json::parse(out_.str());
  EXPECT_EQ(said["file"], file_.string());
  EXPECT_EQ(said["coordinator"], "answered");
  EXPECT_GT(said["files"].size(), 20U);
}

TEST_F(SupportBundleTest, OverwritesNothing) {
  ASSERT_EQ(collect(), Exit::ok);
  const auto again = collect_bundle(
      {.file = file_},
      {.ask = [](const std::string&) -> Result<Reply> { return fail(Errc::io, "none"); },
       .shell = [](const std::string&) { return std::string(); },
       .configuration = base_ / "etc",
       .state = base_ / "state",
       .version = "0.1.0",
       .now = {}},
      false, out_, err_);
  EXPECT_EQ(again, Exit::failed);
  EXPECT_THAT(err_.str(), HasSubstr("is there already"));
}

TEST(WithoutKeys, KnowsAKeyByItsFormAndLeavesOtherWordsAlone) {
  const std::string key = generate_keys().value().secret_key;
  EXPECT_EQ(without_keys("key=" + key + " and " + key + "\n", {}),
            "key=[key removed] and [key removed]\n");
  EXPECT_EQ(without_keys("\"" + key + "\"", {}), "\"[key removed]\"");
  // Inside another word it is only known if it is known from elsewhere.
  EXPECT_EQ(without_keys("(" + key + ")", {key}), "([key removed])");
  const std::string other =
      "/var/lib/heddle/coordinator/history/000012.log 0123456789 leaf1-spine2 10.1.1.2:51986\n";
  EXPECT_EQ(without_keys(other, {key}), other);
}

}  // namespace
}  // namespace heddle
