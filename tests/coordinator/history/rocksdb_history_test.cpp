// A real database in a temporary folder.
#include "coordinator/history/rocksdb_history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <vector>

#include "tests/coordinator/small_fabric.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

// The event loop's place: keeps what is posted, and runs it when it is waited for.
class Queue {
 public:
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    arrived_.notify_one();
  }
  void run_one() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(arrived_.wait_for(lock, 30s, [this] { return !work_.empty(); }));
    const std::function<void()> work = std::move(work_.front());
    work_.erase(work_.begin());
    lock.unlock();
    work();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::function<void()>> work_;
};

WallTime wall_now() {
  return WallTime(std::chrono::system_clock::now().time_since_epoch());
}

std::shared_ptr<PlanRecord> plan(std::uint64_t generation, WallTime wall = wall_now()) {
  auto made = std::make_shared<PlanRecord>();
  PlanRecord& record = *made;
  record.wall = wall + std::chrono::nanoseconds(generation);
  record.reason = fmt::format("plan number {}", generation);
  record.plan.version = {1, generation};
  record.plan.nodes["leaf1"] = {"leaf1", {1, generation}, {}};
  return made;
}

class RocksDbHistoryTest : public ::testing::Test {
 protected:
  RocksDbHistoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-history-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~RocksDbHistoryTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::unique_ptr<RocksDbHistory> open(RocksDbOptions options = {}) {
    if (options.folder.empty())
      options.folder = folder / "history";
    return std::make_unique<RocksDbHistory>(
        options, [this](std::function<void()> work) { queue.post(std::move(work)); });
  }
  static RocksDbOptions options(const std::function<void(RocksDbOptions&)>& change) {
    RocksDbOptions made;
    change(made);
    return made;
  }
  Result<PlanRecord> read(RocksDbHistory& history, PlanVersion version) {
    Result<PlanRecord> got = fail(Errc::timeout, "no answer");
    history.read_plan(version, [&](Result<PlanRecord> answer) { got = std::move(answer); });
    queue.run_one();
    return got;
  }
  std::vector<EventRecord> events(RocksDbHistory& history) {
    std::vector<EventRecord> got;
    history.read_events(WallTime{}, wall_now() + 1h, [&](Result<std::vector<EventRecord>> answer) {
      ASSERT_TRUE(answer) << answer.error().message;
      got = std::move(*answer);
    });
    queue.run_one();
    return got;
  }

  std::filesystem::path folder;
  Queue queue;
};

TEST_F(RocksDbHistoryTest, ReadsBackEveryPlanByItsVersion) {
  const auto history = open();
  for (std::uint64_t i = 1; i <= 300; ++i)
    history->keep(plan(i));
  const Result<PlanRecord> old = read(*history, {1, 7});
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old->reason, "plan number 7");
  EXPECT_EQ(read(*history, {1, 301}).error().code, Errc::not_found);
  EXPECT_EQ(history->last_plan(30s)->plan.version, (PlanVersion{1, 300}));
}

TEST_F(RocksDbHistoryTest, ReadsBackTheNewestDecisionsAndReplacesOneByItsTime) {
  const auto history = open();
  const WallTime begin = wall_now();
  for (int second = 1; second <= 30; ++second) {
    DecisionRecord decision;
    decision.wall = begin + std::chrono::seconds(second);
    decision.reason = fmt::format("number {}", second);
    history->keep(decision);
    decision.times = 5;
    history->keep(decision);
  }
  history->keep(EventRecord{begin + 10s, "no decision"});
  std::vector<DecisionRecord> got;
  const auto take = [&](Result<std::vector<DecisionRecord>> answer) {
    ASSERT_TRUE(answer) << answer.error().message;
    got = std::move(*answer);
  };
  history->read_decisions(WallTime{}, 3, take);
  queue.run_one();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].reason, "number 28");
  EXPECT_EQ(got[2].reason, "number 30");
  EXPECT_EQ(got[2].times, 5U);
  history->read_decisions(begin + 29s, 100, take);
  queue.run_one();
  EXPECT_EQ(got.size(), 1U);
}

