#include "coordinator/cli/settings.h"

#include <system_error>

#include "common/runtime/config.h"

namespace heddle {

Result<Settings> settle(const ConnectionOptions& options,
                        const std::filesystem::path& default_config) {
  Settings settings;
  std::error_code ignored;
  const std::filesystem::path file = options.config.value_or(default_config);
  if (options.config || std::filesystem::exists(file, ignored)) {
    auto reader = ConfigReader::load(file);
    if (!reader)
      return tl::unexpected(reader.error());
    reader->read("coordinator", settings.coordinator);
    reader->read("key", settings.key);
    reader->read("server_key", settings.server_key);
    if (auto ok = reader->finish(); !ok)
      return tl::unexpected(ok.error());
  }
  settings.coordinator = options.coordinator.value_or(settings.coordinator);
  settings.key = options.key.value_or(settings.key);
  settings.server_key = options.server_key.value_or(settings.server_key);
  settings.plain = options.plain;
  settings.timeout = options.timeout;
  return settings;
}

}  // namespace heddle
