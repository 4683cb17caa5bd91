#include "coordinator/decide/rollout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace heddle {

namespace {

// A gate fails when it was bad so often in a row: one look can fall between two reports.
constexpr int kLooks = 2;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool is_under_way(const Wave& wave) {
  return wave.state == WaveState::enabling || wave.state == WaveState::soaking;
}

// Since when something has been so; nothing while it is not.
void note_since(std::optional<Time>& since, bool is_so, Time now) {
  if (!is_so)
    since.reset();
  else if (!since)
    since = now;
}

}  // namespace

const char* to_string(WaveState state) {
  switch (state) {
    case WaveState::pending:
      return "pending";
    case WaveState::enabling:
      return "enabling";
    case WaveState::soaking:
      return "soaking";
    case WaveState::good:
      return "good";
    case WaveState::rolled_back:
      break;
  }
  return "rolled-back";
}

const char* to_string(RolloutPhase phase) {
  switch (phase) {
    case RolloutPhase::none:
      return "none";
    case RolloutPhase::running:
      return "running";
    case RolloutPhase::paused:
      return "paused";
    case RolloutPhase::stopped:
      return "stopped";
    case RolloutPhase::aborted:
      return "aborted";
    case RolloutPhase::rolled_back:
      return "rolled-back";
    case RolloutPhase::done:
      break;
  }
  return "done";
}

Rollout::Rollout(RolloutConfig config, RolloutState state, Time now)
    : config_(config), state_(std::move(state)), since_(now), state_since_(now) {}

bool Rollout::allows(const std::string& rack) const {
  return !config_.required || state_.enabled.contains(rack);
}

const Wave* Rollout::current() const {
  const auto wave = std::ranges::find_if(
      state_.waves, [](const Wave& one) { return one.state != WaveState::good; });
  return wave == state_.waves.end() ? nullptr : &*wave;
}

Wave* Rollout::under_way() {
  const Wave* wave = current();
  return wave == nullptr ? nullptr
                         : &state_.waves[static_cast<std::size_t>(wave - state_.waves.data())];
}

bool Rollout::watching() const {
  return config_.required &&
         (state_.phase == RolloutPhase::running || state_.phase == RolloutPhase::paused) &&
         current() != nullptr;
}

std::string Rollout::number(const Wave& wave) const {
  return fmt::format("wave {} of {} ({})", &wave - state_.waves.data() + 1, state_.waves.size(),
                     fmt::join(wave.racks, ", "));
}

void Rollout::measure_anew(Time now) {
  since_ = state_since_ = now;
  not_held_since_.reset();
  astray_since_.reset();
  bad_.clear();
  gates_.clear();
  waits_for_.clear();
}

Duration Rollout::soaked(Time now) const {
  const Wave* wave = current();
  return wave != nullptr && wave->state == WaveState::soaking &&
                 state_.phase == RolloutPhase::running
             ? now - state_since_
             : Duration::zero();
}

Duration Rollout::patience() const {
  return presence_patience(state_.baseline, config_.converge);
}

// Commands
// --------------------------------------------------------------------------------------------

Result<void> Rollout::start(std::vector<Wave> waves, Time now) {
  if (!config_.required)
    return fail(Errc::unsupported,
                "the configuration says 'rollout: {mode: off}': every agent in mode program is "
                "steered already");
  if (state_.phase == RolloutPhase::running || state_.phase == RolloutPhase::paused ||
      state_.phase == RolloutPhase::stopped)
    return fail(Errc::duplicate,
                fmt::format("a roll-out is {}; end it first with 'heddle rollout abort'",
                            to_string(state_.phase)));
  if (waves.empty())
    return fail(Errc::invalid_argument, "a roll-out has at least one wave");
  std::set<std::string> seen;
  for (const Wave& wave : waves) {
    if (wave.racks.empty())
      return fail(Errc::invalid_argument, "a wave has at least one rack");
    for (const std::string& rack : wave.racks) {
      if (!seen.insert(rack).second)
        return fail(Errc::invalid_argument, fmt::format("rack '{}' is named twice", rack));
      if (state_.enabled.contains(rack))
        return fail(Errc::duplicate, fmt::format("rack '{}' is enabled already", rack));
    }
  }
  for (Wave& wave : waves)
    wave.state = WaveState::pending;
  state_.waves = std::move(waves);
  state_.phase = RolloutPhase::running;
  state_.why.clear();
  state_.baseline = {};
  measure_anew(now);
  return {};
}

