// The flow-level simulator: jobs compute and communicate over simulated time, flows move at max-min
// fair rates, and the scheme is run again when jobs change phase, links change, or periodically.
// Event driven: between two events nothing changes, so a step is as long as the next event is far.
// Single threaded, no clock but its own, deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/optimiser.h"
#include "common/core/result.h"
#include "coordinator/simulate/router.h"

namespace heddle::sim {

struct LinkEvent {
  Duration at{};
  CableId cable{};
  bool up{};  // both directions
};

struct TimelineOptions {
  std::uint32_t iterations{0};             // of each job; 0: as many as there is time for
  Duration end{std::chrono::seconds(40)};  // what is unfinished then is left out of the results
  // Zero: the scheme is run when a job begins or ends to communicate. Else only every so often, and
  // flows that begin in between are hashed until then.
  Duration period{};
  bool keep_starts{true};  // false: all jobs start at zero
  std::vector<LinkEvent> events{};
  // A run keeps a record of each placement and transfer. Beyond so many, which is far more than
  // jobs that train make, it is given up: flows of a few bytes would fill the memory in no time.
  std::uint64_t most_epochs{50'000};
  std::uint64_t most_transfers{50'000'000};
  std::uint64_t most_instants{20'000'000};
};

struct Timeline {
  std::vector<Epoch> epochs{};
  // By job: the duration of the communication of each iteration that ended.
  std::vector<std::vector<Duration>> communication{};
  // By transfer that ended, in the order of their ends.
  std::vector<double> completion_ms{};
  std::vector<double> throughput_gbps{};
  std::uint32_t stalled{};  // transfers that could not end: no live path
  std::uint64_t events{};   // instants at which something happened
};

// Errc::unsupported where the run would be longer than the options allow, with the job that made it
// so.
Result<Timeline> simulate(const Scenario& scenario, const Optimiser& scheme,
                          const TimelineOptions& options);

}  // namespace heddle::sim
