// How much may move: at most so many flows with one plan, and none again that was moved just now.
// What must move, because its path is dead or no pin could hold it, is never held back.
//
// Thread: the event loop's. Dwell lives as long as the coordinator; the rest is pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/optimise/planning.h"

namespace heddle {

// The unit's subflows run together on a live path, so that it could stay.
bool could_stay(const PlanningProblem& planning, const Unit& unit);
// Units that `routing` moves though they could stay.
std::uint32_t voluntary_moves(const PlanningProblem& planning, const Routing& routing);

// The step towards `goal` that moves at most `budget` of those: from the most crowded links first.
// Nothing if each such step would be worse than `least`, the candidate with the least movement.
std::optional<Candidate> step_towards(const PlanningProblem& planning, const Candidate& goal,
                                      const Candidate& least, std::uint32_t budget);

// When each unit was moved last.
class Dwell {
 public:
  explicit Dwell(Duration dwell) : dwell_(dwell) {}

  void set(Duration dwell) { dwell_ = dwell; }

  // `routing` becomes the plan: what it moves is to dwell.
  void moved(const PlanningProblem& planning, const Routing& routing, Time now);
  // Holds fast what has not dwelt for long enough; how many units those are.
  std::uint32_t hold(PlanningProblem& planning, Time now) const;

 private:
  Duration dwell_;
  std::map<PinKey, Time> until_;
};

}  // namespace heddle
