#include "coordinator/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/core/optimiser.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"

namespace heddle {

using namespace std::chrono_literals;

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
  reader->read("hysteresis", config.hysteresis, {.min = 0.0, .max = 1.0});
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
