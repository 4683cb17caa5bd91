#include "coordinator/simulate/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/simulate/verdict.h"

namespace heddle::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Json quantiles(const Distribution& distribution,
               std::initializer_list<std::pair<const char*, double>> wanted, bool shown = true) {
  Json json = Json::object();
  for (const auto& [name, p] : wanted)
    json[name] = shown && !distribution.empty() ? Json(distribution.quantile(p)) : Json(nullptr);
  return json;
}

Json epoch_json(const Epoch& epoch) {
  return {{"at_ms", static_cast<double>(epoch.at.count()) / 1e6},
          {"jobs", epoch.jobs},
          {"efficiency", epoch.efficiency.ascending},
          {"max_on_link", epoch.efficiency.max_on_link},
          {"bound_max_on_link", epoch.bound.max_on_link},
          {"bound_efficiency", epoch.bound.efficiency},
          {"percent_of_bound", percent_of_bound(epoch)},
          {"moves", epoch.moves}};
}

// The notes of the row and of its epochs, each once.
std::vector<std::string> notes_of(const Row& row) {
  std::vector<std::string> notes = row.all.notes;
  for (const Epoch& epoch : row.epochs)
    for (const std::string& note : epoch.notes)
      if (std::ranges::find(notes, note) == notes.end())
        notes.push_back(note);
  return notes;
}

Json row_json(const Row& row, const OutputOptions& options) {
  const Efficiency& efficiency = row.all.efficiency;
  double least = 100.0;
  std::uint64_t at_bound = 0;
  for (const Epoch& epoch : row.epochs) {
    const double percent = percent_of_bound(epoch);
    least = std::min(least, percent);
    at_bound += percent > 100.0 - 1e-6 ? 1 : 0;
  }
  Json json{{"scheme", row.scheme},
            {"workload", row.at.workload},
            {"concurrent", row.at.concurrent},
            {"spines_down", row.at.spines_down},
            {"links_down", row.at.links_down},
            {"oversubscription", row.at.oversubscription},
            {"qps", row.at.qps},
            {"seed", row.at.seed},
            {"flows", row.flows},
            {"efficiency", efficiency.ascending},
            {"efficiency_by_job", efficiency.by_job},
            {"worst", efficiency.worst},
            {"mean", efficiency.mean},
            {"max_on_link", efficiency.max_on_link},
            {"bound_max_on_link", row.all.bound.max_on_link},
            {"bound_efficiency", row.all.bound.efficiency},
            {"bound_combinatorial", row.all.bound.combinatorial},
            {"bound_lp", row.all.bound.linear},
            {"percent_of_bound", row.percent_of_bound()},
            {"allreduce_ms", row.allreduce_ms},
            {"fct_ms", quantiles(row.completion_ms, {{"p50", 0.5}, {"p99", 0.99}, {"max", 1.0}})},
            {"throughput_gbps",
             quantiles(row.throughput_gbps, {{"min", 0.0}, {"p50", 0.5}, {"max", 1.0}})},
            {"solver_ms", quantiles(row.solver_ms, {{"p50", 0.5}, {"max", 1.0}}, options.times)},
            {"solver_warm_ms",
             quantiles(row.warm_solver_ms, {{"p50", 0.5}, {"max", 1.0}}, options.times)},
            {"moves", row.moves},
            {"proven", row.all.proven},
            {"epochs", row.epochs.size()},
            {"epochs_at_bound", at_bound},
            {"epochs_least_percent_of_bound", least},
            {"stalled_transfers", row.stalled},
            {"instants", row.events},
            {"notes", notes_of(row)}};
  if (options.epochs) {
    json["epoch_list"] = Json::array();
    for (const Epoch& epoch : row.epochs)
      json["epoch_list"].push_back(epoch_json(epoch));
  }
  return json;
}

