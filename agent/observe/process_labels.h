// Which job a process works for, asked of /proc. A queue pair names its process by a number that
// the kernel gives to another process once the first has ended, so a process that began after the
// queue pair was seen is not the one that made it, and gets no label.
//
// Reads other users' processes: needs a /proc that shows them (no hidepid), and no capability. One
// thread; lives as long as the agent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/observe/flow_source.h"
#include "common/core/units.h"

namespace heddle {

// When the process began, from the text of /proc/PID/stat; `ticks` to a second. Nothing if it is
// damaged. The name in it may hold spaces and parentheses.
std::optional<Time> process_start(std::string_view stat, long ticks);

class ProcessLabels {
 public:
  explicit ProcessLabels(std::filesystem::path proc = "/proc");

  struct Process {
    Time started;       // boot time
    std::string label;  // empty: it belongs to no job that is recognised
    bool operator==(const Process&) const = default;
  };
  // Of the process that has this number now; nothing if none has, or it ended meanwhile.
  std::optional<Process> find(std::uint32_t pid) const;

 private:
  std::optional<std::string> read(std::uint32_t pid, const char* file) const;
  std::optional<Time> started(std::uint32_t pid) const;

  std::filesystem::path proc_;
  long ticks_;
};

// Joins labels to the flows and queue pairs whose processes another source names, where the process
// is older than their first sight. The other source outlives this one.
class LabelledSource final : public FlowSource {
 public:
  explicit LabelledSource(FlowSource& flows, ProcessLabels labels = ProcessLabels{})
      : flows_(flows), labels_(std::move(labels)) {}

  std::vector<SourceCapability> probe() override { return flows_.probe(); }
  void links_changed() override { flows_.links_changed(); }
  Result<FlowReading> read(Time now) override;

 private:
  FlowSource& flows_;
  ProcessLabels labels_;
};

}  // namespace heddle