Result<void> Rollout::pause(Time) {
  if (state_.phase != RolloutPhase::running)
    return fail(Errc::duplicate,
                fmt::format("no roll-out is running; the last is {}", to_string(state_.phase)));
  state_.phase = RolloutPhase::paused;
  return {};
}

Result<void> Rollout::resume(Time now) {
  if (state_.phase != RolloutPhase::paused && state_.phase != RolloutPhase::stopped)
    return fail(Errc::duplicate, fmt::format("no roll-out is paused or stopped; the last is {}",
                                             to_string(state_.phase)));
  for (Wave& wave : state_.waves)
    if (wave.state == WaveState::rolled_back)
      wave.state = WaveState::pending;
  state_.phase = RolloutPhase::running;
  state_.why.clear();
  measure_anew(now);  // What was measured during a pause does not count as a soak.
  return {};
}

Result<void> Rollout::abort(Time now) {
  if (state_.phase != RolloutPhase::running && state_.phase != RolloutPhase::paused &&
      state_.phase != RolloutPhase::stopped)
    return fail(Errc::duplicate,
                fmt::format("no roll-out is under way; the last is {}", to_string(state_.phase)));
  if (Wave* wave = under_way(); wave != nullptr && is_under_way(*wave))
    turn_back(*wave, "aborted by an operator");
  state_.phase = RolloutPhase::aborted;
  state_.why = "aborted by an operator";
  measure_anew(now);
  return {};
}

Result<void> Rollout::roll_back(Time now) {
  if (state_.phase == RolloutPhase::none || state_.phase == RolloutPhase::rolled_back)
    return fail(Errc::duplicate, "there is no roll-out to roll back");
  for (Wave& wave : state_.waves)
    if (wave.state == WaveState::good || is_under_way(wave))
      turn_back(wave, "rolled back by an operator");
  // Also what earlier roll-outs had enabled, which no wave of this one names.
  state_.enabled.clear();
  state_.phase = RolloutPhase::rolled_back;
  state_.why = "rolled back by an operator";
  measure_anew(now);
  return {};
}

std::string Rollout::turn_back(Wave& wave, const std::string& verdict) {
  for (const std::string& rack : wave.racks)
    state_.enabled.erase(rack);
  wave.state = WaveState::rolled_back;
  wave.verdict = verdict;
  state_.baseline = {};
  return fmt::format("roll-out: {} is rolled back: {}", number(wave), verdict);
}

// Time
// ------------------------------------------------------------------------------------------------

std::optional<std::string> Rollout::step(const RolloutSight& sight, Time now) {
  Wave* wave = under_way();
  if (!watching() || wave == nullptr)
    return std::nullopt;
  if (wave->state == WaveState::pending)
    return begin(*wave, sight, now);
  return watch(*wave, sight, now);
}

std::optional<std::string> Rollout::begin(Wave& wave, const RolloutSight& sight, Time now) {
  if (state_.phase == RolloutPhase::paused)
    return std::nullopt;
  if (!sight.not_ready.empty()) {
    waits_for_ = sight.not_ready;
    return std::nullopt;
  }
  if (now - since_ < config_.baseline) {
    waits_for_ = fmt::format("measuring the time before the wave: {:.0f} of {:.0f} s",
                             seconds(now - since_), seconds(config_.baseline));
    return std::nullopt;
  }
  state_.baseline = sight.measures;
  for (auto& [name, job] : state_.baseline.jobs) {
    job.iteration = std::exchange(job.usual_iteration, std::nullopt);
    job.running.reset();
    job.sent = job.ceased = false;
  }
  state_.baseline.unheard.clear();
  state_.baseline.remains.clear();
  state_.enabled.insert(wave.racks.begin(), wave.racks.end());
  wave.state = WaveState::enabling;
  wave.verdict.clear();
  measure_anew(now);
  return fmt::format("roll-out: {} is enabled", number(wave));
}

