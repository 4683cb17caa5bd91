// The roll-out: racks are enabled in waves. Each wave is measured before it begins, soaks, and is
// watched by gates; a gate that fails turns the wave back by itself (safety rule 11).
//
//   pending --baseline measured, agents ready--> enabling --pins read back--> soaking --time,
//   gates--> good
//      ^                                            |                            |
//      +------------------ resume ----------- rolled back <----- a gate failed --+
//
// Pure values and a state machine driven by step(); the caller stores the state before it acts on
// it, so that a crash leaves one or the other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "coordinator/decide/gates.h"

namespace heddle {

struct RolloutConfig {
  bool required{true};  // else every agent that may program is steered, whatever its rack
  Duration baseline{std::chrono::seconds(60)};  // of undisturbed measuring before each wave
  // How long agents may take to hold their pins, to be heard again, or to repair what drifted.
  Duration converge{std::chrono::seconds(30)};
  bool unobservable_blocks{true};  // a wave is not found good by a gate that cannot see
  GateConfig gates;
  bool operator==(const RolloutConfig&) const = default;
};

enum class WaveState : std::uint8_t { pending, enabling, soaking, good, rolled_back };

struct Wave {
  std::vector<std::string> racks;
  Duration soak{};
  WaveState state{};
  std::string verdict{};  // what its gates saw in the end
  bool operator==(const Wave&) const = default;
};

enum class RolloutPhase : std::uint8_t {
  none,         // there never was one
  running,      // waves go on by themselves
  paused,       // no further wave, no soaking; the gates still watch
  stopped,      // a gate turned a wave back; resume tries it again
  aborted,      // by an operator: the wave under way was turned back, the good ones stay
  rolled_back,  // by an operator: every wave was turned back
  done
};

// What must survive a restart.
struct RolloutState {
  std::set<std::string> enabled;  // racks whose agents may be given pins
  RolloutPhase phase{};
  std::string why;  // stopped, aborted or rolled back
  std::vector<Wave> waves;
  Measures baseline;  // of the wave under way
  bool operator==(const RolloutState&) const = default;
};

const char* to_string(WaveState state);
const char* to_string(RolloutPhase phase);

// What is seen of the wave under way.
struct RolloutSight {
  Measures measures;  // since Rollout::since()
  // Why its racks cannot be enabled; empty if they can: "leaf2: its agent only observes".
  std::string not_ready;
  // Their agents have not read back what they should hold: "leaf2 holds plan 3.16". Empty: all
  // have.
  std::string not_held;
  // What is wrong with their agents, and does not pass by itself: a conflict, pins that fail.
  std::string trouble;
  // Flows that run elsewhere than their pins say, and how many flows of the wave were seen at all
  // since they were pinned. Where none was, nothing is known of any: those that were astray may
  // still be.
  std::string astray;
  std::size_t followed{};
};

class Rollout {
 public:
  // `now` is the coordinator's start: a wave that was enabling or soaking begins to again.
  Rollout(RolloutConfig config, RolloutState state, Time now);

  const RolloutState& state() const { return state_; }
  const RolloutConfig& config() const { return config_; }
  // Whether agents in the rack may be given pins.
  bool allows(const std::string& rack) const;
  // The wave that is next or under way; nothing if there is none.
  const Wave* current() const;
  // Whether step() has anything to look at.
  bool watching() const;
  // From when on what is measured counts.
  Time since() const { return since_; }

  // Commands. Errc::invalid_argument, Errc::duplicate where one is under way or a rack is enabled
  // already.
  Result<void> start(std::vector<Wave> waves, Time now);
  Result<void> pause(Time now);
  Result<void> resume(Time now);
  Result<void> abort(Time now);
  Result<void> roll_back(Time now);

  // Once a planning period. What has happened, for the log; state() may be another afterwards.
  std::optional<std::string> step(const RolloutSight& sight, Time now);

  // As of the last step.
  const std::vector<Gate>& gates() const { return gates_; }
  const std::string& waits_for() const { return waits_for_; }
  Duration soaked(Time now) const;
  // How long what ran before the wave must not be seen to count as stopped.
  Duration patience() const;

 private:
  Wave* under_way();
  std::string number(const Wave& wave) const;
  std::optional<std::string> begin(Wave& wave, const RolloutSight& sight, Time now);
  std::optional<std::string> watch(Wave& wave, const RolloutSight& sight, Time now);
  std::string turn_back(Wave& wave, const std::string& verdict);
  void judge(const RolloutSight& sight, Time now);
  void measure_anew(Time now);

  RolloutConfig config_;
  RolloutState state_;
  Time since_;
  Time state_since_;  // of the wave under way
  std::optional<Time> not_held_since_;
  std::optional<Time> astray_since_;
  std::map<std::string, int> bad_;  // gates that were bad, and how often in a row
  std::vector<Gate> gates_;
  std::string waits_for_;
};

}  // namespace heddle
