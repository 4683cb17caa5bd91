// The coordinator's configuration file (systemd/coordinator.yaml.example describes every key).
//
// Read at start and on SIGHUP; values.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "coordinator/decide/decide.h"
#include "coordinator/decide/rollout.h"

namespace heddle {

struct CoordinatorConfig {
  std::filesystem::path fabric;
  std::filesystem::path jobs;  // empty: none
  std::string listen{"tcp://127.0.0.1:7117"};
  bool plain{};  // no encryption, everybody may speak: for tests on one machine
  std::filesystem::path key{"/etc/heddle/keys/coordinator"};
  std::filesystem::path authorised_keys{"/etc/heddle/authorised"};
  std::filesystem::path state_dir{"/var/lib/heddle/coordinator"};
  Duration period{std::chrono::seconds(1)};
  Duration report_interval{std::chrono::seconds(1)};
  Duration lease{std::chrono::seconds(120)};
  Duration flow_memory{std::chrono::seconds(30)};
  Duration history{std::chrono::hours(24 * 7)};
  std::string optimiser{"heddle"};
  DecideConfig decide;
  RolloutConfig rollout;
  std::vector<Prefix> never_touch;
  Rate drained_below{1e6};
  Rate elephant_rate{100e6};
  Bytes elephant_message{1 << 20};
  std::string log_level{"info"};
};

// The keys whose new values wait for a restart; the others hold once they are read again.
std::vector<std::string> needs_restart(const CoordinatorConfig& now, const CoordinatorConfig& next);

// Every mistake, each with file, line and key.
Result<CoordinatorConfig> load_coordinator_config(const std::filesystem::path& file);

}  // namespace heddle
