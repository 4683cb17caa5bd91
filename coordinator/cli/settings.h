// Where the coordinator is and which keys open the door: the command line first, then the
// configuration file, then what a packaged installation has. Reads one file; any thread.
#pragma once

#include <filesystem>
#include <string>

#include "common/core/result.h"
#include "coordinator/cli/command_line.h"

namespace heddle {

inline constexpr const char* kDefaultConfig = "/etc/heddle/heddle.yaml";

struct Settings {
  std::string coordinator{"tcp://127.0.0.1:7117"};
  std::filesystem::path key{"/etc/heddle/keys/cli"};
  std::filesystem::path server_key{"/etc/heddle/coordinator.pub"};
  bool plain{};
  Duration timeout{};
};

// The file's keys are `coordinator`, `key` and `server_key`. It may be absent unless --config names
// it. Errc::io, Errc::parse or Errc::invalid_argument name file, line and key.
Result<Settings> settle(const ConnectionOptions& options,
                        const std::filesystem::path& default_config);

}  // namespace heddle
