// The tables of what was decided: plans, their differences, the reasons, and the off switch.
#include <fmt/format.h>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

Table pin_table(const std::vector<Json>& pins) {
  Table table({{"NODE"}, {"PIN"}, {"TARGET"}, {"REASON"}});
  for (const Json& pin : pins)
    table.add({{text(member(pin, "node"))},
               {text(member(pin, "unit"))},
               {text(member(pin, "target"))},
               {known(member(pin, "reason")) ? text(member(pin, "reason")) : ""}});
  return table;
}

std::string heading(std::string_view title, bool colour) {
  return "\n" + painted(title, Tone::strong, colour) + "\n";
}

}  // namespace

std::string render_plan(const Json& reply, bool colour) {
  std::string out = fmt::format("Plan {}", text(member(reply, "version")));
  if (known(member(reply, "wall")))
    out += " of " + text(member(reply, "wall"));
  if (known(member(reply, "reason")))
    out += ": " + text(member(reply, "reason"));
  const Cell worst = efficiency_cell(member(reply, "efficiency", "worst"));
  out += fmt::format("\nPromised efficiency: worst {}, mean {}",
                     painted(worst.text, worst.tone, colour),
                     efficiency_cell(member(reply, "efficiency", "mean")).text);
  const Json& by_job = member(reply, "efficiency", "by_job");
  if (by_job.is_object())
    for (const auto& [job, efficiency] : by_job.items())
      out += fmt::format("; {} {}", harmless(job), efficiency_cell(efficiency).text);
  out += "\n";

  const std::vector<Json> pins = elements(reply, "pins");
  out += heading(counted(pins.size(), "pin"), colour);
  out += table_or(pin_table(pins), "Everything is left to ECMP.", colour);

  return out + render_moves(reply, colour);
}

std::string render_moves(const Json& reply, bool colour) {
  const std::vector<Json> moves = elements(reply, "moves");
  if (moves.empty())
    return {};
  Table table({{"FLOW"}, {"FROM"}, {"TO"}, {"REASON"}});
  for (const Json& move : moves)
    table.add({{text(member(move, "flow"))},
               {text(member(move, "from"))},
               {text(member(move, "to"))},
               {text(member(move, "reason"))}});
  return heading(counted(moves.size(), "move"), colour) + table.text(colour);
}

std::string render_plan_diff(const Json& reply, bool colour) {
  std::string out = fmt::format("From plan {} to plan {}\n", text(member(reply, "from")),
                                text(member(reply, "to")));
  const std::vector<Json> set = elements(reply, "set");
  const std::vector<Json> removed = elements(reply, "removed");
  if (set.empty() && removed.empty())
    return out + "Both pin the same.\n";
  Table table({{""}, {"NODE"}, {"PIN"}, {"TARGET"}, {"REASON"}});
  for (const Json& pin : removed)
    table.add({{"-", Tone::bad},
               {text(member(pin, "node"))},
               {text(member(pin, "unit"))},
               {"ECMP"},
               {""}});
  for (const Json& pin : set)
    table.add({{"+", Tone::good},
               {text(member(pin, "node"))},
               {text(member(pin, "unit"))},
               {text(member(pin, "target"))},
               {known(member(pin, "reason")) ? text(member(pin, "reason")) : ""}});
  return out + table.text(colour);
}

namespace {

// One pin is told of in words; where several nodes hold the flow's way together, each is listed.
std::string render_pins(const std::vector<Json>& pins, bool colour) {
  std::string troubles;
  for (const Json& pin : pins) {
    if (known(member(pin, "trouble")))
      troubles += painted(fmt::format("but {} says: {}", text(member(pin, "node")),
                                      text(member(pin, "trouble"))),
                          Tone::bad, colour) +
                  "\n";
  }
  if (pins.size() < 2)
    return troubles;
  Table table({{"NODE"}, {"PIN"}, {"TARGET"}, {"APPLIES"}, {"REASON"}});
  for (const Json& pin : pins)
    table.add({{text(member(pin, "node"))},
               {text(member(pin, "unit"))},
               {text(member(pin, "target"))},
               {text(member(pin, "applies"))},
               {text(member(pin, "reason"))}});
  return troubles + heading("Pins", colour) + table.text(colour);
}

}  // namespace

std::string render_explanation(const Json& reply, bool colour) {
  std::string out = text(member(reply, "flow"));
  if (known(member(reply, "job")))
    out += " of job " + text(member(reply, "job"));
  out += "\nruns on " + painted(text(member(reply, "path")), Tone::strong, colour);
  if (known(member(reply, "since")))
    out += " since " + text(member(reply, "since"));
  out += "\nbecause: " + text(member(reply, "reason")) + "\n";
  if (const Json& link = member(reply, "bottleneck"); link.is_object())
    out += fmt::format("shares {} with {}\n", text(member(link, "link")),
                       count(member(link, "elephants"))
                           ? counted(*count(member(link, "elephants")), "other elephant")
                           : std::string(kUnknown));
  if (known(member(reply, "applies")))
    out += fmt::format("the pin applies {}\n", text(member(reply, "applies")));
  out += render_pins(elements(reply, "pins"), colour);
  const std::vector<Json> alternatives = elements(reply, "alternatives");
  if (alternatives.empty())
    return out + "No other path is worth comparing.\n" + render_congestion(reply, colour);
  out += heading("Alternatives", colour);
  Table table({{"PATH"}, {"BOTTLENECK"}, {"ELEPHANTS THERE", Align::right}});
  for (const Json& path : alternatives)
    table.add({{text(member(path, "path"))},
               {text(member(path, "bottleneck"))},
               {text(member(path, "elephants"))}});
  return out + table.text(colour) + render_congestion(reply, colour);
}

std::string render_switched(const Json& reply, bool colour) {
  Table table({{"NODE"}, {"STATE"}, {"CONFIRMED"}});
  bool waiting = false;
  for (const Json& node : elements(reply, "nodes")) {
    const bool disabled = truth(member(node, "disabled"));
    const bool confirmed = truth(member(node, "confirmed"));
    waiting = waiting || !confirmed;
    table.add({{text(member(node, "name"))},
               {disabled ? "disabled" : "enabled", disabled ? Tone::warning : Tone::good},
               {confirmed ? "yes" : "not yet", confirmed ? Tone::good : Tone::bad}});
  }
  std::string out = table_or(table, "No node is concerned.", colour);
  if (waiting)
    out +=
        "\nNot every node has read back its tables yet; 'heddle agents --watch' shows when they "
        "have. A node that\n"
        "the coordinator cannot reach is switched on the machine itself: 'heddle-agent disable' or "
        "'enable'.\n";
  return out;
}

}  // namespace heddle