std::string csv_field(const Json& value) {
  if (value.is_null() || (value.is_number_float() && !std::isfinite(value.get<double>())))
    return "";
  if (!value.is_string() && !value.is_array())
    return value.dump();
  std::string text;
  if (value.is_string())
    text = value.get<std::string>();
  else
    for (const Json& item : value)
      text +=
          (text.empty() ? "" : ";") + (item.is_string() ? item.get<std::string>() : item.dump());
  if (text.find_first_of(",\"\n") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Nested objects become columns of their own: fct_ms.p50.
void flatten(const Json& json, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& fields) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      flatten(value, prefix + key + ".", fields);
    else
      fields.emplace_back(prefix + key, csv_field(value));
  }
}

// Of the finite ones; nan if there are none.
double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  std::size_t finite = 0;
  for (const double value : values) {
    if (!std::isfinite(value))
      continue;
    sum += value;
    ++finite;
  }
  return finite == 0 ? kNone : sum / static_cast<double>(finite);
}

std::string tenths(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f}", value) : "-";
}

void add(Summary& summary, const Row& row, double share) {
  summary.worst = std::min(summary.worst, row.all.efficiency.worst);
  summary.mean += share * row.all.efficiency.mean;
  summary.max_on_link = std::max(summary.max_on_link, row.all.efficiency.max_on_link);
  summary.bound_max_on_link = std::max(summary.bound_max_on_link, row.all.bound.max_on_link);
  summary.percent_of_bound = std::fmin(summary.percent_of_bound, row.percent_of_bound());
  summary.completion_p99_ms = std::max(summary.completion_p99_ms, row.completion_ms.quantile(0.99));
  summary.solver_p50_ms += share * row.solver_ms.quantile(0.5);
  summary.solver_max_ms = std::max(summary.solver_max_ms, row.solver_ms.max());
  summary.warm_p50_ms += share * row.warm_solver_ms.quantile(0.5);
  summary.over_time = summary.over_time || !row.epochs.empty();
  summary.moves += row.moves;
  summary.proven = summary.proven && row.all.proven;
}

}  // namespace

std::string to_json(const std::vector<Row>& rows, const OutputOptions& options) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + row_json(rows[i], options).dump();
  return text + "\n]\n";
}

std::string to_csv(const std::vector<Row>& rows, const OutputOptions& options) {
  OutputOptions flat = options;
  flat.epochs = false;
  std::string text;
  for (const Row& row : rows) {
    std::vector<std::pair<std::string, std::string>> fields;
    flatten(row_json(row, flat), "", fields);
    if (text.empty()) {
      for (const auto& [name, value] : fields)
        text += (text.empty() ? "" : ",") + name;
      text += '\n';
    }
    for (std::size_t i = 0; i < fields.size(); ++i)
      text += (i == 0 ? "" : ",") + fields[i].second;
    text += '\n';
  }
  return text;
}

std::vector<Summary> summarise(const std::vector<Row>& rows) {
  std::vector<Summary> summaries;
  std::vector<std::vector<const Row*>> groups;
  for (const Row& row : rows) {
    Coordinates place = row.at;
    place.seed = 0;
    if (place.all_jobs)
      place.concurrent = 0;  // seeds have different numbers of them
    const auto same = [&](const Summary& s) { return s.scheme == row.scheme && s.at == place; };
    const auto it = std::ranges::find_if(summaries, same);
    if (it == summaries.end()) {
      summaries.push_back({.scheme = row.scheme, .at = place, .percent_of_bound = kNone});
      groups.emplace_back();
      groups.back().push_back(&row);
    } else {
      groups[static_cast<std::size_t>(it - summaries.begin())].push_back(&row);
    }
  }
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    std::vector<double> allreduce;
    for (const Row* row : groups[i]) {
      add(summaries[i], *row, 1.0 / static_cast<double>(groups[i].size()));
      allreduce.push_back(mean_of(row->allreduce_ms));
    }
    summaries[i].allreduce_ms = mean_of(allreduce);
    summaries[i].at.seed = groups[i].size();
  }
  return summaries;
}

