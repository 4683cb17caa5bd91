// The tables of how far heddle is switched on: the roll-out, drains, and the log of decisions.
#include <fmt/format.h>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

std::string joined(const std::vector<Json>& words) {
  std::string out;
  for (const Json& word : words)
    out += (out.empty() ? "" : ", ") + text(word);
  return out;
}

std::string span(const Json& value) {
  return value.is_number() ? human_seconds(value.get<double>()) : text(value);
}

Tone tone_of_wave(const std::string& state) {
  return state == "good"          ? Tone::good
         : state == "rolled-back" ? Tone::bad
         : state == "pending"     ? Tone::plain
                                  : Tone::warning;
}

Tone tone_of_verdict(const std::string& verdict) {
  return verdict == "good" ? Tone::good : verdict == "bad" ? Tone::bad : Tone::warning;
}

}  // namespace

std::string render_rollout(const Json& reply, bool colour) {
  if (text(member(reply, "mode")) == "off")
    return "The configuration asks for no roll-out: every agent in mode program is steered.\n";
  const std::string phase = text(member(reply, "phase"));
  std::string out = phase == "none" ? std::string("No roll-out was started: no rack is steered.\n")
                                    : "Roll-out: " + painted(phase, Tone::strong, colour) + "\n";
  if (known(member(reply, "why")))
    out += "because: " + text(member(reply, "why")) + "\n";
  if (known(member(reply, "waits_for")))
    out += "waits for: " + text(member(reply, "waits_for")) + "\n";

  const std::vector<Json> waves = elements(reply, "waves");
  if (!waves.empty()) {
    Table table({{"WAVE", Align::right},
                 {"RACKS"},
                 {"STATE"},
                 {"SOAKED", Align::right},
                 {"OF", Align::right},
                 {"VERDICT"}});
    std::size_t number = 0;
    for (const Json& wave : waves) {
      const std::string state = text(member(wave, "state"));
      table.add({{fmt::format("{}", ++number)},
                 {joined(elements(wave, "racks"))},
                 {state, tone_of_wave(state)},
                 {span(member(wave, "soaked_s"))},
                 {span(member(wave, "soak_s"))},
                 {known(member(wave, "verdict")) ? text(member(wave, "verdict")) : ""}});
    }
    out += "\n" + table.text(colour);
  }
  const std::vector<Json> gates = elements(reply, "gates");
  if (!gates.empty()) {
    Table table({{"GATE"}, {"VERDICT"}, {"SEEN"}});
    for (const Json& gate : gates) {
      const std::string verdict = text(member(gate, "verdict"));
      table.add({{text(member(gate, "name"))},
                 {verdict, tone_of_verdict(verdict)},
                 {text(member(gate, "seen"))}});
    }
    out += "\n" + table.text(colour);
  }
  Table table({{"RACK"}, {"STEERED"}, {"PINS", Align::right}, {"READ BACK"}});
  for (const Json& rack : elements(reply, "racks")) {
    const bool confirmed = truth(member(rack, "confirmed"));
    table.add({{text(member(rack, "name"))},
               {truth(member(rack, "enabled")) ? "yes" : "no"},
               {text(member(rack, "pins"))},
               {confirmed ? "yes" : "not yet", confirmed ? Tone::good : Tone::warning}});
  }
  return out + "\n" + table_or(table, "The fabric has no rack.", colour);
}

std::string render_drains(const Json& reply, bool colour) {
  const std::vector<Json> drains = elements(reply, "drains");
  if (drains.empty())
    return "Nothing is being drained.\n";
  std::string out;
  Table table({{"DRAINED"}, {"STATE"}, {"PINS", Align::right}, {"BUSIEST LINK"}, {"SINCE"}});
  for (const Json& drain : drains) {
    const std::string state = text(member(drain, "state"));
    std::string busiest = "?";
    double most = -1;
    for (const Json& link : elements(drain, "links"))
      if (const Json& rate = member(link, "rate_bps");
          rate.is_number() && rate.get<double>() > most) {
        most = rate.get<double>();
        busiest = fmt::format("{} {}", text(member(link, "name")), human_rate(most));
      }
    const std::string what =
        fmt::format("{} {}", text(member(drain, "kind")), text(member(drain, "name")));
    table.add({{what},
               {state, state == "empty" ? Tone::good : Tone::warning},
               {text(member(drain, "pins"))},
               {busiest},
               {text(member(drain, "since"))}});
    for (const Json& remains : elements(drain, "remain"))
      out += fmt::format("{}: {}\n", what, text(remains));
  }
  out = table.text(colour) + (out.empty() ? "" : "\n" + out);
  if (const Json& below = member(reply, "empty_below_bps"); below.is_number())
    out += fmt::format("\nempty: no pin leads there, and no link carries more than {}\n",
                       human_rate(below.get<double>()));
  return out;
}

std::string render_decisions(const Json& reply, bool colour) {
  std::string out;
  if (known(member(reply, "incomplete")))
    out += "Older decisions are missing: " + text(member(reply, "incomplete")) + "\n";
  for (const Json& one : elements(reply, "decisions")) {
    const std::string outcome = text(member(one, "outcome"));
    out += fmt::format("{}  {:7}  {}  {}", text(member(one, "wall")),
                       known(member(one, "version")) ? text(member(one, "version")) : "-",
                       painted(fmt::format("{:5}", outcome),
                               outcome == "moved" ? Tone::strong : Tone::plain, colour),
                       text(member(one, "reason")));
    if (const Json& moves = member(one, "moves"); moves.is_number() && moves.get<double>() > 0)
      out += fmt::format(" ({} moved)", text(moves));
    if (const Json& times = member(one, "times"); times.is_number() && times.get<double>() > 1)
      out += fmt::format(" [{} times until {}]", text(times), text(member(one, "until")));
    out += "\n";
  }
  return out.empty() ? "No decision was taken yet.\n" : out;
}

}  // namespace heddle
