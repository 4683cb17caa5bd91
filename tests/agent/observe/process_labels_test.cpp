// Labels from a /proc: trees that are made, whose processes end and whose numbers are used again;
// and this machine's own.
#include "agent/observe/process_labels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The 22nd field is the start, in hundredths of a second.
std::string stat_of(std::uint32_t pid, std::string_view name, std::uint64_t start) {
  return fmt::format("{} ({}) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {} 1 2 3\n", pid, name,
                     start);
}

TEST(ProcessStart, IsReadBehindANameOfAnyKind) {
  EXPECT_EQ(process_start(stat_of(7, "ib_write_bw", 12'345), 100),
            Time(seconds(123) + milliseconds(450)));
  EXPECT_EQ(process_start(stat_of(7, "a) R 9 (b", 12'345), 100),
            Time(seconds(123) + milliseconds(450)));
  EXPECT_EQ(process_start(stat_of(7, "x", 1), 1000), Time(milliseconds(1)));
}

TEST(ProcessStart, SafetyRule10IsNotReadFromDamagedText) {
  const std::string whole = stat_of(7, "x", 12'345);
  const std::size_t start = whole.find("12345");
  for (std::size_t size = 0; size <= start; ++size)
    EXPECT_EQ(process_start(whole.substr(0, size), 100), std::nullopt) << size;
  EXPECT_EQ(process_start(stat_of(7, "x", 300'000'000'100), 100), std::nullopt);
  EXPECT_EQ(process_start(whole, 0), std::nullopt);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "heddle-proc-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ProcessLabelsTest : public ::testing::Test {
 protected:
  void make(std::uint32_t pid, std::uint64_t start, const std::string& cgroup) {
    const auto folder = proc_.path() / std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "stat") << stat_of(pid, "train", start * per_tick_);
    std::ofstream(folder / "cgroup") << cgroup;
  }
  void end(std::uint32_t pid) { std::filesystem::remove_all(proc_.path() / std::to_string(pid)); }
  std::string label(std::uint32_t pid, Time first_seen) {
    struct One final : FlowSource {
      FlowReading reading;
      std::vector<SourceCapability> probe() override { return {}; }
      void links_changed() override {}
      Result<FlowReading> read(Time) override { return reading; }
    } source;
    source.reading.flows.resize(1);
    source.reading.flows[0].pid = pid;
    source.reading.flows[0].first_seen = first_seen;
    source.reading.queue_pairs.resize(1);
    source.reading.queue_pairs[0].pair.pid = pid;
    source.reading.queue_pairs[0].first_seen = first_seen;
    LabelledSource labelled(source, ProcessLabels(proc_.path()));
    const FlowReading reading = *labelled.read(Time{});
    const FlowCounter& flow = reading.flows[0];
    EXPECT_EQ(flow.label_origin, flow.label.empty() ? "" : "cgroup");
    const OpenQueuePair& open = reading.queue_pairs[0].pair;
    EXPECT_EQ(open.label, flow.label) << "whether its peer is known or not";
    EXPECT_EQ(open.label_origin, flow.label_origin);
    return flow.label;
  }

  TemporaryFolder proc_;
  std::uint64_t per_tick_ = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
};

constexpr const char* kJob5 = "0::/system.slice/slurmstepd.scope/job_5/step_0\n";
constexpr const char* kJob6 = "0::/system.slice/slurmstepd.scope/job_6/step_0\n";

TEST_F(ProcessLabelsTest, FlowsAndQueuePairsOfAProcessCarryItsJob) {
  make(7, 100, kJob5);
  EXPECT_EQ(label(7, Time(seconds(101))), "slurm:5.0");
  EXPECT_EQ(label(7, Time(seconds(100))), "slurm:5.0") << "seen as it began";
  EXPECT_EQ(label(0, Time(seconds(101))), "") << "whose process is not known";
}

TEST_F(ProcessLabelsTest, AProcessThatVanishedLabelsNothing) {
  make(7, 100, kJob5);
  end(7);
  EXPECT_EQ(label(7, Time(seconds(101))), "");
}

// The queue pair was seen at 101 s; its process ended, and at 200 s another got the number.
TEST_F(ProcessLabelsTest, ANumberThatIsUsedAgainDoesNotMisattribute) {
  make(7, 200, kJob6);
  EXPECT_EQ(label(7, Time(seconds(101))), "");
  EXPECT_EQ(label(7, Time(seconds(201))), "slurm:6.0") << "its own queue pairs are its own";
}

TEST_F(ProcessLabelsTest, SafetyRule10ABrokenProcLabelsNothing) {
  make(7, 100, kJob5);
  std::ofstream(proc_.path() / "7/stat", std::ios::trunc) << "7 (x";
  EXPECT_EQ(label(7, Time(seconds(101))), "");
  make(8, 100, kJob5);
  std::filesystem::remove(proc_.path() / "8/cgroup");
  EXPECT_EQ(label(8, Time(seconds(101))), "");
  make(9, 100, "");
  EXPECT_EQ(label(9, Time(seconds(101))), "");
}

// The kernel's own text: this process, and a child that has ended and was waited for.
TEST(ProcessLabels, ReadThisMachinesProcesses) {
  const ProcessLabels labels;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto self = labels.find(static_cast<std::uint32_t>(::getpid()));
  ASSERT_TRUE(self);
  EXPECT_LE(self->started, Time(seconds(now.tv_sec + 1)));
  EXPECT_GT(self->started, Time{});

  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(labels.find(static_cast<std::uint32_t>(child)));
}

}  // namespace
}  // namespace heddle
