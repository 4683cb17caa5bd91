// `heddle-agent record`: see heddle-agent(8) and agent/observe/recorder.h.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>

#include "agent/commands.h"
#include "agent/observe/driver_statistics.h"
#include "agent/observe/file_tree.h"
#include "agent/observe/rdma_channel.h"
#include "common/core/clock.h"

namespace heddle {

// Samples of packets as they come, one datagram a call.
using SampleTap = std::function<void(std::span<const std::byte>)>;

struct RecordParts {
  RdmaChannel& rdma;
  const FileTree& files;
  const DriverStatistics& statistics;
  ConnectionWatch& connections;
  std::function<void(SampleTap)> record_samples;  // begins to hand them out
  std::function<void(Time)> drain_samples;        // hands out those that wait
  const Clock& clock;
};

// One look a second into `folder`, which must not exist or be empty, and every sample in between
// into DIR/psample: netlink messages one behind the other, as the kernel sent them.
ExitCode record_command(const std::filesystem::path& folder, std::chrono::seconds length,
                        const RecordParts& parts);

}  // namespace heddle
