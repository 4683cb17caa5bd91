// The shapes of control groups that Slurm and Kubernetes make, in both versions of cgroups. The
// lines are written after the documentation of slurmd and of the kubelet's two drivers.
#include "agent/observe/job_label.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

constexpr const char* kNone = "";

std::string label(std::string_view cgroup) {
  return label_of_cgroup(cgroup).value_or(kNone);
}

TEST(JobLabel, NamesTheSlurmJobAndItsStep) {
  EXPECT_EQ(label("0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0\n"),
            "slurm:1234.0");
  EXPECT_EQ(
      label("0::/system.slice/node7_slurmstepd.scope/job_1234/step_batch/user/task_special\n"),
      "slurm:1234.batch");
  EXPECT_EQ(label("12:pids:/system.slice/slurmd.service\n"
                  "4:memory:/slurm/uid_1000/job_77/step_3/task_1\n"
                  "1:name=systemd:/system.slice/slurmd.service\n"),
            "slurm:77.3");
  EXPECT_EQ(label("4:cpuset:/slurm_node7/uid_1000/job_77/step_extern\n"), "slurm:77.extern");
  EXPECT_EQ(label("4:cpuset:/slurm/uid_1000/job_77\n"), "slurm:77") << "in the job, in no step";
  EXPECT_EQ(label("5:devices:/slurm/uid_1000/job_77\n"
                  "4:memory:/slurm/uid_1000/job_77/step_2/task_0\n"),
            "slurm:77.2")
      << "one hierarchy knows more than another";
}

TEST(JobLabel, NamesTheKubernetesPod) {
  constexpr const char* kPod = "k8s:2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2d";
  // systemd's driver, version 2 and 1.
  EXPECT_EQ(label("0::/kubepods.slice/kubepods-burstable.slice/"
                  "kubepods-burstable-pod2b1d0a5e_8f3c_4a7b_9c1d_3e5f7a9b1c2d.slice/"
                  "cri-containerd-77aa.scope\n"),
            kPod);
  EXPECT_EQ(label("3:cpu,cpuacct:/kubepods.slice/"
                  "kubepods-pod2b1d0a5e_8f3c_4a7b_9c1d_3e5f7a9b1c2d.slice/docker-77aa.scope\n"),
            kPod)
      << "a guaranteed pod has no class in its path";
  EXPECT_EQ(label("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
                  "kubelet-kubepods-besteffort-pod2b1d0a5e_8f3c_4a7b_9c1d_3e5f7a9b1c2d.slice/x\n"),
            kPod);
  // The cgroupfs driver, version 2 and 1.
  EXPECT_EQ(label("0::/kubepods/burstable/pod2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2d/77aa\n"), kPod);
  EXPECT_EQ(label("11:memory:/kubepods/pod2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2d/77aa\n"), kPod);
  EXPECT_EQ(label("0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/77aa\n"),
            "k8s:0123456789abcdef0123456789abcdef")
      << "a static pod";
  EXPECT_EQ(label("0::/../../kubepods-besteffort.slice/"
                  "kubepods-besteffort-pod2b1d0a5e_8f3c_4a7b_9c1d_3e5f7a9b1c2d.slice\n"),
            kPod)
      << "seen from within a control group namespace";
}

TEST(JobLabel, TheInnermostNameCounts) {
  EXPECT_EQ(label("0::/kubepods/pod2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2d/77aa/system.slice/"
                  "slurmstepd.scope/job_5/step_1\n"),
            "slurm:5.1");
}

TEST(JobLabel, IsNotInventedForOtherGroups) {
  for (const char* const other :
       {"", "\n", "0::/\n", "0::", "::::", "no colon",
        "0::/user.slice/user-1000.slice/session-3.scope\n", "0::/system.slice/ssh.service\n",
        "0::/job_12/step_0\n", "0::/system.slice/slurmd.service/job_12\n", "0::/slurm/uid_0/job_\n",
        "0::/slurm/uid_0/job_12a/step_0\n", "0::/slurm/step_0\n",
        "0::/slurm/job_123456789012345678901\n",
        "0::/kubepods/burstable/pod2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2/x\n",
        "0::/kubepods/burstable/pod2b1d0a5e_8f3c_4a7b_9c1d_3e5f7a9b1c2d/x\n",
        "0::/kubepods.slice/kubepods-burstable.slice\n", "0::/podcasts/pod/x\n",
        "0::/machine/pod2b1d0a5e-8f3c-4a7b-9c1d-3e5f7a9b1c2d\n"})
    EXPECT_EQ(label(other), kNone) << other;
}

}  // namespace
}  // namespace heddle
