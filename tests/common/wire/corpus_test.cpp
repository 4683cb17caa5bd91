// Recorded bytes of each version of the protocol: what version N wrote must be read by every later
// one. To record again, for a new version or a new message:
//   HEDDLE_RECORD_CORPUS=1 build/dev/tests/test_common_wire --gtest_filter='Corpus.*'
// Files that exist are left alone: the bytes of a version that was released never change.
#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize-packed.h>
#include <gtest/gtest.h>
#include <kj/io.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/wire/codec.h"
#include "schemas/heddle.capnp.h"
#include "tests/common/wire/examples.h"
#include "tests/tree.h"

namespace heddle {
namespace {

std::filesystem::path corpus(int version) {
  return std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/common/wire/corpus" /
         ("v" + std::to_string(version));
}

std::vector<std::byte> read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const std::string s = text.str();
  const auto bytes = std::as_bytes(std::span(s));
  return {bytes.begin(), bytes.end()};
}

void record(const std::filesystem::path& file, const std::vector<std::byte>& bytes) {
  std::filesystem::create_directories(file.parent_path());
  if (std::filesystem::exists(file))
    return;
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST(Corpus, RecordedMessagesOfVersion1AreStillUnderstood) {
  for (const auto& [name, envelope] : test::examples()) {
    const auto file = corpus(1) / (name + ".bin");
    if (std::getenv("HEDDLE_RECORD_CORPUS") != nullptr)
      record(file, encode(envelope));
    ASSERT_TRUE(std::filesystem::exists(file)) << file << ": see the comment in " << __FILE__;
    const auto decoded = decode(read_file(file));
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, envelope) << name;
  }
}

// A message in the one form that Cap'n Proto calls canonical, in which fields that are not set
// leave no trace.
std::vector<std::byte> canonical(const std::vector<std::byte>& packed) {
  kj::ArrayInputStream stream({reinterpret_cast<const kj::byte*>(packed.data()), packed.size()});
  capnp::PackedMessageReader message(stream);
  const auto words = capnp::canonicalize(message.getRoot<schema::Envelope>());
  const auto bytes = std::as_bytes(std::span(words.asBytes().begin(), words.asBytes().size()));
  return {bytes.begin(), bytes.end()};
}

// As long as this is version 1, what is said is fixed down to the bit: a change to it is a change
// to the protocol. A field that was added since changes only what says something in it.
TEST(Corpus, ThisVersionWritesWhatWasRecorded) {
  ASSERT_EQ(kProtocolVersion, 1)
      << "a new version: record its messages in a folder of their own, keep the old ones";
  for (const auto& [name, envelope] : test::examples()) {
    EXPECT_EQ(canonical(encode(envelope)), canonical(read_file(corpus(1) / (name + ".bin"))))
        << name;
  }
}

TEST(Corpus, EveryRecordedFileIsAnExample) {
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(corpus(1)))
    ++files;
  EXPECT_EQ(files, test::examples().size());
}

}  // namespace
}  // namespace heddle
