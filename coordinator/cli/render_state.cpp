// The tables of what is: status, agents, jobs, links.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

// An efficiency below this is worth a look, below the second an answer.
constexpr double kFair = 0.95;
constexpr double kPoor = 0.80;

// One line of status: a title, and what there is to say.
std::string line(std::string_view title, const std::string& content, bool colour) {
  return fmt::format("{}{}{}\n", painted(title, Tone::strong, colour),
                     std::string(12 - title.size(), ' '), content);
}

std::string agents_line(const Json& agents, bool colour) {
  const Json& total = member(agents, "total");
  const Json& connected = member(agents, "connected");
  const std::uint64_t disabled = count(member(agents, "disabled")).value_or(0);
  const std::string of = fmt::format("{} of {} connected", text(connected), text(total));
  return fmt::format(
      "{}, {} programming, {} converged{}",
      painted(of, connected == total ? Tone::good : Tone::bad, colour),
      text(member(agents, "programming")), text(member(agents, "converged")),
      disabled == 0 ? ""
                    : ", " + painted(fmt::format("{} disabled", disabled), Tone::warning, colour));
}

std::string links_line(const Json& links, bool colour) {
  const Json& down = member(links, "down");
  const bool none = count(down) == std::uint64_t{0};
  return fmt::format(
      "{}, {}", text(member(links, "total")),
      none ? std::string("none down") : painted(text(down) + " down", Tone::bad, colour));
}

std::string efficiency_line(const Json& reply, bool colour) {
  const Json& worst = member(reply, "efficiency", "worst");
  if (!known(worst))
    return "not known yet";
  const Cell cell = efficiency_cell(worst);
  std::string out = fmt::format("worst {}, mean {}", painted(cell.text, cell.tone, colour),
                                efficiency_cell(member(reply, "efficiency", "mean")).text);
  if (known(member(reply, "bound")))
    out += fmt::format(", bound {}", efficiency_cell(member(reply, "bound")).text);
  return out;
}

std::string history_line(const Json& history, bool colour) {
  const std::string state = text(member(history, "state"));
  const std::string reason =
      known(member(history, "reason")) ? text(member(history, "reason")) : "";
  return painted(state, state == "ok" ? Tone::good : Tone::warning, colour) +
         (reason.empty() ? "" : ": " + reason);
}

std::string last_plan_line(const Json& reply) {
  const Json& last = member(reply, "last_plan");
  if (!last.is_object())
    return "none yet";
  std::string out = text(member(last, "wall"));
  if (const auto moves = count(member(last, "moves")))
    out += ", " + counted(*moves, "move");
  if (known(member(last, "reason")))
    out += ": " + text(member(last, "reason"));
  return out;
}

Cell agent_state(const Json& agent) {
  if (!truth(member(agent, "connected")))
    return {"lost", Tone::bad};
  if (truth(member(agent, "disabled")))
    return {"disabled", Tone::warning};
  if (const Json& conflict = member(agent, "conflict");
      conflict.is_string() && !conflict.empty() && !conflict.get_ref<const std::string&>().empty())
    return {"conflict", Tone::bad};
  if (text(member(agent, "mode")) == "observe")
    return {"observing", Tone::plain};
  if (!truth(member(agent, "converged")))
    return {"behind", Tone::warning};
  return {"converged", Tone::good};
}

// The plan that was read back, and the one that should have been: "3.16, should be 3.17".
std::string plan_cell(const Json& agent) {
  const Json& installed = member(agent, "version");
  const Json& planned = member(agent, "planned_version");
  // Nothing was ever planned for this node, or it has installed nothing yet.
  std::string out = installed == "0.0" ? "none" : text(installed);
  if (known(planned) && planned != installed)
    out += ", should be " + text(planned);
  return out;
}

// Where no ASIC forwards, nothing has to be offloaded.
std::string offloaded_cell(const Json& agent) {
  const Json& offloaded = member(agent, "offloaded");
  return known(offloaded) || !known(member(agent, "effective")) ? text(offloaded) : "-";
}

// What is wrong with an agent, one line each, under the table: reasons are too long for a column.
std::string agent_troubles(const Json& agent) {
  std::string out;
  const std::string name = text(member(agent, "name"));
  if (const Json& conflict = member(agent, "conflict");
      conflict.is_string() && !text(conflict).empty())
    out += fmt::format("  {}: conflict: {}\n", name, text(conflict));
  for (const Json& pin : elements(agent, "failed"))
    out += fmt::format("  {}: not held: {}: {} ({})\n", name, text(member(pin, "unit")),
                       text(member(pin, "reason")), text(member(pin, "code")));
  for (const auto& [list, kind] :
       {std::pair("enforcers", "enforcer"), std::pair("sources", "flow source")})
    for (const Json& part : elements(agent, list))
      if (!truth(member(part, "usable")))
        out += fmt::format("  {}: {} {} cannot be used: {}\n", name, kind,
                           text(member(part, "name")), text(member(part, "reason")));
  return out;
}

// What a spine leads on at: hosts' lists of segments name it. Hosts' own are in the JSON.
std::string agent_segments(const Json& agent) {
  std::string out;
  if (text(member(agent, "role")) == "spine")
    for (const Json& segment : elements(agent, "segments"))
      out += fmt::format("  {}: segment {} {}\n", text(member(agent, "name")),
                         text(member(segment, "address")), text(member(segment, "behaviour")));
  return out;
}

// A job's labels, each with where it was read: "slurm:1234.0 (cgroup)".
std::string labels_cell(const Json& job) {
  std::string out;
  for (const Json& label : elements(job, "labels"))
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", text(member(label, "label")),
                       text(member(label, "origin")));
  return out;
}

