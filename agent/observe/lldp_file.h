// Neighbours from a file that holds what `lldpcli -f json show neighbors` printed. Its writer is
// heddle-agent-lldp.service: lldpd's socket is closed to a process with as few privileges as the
// agent has. A file that is not renewed says nothing: lldpd, or the service, has stopped.
//
// One thread; lives as long as the agent.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/observe/cable_source.h"
#include "common/core/result.h"

namespace heddle {

inline constexpr std::chrono::seconds kLldpFileAge{120};

class LldpFile final : public CableSource {
 public:
  explicit LldpFile(std::filesystem::path file) : file_(std::move(file)) {}

  SourceCapability probe(WallTime now) override;
  std::optional<std::vector<LldpNeighbour>> neighbours(WallTime now) override;

 private:
  // Reads the file where it is another than the last time.
  Result<std::vector<LldpNeighbour>> look(WallTime now);

  std::filesystem::path file_;
  std::optional<std::pair<WallTime, std::uint64_t>> stamp_;  // its last change and its inode
  Result<std::vector<LldpNeighbour>> last_{std::vector<LldpNeighbour>{}};
};

}  // namespace heddle
