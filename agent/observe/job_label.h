// What a process works for, read off the name of its control group: the job and step of Slurm, or
// the pod of Kubernetes. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle {

// The text of /proc/PID/cgroup, with one line for each hierarchy (cgroup v1) or one for all (v2).
// "slurm:1234.0", "slurm:1234.batch", "slurm:1234" (in the job but in no step), or "k8s:UID" with
// the pod's UID as Kubernetes writes it, whichever driver (systemd, cgroupfs) made the group.
// Nothing if the group is of neither. The innermost name counts: a Slurm job may run inside a pod.
std::optional<std::string> label_of_cgroup(std::string_view text);

}  // namespace heddle