TEST_F(RocksDbHistoryTest, ReadsBackReportsOfASpanOfTime) {
  const auto history = open();
  const auto key = testing::wire_key(testing::address(1, 1), testing::address(2, 1));
  const WallTime begin = wall_now();
  for (int second = 0; second < 10; ++second)
    history->keep(begin + std::chrono::seconds(second), "leaf1",
                  testing::report_of(static_cast<std::uint64_t>(second + 1), {}, 1s,
                                     {testing::delta(key, 1000, "up1")}));
  std::vector<Envelope> got;
  history->read_reports(begin + 3s, begin + 5s, [&](Result<std::vector<Envelope>> answer) {
    got = std::move(answer).value();
  });
  queue.run_one();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(std::get<Report>(got[0].message).number, 4U);
  EXPECT_EQ(std::get<Report>(got[0].message).flows.at(0).bytes, Bytes{1000});
}

TEST_F(RocksDbHistoryTest, KeepsWhatItHasOverARestart) {
  open()->keep(plan(1));
  const auto history = open();
  const Result<PlanRecord> last = history->last_plan(30s);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->reason, "plan number 1");
}

TEST_F(RocksDbHistoryTest, KnowsThatAnEmptyHistoryHasNoPlan) {
  EXPECT_EQ(open()->last_plan(30s).error().code, Errc::not_found);
}

// Run by the next test in a process of its own, which it ends by a kill.
TEST(RocksDbChild, DISABLED_KeepsPlansUntilItIsKilled) {
  const char* folder = std::getenv("HEDDLE_TEST_HISTORY");
  ASSERT_NE(folder, nullptr);
  RocksDbHistory history({.folder = folder}, [](const std::function<void()>&) {});
  for (std::uint64_t i = 1;; ++i) {
    history.keep(plan(i));
    history.drain();
    std::fprintf(stderr, "kept %llu\n", static_cast<unsigned long long>(i));
  }
}

TEST_F(RocksDbHistoryTest, LosesNothingThatWasKeptWhenItsProcessIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string where = "HEDDLE_TEST_HISTORY=" + (folder / "history").string();
  std::vector<std::string> words = {self, "--gtest_filter=RocksDbChild.*",
                                    "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment{const_cast<char*>(where.c_str())};
  for (char** entry = environ; *entry != nullptr; ++entry)
    environment.push_back(*entry);
  environment.push_back(nullptr);
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, self.c_str(), &actions, nullptr, argv.data(), environment.data()),
            0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  FILE* said = ::fdopen(ends[0], "r");
  char line[256];
  unsigned long long kept = 0;
  while (kept < 200 && std::fgets(line, sizeof line, said) != nullptr)
    std::sscanf(line, "kept %llu", &kept);
  ::kill(child, SIGKILL);
  // It may have kept more between the last word that was read and the kill.
  while (std::fgets(line, sizeof line, said) != nullptr)
    std::sscanf(line, "kept %llu", &kept);
  std::fclose(said);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GE(kept, 200U);

  const auto history = open();
  const Result<PlanRecord> last = history->last_plan(30s);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_GE(last->plan.version.generation, kept);
  EXPECT_TRUE(read(*history, {1, 1}));
}

TEST_F(RocksDbHistoryTest, ForgetsWhatIsOlderThanItsRetentionButNotTheLastPlan) {
  const WallTime old = wall_now() - 48h;
  {
    const auto history = open();
    history->keep(EventRecord{old, "old"});
    history->keep(EventRecord{wall_now(), "new"});
    history->keep(plan(1, old));
    history->keep(plan(2, old + 1h));
  }
  const auto history = open(options([](auto& o) { o.retention = 24h; }));
  history->keep(EventRecord{wall_now(), "newest"});
  history->drain();
  history->keep(EventRecord{wall_now(), "after the sweep"});
  std::vector<std::string> texts;
  for (const EventRecord& event : events(*history))
    texts.push_back(event.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"new", "newest", "after the sweep"}));
  EXPECT_FALSE(read(*history, {1, 1}));
  EXPECT_TRUE(read(*history, {1, 2}));
}

