#include "coordinator/decide/rollout_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <vector>

namespace heddle {

namespace {

constexpr std::string_view kFormat = "heddle-rollout 1";
constexpr std::string_view kUnknown = "-";

constexpr std::array kWaveStates{WaveState::pending, WaveState::enabling, WaveState::soaking,
                                 WaveState::good, WaveState::rolled_back};
constexpr std::array kPhases{
    RolloutPhase::none,    RolloutPhase::running,     RolloutPhase::paused, RolloutPhase::stopped,
    RolloutPhase::aborted, RolloutPhase::rolled_back, RolloutPhase::done};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string word(std::optional<double> value) {
  return value ? fmt::format("{}", *value) : std::string(kUnknown);
}
std::string word(std::optional<Duration> value) {
  return value ? fmt::format("{}", value->count()) : std::string(kUnknown);
}

// Reads the words of one line; remembers whether one was wrong.
class Words {
 public:
  explicit Words(const std::string& line) : in_(line) {}

  std::string text() {
    std::string word;
    failed_ = failed_ || !(in_ >> word);
    return word;
  }
  std::string rest() {
    std::string text;
    std::getline(in_ >> std::ws, text);
    return text;
  }
  template <class T>
  T number() {
    const std::string word = text();
    T value{};
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    failed_ = failed_ || error != std::errc() || rest != end;
    return value;
  }
  IpAddress address() {
    const auto read = IpAddress::parse(text());
    failed_ = failed_ || !read;
    return read ? *read : IpAddress{};
  }
  Duration duration() { return Duration(number<std::int64_t>()); }
  std::optional<double> maybe_real() {
    return unknown() ? std::nullopt : std::optional(number<double>());
  }
  std::optional<Duration> maybe_duration() {
    return unknown() ? std::nullopt : std::optional(duration());
  }
  template <class E, std::size_t N>
  E choice(const std::array<E, N>& all) {
    const std::string word = text();
    const auto found = std::ranges::find_if(all, [&](E one) { return to_string(one) == word; });
    failed_ = failed_ || found == all.end();
    return found == all.end() ? E{} : *found;
  }
  bool more() {
    in_ >> std::ws;
    return !failed_ && in_.good();
  }
  bool failed() const { return failed_; }

 private:
  bool unknown() {
    in_ >> std::ws;
    if (in_.peek() != kUnknown.front())
      return false;
    text();
    return true;
  }
  std::istringstream in_;
  bool failed_{};
};

void read_line(const std::string& kind, Words& words, RolloutState& state, bool& known) {
  known = true;
  if (kind == "phase") {
    state.phase = words.choice(kPhases);
  } else if (kind == "why") {
    state.why = words.rest();
  } else if (kind == "enabled") {
    state.enabled.insert(words.text());
  } else if (kind == "wave") {
    Wave wave;
    wave.state = words.choice(kWaveStates);
    wave.soak = words.duration();
    do
      wave.racks.push_back(words.text());
    while (words.more());
    state.waves.push_back(std::move(wave));
  } else if (kind == "verdict" && !state.waves.empty()) {
    state.waves.back().verdict = words.rest();
  } else if (kind == "job") {
    JobMeasure& job = state.baseline.jobs[words.text()];
    job.in_bursts = words.maybe_real();
    job.mean = words.maybe_real();
    job.iteration = words.maybe_duration();
    job.slack = words.duration();
  } else if (kind == "job-host") {
    state.baseline.jobs[words.text()].hosts.push_back(words.text());
  } else if (kind == "job-seen-by") {
    state.baseline.jobs[words.text()].seen_by.insert(words.text());
  } else if (kind == "job-flow") {
    SteadyFlow& flow = state.baseline.jobs[words.text()].steady.emplace_back();
    flow.key.source = words.address();
    flow.key.source_port = words.number<std::uint16_t>();
    flow.key.destination = words.address();
    flow.key.dest_qpn = words.number<std::uint32_t>();
    flow.period = words.duration();
    flow.seen_by = words.text();
  } else if (kind == "host") {
    ErrorRates& host = state.baseline.hosts[words.text()];
    host.retransmissions = words.maybe_real();
    host.out_of_sequence = words.maybe_real();
    if (words.more()) {  // older files do not tell how many counters were summed up
      host.retransmission_counters = words.number<std::uint32_t>();
      host.sequence_counters = words.number<std::uint32_t>();
    }
  } else {
    known = false;
  }
}

}  // namespace

std::string write_rollout(const RolloutState& state) {
  std::string text = fmt::format("{}\nphase {}\n", kFormat, to_string(state.phase));
  if (!state.why.empty())
    text += "why " + one_line(state.why) + "\n";
  for (const std::string& rack : state.enabled)
    text += "enabled " + rack + "\n";
  for (const Wave& wave : state.waves) {
    text += fmt::format("wave {} {}", to_string(wave.state), wave.soak.count());
    for (const std::string& rack : wave.racks)
      text += " " + rack;
    text += "\n";
    if (!wave.verdict.empty())
      text += "verdict " + one_line(wave.verdict) + "\n";
  }
  for (const auto& [name, job] : state.baseline.jobs) {
    text += fmt::format("job {} {} {} {} {}\n", name, word(job.in_bursts), word(job.mean),
                        word(job.iteration), job.slack.count());
    for (const std::string& host : job.hosts)
      text += fmt::format("job-host {} {}\n", name, host);
    for (const std::string& node : job.seen_by)
      text += fmt::format("job-seen-by {} {}\n", name, node);
    for (const SteadyFlow& flow : job.steady)
      text += fmt::format("job-flow {} {} {} {} {} {} {}\n", name, to_string(flow.key.source),
                          flow.key.source_port, to_string(flow.key.destination), flow.key.dest_qpn,
                          flow.period.count(), flow.seen_by);
  }
  for (const auto& [name, host] : state.baseline.hosts)
    text += fmt::format("host {} {} {} {} {}\n", name, word(host.retransmissions),
                        word(host.out_of_sequence), host.retransmission_counters,
                        host.sequence_counters);
  return text;
}

Result<RolloutState> read_rollout(std::string_view text) {
  RolloutState state;
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kFormat)
    return fail(Errc::parse, fmt::format("1: this is not '{}'", kFormat));
  for (int number = 2; std::getline(lines, line); ++number) {
    Words words(line);
    bool known = false;
    read_line(words.text(), words, state, known);
    if (!known || words.failed())
      return fail(Errc::parse, fmt::format("{}: '{}' is not understood", number, line));
  }
  return state;
}

}  // namespace heddle
