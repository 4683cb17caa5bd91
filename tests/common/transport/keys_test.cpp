#include "common/transport/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "tests/common/transport/support.h"

namespace heddle {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

unsigned mode_of(const std::filesystem::path& file) {
  struct stat status {};
  EXPECT_EQ(stat(file.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

TEST(Keys, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const KeyPair keys = generate_keys().value();
  const auto file = folder.path() / "leaf1.key";
  ASSERT_TRUE(write_keys(keys, file));
  const auto read = load_keys(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->secret_key, keys.secret_key);
  EXPECT_EQ(read->public_key, keys.public_key);
  EXPECT_EQ(load_public_key(folder.path() / "leaf1.key.pub").value(), keys.public_key);
}

TEST(Keys, SecretHalfIsForItsOwnerWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t old = umask(0);
  const auto written = write_keys(generate_keys().value(), folder.path() / "key");
  umask(old);
  ASSERT_TRUE(written);
  EXPECT_EQ(mode_of(folder.path() / "key"), 0600U);
  EXPECT_EQ(mode_of(folder.path() / "key.pub"), 0644U);
}

TEST(Keys, AreNeverOverwritten) {
  const TemporaryFolder folder;
  const auto secret = folder.write("a.key", "precious");
  const auto first = write_keys(generate_keys().value(), secret);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::duplicate);
  EXPECT_EQ(std::filesystem::file_size(secret), 8U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.key.pub"));

  folder.write("b.key.pub", "precious");
  const auto second = write_keys(generate_keys().value(), folder.path() / "b.key");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::duplicate);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "b.key.pub"), 8U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "b.key")) << "half a pair is left";
}

TEST(Keys, ASecretThatOthersMayReadIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "key";
  ASSERT_TRUE(write_keys(generate_keys().value(), file));
  for (const mode_t mode : {0640U, 0604U, 0620U}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    const auto read = load_keys(file);
    ASSERT_FALSE(read) << std::oct << mode;
    EXPECT_EQ(read.error().code, Errc::permission);
    EXPECT_THAT(read.error().message, HasSubstr("chmod 600"));
  }
}

TEST(Keys, WhatIsNotAKeyIsRefusedByItsFilesName) {
  const TemporaryFolder folder;
  const std::string key = generate_keys().value().public_key;
  for (const std::string& text :
       {std::string(), std::string("short"), key.substr(1), key + "x", "~" + key.substr(1),
        key + "\n\n\n", std::string(40, '#'), std::string(40, '\0')}) {
    const auto read = load_public_key(folder.write("bad.pub", text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Errc::parse) << text;
    EXPECT_THAT(read.error().message, HasSubstr("bad.pub"));
  }
  EXPECT_EQ(load_public_key(folder.path() / "none").error().code, Errc::not_found);
  EXPECT_EQ(load_public_key("/dev/zero").error().code, Errc::invalid_argument);
}

TEST(AuthorisedKeys, BearTheNamesOfTheirFiles) {
  const TemporaryFolder folder;
  const std::string a = generate_keys().value().public_key;
  const std::string b = generate_keys().value().public_key;
  folder.write("leaf1.pub", a + "\n");
  folder.write("h1-2.pub", b);
  folder.write("README", "not a key");
  folder.write(".leaf1.pub.swp", "an editor's");
  const auto keys = load_authorised_keys(folder.path());
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_THAT(keys->owners, UnorderedElementsAre(Pair(a, KeyOwner{"leaf1", KeyRole::unstated}),
                                                 Pair(b, KeyOwner{"h1-2", KeyRole::unstated})));
  EXPECT_THAT(keys->problems, ElementsAre());
}

// Whose key is it? Neither file's owner may speak as the other.
TEST(AuthorisedKeys, AKeyInTwoFilesAuthorisesNobody) {
  const TemporaryFolder folder;
  const std::string key = generate_keys().value().public_key;
  folder.write("leaf1.pub", key);
  folder.write("leaf2.pub", key);
  folder.write("leaf3.pub", key);
  folder.write("leaf4.pub", "damaged");
  const auto keys = load_authorised_keys(folder.path());
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->owners.empty());
  EXPECT_THAT(keys->problems,
              ElementsAre(HasSubstr("leaf2.pub"), HasSubstr("leaf3.pub"), HasSubstr("leaf4.pub")));
}

TEST(AuthorisedKeys, MayDoWhatTheirFolderSays) {
  const TemporaryFolder folder;
  std::map<std::string, std::string> key;
  for (const char* place : {"agents/leaf1", "viewers/wall", "operators/alice", "leaf2"}) {
    std::filesystem::create_directories((folder.path() / place).parent_path());
    key[place] = generate_keys().value().public_key;
    folder.write(std::string(place) + ".pub", key[place]);
  }
  const auto keys = load_authorised_keys(folder.path());
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_THAT(
      keys->owners,
      UnorderedElementsAre(Pair(key["agents/leaf1"], KeyOwner{"leaf1", KeyRole::agent_key}),
                           Pair(key["viewers/wall"], KeyOwner{"wall", KeyRole::viewer_key}),
                           Pair(key["operators/alice"], KeyOwner{"alice", KeyRole::operator_key}),
                           // Where operators are named, nobody becomes one by not being a node.
                           Pair(key["leaf2"], KeyOwner{"leaf2", KeyRole::agent_key})));
  EXPECT_THAT(keys->problems, ElementsAre());
}

// A viewer's key copied among the operators' must not make its owner both.
TEST(AuthorisedKeys, AKeyInTwoFoldersAuthorisesNobody) {
  const TemporaryFolder folder;
  const std::string key = generate_keys().value().public_key;
  for (const char* role : {"viewers", "operators"}) {
    std::filesystem::create_directory(folder.path() / role);
    folder.write(std::string(role) + "/alice.pub", key);
  }
  const auto keys = load_authorised_keys(folder.path());
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->owners.empty());
  EXPECT_THAT(keys->problems, ElementsAre(HasSubstr("viewers/alice.pub")));
}

TEST(AuthorisedKeys, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(load_authorised_keys("/nonexistent/keys").error().code, Errc::not_found);
}

}  // namespace
}  // namespace heddle
