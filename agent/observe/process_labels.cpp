#include "agent/observe/process_labels.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "agent/observe/job_label.h"

namespace heddle {
namespace {

constexpr const char* kOrigin = "cgroup";
// The fields of /proc/PID/stat behind the name, counted from the state, which is the first.
constexpr int kStartTime = 19;
constexpr std::uint64_t kLongestUptime = 3'000'000'000;  // seconds, nearly a century

}  // namespace

std::optional<Time> process_start(std::string_view stat, long ticks) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || ticks <= 0)
    return std::nullopt;
  std::string_view rest = stat.substr(name_end + 1);
  for (int field = 0; field <= kStartTime; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos)
      return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t value{};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const auto per_second = static_cast<std::uint64_t>(ticks);
  if (error != std::errc{} || value / per_second > kLongestUptime)
    return std::nullopt;
  return Time(std::chrono::seconds(value / per_second) +
              std::chrono::nanoseconds(value % per_second * 1'000'000'000 / per_second));
}

ProcessLabels::ProcessLabels(std::filesystem::path proc)
    : proc_(std::move(proc)), ticks_(::sysconf(_SC_CLK_TCK)) {}

std::optional<std::string> ProcessLabels::read(std::uint32_t pid, const char* file) const {
  const int fd = ::open((proc_ / std::to_string(pid) / file).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(fd);
  return got < 0 ? std::nullopt : std::optional(std::move(text));
}

std::optional<Time> ProcessLabels::started(std::uint32_t pid) const {
  const std::optional<std::string> stat = read(pid, "stat");
  return stat ? process_start(*stat, ticks_) : std::nullopt;
}

std::optional<ProcessLabels::Process> ProcessLabels::find(std::uint32_t pid) const {
  const std::optional<Time> before = started(pid);
  if (!before)
    return std::nullopt;
  const std::optional<std::string> cgroup = read(pid, "cgroup");
  // The same process at both ends of reading, so it was its control group.
  if (!cgroup || started(pid) != before)
    return std::nullopt;
  return Process{.started = *before, .label = label_of_cgroup(*cgroup).value_or("")};
}

Result<FlowReading> LabelledSource::read(Time now) {
  Result<FlowReading> reading = flows_.read(now);
  if (!reading)
    return reading;
  // A process has many queue pairs and is asked about once.
  std::map<std::uint32_t, std::optional<ProcessLabels::Process>> known;
  const auto name = [&](auto& of_process, Time first_seen) {
    if (of_process.pid == 0)
      return;
    const auto [place, is_new] = known.try_emplace(of_process.pid);
    if (is_new)
      place->second = labels_.find(of_process.pid);
    const std::optional<ProcessLabels::Process>& process = place->second;
    if (process && process->started <= first_seen && !process->label.empty()) {
      of_process.label = process->label;
      of_process.label_origin = kOrigin;
    }
  };
  for (FlowCounter& flow : reading->flows)
    name(flow, flow.first_seen);
  for (OpenPair& open : reading->queue_pairs)
    name(open.pair, open.first_seen);
  return reading;
}

}  // namespace heddle
