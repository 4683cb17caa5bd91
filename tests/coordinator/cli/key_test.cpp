// `heddle key` on a folder of authorised keys: what it says, as a table and as JSON, and what the
// coordinator's reader then makes of the folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/transport/keys.h"
#include "coordinator/cli/run.h"

namespace heddle {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class KeyCommand : public testing::Test {
 protected:
  KeyCommand()
      : base_(std::filesystem::path(testing::TempDir()) /
              ("heddle_key_" + std::to_string(getpid()))),
        folder_(base_ / "authorised") {
    std::filesystem::create_directories(folder_);
  }
  ~KeyCommand() override { std::filesystem::remove_all(base_); }

  Exit run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    arguments.insert(arguments.end(), {"--dir", folder_.string()});
    return heddle::run(arguments, {.out = out_,
                                   .err = err_,
                                   .config = base_ / "none.yaml",
                                   .version = "0.1.0",
                                   .connect = {},
                                   .pause = {}});
  }
  // A public key as its owner sends it.
  std::string file(const std::string& name, std::string* key = nullptr) {
    const KeyPair keys = generate_keys().value();
    if (key != nullptr)
      *key = keys.public_key;
    std::ofstream(base_ / (name + ".pub")) << keys.public_key << "\n";
    return (base_ / (name + ".pub")).string();
  }
  AuthorisedKeys authorised() const { return load_authorised_keys(folder_).value(); }

  std::filesystem::path base_, folder_;
  std::ostringstream out_, err_;
};

TEST_F(KeyCommand, AddsAKeyInItsRole) {
  std::string leaf, wall, alice;
  EXPECT_EQ(run({"key", "add", "--role", "agent", file("leaf1", &leaf)}), Exit::ok) << err_.str();
  EXPECT_EQ(out_.str(), "agent 'leaf1' is authorised: " + folder_.string() + "/agents/leaf1.pub\n");
  EXPECT_EQ(run({"key", "add", "--role", "viewer", file("wall", &wall)}), Exit::ok);
  EXPECT_EQ(run({"key", "add", "--role", "operator", "--name", "alice", file("id", &alice)}),
            Exit::ok);
  EXPECT_THAT(authorised().owners,
              UnorderedElementsAre(Pair(leaf, KeyOwner{"leaf1", KeyRole::agent_key}),
                                   Pair(wall, KeyOwner{"wall", KeyRole::viewer_key}),
                                   Pair(alice, KeyOwner{"alice", KeyRole::operator_key})));
  EXPECT_EQ(run({"key", "add", "--role", "agent", (base_ / "leaf1.pub").string()}), Exit::ok)
      << "the same again changes nothing";
}

TEST_F(KeyCommand, SaysInJsonWhereAKeyWent) {
  ASSERT_EQ(run({"--json", "key", "add", "--role", "agent", file("leaf1")}), Exit::ok);
  const json said = json::parse(out_.str());
  EXPECT_EQ(said["name"], "leaf1");
  EXPECT_EQ(said["role"], "agent");
  EXPECT_EQ(said["file"], (folder_ / "agents" / "leaf1.pub").string());
  EXPECT_TRUE(said["moved_from"].is_null());
}

TEST_F(KeyCommand, TakesNoSecretKeyAndNoSecondKeyOfOneName) {
  const KeyPair keys = generate_keys().value();
  ASSERT_TRUE(write_keys(keys, base_ / "leaf1"));
  EXPECT_EQ(run({"key", "add", "--role", "agent", (base_ / "leaf1").string()}), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("public half"));
  EXPECT_EQ(run({"key", "add", "--role", "agent", (base_ / "leaf1.pub").string()}), Exit::ok);
  EXPECT_EQ(run({"key", "add", "--role", "agent", "--name", "leaf1", file("other")}), Exit::failed);
  EXPECT_THAT(err_.str(), HasSubstr("heddle key revoke leaf1"));
  // Nor one key in two roles, which would authorise neither.
  EXPECT_EQ(run({"key", "add", "--role", "operator", (base_ / "leaf1.pub").string()}),
            Exit::failed);
  EXPECT_EQ(authorised().owners.size(), 1U);
  EXPECT_EQ(run({"key", "add", "--role", "agent", (base_ / "none.pub").string()}), Exit::not_found);
  EXPECT_EQ(run({"key", "add", "--role", "king", file("x")}), Exit::usage);
  EXPECT_EQ(run({"key", "add", file("y")}), Exit::usage) << "a role is never guessed";
}