TEST_F(RocksDbHistoryTest, SafetyRule8AFolderThatCannotBeOpenedDegradesHistoryOnly) {
  std::ofstream(folder / "history") << "a file, where a folder should be";
  const auto history = open(options([](auto& o) { o.retry = 1h; }));
  for (std::uint64_t i = 1; i <= 1000; ++i)
    history->keep(plan(i));
  history->drain();
  EXPECT_FALSE(history->status().ok);
  EXPECT_FALSE(history->status().reason.empty());
  EXPECT_EQ(history->status().dropped, 2000U) << "a plan is two records";
  EXPECT_EQ(history->last_plan(30s).error().code, Errc::io);
  EXPECT_EQ(read(*history, {1, 1}).error().code, Errc::io);
}

TEST_F(RocksDbHistoryTest, SafetyRule8AFullQueueDropsRecordsAndCountsThem) {
  const auto history = open(options([](auto& o) { o.queue_bytes = 1; }));
  history->keep(plan(1));
  history->drain();
  EXPECT_EQ(history->status().dropped, 2U);
  EXPECT_FALSE(history->status().ok);
}

// With less room than it leaves to others, it stops by itself.
TEST_F(RocksDbHistoryTest, SafetyRule8StopsBeforeTheDiskIsFull) {
  const auto history = open(options([](auto& o) { o.reserve_bytes = std::uint64_t{1} << 62; }));
  history->keep(plan(1));
  history->drain();
  EXPECT_FALSE(history->status().ok);
  EXPECT_NE(history->status().reason.find("No space left"), std::string::npos);
  EXPECT_EQ(history->status().dropped, 2U);
}

// A disk of 64 MB that something else fills up, and that has room again later.
TEST_F(RocksDbHistoryTest, SafetyRule8AFullDiskDegradesHistoryUntilThereIsRoomAgain) {
  const std::filesystem::path disk = folder / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64m") != 0)
    GTEST_SKIP() << "a disk to fill needs the right to mount one: " << std::strerror(errno);
  {
    const auto history = open({.folder = disk / "history", .reserve_bytes = 0, .retry = 1ms});
    history->keep(plan(1));
    history->drain();
    EXPECT_TRUE(history->status().ok) << history->status().reason;

    {
      std::ofstream filler(disk / "filler", std::ios::binary);
      const std::string block(1U << 16, 'x');
      while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    }
    // 100 MB that do not compress, so that they cannot but fill it.
    std::mt19937_64 random(1);
    for (std::uint64_t i = 2; i < 1000 && history->status().ok; ++i) {
      const std::shared_ptr<PlanRecord> large = plan(i);
      large->reason.resize(100000);
      for (char& c : large->reason)
        c = static_cast<char>(random());
      history->keep(large);
      history->drain();
    }
    EXPECT_FALSE(history->status().ok);
    EXPECT_GT(history->status().dropped, 0U);
    std::printf("full disk: %s\n", history->status().reason.c_str());

    std::filesystem::remove(disk / "filler");
    const auto patience = std::chrono::steady_clock::now() + 30s;
    std::uint64_t generation = 1000;
    while (!history->status().ok && std::chrono::steady_clock::now() < patience) {
      history->keep(plan(++generation));
      history->drain();
    }
    EXPECT_TRUE(history->status().ok) << history->status().reason;
    history->keep(plan(++generation));
    EXPECT_EQ(history->last_plan(30s)->plan.version.generation, generation);
    EXPECT_TRUE(read(*history, {1, 1})) << "what was kept before is still there";
  }
  ASSERT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace heddle
