#include "agent/observe/job_label.h"

#include <algorithm>

namespace heddle {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Calls visit(part) for each part of `text` between separators.
template <class Visit>
void for_each_part(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The rest after `prefix`, if it is as long as a number of Slurm may be and consists of what
// `allowed` says.
template <class Allowed>
std::string_view rest(std::string_view part, std::string_view prefix, Allowed allowed) {
  if (!part.starts_with(prefix))
    return {};
  part.remove_prefix(prefix.size());
  constexpr std::size_t kLongest = 20;
  return part.size() <= kLongest && std::ranges::all_of(part, allowed) ? part : std::string_view{};
}

// "slurm" and "slurm_NODE" (cgroup v1), "slurmstepd.scope" and "NODE_slurmstepd.scope" (v2).
bool is_slurm(std::string_view part) {
  return part == "slurm" || part.starts_with("slurm_") || part == "slurmstepd.scope" ||
         part.ends_with("_slurmstepd.scope");
}

// "podUID" as the cgroupfs driver names it; "kubepods-burstable-podUID.slice", where dashes have
// become underscores, as the systemd driver does. The UID is a UUID, or for a pod of the node's own
// files 32 hexadecimal digits. Empty if it is no pod.
std::string pod_uid(std::string_view part) {
  const bool by_systemd = part.ends_with(".slice");
  if (by_systemd) {
    part.remove_suffix(std::string_view(".slice").size());
    const std::size_t at = part.rfind("-pod");
    if (at == std::string_view::npos)
      return {};
    part.remove_prefix(at + 1);
  }
  if (!part.starts_with("pod"))
    return {};
  part.remove_prefix(3);
  std::string uid(part);
  if (by_systemd)
    std::ranges::replace(uid, '_', '-');
  constexpr std::size_t kPlain = 32, kUuid = 36;
  if (uid.size() == kPlain)
    return std::ranges::all_of(uid, is_lower_hex) ? uid : std::string{};
  if (uid.size() != kUuid)
    return {};
  for (std::size_t i = 0; i < uid.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? uid[i] != '-' : !is_lower_hex(uid[i]))
      return {};
  }
  return uid;
}

std::string label_of_path(std::string_view path) {
  std::string label;
  bool in_slurm = false, in_kubernetes = false, in_job = false;
  for_each_part(path, '/', [&](std::string_view part) {
    if (is_slurm(part)) {
      in_slurm = true;
      return;
    }
    in_kubernetes = in_kubernetes || part.find("kubepods") != std::string_view::npos;
    if (const std::string_view job = rest(part, "job_", is_digit); in_slurm && !job.empty()) {
      label = "slurm:" + std::string(job);
      in_job = true;
    } else if (const std::string_view step =
                   rest(part, "step_", [](char c) { return is_digit(c) || is_letter(c); });
               in_job && !step.empty()) {
      label += "." + std::string(step);
      in_job = false;
    } else if (const std::string uid = in_kubernetes ? pod_uid(part) : std::string{};
               !uid.empty()) {
      label = "k8s:" + uid;
      in_job = false;
    }
  });
  return label;
}

}  // namespace

std::optional<std::string> label_of_cgroup(std::string_view text) {
  std::string label;
  for_each_part(text, '\n', [&label](std::string_view line) {
    // "HIERARCHY:CONTROLLERS:PATH"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos)
      return;
    // Slurm's v1 plugins need not be on in every hierarchy, and some know the job but not the step.
    if (std::string found = label_of_path(line.substr(second + 1)); found.size() > label.size())
      label = std::move(found);
  });
  return label.empty() ? std::nullopt : std::optional(std::move(label));
}

}  // namespace heddle
