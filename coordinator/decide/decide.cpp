#include "coordinator/decide/decide.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

double percent(double share) {
  return share * 100.0;
}

std::string numbers(const Efficiency& efficiency) {
  return fmt::format("worst {:.1f} %, mean {:.1f} %", percent(efficiency.worst),
                     percent(efficiency.mean));
}

class Scales {
 public:
  Scales(std::size_t units, const DecideConfig& config) : units_(units), config_(config) {}

  // The relative gain that `to` must promise to be preferred to what moves less.
  double required(const Candidate& to, const Candidate& from) const {
    const double more = to.moves > from.moves ? to.moves - from.moves : 0;
    const double share = units_ == 0 ? 0 : std::min(1.0, more / static_cast<double>(units_));
    return config_.hysteresis + config_.move_cost * share;
  }

  // The first of the ascending vectors' differing places decides which is better; the gain must be
  // seen there or in the mean, relative to what is.
  bool worth_moving(const Candidate& to, const Candidate& from) const {
    if (compare(to.efficiency, from.efficiency) <= 0)
      return false;
    const double factor = 1.0 + required(to, from);
    return to.efficiency.worst > from.efficiency.worst * factor ||
           to.efficiency.mean > from.efficiency.mean * factor;
  }

 private:
  std::size_t units_;
  const DecideConfig& config_;
};

// Why nothing moves: the best that there is, and what it lacks.
std::string held(const std::vector<Candidate>& candidates, std::size_t units,
                 const Scales& scales) {
  const Candidate& stay = candidates.front();
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i)
    if (compare(candidates[i].efficiency, candidates[best].efficiency) > 0)
      best = i;
  const std::string present = "held at " + numbers(stay.efficiency);
  if (best == 0)
    return present + ": nothing promises more";
  const Candidate& other = candidates[best];
  return fmt::format(
      "{}: {} promises {} with {} of {} moved, and that would have to be {:.1f} % more", present,
      other.scheme, numbers(other.efficiency), other.moves, units,
      percent(scales.required(other, stay)));
}

}  // namespace

std::string cause_of(const Situation& situation) {
  if (situation.links_changed)
    return situation.event.empty() ? "links changed" : situation.event;
  if (situation.demand_changed)
    return situation.event.empty() ? "the demand changed" : situation.event;
  return "better than before";
}

Decision decide(const std::vector<Candidate>& candidates, std::size_t units,
                const Situation& situation, const DecideConfig& config) {
  if (candidates.empty())
    return {.chosen = std::nullopt, .reason = "no elephant to place"};
  const Scales scales(units, config);
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i)
    if (scales.worth_moving(candidates[i], candidates[best]))
      best = i;
  const Candidate& chosen = candidates[best];
  const Candidate& least = candidates.front();
  if (best == 0 && chosen.scheme == "stay" && !situation.links_changed && !situation.demand_changed)
    return {.chosen = std::nullopt, .reason = held(candidates, units, scales)};
  if (best == 0)
    return {.chosen = best,
            .reason = fmt::format("{}: {} at {:.1f} % for the worst job", cause_of(situation),
                                  chosen.scheme, percent(chosen.efficiency.worst))};
  return {.chosen = best,
          .reason = fmt::format("{}: {} lifts the worst job from {:.1f} to {:.1f} %, the mean from "
                                "{:.1f} to {:.1f} %, with {} of the pins moved",
                                cause_of(situation), chosen.scheme, percent(least.efficiency.worst),
                                percent(chosen.efficiency.worst), percent(least.efficiency.mean),
                                percent(chosen.efficiency.mean), chosen.moves)};
}

}  // namespace heddle
