#include "coordinator/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/core/optimiser.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"

namespace heddle {

using namespace std::chrono_literals;

namespace {

void read_decide(ConfigReader& reader, DecideConfig& decide) {
  reader.read("hysteresis", decide.hysteresis, {.min = 0.0, .max = 1.0});
  reader.read("move_cost", decide.move_cost, {.min = 0.0, .max = 1.0});
  reader.read("moves_per_plan", decide.moves_per_plan, {.min = 0, .max = 1'000'000});
  reader.read_duration("dwell_s", decide.dwell, 1s, {0s, 24h});
  reader.read_duration("quiet_wait_s", decide.quiet_wait, 1s, {0s, 1h});
}

void read_rollout(ConfigReader reader, RolloutConfig& rollout) {
  reader.read_choice("mode", rollout.required, {{"required", true}, {"off", false}});
  reader.read_duration("baseline_s", rollout.baseline, 1s, {1s, 24h});
  reader.read_duration("converge_s", rollout.converge, 1s, {1s, 1h});
  reader.read("efficiency_loss", rollout.gates.efficiency_loss, {.min = 0.0, .max = 1.0});
  reader.read("iteration_growth", rollout.gates.iteration_growth, {.min = 0.0, .max = 100.0});
  reader.read("errors_per_s", rollout.gates.errors_per_s, {.min = 0.0, .max = 1e9});
  reader.read_choice("unobservable", rollout.unobservable_blocks,
                     {{"block", true}, {"pass", false}});
}

}  // namespace

std::vector<std::string> needs_restart(const CoordinatorConfig& now,
                                       const CoordinatorConfig& next) {
  std::vector<std::string> keys;
  const auto compare = [&keys](const char* key, const auto& a, const auto& b) {
    if (!(a == b))
      keys.emplace_back(key);
  };
  compare("fabric", now.fabric, next.fabric);
  compare("listen", now.listen, next.listen);
  compare("plain", now.plain, next.plain);
  compare("key", now.key, next.key);
  compare("authorised_keys", now.authorised_keys, next.authorised_keys);
  compare("state_dir", now.state_dir, next.state_dir);
  compare("history_days", now.history, next.history);
  compare("optimiser", now.optimiser, next.optimiser);
  compare("rollout", now.rollout, next.rollout);
  return keys;
}

Result<CoordinatorConfig> load_coordinator_config(const std::filesystem::path& file) {
  Result<ConfigReader> reader = ConfigReader::load(file);
  if (!reader)
    return tl::unexpected(reader.error());
  CoordinatorConfig config;
  reader->read("fabric", config.fabric, Need::required);
  reader->read("jobs", config.jobs);
  reader->read("listen", config.listen);
  reader->read("plain", config.plain);
  reader->read("key", config.key);
  reader->read("authorised_keys", config.authorised_keys);
  reader->read("state_dir", config.state_dir);
  reader->read_duration("period_ms", config.period, 1ms, {10ms, 1h});
  reader->read_duration("report_interval_ms", config.report_interval, 1ms, {1ms, 1h});
  reader->read_duration("lease_s", config.lease, 1s, {1s, 24h});
  reader->read_duration("flow_memory_s", config.flow_memory, 1s, {1s, 24h});
  reader->read_duration("history_days", config.history, 24h, {24h, 24h * 3650});
  reader->read("optimiser", config.optimiser);
  read_decide(*reader, config.decide);
  read_rollout(reader->section("rollout"), config.rollout);
  reader->read("never_touch", config.never_touch);
  double drained_mbps = config.drained_below.bits_per_second / 1e6;
  reader->read("drained_mbps", drained_mbps, {.min = 0.0, .max = 1e6});
  config.drained_below = Rate{drained_mbps * 1e6};
  double elephant_mbps = config.elephant_rate.bits_per_second / 1e6;
  reader->read("elephant_mbps", elephant_mbps, {.min = 0.001, .max = 1e6});
  config.elephant_rate = Rate{elephant_mbps * 1e6};
  reader->read("elephant_message_bytes", config.elephant_message.value,
               {.min = 1, .max = std::uint64_t{1} << 40});
  reader->read("log_level", config.log_level);

  const auto names = optimiser_names();
  if (std::ranges::find(names, config.optimiser) == names.end())
    reader->problem("optimiser", fmt::format("there is no '{}'; there are {}", config.optimiser,
                                             fmt::join(names, ", ")));
  if (const auto level = parse_log_level(config.log_level); !level)
    reader->problem("log_level", level.error().message);
  if (const Result<void> finished = reader->finish(); !finished)
    return tl::unexpected(finished.error());
  return config;
}

}  // namespace heddle
