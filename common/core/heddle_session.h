// The heddle scheme kept alive between events: jobs that are known start and stop, and each time
// only what that touches is looked at. (A plan for a demand that is new as a whole is optimiser.h's
// place().) Pure; belongs to one caller. The topology and the link state must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/bounds.h"
#include "common/core/heddle_improve.h"

namespace heddle {

class HeddleSession {
 public:
  // The problem holds every job that is known; `running`, by job, those that run now. These are
  // placed as make_heddle() would; `current` and `max_moves` do not count. Each job in its heaviest
  // phase. What a job needs is judged as if all jobs ran, so jobs that share NICs and never meet
  // are thought to need less than they could use.
  HeddleSession(Problem problem, const std::vector<bool>& running);
  HeddleSession(const HeddleSession&) = delete;
  HeddleSession& operator=(const HeddleSession&) = delete;

  // The job's units go where they were last, or where there is room; then it and the jobs beside it
  // are raised as far as they can be. The subflows that run elsewhere now, of other jobs: the first
  // of each unit, in the order in which they moved.
  std::vector<std::uint32_t> start(JobId job);
  // Its links are free for others; nobody moves for that.
  void stop(JobId job);

  Routing routing() const;
  // By equal shares: a lower bound of what water-filling gives.
  double efficiency(JobId job) const { return improver_.efficiencies()[job.value]; }

 private:
  void place_running();

  Problem problem_;
  Model model_;
  Evaluator evaluator_;
  Bounds bounds_;
  PlacementState state_;
  Improver improver_;
  std::vector<std::uint32_t> seen_;  // by item: the event in which it was seen last
  std::uint32_t event_{};
};

}  // namespace heddle
