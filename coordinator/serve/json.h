// Small helpers that the answers share. Include only from .cpp files: the JSON header is costly.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/core/units.h"

namespace heddle {

// Keys stay in the order in which they were added, as people read them.
using Json = nlohmann::ordered_json;

// "2026-03-01T12:00:00.250Z"
inline std::string iso(WallTime wall) {
  const auto since = wall.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(since - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t{seconds.count()}),
                     millis.count());
}

inline Json milliseconds(std::optional<Duration> duration) {
  if (!duration)
    return nullptr;
  return std::chrono::duration<double, std::milli>(*duration).count();
}

inline Json rate(std::optional<Rate> value) {
  return value ? Json(value->bits_per_second) : Json(nullptr);
}

// Names come from files and peers: bytes that are no UTF-8 are replaced, not thrown about.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle
