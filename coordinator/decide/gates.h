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
  std::string name;  // "efficiency", "iteration-time", "retransmissions", "out-of-sequence",
                     // "agents", "drift"
  Verdict verdict{};
  std::string seen;  // for people, with the numbers
  bool operator==(const Gate&) const = default;
};

const char* to_string(Verdict verdict);

// The first four. A job that was not there before the wave is not judged, nor one that has ended.
std::vector<Gate> judge_traffic(const GateConfig& config, const Measures& before,
                                const Measures& now);

}  // namespace heddle
