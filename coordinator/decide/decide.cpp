#include "coordinator/decide/decide.h"

#include <fmt/format.h>

namespace heddle {

namespace {

double percent(double efficiency) {
  return efficiency * 100.0;
}

// The first of the ascending vectors' differing places decides which is better; the gain must be
// seen there or in the mean, relative to what is.
bool worth_moving(const Efficiency& to, const Efficiency& from, double hysteresis) {
  if (compare(to, from) <= 0)
    return false;
  return to.worst > from.worst * (1.0 + hysteresis) || to.mean > from.mean * (1.0 + hysteresis);
}

std::string cause(const Situation& situation) {
  if (situation.links_changed)
    return situation.event.empty() ? "links changed" : situation.event;
  if (situation.demand_changed)
    return "the demand changed";
  return "better than before";
}

}  // namespace

Decision decide(const std::vector<Candidate>& candidates, const Situation& situation,
                const DecideConfig& config) {
  if (candidates.empty())
    return {.chosen = std::nullopt, .reason = "no elephant to place"};
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i)
    if (worth_moving(candidates[i].efficiency, candidates[best].efficiency, config.hysteresis))
      best = i;
  const Candidate& chosen = candidates[best];
  const Candidate& least = candidates.front();
  if (best == 0 && chosen.scheme == "stay" && !situation.links_changed && !situation.demand_changed)
    return {.chosen = std::nullopt,
            .reason = fmt::format("held: worst job at {:.1f} %, and nothing promises {:.0f} % more",
                                  percent(chosen.efficiency.worst), percent(config.hysteresis))};
  if (best == 0)
    return {.chosen = best,
            .reason = fmt::format("{}: {} at {:.1f} % for the worst job", cause(situation),
                                  chosen.scheme, percent(chosen.efficiency.worst))};
  return {.chosen = best,
          .reason = fmt::format("{}: {} lifts the worst job from {:.1f} to {:.1f} %, the mean from "
                                "{:.1f} to {:.1f} %, with {} of the pins moved",
                                cause(situation), chosen.scheme, percent(least.efficiency.worst),
                                percent(chosen.efficiency.worst), percent(least.efficiency.mean),
                                percent(chosen.efficiency.mean), chosen.moves)};
}

}  // namespace heddle
