#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <ostream>
#include <sstream>

#include "coordinator/cli/command_line.h"
#include "coordinator/cli/offline.h"
#include "coordinator/cli/simulate_command.h"
#include "coordinator/simulate/report.h"
#include "coordinator/simulate/routing_file.h"

namespace heddle {
namespace {

Exit exit_for(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return Exit::usage;
    case Errc::not_found:
      return Exit::not_found;
    default:
      return Exit::failed;
  }
}

Result<void> write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    return fail(Errc::io, fmt::format("{}: cannot be written", path.string()));
  return {};
}

// Whether it could be written, told before hours are spent on what it shall hold. What is there
// stays as it is; pipes and devices are left alone.
Result<void> try_to_write(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (there && !std::filesystem::is_regular_file(path, error) &&
      !std::filesystem::is_directory(path, error))
    return {};
  const bool possible = std::ofstream(path, std::ios::app).is_open();
  if (possible && !there)
    std::filesystem::remove(path, error);
  if (!possible)
    return fail(Errc::io, fmt::format("{}: cannot be written", path.string()));
  return {};
}

Result<void> try_to_write_all(const Simulate& simulate) {
  for (const std::string& path : {simulate.json, simulate.csv, simulate.export_routing})
    if (!path.empty())
      if (auto possible = try_to_write(path); !possible)
        return possible;
  return {};
}

// "routing.json" and 3: "routing.3.json".
std::filesystem::path numbered(const std::filesystem::path& path, std::size_t number) {
  std::filesystem::path name = path.stem();
  name += fmt::format(".{}", number);
  name += path.extension();
  return path.parent_path() / name;
}

// So that a shell takes it as one word.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,=:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_of(const std::vector<std::string>& arguments) {
  std::string command = "heddle";
  for (const std::string& argument : arguments)
    command += " " + quoted(argument);
  return command;
}

class ProgressBar {
 public:
  explicit ProgressBar(std::ostream& err) : err_(err) {}
  void show(std::size_t done, std::size_t total) {
    const std::size_t percent = 100 * done / total;
    if (percent == shown_ && done < total)
      return;
    shown_ = percent;
    constexpr std::size_t kWidth = 40;
    const std::string full(percent * kWidth / 100, '#');
    err_ << fmt::format("\r[{:<{}}] {:3} %  {} of {}", full, kWidth, percent, done, total);
    if (done == total)
      err_ << "\r\x1b[K";
    err_.flush();
  }

 private:
  std::ostream& err_;
  std::size_t shown_{101};
};

// Somebody else's routing, as a sweep of one row.
Result<sim::Sweep> judge_import(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    return fail(Errc::not_found, fmt::format("{}: cannot be read", path));
  const Result<sim::RoutedDemand> routed = sim::read_routing(text.str());
  if (!routed)
    return fail(routed.error().code == Errc::invalid_argument ? Errc::parse : routed.error().code,
                fmt::format("{}: {}", path, routed.error().message));
  sim::Row row{.scheme = "imported"};
  row.flows = routed->demand.flows.size();
  row.at.workload = std::filesystem::path(path).filename().string();
  row.at.concurrent = static_cast<std::uint32_t>(routed->demand.jobs.size());
  for (const FlowDemand& flow : routed->demand.flows)
    row.at.qps = std::max(row.at.qps, flow.subflows);
  row.all.efficiency = evaluate(routed->topology, routed->links, routed->demand, routed->routing,
                                routed->background);
  Problem problem;
  problem.topology = &routed->topology;
  problem.links = &routed->links;
  problem.demand = routed->demand;
  problem.residual = routed->background;
  // Whoever made it may have steered every subflow by itself.
  problem.unit_of_subflow.resize(routed->routing.size());
  std::iota(problem.unit_of_subflow.begin(), problem.unit_of_subflow.end(), 0U);
  row.all.bound = sim::bound_of(problem, sim::BoundEffort::linear);
  for (const Duration time : row.all.efficiency.communication)
    row.allreduce_ms.push_back(time == Duration::max() ? std::numeric_limits<double>::quiet_NaN()
                                                       : static_cast<double>(time.count()) / 1e6);
  return sim::Sweep{.rows = {std::move(row)}};
}

Result<void> write_files(const Simulate& simulate, const sim::Sweep& sweep,
                         const std::string& command) {
  if (!simulate.json.empty())
    if (auto written = write_file(simulate.json, sim::to_json(sweep.rows, simulate.output));
        !written)
      return written;
  if (!simulate.csv.empty())
    if (auto written = write_file(simulate.csv, sim::to_csv(sweep.rows, simulate.output)); !written)
      return written;
  if (!simulate.report.empty()) {
    std::error_code error;
    std::filesystem::create_directories(simulate.report, error);
    if (error)
      return fail(Errc::io, fmt::format("{}: {}", simulate.report, error.message()));
    const auto page = std::filesystem::path(simulate.report) / "index.html";
    if (auto written = write_file(page, sim::report_html(sweep, command, simulate.output));
        !written)
      return written;
  }
  if (simulate.export_routing.empty())
    return {};
  for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
    const auto path = sweep.rows.size() == 1 ? std::filesystem::path(simulate.export_routing)
                                             : numbered(simulate.export_routing, i);
    if (auto written = write_file(path, sweep.rows[i].routing); !written)
      return written;
  }
  return {};
}

}  // namespace

int run_simulate(const Simulate& simulate, const std::vector<std::string>& arguments,
                 const SimulateSurroundings& at) {
  const auto refuse = [&](const Error& error) {
    return static_cast<int>(
        report_error(exit_for(error.code), error.message, at.json, at.out, at.err));
  };
  if (const auto possible = try_to_write_all(simulate); !possible)
    return refuse(possible.error());
  ProgressBar bar(at.err);
  sim::Progress progress;
  if (at.terminal)
    progress = [&bar](std::size_t done, std::size_t total) { bar.show(done, total); };
  const Result<sim::Sweep> sweep = simulate.import_routing.empty()
                                       ? sim::run_sweep(simulate.spec, progress)
                                       : judge_import(simulate.import_routing);
  if (!sweep)
    return refuse(sweep.error());
  if (at.json) {
    at.out << sim::to_json(sweep->rows, simulate.output);
  } else {
    at.out << sim::aligned(sim::table_of(sim::summarise(sweep->rows), simulate.output)) << "\n";
    for (const std::string& line : sim::findings(*sweep))
      at.out << line << "\n";
  }
  if (const auto written = write_files(simulate, *sweep, command_of(arguments)); !written)
    return refuse(written.error());
  return static_cast<int>(Exit::ok);
}

}  // namespace heddle