std::optional<std::string> Rollout::watch(Wave& wave, const RolloutSight& sight, Time now) {
  note_since(not_held_since_, !sight.not_held.empty(), now);
  if (sight.followed > 0)
    note_since(astray_since_, !sight.astray.empty(), now);
  judge(sight, now);
  std::string failed;
  for (const Gate& gate : gates_) {
    int& row = bad_[gate.name];
    row = gate.verdict == Verdict::bad ? row + 1 : 0;
    if (row >= kLooks)
      failed += fmt::format("{}gate {}: {}", failed.empty() ? "" : "; ", gate.name, gate.seen);
  }
  if (!failed.empty()) {
    std::string said = turn_back(wave, failed);
    state_.phase = RolloutPhase::stopped;
    state_.why = failed;
    const std::vector<Gate> seen = gates_;
    measure_anew(now);
    gates_ = seen;
    return said;
  }
  if (wave.state == WaveState::enabling) {
    waits_for_ = sight.not_held;
    if (!sight.not_held.empty() || !sight.trouble.empty())
      return std::nullopt;
    wave.state = WaveState::soaking;
    measure_anew(now);
    return fmt::format("roll-out: {} holds its pins and soaks for {:.0f} s", number(wave),
                       seconds(wave.soak));
  }
  waits_for_.clear();
  if (state_.phase == RolloutPhase::paused) {
    state_since_ = now;
    waits_for_ = "paused";
    return std::nullopt;
  }
  if (now - state_since_ < wave.soak)
    return std::nullopt;
  // A job of which nothing was seen yet may have been stopped: that is never let pass.
  if (gates_.front().verdict != Verdict::good && now - since_ < patience()) {
    waits_for_ = gates_.front().seen;
    return std::nullopt;
  }
  std::string blind;
  bool doubtful = false;
  for (const Gate& gate : gates_) {
    doubtful = doubtful || gate.verdict == Verdict::bad;
    if (gate.verdict == Verdict::unobservable)
      blind += fmt::format("{}{}: {}", blind.empty() ? "" : "; ", gate.name, gate.seen);
  }
  if (doubtful)
    return std::nullopt;
  if (!blind.empty() && config_.unobservable_blocks) {
    waits_for_ = "gates that cannot see: " + blind;
    return std::nullopt;
  }
  wave.state = WaveState::good;
  wave.verdict =
      blind.empty() ? "every gate is good" : "good, though not everything was seen: " + blind;
  state_.baseline = {};
  std::string said =
      fmt::format("roll-out: {} is good after {:.0f} s", number(wave), seconds(wave.soak));
  if (current() == nullptr) {
    state_.phase = RolloutPhase::done;
    said += "; the roll-out is done";
  }
  measure_anew(now);
  return said;
}

void Rollout::judge(const RolloutSight& sight, Time now) {
  gates_.clear();
  // Traffic is judged once the pins are there; until then it may be moving.
  const Wave* wave = current();
  if (wave->state == WaveState::soaking) {
    gates_ = judge_traffic(config_.gates, state_.baseline, sight.measures);
    gates_.insert(gates_.begin(),
                  judge_presence(state_.baseline, sight.measures, now - since_, patience()));
  }
  const auto lasting = [&](const std::optional<Time>& since) {
    return since && now - *since >= config_.converge;
  };
  gates_.push_back({"agents", sight.trouble.empty() ? Verdict::good : Verdict::bad,
                    sight.trouble.empty() ? "all are heard and well" : sight.trouble});
  Gate drift{"drift", Verdict::good,
             sight.followed > 0 ? "every pin is held, and flows follow them"
                                : "every pin is held; no flow's way is seen just now"};
  if (!sight.not_held.empty() || !sight.astray.empty()) {
    drift.seen = sight.not_held.empty() ? sight.astray
                 : sight.astray.empty() ? sight.not_held
                                        : sight.not_held + "; " + sight.astray;
    drift.verdict = lasting(not_held_since_) || (!sight.astray.empty() && lasting(astray_since_))
                        ? Verdict::bad
                        : Verdict::good;
  }
  gates_.push_back(std::move(drift));
}

}  // namespace heddle
