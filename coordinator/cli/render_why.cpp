// The tables of what would be, and of why: previews, and what holds a job up.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

std::string heading(std::string_view title, bool colour) {
  return "\n" + painted(title, Tone::strong, colour) + "\n";
}

std::string summary(const Json& value) {
  std::string out = fmt::format("worst {}, mean {}", efficiency_cell(member(value, "worst")).text,
                                efficiency_cell(member(value, "mean")).text);
  if (known(member(value, "bound")))
    out += ", bound " + efficiency_cell(member(value, "bound")).text;
  return out;
}

// "spine3 and leaf1-spine2 down; job next".
std::string assumptions(const Json& assumed) {
  std::string out;
  for (const auto& [key, before, after] :
       {std::tuple("down", "", " down"), std::tuple("up", "", " up"),
        std::tuple("jobs", "with job ", "")}) {
    const std::string names = text(member(assumed, key));
    if (!names.empty() && names != kUnknown)
      out += fmt::format("{}{}{}{}", out.empty() ? "" : "; ", before, names, after);
  }
  return out.empty() ? "as everything is now" : out;
}

Cell change_cell(const Json& change) {
  const std::string word = text(change);
  return {word, word == "gains"   ? Tone::good
                : word == "loses" ? Tone::bad
                : word == "same"  ? Tone::faint
                                  : Tone::plain};
}

// "cnp_handled 100/s, out_of_sequence 3/s"; nothing that is zero, if something is not.
std::string counts(const Json& per_second) {
  std::string out;
  if (per_second.is_object())
    for (const auto& [name, value] : per_second.items())
      if (const auto rate = number(value); rate && *rate > 0)
        out += fmt::format("{}{} {:.0f}/s", out.empty() ? "" : ", ", harmless(name), *rate);
  if (out.empty())
    return per_second.is_object() && !per_second.empty() ? "nothing" : std::string(kUnknown);
  return out;
}

}  // namespace

std::string render_congestion(const Json& reply, bool colour) {
  const std::vector<Json> ports = elements(reply, "congestion");
  if (ports.empty())
    return {};
  Table table({{"PORT"}, {"END"}, {"COUNTED"}});
  for (const Json& port : ports)
    table.add({{text(member(port, "node")) + "/" + text(member(port, "port"))},
               {text(member(port, "end"))},
               {counts(member(port, "per_second"))}});
  return heading("Congestion counters", colour) + table.text(colour);
}

std::string render_preview(const Json& reply, bool colour) {
  std::string out = fmt::format("Preview by {}: {}\n", text(member(reply, "scheme")),
                                assumptions(member(reply, "assumed")));
  out += fmt::format("now   {}\nthen  {}\n", summary(member(reply, "now")),
                     painted(summary(member(reply, "then")), Tone::strong, colour));
  out += "because: " + text(member(reply, "reason")) + "\n";

  out += heading("Jobs", colour);
  Table jobs({{"JOB"}, {"NOW", Align::right}, {"THEN", Align::right}, {"CHANGE"}});
  for (const Json& job : elements(reply, "jobs"))
    jobs.add({{text(member(job, "name"))},
              efficiency_cell(member(job, "now")),
              efficiency_cell(member(job, "then")),
              change_cell(member(job, "change"))});
  out += table_or(jobs, "No job is seen.", colour);

  const std::string moves = render_moves(reply, colour);
  if (moves.empty())
    return out + "\nNothing would move. Nothing was changed.\n";
  return out + moves + "\nNothing was changed.\n";
}

std::string render_job_explanation(const Json& reply, bool colour) {
  const Cell efficiency = efficiency_cell(member(reply, "efficiency"));
  std::string out = fmt::format("job {}: efficiency {}", text(member(reply, "job")),
                                painted(efficiency.text, efficiency.tone, colour));
  if (known(member(reply, "alone")))
    out += fmt::format(", alone in the fabric {}", efficiency_cell(member(reply, "alone")).text);
  if (known(member(reply, "bound")))
    out += fmt::format(", bound of the worst job {}", efficiency_cell(member(reply, "bound")).text);
  out += "\n" + painted(text(member(reply, "verdict")), Tone::strong, colour) + "\n";

  const Json& slowest = member(reply, "slowest");
  if (!slowest.is_object())
    return out;
  out += heading("Slowest flow", colour);
  out += fmt::format("{} on {}, {}\ngets {} of the {} that it needs by the model; {} observed\n",
                     text(member(slowest, "flow")), text(member(slowest, "path")),
                     truth(member(slowest, "pinned")) ? "pinned" : "left to ECMP",
                     measured(member(slowest, "rate_bps"), human_rate),
                     measured(member(slowest, "needed_bps"), human_rate),
                     measured(member(slowest, "observed_bps"), human_rate));

  if (const Json& link = member(reply, "bottleneck"); link.is_object()) {
    out += heading("Bottleneck", colour);
    out += fmt::format("{}: {} queue pairs share {}; {} observed\n", text(member(link, "link")),
                       text(member(link, "subflows")),
                       measured(member(link, "capacity_bps"), human_rate),
                       measured(member(link, "observed_bps"), human_rate));
    if (const Json& port = member(link, "counted"); port.is_object())
      out += fmt::format(
          "congestion counted at {}/{}: {}\n", text(member(port, "node")),
          text(member(port, "port")),
          known(member(port, "per_second")) ? counts(member(port, "per_second")) : "unobservable");
    Table table({{"SHARED WITH JOB"}, {"QUEUE PAIRS", Align::right}});
    for (const Json& other : elements(link, "sharing"))
      table.add({{text(member(other, "job"))}, {text(member(other, "subflows"))}});
    out += table_or(table, "Nobody shares it.", colour);
  }
  return out + render_congestion(reply, colour);
}

}  // namespace heddle
