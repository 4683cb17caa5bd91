// Removes everything of ours and nothing else, with or without a running agent: for the guard, for
// `heddle-agent flush`, and when heddle is disabled on the machine itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"
#include "common/core/result.h"

namespace heddle {

struct FlushReport {
  std::size_t routes{};
  std::size_t rules{};
  std::size_t next_hops{};
  std::size_t marks{};
  std::size_t segments_kept{};
  bool empty() const { return routes + rules + next_hops + marks == 0; }
  std::vector<std::string> left_alone;  // in our ranges or under our protocol, but not ours
};

// Segments of this node are no pins (segments.h): what is flushed because a lease is over or the
// off switch was turned leaves them to the nodes whose pins lead by them.
enum class FlushScope : std::uint8_t { pins, everything };

// Repeats until a read back shows none of ours; Errc::kernel if that does not come about. A record
// of nothing but what stays afterwards. What is ours is decided by the protocol and ranges in the
// record; `configured` is used only where it names none (see recorded_ranges in ownership.h).
Result<FlushReport> flush(RouteKernel& kernel, OwnershipStore& store,
                          const RoutingRanges& configured,
                          FlushScope scope = FlushScope::everything);

}  // namespace heddle
