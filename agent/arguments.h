// The command line of heddle-agent. heddle-agent(8) documents it. One thread, before anything else
// runs.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace heddle {

inline constexpr const char* kDefaultConfig = "/etc/heddle/agent.yaml";

struct Arguments {
  std::string command{"run"};
  std::filesystem::path config{kDefaultConfig};
  bool check_config{};
  bool watch{};
  bool dry_run{};
  bool json{};
  std::filesystem::path folder;  // to record into
  std::chrono::seconds length{5};
};

// An exit code instead of arguments when there is nothing more to do.
struct Parsed {
  Arguments arguments;
  std::optional<int> exit;
};

// Says on stderr what is wrong, and on stdout what was asked for: help, or `software`, the version.
Parsed parse(int argc, char** argv, const char* software);

}  // namespace heddle
