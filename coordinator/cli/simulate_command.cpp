#include "coordinator/cli/simulate_command.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/import/fabric_file.h"

namespace heddle {
namespace {

constexpr double kDefaultSeconds = 40.0;
// The hard presets have many jobs, and short ones.
constexpr double kHardSeconds = 2.5;

// As typed; what is not a number or a list in the spec is settled when all is known.
struct Typed {
  Simulate simulate;
  std::vector<std::string> schemes{"all"};
  std::string communication{"ring"}, placement{"slices"}, steer{"qp"}, capacity{"100G"};
  double seconds{-1.0}, period_ms{0.0}, fail_at{-1.0}, recover_at{-1.0};
  bool together{};
  bool concurrent_given{};
  bool no_times{};
};

// A range lets nan through, which is neither below nor above it.
const CLI::Validator kNotNan(
    [](std::string& text) {
      return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is not a number"
                                                            : std::string();
    },
    "");

Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

bool is_hard(const sim::SweepSpec& spec) {
  return spec.job_folders.empty() && spec.preset.name.starts_with("hard-");
}

void settle(Typed& typed) {
  sim::SweepSpec& spec = typed.simulate.spec;
  spec.schemes =
      typed.schemes == std::vector<std::string>{"all"} ? sim::all_schemes() : typed.schemes;
  const auto communication = sim::communication_named(typed.communication);
  if (!communication)
    throw CLI::ValidationError("--communication", "'" + typed.communication + "' is not known");
  spec.preset.communication = *communication;
  const auto placement = sim::placement_named(typed.placement);
  if (!placement)
    throw CLI::ValidationError("--placement", "'" + typed.placement + "' is not known");
  spec.preset.placement = *placement;
  const Result<Rate> capacity = parse_capacity(typed.capacity);
  if (!capacity)
    throw CLI::ValidationError("--capacity", capacity.error().message);
  spec.fabric.capacity = *capacity;
  const std::map<std::string, sim::Steering> steering{{"destination", sim::Steering::destination},
                                                      {"flow", sim::Steering::flow},
                                                      {"qp", sim::Steering::queue_pair}};
  const auto steer = steering.find(typed.steer);
  if (steer == steering.end())
    throw CLI::ValidationError("--steer", "'" + typed.steer + "' is not destination, flow or qp");
  spec.cell.steering = steer->second;

  if (!typed.concurrent_given && (is_hard(spec) || !spec.job_folders.empty()))
    spec.concurrent = {0};
  if (typed.seconds < 0)
    typed.seconds = is_hard(spec) ? kHardSeconds : kDefaultSeconds;
  spec.cell.timeline.end = from_seconds(typed.seconds);
  spec.cell.timeline.keep_starts = !typed.together;
  if (typed.period_ms > 0)  // however short it is, it is not none
    spec.cell.timeline.period = std::max(Duration(1), from_seconds(typed.period_ms / 1e3));
  if (typed.fail_at >= 0)
    spec.cell.fail_at = from_seconds(typed.fail_at);
  if (typed.recover_at >= 0)
    spec.cell.recover_at = from_seconds(typed.recover_at);
  if (spec.cell.recover_at && (!spec.cell.fail_at || *spec.cell.recover_at <= *spec.cell.fail_at))
    throw CLI::ValidationError("--recover-at", "must be after --fail-at");
  spec.cell.export_routing = !typed.simulate.export_routing.empty();
  typed.simulate.output.times = !typed.no_times;
}

void add_workload(CLI::App& app, Typed& typed) {
  sim::SweepSpec& spec = typed.simulate.spec;
  auto* jobs =
      app.add_option("--jobs", spec.job_folders, "Folders of job files job_<n>-<model>.txt")
          ->type_name("DIR,...")
          ->delimiter(',');
  app.add_option(
         "--preset", spec.preset.name,
         fmt::format("Generated jobs instead: {} (paper)", fmt::join(sim::preset_names(), ", ")))
      ->type_name("NAME")
      ->excludes(jobs);
  app.add_option("--ring", spec.data,
                 "Copies of each model, that is, the rings' size, in presets (2)")
      ->type_name("N,...")
      ->delimiter(',');
  app.add_option("--model", spec.preset.model, "Preset model: GPT_3, BLOOM or LLaMA2_70B")
      ->type_name("NAME");
  app.add_option("--tensor", spec.preset.tensor, "Preset model: GPUs that share a layer")
      ->type_name("N");
  app.add_option("--pipeline", spec.preset.pipeline, "Preset model: stages")->type_name("N");
  app.add_option("--communication", typed.communication,
                 "Preset model: ring, halving-doubling, all-to-all, pipeline or mixed (ring)")
      ->type_name("KIND");
  app.add_option("--placement", typed.placement,
                 "Preset model: slices, random, packed or rail (slices)")
      ->type_name("RULE");
}

void add_grid(CLI::App& app, Typed& typed) {
  sim::SweepSpec& spec = typed.simulate.spec;
  app.add_option("--concurrent", spec.concurrent,
                 "Numbers of jobs at once: the first so many; 0: all there are")
      ->type_name("N,...")
      ->delimiter(',')
      ->each([&typed](const std::string&) { typed.concurrent_given = true; });
  app.add_option(
         "--schemes", typed.schemes,
         fmt::format("all, or some of {} (all); annealing has 917 temperatures of 10 steps each, "
                     "ilp 10 seconds",
                     fmt::join(sim::all_schemes(), ", ")))
      ->type_name("NAME,...")
      ->delimiter(',');
  app.add_option("--spines-down", spec.spines_down, "Numbers of spines that are down (0)")
      ->type_name("N,...")
      ->delimiter(',');
  app.add_option("--links-down", spec.links_down, "Shares of leaf-spine cables that are down (0)")
      ->type_name("SHARE,...")
      ->delimiter(',');
  app.add_option("--oversubscription", spec.oversubscription, "2: half the uplinks are left (1)")
      ->type_name("FACTOR,...")
      ->delimiter(',');
  app.add_option("--qps", spec.qps, "Queue pairs that carry each flow (1)")
      ->type_name("N,...")
      ->delimiter(',');
  app.add_option("--seeds", spec.seeds, "Every cell with the seeds 1 to N (1)")->type_name("N");
}

void add_fabric_options(CLI::App& app, Typed& typed) {
  sim::SweepSpec& spec = typed.simulate.spec;
  app.add_option("--fabric", spec.fabric_file, "A fabric file; otherwise one is generated")
      ->type_name("FILE");
  app.add_option("--leaves", spec.fabric.leaves,
                 fmt::format("Generated fabric: leaves, at most {} (64)", sim::kMostLeaves))
      ->type_name("N");
  app.add_option("--uplinks", spec.fabric.uplinks,
                 fmt::format("Generated fabric: uplinks of a leaf, to as many spines, at most {}, "
                             "and {} in all (32)",
                             sim::kMostPerLeaf, sim::kMostInFabric))
      ->type_name("N");
  app.add_option("--nics", spec.fabric.nics_per_leaf,
                 fmt::format("Generated fabric: NICs of a leaf, at most {}, and {} in all (32)",
                             sim::kMostPerLeaf, sim::kMostInFabric))
      ->type_name("N");
  app.add_option("--bundle", spec.fabric.bundle,
                 "Generated fabric: parallel cables, with fewer spines (1)")
      ->type_name("N");
  app.add_option("--thin-bundles", spec.fabric.thin_bundles,
                 "Generated fabric: share of bundles of one cable only (0)")
      ->type_name("SHARE");
  app.add_option("--capacity", typed.capacity, "Generated fabric: of every link (100G)")
      ->type_name("RATE");
}

void add_time(CLI::App& app, Typed& typed) {
  sim::CellOptions& cell = typed.simulate.spec.cell;
  app.add_option("--seconds", typed.seconds,
                 "Simulated time (40; hard presets 2.5); 0: only all jobs at once are judged")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->check(kNotNan);
  app.add_option("--iterations", cell.timeline.iterations,
                 "Of each job, at most; 0: what there is time for (0)")
      ->type_name("N");
  app.add_flag("--together", typed.together, "All jobs start at zero, whatever their files say");
  app.add_option("--period", typed.period_ms,
                 "Place flows every so often, at most 50,000 times, not when jobs begin or "
                 "end to communicate")
      ->type_name("MILLISECONDS")
      ->check(CLI::Range(0.0, 1e9))
      ->check(kNotNan);
  app.add_option("--fail-at", typed.fail_at,
                 "When spines and links go down; otherwise they are from the beginning")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->check(kNotNan);
  app.add_option("--recover-at", typed.recover_at, "When they return")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->check(kNotNan);
  app.add_option("--background", cell.background,
                 "Mean share of the core links that other traffic takes (0)")
      ->type_name("SHARE");
  app.add_option("--enabled", cell.enabled,
                 "Share of racks where flows are placed; the others hash (1)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0))
      ->check(kNotNan);
  app.add_option("--steer", typed.steer, "What can be steered apart: destination, flow or qp (qp)")
      ->type_name("UNIT");
}

void add_output(CLI::App& app, Typed& typed) {
  Simulate& simulate = typed.simulate;
  app.add_option("--json", simulate.json, "Write every row as JSON")->type_name("FILE");
  app.add_option("--csv", simulate.csv, "Write every row as CSV")->type_name("FILE");
  app.add_option("--report", simulate.report,
                 "Write index.html, one page with table and distributions")
      ->type_name("DIR");
  app.add_option("--export-routing", simulate.export_routing,
                 "Write the routing; with several rows row N's to FILE with .N before its ending")
      ->type_name("FILE");
  app.add_option("--import-routing", simulate.import_routing, "Judge this routing; no sweep")
      ->type_name("FILE");
  app.add_flag("--epochs", simulate.output.epochs, "Every epoch in the JSON");
  app.add_flag("--no-times", typed.no_times,
               "No solver times, so that equal runs give equal bytes");
  app.add_option("--solves", simulate.spec.cell.solves,
                 "How often each quick scheme is timed from nothing (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", simulate.spec.threads, "0: one for each core (0)")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
}

}  // namespace

void add_simulate(CLI::App& root, std::function<void(Simulate)> chosen) {
  auto typed = std::make_shared<Typed>();
  CLI::App* app =
      root.add_subcommand("simulate", "Compare ways to place flows; needs no coordinator");
  add_workload(*app, *typed);
  add_grid(*app, *typed);
  add_fabric_options(*app, *typed);
  add_time(*app, *typed);
  add_output(*app, *typed);
  app->callback([typed, chosen = std::move(chosen)] {
    settle(*typed);
    chosen(typed->simulate);
  });
  app->footer(
      "Examples:\n"
      "  heddle simulate --preset paper --ring 2,4 --concurrent 1,2,3,4,5 --spines-down 0,1,4,8\n"
      "  heddle simulate --jobs DIR --schemes greedy,heddle --qps 1,8 --json rows.json --report "
      "page\n"
      "  heddle simulate --preset hard-equal --uplinks 32 --bundle 2 --thin-bundles 0.1 "
      "--links-down 0.01 --qps 8\n"
      "  heddle simulate --import-routing routing.json");
}

}  // namespace heddle
