#include "coordinator/serve/answers_decide.h"

#include "coordinator/serve/json.h"

namespace heddle {

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string decisions_json(std::span<const DecisionRecord> decisions,
                           const std::string& incomplete) {
  Json list = Json::array();
  for (const DecisionRecord& one : decisions)
    list.push_back(
        {{"wall", iso(one.wall)},
         {"until", iso(one.until)},
         {"times", one.times},
         {"outcome", one.outcome},
         {"reason", one.reason},
         {"version", one.version == PlanVersion{} ? Json() : Json(to_string(one.version))},
         {"efficiency",
          {{"worst", one.judged ? Json(one.worst) : Json()},
           {"mean", one.judged ? Json(one.mean) : Json()}}},
         {"moves", one.moves}});
  // A number that JavaScript cannot round.
  const std::string next =
      decisions.empty() ? "0" : fmt::format("{}", decisions.back().wall.time_since_epoch().count());
  return dump({{"decisions", std::move(list)},
               {"next", next},
               {"incomplete", incomplete.empty() ? Json() : Json(incomplete)}});
}

std::string rollout_json(const Rollout& rollout, std::span<const RackShown> racks, Time now) {
  const RolloutState& state = rollout.state();
  const Wave* current = rollout.current();
  Json waves = Json::array();
  for (const Wave& wave : state.waves)
    waves.push_back({{"racks", wave.racks},
                     {"state", to_string(wave.state)},
                     {"soak_s", seconds(wave.soak)},
                     {"soaked_s", wave.state == WaveState::good ? seconds(wave.soak)
                                  : &wave == current            ? seconds(rollout.soaked(now))
                                                                : 0.0},
                     {"verdict", wave.verdict.empty() ? Json() : Json(wave.verdict)}});
  Json gates = Json::array();
  for (const Gate& gate : rollout.gates())
    gates.push_back(
        {{"name", gate.name}, {"verdict", to_string(gate.verdict)}, {"seen", gate.seen}});
  Json shown = Json::array();
  for (const RackShown& rack : racks)
    shown.push_back({{"name", rack.name},
                     {"enabled", rack.enabled},
                     {"pins", rack.pins},
                     {"confirmed", rack.confirmed}});
  return dump({{"mode", rollout.config().required ? "required" : "off"},
               {"phase", to_string(state.phase)},
               {"why", state.why.empty() ? Json() : Json(state.why)},
               {"waits_for", rollout.waits_for().empty() ? Json() : Json(rollout.waits_for())},
               {"waves", std::move(waves)},
               {"gates", std::move(gates)},
               {"racks", std::move(shown)}});
}

std::string drains_json(std::span<const DrainShown> drains, Rate empty_below) {
  Json list = Json::array();
  for (const DrainShown& drain : drains) {
    Json links = Json::array();
    for (const DrainedLink& link : drain.links)
      links.push_back({{"name", link.name},
                       {"up", link.up},
                       {"rate_bps", link.rate ? Json(link.rate->bits_per_second) : Json()}});
    list.push_back({{"kind", drain.order.target.kind},
                    {"name", drain.order.target.name},
                    {"since", iso(drain.order.since)},
                    {"state", drain.state},
                    {"pins", drain.pins},
                    {"remain", drain.remain},
                    {"links", std::move(links)}});
  }
  return dump({{"drains", std::move(list)}, {"empty_below_bps", empty_below.bits_per_second}});
}

}  // namespace heddle
