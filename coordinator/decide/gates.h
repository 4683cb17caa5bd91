// The gates of a roll-out: what was measured before a wave against what is measured now. A gate
// that cannot see says so; it is never passed in silence (safety rule 7).
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "coordinator/decide/measure.h"

namespace heddle {

struct GateConfig {
  double efficiency_loss{0.1};   // of a job's measured efficiency, relative to before
  double iteration_growth{0.1};  // of a job's iteration time, likewise
  double errors_per_s{1.0};      // more of them on a host than before, of either kind
  bool operator==(const GateConfig&) const = default;
};

enum class Verdict : std::uint8_t { good, bad, unobservable };

struct Gate {
  std::string name;  // "jobs", "efficiency", "iteration-time", "retransmissions",
                     // "out-of-sequence", "agents", "drift"
  Verdict verdict{};
  std::string seen;  // for people, with the numbers
  bool operator==(const Gate&) const = default;
};

const char* to_string(Verdict verdict);

// "jobs": whether what ran before the wave still sends, all of its steady flows among it. A job
// that has stopped looks the same whether it has ended or the wave has stopped it, so it counts as
// stopped; unless its hosts run another by now. Inventories of queue pairs do not tell the two
// apart either: one whose retries were used up is destroyed with its process, as one that has done
// its work. `watched`: for how long has been looked; less than `patience` proves nothing.
Gate judge_presence(const Measures& before, const Measures& now, Duration watched,
                    Duration patience);
// How long a job or a flow must not be seen to count as stopped: at least `least`, and long enough
// for two of its iterations. Zero if there is no job.
Duration presence_patience(const Measures& before, Duration least);

// The four after it. Jobs and hosts of jobs that were not there before the wave are not judged:
// there is nothing to compare them with.
std::vector<Gate> judge_traffic(const GateConfig& config, const Measures& before,
                                const Measures& now);

}  // namespace heddle