TableText table_of(const std::vector<Summary>& summaries, const OutputOptions& options) {
  TableText table;
  table.titles = {"workload",   "jobs",          "spines down", "links down",
                  "oversub",    "QPs",           "seeds",       "scheme",
                  "worst",      "mean",          "max on link", "at least",
                  "% of bound", "all-reduce ms", "FCT p99 ms",  "moves"};
  if (options.times)
    table.titles.insert(table.titles.end(), {"solver ms", "solver max", "warm ms"});
  for (const Summary& s : summaries) {
    std::vector<std::string> row{s.at.workload,
                                 s.at.concurrent == 0 ? "all" : fmt::format("{}", s.at.concurrent),
                                 fmt::format("{}", s.at.spines_down),
                                 fmt::format("{:g}%", 100.0 * s.at.links_down),
                                 fmt::format("{:g}", s.at.oversubscription),
                                 fmt::format("{}", s.at.qps),
                                 fmt::format("{}", s.at.seed),
                                 s.scheme == "ilp" && !s.proven ? "ilp (unproven)" : s.scheme,
                                 fmt::format("{:.4f}", s.worst),
                                 fmt::format("{:.4f}", s.mean),
                                 fmt::format("{}", s.max_on_link),
                                 fmt::format("{}", s.bound_max_on_link),
                                 tenths(s.percent_of_bound),
                                 tenths(s.allreduce_ms),
                                 s.over_time ? fmt::format("{:.1f}", s.completion_p99_ms) : "-",
                                 s.over_time ? fmt::format("{}", s.moves) : "-"};
    if (options.times) {
      row.push_back(fmt::format("{:.3f}", s.solver_p50_ms));
      row.push_back(fmt::format("{:.3f}", s.solver_max_ms));
      row.push_back(s.over_time ? fmt::format("{:.3f}", s.warm_p50_ms) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string aligned(const TableText& table) {
  std::vector<std::size_t> widths;
  for (const std::string& title : table.titles)
    widths.push_back(title.size());
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool is_text = table.titles[i] == "workload" || table.titles[i] == "scheme";
      text += (i == 0 ? "" : "  ");
      text += is_text ? fmt::format("{:<{}}", cells[i], widths[i])
                      : fmt::format("{:>{}}", cells[i], widths[i]);
    }
    text += '\n';
  };
  line(table.titles);
  for (const auto& row : table.rows)
    line(row);
  return text;
}

std::vector<std::string> findings(const Sweep& sweep) {
  std::vector<std::string> lines;
  for (const Verdict& v : judge(sweep.rows)) {
    std::uint64_t hopeless = 0;
    for (const Row& row : sweep.rows)
      hopeless += row.scheme == v.scheme && std::isnan(row.percent_of_bound()) ? 1 : 0;
    std::string line = fmt::format("{}: at the bound in {} of {} cells", v.scheme, v.cells_at_bound,
                                   v.cells - hopeless);
    if (hopeless > 0)
      line +=
          fmt::format(", not counting {} where a job cannot communicate by any routing", hopeless);
    if (v.epochs > 0)
      line += fmt::format(" and {} of {} epochs", v.epochs_at_bound, v.epochs);
    if (hopeless < v.cells)
      line += fmt::format(" (least {:.1f} %)", v.least_percent);
    line += fmt::format("; below another scheme in {} cells", v.cells_below);
    if (v.epochs > 0)
      line += fmt::format(" and {} epochs", v.epochs_below);
    lines.push_back(std::move(line));
    if (v.scheme == "heddle")
      for (const std::string& where : v.below)
        lines.push_back("  heddle " + where);
  }
  for (const Gain& gain : gains(sweep.rows))
    lines.push_back(
        fmt::format("{}: {} queue pairs over one path: the worst job {:.2f} times as efficient in "
                    "the mean of {} cells "
                    "({:.2f} to {:.2f})",
                    gain.scheme, gain.qps, gain.mean, gain.cells, gain.least, gain.most));
  lines.insert(lines.end(), sweep.notes.begin(), sweep.notes.end());
  std::map<std::string, std::size_t> notes;
  for (const Row& row : sweep.rows)
    for (const std::string& note : notes_of(row))
      ++notes[note];
  for (const auto& [note, rows] : notes)
    lines.push_back(fmt::format("note ({} row{}): {}", rows, rows == 1 ? "" : "s", note));
  return lines;
}

}  // namespace heddle::sim
