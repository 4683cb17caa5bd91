// What a process works for, read off a control group that the kernel keeps: groups named as Slurm
// and as Kubernetes name theirs, with a process of ours in them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "agent/observe/process_labels.h"
#include "tests/lab/expect.h"
#include "tests/lab/process.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;
namespace fs = std::filesystem;

// The machine's hierarchy of control groups (version 2), mounted where only one thread sees it:
// wherever the machine has it, and whether or not it is writable there.
class ControlGroups {
 public:
  ControlGroups() {
    std::string name = ::testing::TempDir() + "heddle-cgroup-XXXXXX";
    const char* const made = ::mkdtemp(name.data());
    if (made == nullptr || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("", "/", "none", MS_PRIVATE | MS_REC, nullptr) != 0 ||
        ::mount("none", made, "cgroup2", 0, nullptr) != 0) {
      reason_ = fmt::format("no control groups to mount: {}", std::strerror(errno));
      return;
    }
    mounted_ = made;
  }
  ~ControlGroups() {
    for (auto group = made_.rbegin(); group != made_.rend(); ++group)
      EXPECT_EQ(::rmdir(group->c_str()), 0) << *group << ": " << std::strerror(errno);
    if (!mounted_.empty()) {
      ::umount2(mounted_.c_str(), MNT_DETACH);
      ::rmdir(mounted_.c_str());
    }
  }
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;

  // Why there are none; empty if there are.
  const std::string& reason() const { return reason_; }
  // Makes the group, with all above it, and puts the process into it.
  void put(const fs::path& group, pid_t pid) {
    fs::path folder = mounted_;
    for (const fs::path& part : group) {
      folder /= part;
      ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0) << folder << ": " << std::strerror(errno);
      made_.push_back(folder);
    }
    std::ofstream(folder / "cgroup.procs") << pid << std::flush;
  }

 private:
  fs::path mounted_;
  std::string reason_;
  std::vector<fs::path> made_;
};

// The label of a process in that group. The process ends before the group does.
std::string label_in(const fs::path& group, std::string& reason) {
  std::string label;
  // A mount namespace of its own is a thread's for good.
  std::thread([&] {
    ControlGroups groups;
    reason = groups.reason();
    if (!reason.empty())
      return;
    Result<Child> child =
        Child::start({.words = {"/usr/bin/sleep", "600"}, .space = {}, .log = {}});
    ASSERT_EQ(why(child), "");
    const auto pid = static_cast<std::uint32_t>(child->pid());
    groups.put(fs::path(fmt::format("heddle-lab-{}", ::getpid())) / group, child->pid());
    const auto process = ProcessLabels().find(pid);
    EXPECT_TRUE(process) << "its process is there";
    if (process)
      label = process->label;
    child->stop(SIGKILL, seconds(5));
  }).join();
  return label;
}

TEST(ProcessLabel, NamesSlurmsJobAndStepByTheKernelsOwnControlGroup) {
  std::string reason;
  const std::string label =
      label_in("system.slice/slurmstepd.scope/job_123/step_0/user/task_0", reason);
  if (!reason.empty())
    GTEST_SKIP() << reason;
  EXPECT_EQ(label, "slurm:123.0");
}

TEST(ProcessLabel, NamesKubernetesPodByTheKernelsOwnControlGroup) {
  std::string reason;
  const std::string label = label_in(
      "kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod3c1f0f8e_52a1_4c0e_9b7d_0d2f6f1e8a44.slice/"
      "cri-containerd-heddle.scope",
      reason);
  if (!reason.empty())
    GTEST_SKIP() << reason;
  EXPECT_EQ(label, "k8s:3c1f0f8e-52a1-4c0e-9b7d-0d2f6f1e8a44");
}

TEST(ProcessLabel, NamesNothingByAGroupOfNeither) {
  std::string reason;
  const std::string label = label_in("system.slice/sshd.service", reason);
  if (!reason.empty())
    GTEST_SKIP() << reason;
  EXPECT_EQ(label, "");
}

}  // namespace
}  // namespace heddle::lab
