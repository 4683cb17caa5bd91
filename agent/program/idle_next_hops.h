// Next hops that no pin uses any more, kept for a moment. What the node itself sends may have
// chosen its next hop and wait for the processor while its route moves, and the kernel drops it if
// the next hop is gone when it goes on. Pure but for what it remembers; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "common/core/reconcile.h"
#include "common/core/units.h"

namespace heddle {

// A process that was about to send has had the processor again by then, mostly.
inline constexpr Duration kSpareIdle = std::chrono::milliseconds{200};

class IdleNextHops {
 public:
  // Puts those of `installed` that are idle, and not for too long, among the wanted ones.
  void spare(SteeringTables& wanted, const SteeringTables& installed, Time now);
  // When the first of them has been idle for long enough.
  std::optional<Time> sweep_at() const { return sweep_at_; }

 private:
  std::map<std::uint32_t, Time> since_;  // by id
  std::optional<Time> sweep_at_;
};

}  // namespace heddle