// "declared", or recognised from who talks to whom; switched off or not.
Cell job_state(const Json& job) {
  const Json& declared = member(job, "declared");
  const std::string origin = !known(declared)  ? std::string(kUnknown)
                             : truth(declared) ? "declared"
                                               : "recognised";
  if (truth(member(job, "disabled")))
    return {origin + ", disabled", Tone::warning};
  return {origin, Tone::plain};
}

}  // namespace

Cell efficiency_cell(const Json& value) {
  const std::optional<double> efficiency = number(value);
  if (!efficiency)
    return {std::string(kUnknown), Tone::faint};
  return {human_efficiency(*efficiency), *efficiency >= kFair   ? Tone::good
                                         : *efficiency >= kPoor ? Tone::warning
                                                                : Tone::bad};
}

std::string table_or(const Table& table, std::string_view if_empty, bool colour) {
  if (table.empty())
    return std::string(if_empty) + "\n";
  std::string out = table.text(colour);
  if (table.has(kUnknown))
    out += "\n" + painted("?  cannot be observed, or is not known yet", Tone::faint, colour) + "\n";
  return out;
}

std::string render_status(const Json& reply, bool colour) {
  std::string out =
      fmt::format("heddle {}, epoch {}, generation {}, up {}\n\n", text(member(reply, "version")),
                  text(member(reply, "epoch")), text(member(reply, "generation")),
                  measured(member(reply, "uptime_s"), human_seconds));
  out += line("Agents", agents_line(member(reply, "agents"), colour), colour);
  out += line("Jobs", text(member(reply, "jobs")), colour);
  out += line("Flows",
              fmt::format("{} elephants, {} mice", text(member(reply, "flows", "elephants")),
                          text(member(reply, "flows", "mice"))),
              colour);
  out += line("Links", links_line(member(reply, "links"), colour), colour);
  out += line("Efficiency", efficiency_line(reply, colour), colour);
  out += line("History", history_line(member(reply, "history"), colour), colour);
  out += line("Last plan", last_plan_line(reply), colour);
  return out;
}

std::string render_agents(const Json& reply, bool colour) {
  Table table({{"NODE"},
               {"ROLE"},
               {"MODE"},
               {"STATE"},
               {"PLAN"},
               {"INSTALLED", Align::right},
               {"OFFLOADED", Align::right},
               {"EFFECTIVE", Align::right},
               {"FAILED", Align::right},
               {"LAST REPORT", Align::right},
               {"APPLY", Align::right},
               {"SOFTWARE"}});
  std::string troubles;
  std::string segments;
  for (const Json& agent : elements(reply, "agents")) {
    const std::size_t failed = elements(agent, "failed").size();
    table.add({{text(member(agent, "name"))},
               {text(member(agent, "role"))},
               {text(member(agent, "mode"))},
               agent_state(agent),
               {plan_cell(agent)},
               {text(member(agent, "installed"))},
               {offloaded_cell(agent)},
               {text(member(agent, "effective"))},
               {std::to_string(failed), failed == 0 ? Tone::plain : Tone::bad},
               {measured(member(agent, "last_report_age_ms"), human_milliseconds)},
               {measured(member(agent, "apply_ms"), human_milliseconds)},
               {text(member(agent, "software"))}});
    troubles += agent_troubles(agent);
    segments += agent_segments(agent);
  }
  std::string out = table_or(table, "No agent has said hello yet.", colour);
  if (!segments.empty())
    out += "\n" + painted("Segments", Tone::strong, colour) + "\n" + segments;
  if (!troubles.empty())
    out += "\n" + painted("Troubles", Tone::strong, colour) + "\n" + troubles;
  return out;
}

std::string render_jobs(const Json& reply, bool colour) {
  Table table({{"JOB"},
               {"STATE"},
               {"FLOWS", Align::right},
               {"EFFICIENCY", Align::right},
               {"COMMUNICATION", Align::right},
               {"WORKS FOR"},
               {"HOSTS"}});
  for (const Json& job : elements(reply, "jobs"))
    table.add({{text(member(job, "name"))},
               job_state(job),
               {text(member(job, "flows"))},
               efficiency_cell(member(job, "efficiency")),
               {measured(member(job, "communication_ms"), human_milliseconds)},
               {labels_cell(job)},
               {text(member(job, "hosts"))}});
  return table_or(table, "No job is declared, and none is seen.", colour);
}

std::string render_declarations(const Json& reply, bool colour) {
  Table table({{"JOB"}, {"HOSTS"}});
  for (const Json& job : elements(reply, "jobs"))
    table.add({{text(member(job, "name"))}, {text(member(job, "hosts"))}});
  return table_or(table, "No job is declared.", colour);
}

std::string render_links(const Json& reply, bool colour) {
  Table table({{"LINK"},
               {"STATE"},
               {"CAPACITY", Align::right},
               {"RATE", Align::right},
               {"LOAD", Align::right},
               {"ELEPHANTS", Align::right}});
  for (const Json& link : elements(reply, "links")) {
    const Json& up = member(link, "up");
    const auto capacity = number(member(link, "capacity_bps"));
    const auto rate = number(member(link, "rate_bps"));
    const bool comparable = capacity && rate && *capacity > 0;
    table.add({{text(member(link, "name"))},
               !known(up)  ? Cell{std::string(kUnknown), Tone::faint}
               : truth(up) ? Cell{"up", Tone::good}
                           : Cell{"down", Tone::bad},
               {measured(member(link, "capacity_bps"), human_rate)},
               {measured(member(link, "rate_bps"), human_rate)},
               {comparable ? human_share(*rate / *capacity) : std::string(kUnknown)},
               {text(member(link, "elephants"))}});
  }
  return table_or(table, "The fabric has no links.", colour);
}

}  // namespace heddle
