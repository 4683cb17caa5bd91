// The table of flows, and of what the ports of hosts send besides.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

// "10.1.1.2:51986".
std::string endpoint(const Json& address, const Json& port) {
  return known(port) ? text(address) + ":" + text(port) : text(address);
}

// After a reset or a gap the count is only what was seen since: ">= 1.2 GB". From samples:
// "1.2 GB +- 37 MB".
std::string bytes_cell(const Json& flow) {
  std::string bytes = measured(member(flow, "bytes"), human_bytes);
  if (const auto error = number(member(flow, "bytes_error")))
    bytes += " +- " + human_bytes(*error);
  return truth(member(flow, "bytes_at_least")) ? ">= " + bytes : bytes;
}

// "slurm:1234.0 (cgroup on h1-2)"; empty where no machine says so.
std::string label_cell(const Json& flow) {
  const Json& label = member(flow, "label");
  if (!label.is_string())
    return {};
  return fmt::format("{} ({})", text(label), text(member(flow, "label_origin")));
}

// Where a flow runs, and whether that is where it should.
Cell path_cell(const Json& flow) {
  const Json& observed = member(flow, "observed_path");
  const Json& planned = member(flow, "planned_path");
  if (truth(member(flow, "pinned")) && known(observed) && known(planned) && observed != planned)
    return {text(observed), Tone::bad};
  return {text(observed), Tone::plain};
}

// "178 > 200" where its machine knows the sender's own queue pair, else "200".
std::string queue_pair_cell(const Json& flow) {
  const Json& own = member(flow, "local_qpn");
  const std::string to = text(member(flow, "dest_qpn"));
  return known(own) ? fmt::format("{} > {}", text(own), to) : to;
}

// "197 on h1-2".
std::string process_cell(const Json& flow) {
  const Json& pid = member(flow, "pid");
  return known(pid) ? fmt::format("{} on {}", text(pid), text(member(flow, "sender"))) : "";
}

// The peer, and how it is known where no packet has shown it: "10.2.1.2 (inferred)".
std::string destination_cell(const Json& flow) {
  const Json& peer = member(flow, "peer");
  const Json& address = member(flow, "destination");
  // By its whole name: "?" alone would look as if a row had lost a column.
  const std::string destination = address == "unobservable" ? "unobservable" : text(address);
  return !peer.is_string() || peer == "wire" ? destination
                                             : fmt::format("{} ({})", destination, text(peer));
}

// What nobody counts may be an elephant.
Cell kind_cell(const Json& flow) {
  if (truth(member(flow, "elephant")))
    return {"elephant", Tone::plain};
  if (member(flow, "bytes") == "unobservable")
    return {std::string(kUnknown), Tone::plain};
  return {"mouse", Tone::faint};
}

// The flow sources, or on a coordinator that does not tell them the nodes.
std::string seen_by_cell(const Json& flow) {
  const Json& sources = member(flow, "sources");
  return text(sources.is_array() ? sources : member(flow, "seen_by"));
}

// What the flows above do not explain of what each port sent.
std::string ports_table(const Json& reply, bool colour) {
  Table table({{"NODE"},
               {"PORT"},
               {"DEVICE"},
               {"SENDS", Align::right},
               {"IN FLOWS", Align::right},
               {"UNEXPLAINED", Align::right}});
  for (const Json& port : elements(reply, "ports")) {
    const Json& device = member(port, "device");
    table.add({{text(member(port, "node"))},
               {text(member(port, "port"))},
               {!known(device)                  ? ""
                : truth(member(port, "hidden")) ? text(device) + " (hidden)"
                                                : text(device)},
               {measured(member(port, "rate_bps"), human_rate)},
               {measured(member(port, "explained_bps"), human_rate)},
               {measured(member(port, "unexplained_bps"), human_rate)}});
  }
  return table.empty() ? "" : "\n" + table.text(colour);
}

}  // namespace

std::string render_flows(const Json& reply, bool colour) {
  const auto& flows = elements(reply, "flows");
  const bool processes =
      std::ranges::any_of(flows, [](const Json& flow) { return known(member(flow, "pid")); });
  std::vector<Column> columns{{"SOURCE"}, {"DESTINATION"}, {"QP", Align::right}};
  if (processes)
    columns.push_back({"PROCESS"});
  for (Column column : {Column{"JOB"},
                        {"WORKS FOR"},
                        {"KIND"},
                        {"RATE", Align::right},
                        {"BYTES", Align::right},
                        {"MESSAGE", Align::right},
                        {"RUNS ON"},
                        {"PLANNED"},
                        {"PINNED"},
                        {"SEEN BY"}})
    columns.push_back(std::move(column));
  Table table(std::move(columns));
  for (const Json& flow : flows) {
    std::vector<Cell> row{{endpoint(member(flow, "source"), member(flow, "source_port"))},
                          {destination_cell(flow)},
                          {queue_pair_cell(flow)}};
    if (processes)
      row.push_back({process_cell(flow)});
    for (Cell cell : {Cell{text(member(flow, "job"))},
                      {label_cell(flow)},
                      kind_cell(flow),
                      {measured(member(flow, "rate_bps"), human_rate)},
                      {bytes_cell(flow)},
                      {measured(member(flow, "message_length"), human_bytes)},
                      path_cell(flow),
                      {text(member(flow, "planned_path"))},
                      {text(member(flow, "pinned"))},
                      {seen_by_cell(flow)}})
      row.push_back(std::move(cell));
    table.add(std::move(row));
  }
  std::string out = table_or(table, "No RoCE flow is seen.", colour) + ports_table(reply, colour);
  if (const std::uint64_t more = count(member(reply, "untracked")).value_or(0); more > 0)
    out += "\n" + counted(more, "more flow") + " did not fit into the coordinator's table.\n";
  return out;
}

}  // namespace heddle
