#include "agent/observe/pauses.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace heddle {
namespace {

struct PauseName {
  std::string_view before;
  std::string_view after;
  bool one_priority{};  // one digit stands in between
};

// As drivers of NICs with RoCE call them: mlx5, mlx4, bnxt_en, ice, hns3. Where a driver also tells
// of all priorities together, or how long a pause lasted, that is not counted again. Of ice's two
// kinds of frames the one that begins a pause counts.
constexpr std::array kReceived{
    PauseName{"rx_prio", "_pause", true},         PauseName{"rx_global_pause", "", false},
    PauseName{"rx_pause_prio_", "", true},        PauseName{"rx_pause", "", false},
    PauseName{"rx_pfc_ena_frames_pri", "", true}, PauseName{"rx_pause_frames", "", false},
    PauseName{"rx_priority_", "_xoff.nic", true}, PauseName{"mac_rx_pfc_pri", "_pkt_num", true},
    PauseName{"mac_rx_mac_pause_num", "", false},
};
constexpr std::array kSent{
    PauseName{"tx_prio", "_pause", true},         PauseName{"tx_global_pause", "", false},
    PauseName{"tx_pause_prio_", "", true},        PauseName{"tx_pause", "", false},
    PauseName{"tx_pfc_ena_frames_pri", "", true}, PauseName{"tx_pause_frames", "", false},
    PauseName{"tx_priority_", "_xoff.nic", true}, PauseName{"mac_tx_pfc_pri", "_pkt_num", true},
    PauseName{"mac_tx_mac_pause_num", "", false},
};

bool is_called(std::string_view name, const PauseName& pause) {
  if (!pause.one_priority)
    return name == pause.before;
  return name.size() == pause.before.size() + 1 + pause.after.size() &&
         name.starts_with(pause.before) && name.ends_with(pause.after) &&
         name[pause.before.size()] >= '0' && name[pause.before.size()] <= '7';
}

std::optional<std::uint64_t> sum(std::span<const NamedCount> statistics,
                                 std::span<const PauseName> names) {
  std::optional<std::uint64_t> total;
  for (const NamedCount& one : statistics)
    if (std::ranges::any_of(names,
                            [&](const PauseName& name) { return is_called(one.name, name); }))
      total = total.value_or(0) + one.value;
  return total;
}

}  // namespace

std::vector<CounterValue> pause_counters(std::span<const NamedCount> statistics) {
  std::vector<CounterValue> counters;
  if (const auto received = sum(statistics, kReceived))
    counters.push_back({.name = "pause_received", .value = *received, .wraps = false});
  if (const auto sent = sum(statistics, kSent))
    counters.push_back({.name = "pause_sent", .value = *sent, .wraps = false});
  return counters;
}

}  // namespace heddle
