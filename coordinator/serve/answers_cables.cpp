#include "coordinator/serve/answers_cables.h"

#include <fmt/format.h>

#include "coordinator/serve/json.h"

namespace heddle {
namespace {

const char* name_of(CableFault fault) {
  switch (fault) {
    case CableFault::missing:
      return "missing";
    case CableFault::extra:
      return "extra";
    case CableFault::swapped:
      return "swapped";
    case CableFault::speed:
      return "speed";
  }
  return "unknown";
}

Json json_of(const CableEnd& end) {
  if (end == CableEnd{})
    return nullptr;
  return {{"node", end.node}, {"port", end.port}};
}

Json json_of(Rate speed) {
  return speed.bits_per_second > 0 ? Json(speed.bits_per_second) : Json();
}

std::string gigabits(Rate speed) {
  return fmt::format("{:.6g} Gbit/s", speed.bits_per_second / 1e9);
}

}  // namespace

std::string to_string(const CableEnd& end) {
  return fmt::format("{} {}", end.node.empty() ? "a nameless device" : end.node,
                     end.port.empty() ? "at an unknown port" : end.port);
}

std::string to_string(const CableDifference& difference) {
  const std::string at = to_string(difference.at);
  switch (difference.fault) {
    case CableFault::missing:
      if (difference.found != CableEnd{})
        return fmt::format("{} should lead to {}, but leads to {}", at,
                           to_string(difference.expected), to_string(difference.found));
      return fmt::format("{} should lead to {}, but {}", at, to_string(difference.expected),
                         difference.no_carrier ? "has no carrier" : "hears nobody");
    case CableFault::extra:
      return fmt::format("{} leads to {}, which is no cable of the file", at,
                         to_string(difference.found));
    case CableFault::swapped:
      return fmt::format("{} and {} are swapped: {} leads to {} and should lead to {}", at,
                         to_string(difference.other), at, to_string(difference.found),
                         to_string(difference.expected));
    case CableFault::speed:
      return fmt::format("{} runs at {}, and by the file at {}", at,
                         gigabits(difference.found_speed), gigabits(difference.expected_speed));
  }
  return at;
}

std::string cables_json(const CableCheck& check, const std::string& fabric,
                        std::span<const SilentNode> silent) {
  Json differences = Json::array();
  for (const CableDifference& one : check.differences)
    differences.push_back({{"kind", name_of(one.fault)},
                           {"at", json_of(one.at)},
                           {"expected", json_of(one.expected)},
                           {"found", json_of(one.found)},
                           {"swapped_with", json_of(one.other)},
                           {"expected_bps", json_of(one.expected_speed)},
                           {"found_bps", json_of(one.found_speed)},
                           {"text", to_string(one)}});
  Json parallel = Json::array();
  for (const ParallelCables& one : check.parallel)
    parallel.push_back({{"leaf", one.leaf},
                        {"spine", one.spine},
                        {"expected", one.expected},
                        {"found", one.found}});
  Json unverified = Json::array();
  for (const auto& [a, b] : check.unverified)
    unverified.push_back({{"a", json_of(a)}, {"b", json_of(b)}});
  Json quiet = Json::array();
  for (const SilentNode& node : silent)
    quiet.push_back({{"name", node.name}, {"reason", node.reason}});
  return dump({{"fabric", fabric},
               {"cables",
                {{"expected", check.expected},
                 {"verified", check.verified},
                 {"unverified", check.unverified.size()}}},
               {"differences", std::move(differences)},
               {"parallel", std::move(parallel)},
               {"unverified", std::move(unverified)},
               {"silent", std::move(quiet)}});
}

}  // namespace heddle