// From the layout of earlier versions, where all keys lie in the folder itself.
TEST_F(KeyCommand, MovesAKeyThatHadNoRoleAndNamesThoseThatLoseTheirs) {
  std::string key;
  std::filesystem::rename(file("alice", &key), folder_ / "alice.pub");
  std::filesystem::rename(file("bob"), folder_ / "bob.pub");
  ASSERT_EQ(run({"key", "list"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("unstated"));
  ASSERT_EQ(run({"key", "add", "--role", "operator", (folder_ / "alice.pub").string()}), Exit::ok)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("alice.pub is gone"));
  EXPECT_THAT(out_.str(), HasSubstr("are agents' alone: bob."));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "alice.pub"));
  EXPECT_EQ(authorised().owners.at(key), (KeyOwner{"alice", KeyRole::operator_key}));
}

TEST_F(KeyCommand, ListsEveryKeyAndWhatIsWrongWithIt) {
  EXPECT_EQ(run({"key", "list"}), Exit::ok);
  EXPECT_EQ(out_.str(), "No key is authorised.\n");
  std::string leaf;
  ASSERT_EQ(run({"key", "add", "--role", "agent", file("leaf1", &leaf)}), Exit::ok);
  std::filesystem::create_directory(folder_ / "viewers");
  std::ofstream(folder_ / "viewers" / "bad.pub") << "no key\n";
  ASSERT_EQ(run({"key", "list"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("NAME   ROLE    AUTHORISED  KEY\nleaf1  agent   yes         " +
                                    leaf + "\nbad    viewer  no          ?\n"));
  EXPECT_THAT(out_.str(), HasSubstr("bad.pub"));
  ASSERT_EQ(run({"--json", "key", "list"}), Exit::ok);
  const json said = json::parse(out_.str());
  ASSERT_EQ(said["keys"].size(), 2U);
  EXPECT_EQ(said["keys"][0]["key"], leaf);
  EXPECT_EQ(said["keys"][0]["authorised"], true);
  EXPECT_EQ(said["keys"][1]["authorised"], false);
  EXPECT_EQ(said["problems"].size(), 1U);
}

TEST_F(KeyCommand, RevokesByName) {
  ASSERT_EQ(run({"key", "add", "--role", "agent", file("leaf1")}), Exit::ok);
  ASSERT_EQ(run({"key", "add", "--role", "operator", "--name", "leaf1", file("other")}), Exit::ok);
  EXPECT_EQ(run({"key", "revoke", "leaf1"}), Exit::usage) << "which of the two?";
  EXPECT_EQ(authorised().owners.size(), 2U);
  EXPECT_EQ(run({"--json", "key", "revoke", "leaf1", "--role", "operator"}), Exit::ok);
  EXPECT_EQ(json::parse(out_.str())["role"], "operator");
  EXPECT_EQ(run({"key", "revoke", "leaf1"}), Exit::ok);
  EXPECT_THAT(out_.str(), HasSubstr("'leaf1' is revoked"));
  EXPECT_TRUE(authorised().owners.empty());
  EXPECT_EQ(run({"key", "revoke", "leaf1"}), Exit::not_found);
  EXPECT_THAT(err_.str(), HasSubstr("heddle key list"));
}

TEST_F(KeyCommand, AFolderThatIsNotThereIsSaidToBeNone) {
  std::filesystem::remove_all(folder_);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"key", "list"}, {"key", "revoke", "a"}}) {
    EXPECT_EQ(run(command), Exit::failed);
    EXPECT_THAT(err_.str(), HasSubstr("--dir"));
  }
}

}  // namespace
}  // namespace heddle
