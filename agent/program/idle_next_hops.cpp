#include "agent/program/idle_next_hops.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace heddle {

void IdleNextHops::spare(SteeringTables& wanted, const SteeringTables& installed, Time now) {
  sweep_at_.reset();
  std::map<std::uint32_t, Time> since;
  std::vector<NextHop> spared;
  for (const NextHop& next_hop : installed.next_hops) {
    if (next_hop.action ||
        std::ranges::binary_search(wanted.next_hops, next_hop.id, {}, &NextHop::id))
      continue;
    const auto known = since_.find(next_hop.id);
    const Time begin = known == since_.end() ? now : known->second;
    const Time end = begin + kSpareIdle;
    if (now >= end)
      continue;
    since[next_hop.id] = begin;
    sweep_at_ = std::min(sweep_at_.value_or(end), end);
    spared.push_back(next_hop);
  }
  since_ = std::move(since);
  wanted.next_hops.insert(wanted.next_hops.end(), spared.begin(), spared.end());
  std::ranges::sort(wanted.next_hops);
}

}  // namespace heddle
