#include "agent/file_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/agent/fakes.h"

namespace {

// In the place of the C library's: tells files from folders, and counts.
int synced_files = 0;
int synced_folders = 0;

}  // namespace

extern "C" int fsync(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) == 0)
    ++(S_ISDIR(status.st_mode) ? synced_folders : synced_files);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace heddle {
namespace {

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-store-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(state());
    std::filesystem::create_directories(run());
  }
  ~FileStoreTest() override { std::filesystem::remove_all(folder); }

  std::filesystem::path state() const { return folder / "state"; }
  std::filesystem::path run() const { return folder / "run"; }
  FileStore open(const std::string& boot = "boot1") const { return {state(), run(), boot}; }
  void write(const std::filesystem::path& file, const std::string& text) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }

  std::filesystem::path folder;
  const NodePlan plan{
      .node = "leaf1", .version = {3, 7}, .pins = {pin("p1", IpAddress::v4(10, 2, 1, 2), "up2")}};
};
using SafetyRule4Files = FileStoreTest;
using SafetyRule10Files = FileStoreTest;

TEST_F(FileStoreTest, RemembersOverARestart) {
  {
    FileStore store = open();
    ASSERT_TRUE(store.save_highest_seen({3, 8}));
    ASSERT_TRUE(store.save_plan(plan));
    ASSERT_TRUE(store.extend_lease(Time{std::chrono::seconds(77)}));
    ASSERT_TRUE(store.disable("ada"));
  }
  FileStore store = open();
  const StoredState state = store.load();
  EXPECT_EQ(state.highest_seen, (PlanVersion{3, 8}));
  EXPECT_EQ(state.plan, plan);
  EXPECT_EQ(state.lease_deadline, Time{std::chrono::seconds(77)});
  EXPECT_TRUE(store.disabled());
  EXPECT_EQ(store.disabled_by(), "ada");
  ASSERT_TRUE(store.enable());
  EXPECT_FALSE(store.disabled());
}

TEST_F(FileStoreTest, BeginsEmpty) {
  const StoredState state = open().load();
  EXPECT_EQ(state.highest_seen, PlanVersion{});
  EXPECT_FALSE(state.plan);
  EXPECT_FALSE(state.lease_deadline);
  EXPECT_EQ(load_plan(this->state()).error().code, Errc::not_found);
}

TEST_F(FileStoreTest, DoesNotTakeTheLeaseOfAnotherBoot) {
  ASSERT_TRUE(open("boot1").extend_lease(Time{std::chrono::seconds(77)}));
  EXPECT_FALSE(open("boot2").load().lease_deadline);
}

TEST_F(FileStoreTest, SaysWhyItCannotWrite) {
  std::filesystem::remove_all(state());
  FileStore store = open();
  const Result<void> saved = store.save_plan(plan);
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("plan"), std::string::npos) << saved.error().message;
}

TEST_F(SafetyRule4Files, ANewEpochIsOnTheDiskBeforeItCounts) {
  FileStore store = open();
  synced_files = synced_folders = 0;
  ASSERT_TRUE(store.save_highest_seen({3, 0}));
  EXPECT_EQ(synced_files, 1);
  EXPECT_EQ(synced_folders, 1);
  ASSERT_TRUE(store.save_highest_seen({3, 1}));
  EXPECT_EQ(synced_files, 1) << "a generation does not wait for the disk";
  ASSERT_TRUE(store.save_highest_seen({4, 0}));
  EXPECT_EQ(synced_files, 2);
  EXPECT_EQ(synced_folders, 2);
}

TEST_F(FileStoreTest, TheOffSwitchIsOnTheDiskWhenItIsConfirmed) {
  FileStore store = open();
  synced_files = synced_folders = 0;
  ASSERT_TRUE(store.disable("ada"));
  EXPECT_EQ(synced_files, 1);
  EXPECT_EQ(synced_folders, 1);
}

TEST_F(SafetyRule4Files, APlanThatCannotBeKeptLeavesNoOlderOneBehind) {
  FileStore store = open();
  ASSERT_TRUE(store.save_plan(plan));
  // In the way of the temporary file.
  std::filesystem::create_directory(state() / fmt::format("plan.{}.new", ::getpid()));
  NodePlan next = plan;
  next.version.generation += 1;
  EXPECT_FALSE(store.save_plan(next));
  EXPECT_FALSE(open().load().plan);
}

TEST_F(SafetyRule10Files, DamagedFilesCountAsMissing) {
  ASSERT_TRUE(open().save_plan(plan));
  std::filesystem::resize_file(state() / "plan", std::filesystem::file_size(state() / "plan") / 2);
  for (const char* version : {"", "3", "3.", ".7", "a.b", "3.7x", "-1.2"}) {
    write(state() / "highest-seen", version);
    write(run() / "lease", version);
    const StoredState state = open().load();
    EXPECT_EQ(state.highest_seen, PlanVersion{}) << version;
    EXPECT_FALSE(state.plan);
    EXPECT_FALSE(state.lease_deadline);
  }
}

}  // namespace
}  // namespace heddle
