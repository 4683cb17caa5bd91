// Answers about what is decided and how far it is switched on: the log of decisions, the roll-out,
// drains. The keys are described in heddle(1).
//
// Pure functions over values; the event loop's thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/core/units.h"
#include "coordinator/decide/drain.h"
#include "coordinator/decide/rollout.h"
#include "coordinator/history/history.h"

namespace heddle {

// `incomplete`: why older ones are missing; empty if they are not.
std::string decisions_json(std::span<const DecisionRecord> decisions,
                           const std::string& incomplete);

struct RackShown {
  std::string name;
  bool enabled{};
  std::uint32_t pins{};  // read back
  bool confirmed{};      // every agent of it is heard and holds what it should
};
std::string rollout_json(const Rollout& rollout, std::span<const RackShown> racks, Time now);

struct DrainedLink {
  std::string name;
  bool up{};
  std::optional<Rate> rate;  // nothing: not reported of late
};
struct DrainShown {
  DrainOrder order;
  // "moving": agents are still to read back their new pins; "busy": pins that have no other way
  // lead there, or counters show traffic; "unobservable": a counter is not seen; "empty".
  std::string state;
  std::vector<DrainedLink> links;
  std::uint32_t pins{};             // installed ones that lead there
  std::vector<std::string> remain;  // what goes on there that heddle cannot move, and why
};
std::string drains_json(std::span<const DrainShown> drains, Rate empty_below);

}  // namespace heddle
