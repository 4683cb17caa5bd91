// The agent's configuration file, read at start and on SIGHUP. systemd/agent.yaml.example is its
// documentation; a test keeps the two together.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/program/enforcer.h"
#include "agent/program/route_kernel.h"
#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "common/runtime/log.h"

namespace heddle {

struct AgentConfig {
  std::string node;
  Role role{};
  Mode mode{Mode::observe};

  std::string endpoint;
  bool plain{};                           // nobody is authenticated and no key is needed
  std::filesystem::path coordinator_key;  // the coordinator's public key
  std::filesystem::path key;              // this node's secret key

  std::filesystem::path state_dir{"/var/lib/heddle"};
  std::filesystem::path run_dir{"/run/heddle"};
  std::filesystem::path lldp{"/run/heddle/lldp.json"};  // what lldpcli printed last

  Duration report_interval{std::chrono::seconds{1}};  // until the coordinator says another
  Duration lease{std::chrono::seconds{120}};          // the longest that is granted on this machine

  std::vector<std::string> uplinks;     // patterns of interface names
  std::vector<std::string> host_ports;  // likewise
  std::vector<Prefix> never_touch;      // no pin of a flow from or to these is held
  Enforcer enforcer{};
  std::optional<IpAddress> sid;  // of the SRv6 segments that this node has for others
  RoutingRanges routing;
  LogLevel log_level{LogLevel::info};

  // Where flows are counted: where a choice of path shows on a leaf, wherever they leave on a host.
  std::vector<std::string> watched_ports() const;
};

// The keys whose new values wait for a restart: all but lease_s and log_level.
std::vector<std::string> needs_restart(const AgentConfig& now, const AgentConfig& next);

// Errc::io if the file cannot be read; otherwise every mistake, each with file, line and key.
Result<AgentConfig> load_agent_config(const std::filesystem::path& file);
Result<AgentConfig> parse_agent_config(std::string_view text, std::string name);

}  // namespace heddle
