#include "coordinator/simulate/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "common/core/check.h"
#include "coordinator/import/fabric_file.h"
#include "coordinator/simulate/ilp.h"
#include "coordinator/simulate/paper_files.h"
#include "coordinator/simulate/verdict.h"

namespace heddle::sim {
namespace {

// Beyond this the integer program is not solved within its time, so nothing is claimed about it.
constexpr std::size_t kMostIlpNics = 128;
constexpr std::uint64_t kMostSeeds = 10'000;
constexpr std::uint32_t kMostQps = 256;
// Each needs some hundreds of bytes in every thread.
constexpr std::uint64_t kMostSubflows = 1U << 22;

using TopologyPtr = std::shared_ptr<const Topology>;

struct Task {
  std::size_t cell{};
  std::string_view scheme;
};

struct Cell {
  Coordinates at;
  TopologyPtr topology;
  Scenario scenario;
  // Computed by whoever comes first.
  std::unique_ptr<std::once_flag> bounded = std::make_unique<std::once_flag>();
  Bound bound{};
};

std::uint64_t flows_of(const Workload& workload) {
  std::uint64_t flows = 0;
  for (const SimJob& job : workload.jobs)
    flows += job.flows.size();
  return flows;
}

// Each once, where it is first: a second would count its cells again.
template <class T>
void drop_repeated(std::vector<T>& list) {
  std::vector<T> once;
  for (const T& value : list)
    if (std::ranges::find(once, value) == once.end())
      once.push_back(value);
  list = std::move(once);
}

SweepSpec without_repeats(SweepSpec spec) {
  drop_repeated(spec.job_folders);
  drop_repeated(spec.data);
  drop_repeated(spec.schemes);
  drop_repeated(spec.concurrent);
  drop_repeated(spec.spines_down);
  drop_repeated(spec.links_down);
  drop_repeated(spec.oversubscription);
  drop_repeated(spec.qps);
  return spec;
}

class Planner {
 public:
  explicit Planner(const SweepSpec& spec) : spec_(spec) {}

  Result<std::vector<Cell>> plan() {
    std::vector<Cell> cells;
    const std::size_t sources =
        spec_.job_folders.empty() ? spec_.data.size() : spec_.job_folders.size();
    for (const double oversubscription : spec_.oversubscription) {
      for (std::uint64_t seed = 1; seed <= spec_.seeds; ++seed) {
        const Result<TopologyPtr> topology = fabric(oversubscription, seed);
        if (!topology)
          return tl::unexpected(topology.error());
        for (std::size_t source = 0; source < sources; ++source) {
          const Result<Workload> workload = jobs(source, seed, **topology);
          if (!workload)
            return tl::unexpected(workload.error());
          if (Result<void> added = add(cells, *topology, *workload, oversubscription, seed); !added)
            return tl::unexpected(added.error());
        }
      }
    }
    return cells;
  }

 private:
  Result<TopologyPtr> fabric(double oversubscription, std::uint64_t seed) {
    if (!spec_.fabric_file.empty()) {
      if (oversubscription != 1.0)
        return fail(Errc::invalid_argument,
                    "a fabric file says its own oversubscription: leave it at 1");
      if (from_file_ == nullptr) {
        auto topology = load_fabric(spec_.fabric_file);
        if (!topology)
          return fail(Errc::parse, describe(spec_.fabric_file, topology.error()));
        from_file_ = std::make_shared<const Topology>(*std::move(topology));
      }
      return from_file_;
    }
    FabricSpec fabric = spec_.fabric;
    fabric.oversubscription = oversubscription;
    fabric.seed = seed;
    Result<Topology> topology = generate_fabric(fabric);
    if (!topology)
      return tl::unexpected(topology.error());
    return std::make_shared<const Topology>(*std::move(topology));
  }

  Result<Workload> jobs(std::size_t source, std::uint64_t seed, const Topology& topology) {
    if (spec_.job_folders.empty()) {
      PresetSpec preset = spec_.preset;
      preset.data = spec_.data[source];
      preset.seed = seed;
      preset.jobs = std::ranges::find(spec_.concurrent, 0U) != spec_.concurrent.end()
                        ? 0
                        : *std::ranges::max_element(spec_.concurrent);
      return make_preset(preset, topology);
    }
    Result<Workload> workload = load_paper_jobs(spec_.job_folders[source]);
    if (!workload)
      return workload;
    for (const SimJob& job : workload->jobs)
      for (const JobFlow& flow : job.flows)
        for (const NicId nic : {flow.source, flow.destination})
          if (nic.value >= topology.nics().size())
            return fail(Errc::invalid_argument, fmt::format("{}: {} uses NIC {}, the fabric has {}",
                                                            spec_.job_folders[source], job.name,
                                                            nic.value, topology.nics().size()));
    return workload;
  }

  Result<void> add(std::vector<Cell>& cells, const TopologyPtr& topology, const Workload& workload,
                   double oversubscription, std::uint64_t seed) {
    for (const std::uint32_t concurrent : spec_.concurrent) {
      Workload jobs = workload.first(concurrent);
      if (concurrent > jobs.jobs.size())
        return fail(Errc::invalid_argument,
                    fmt::format("{} has {} jobs, not {}: give fewer, or another seed",
                                workload.name, jobs.jobs.size(), concurrent));
      for (const std::uint32_t spines : spec_.spines_down) {
        if (spines >= topology->spines().size())
          return fail(Errc::invalid_argument,
                      fmt::format("{} spines down of {}", spines, topology->spines().size()));
        for (const double links : spec_.links_down) {
          for (const std::uint32_t qps : spec_.qps) {
            if (flows_of(jobs) * qps > kMostSubflows)
              return fail(Errc::invalid_argument,
                          fmt::format("{} has {} flows, with {} queue pairs each more than {} in "
                                      "all: give fewer jobs or queue pairs",
                                      workload.name, flows_of(jobs), qps, kMostSubflows));
            Coordinates at{.workload = workload.name,
                           .concurrent = static_cast<std::uint32_t>(jobs.jobs.size()),
                           .spines_down = spines,
                           .links_down = links,
                           .oversubscription = oversubscription,
                           .qps = qps,
                           .seed = seed,
                           .all_jobs = concurrent == 0};
            Cell& cell = cells.emplace_back();
            cell.at = at;
            cell.topology = topology;
            cell.scenario = make_scenario(*topology, jobs, at, spec_.cell);
          }
        }
      }
    }
    return {};
  }

  const SweepSpec& spec_;
  TopologyPtr from_file_;
};

Result<void> check(const SweepSpec& spec) {
  const auto share = [](double value) { return value >= 0.0 && value < 1.0; };
  if (spec.seeds == 0 || spec.seeds > kMostSeeds)
    return fail(Errc::invalid_argument, fmt::format("seeds: from 1 to {}", kMostSeeds));
  if (!std::ranges::all_of(spec.links_down, share))
    return fail(Errc::invalid_argument, "links down: shares from 0 to below 1");
  if (!share(spec.cell.background))
    return fail(Errc::invalid_argument, "background: a share from 0 to below 1");
  if (!std::ranges::all_of(spec.qps, [](std::uint32_t q) { return q > 0 && q <= kMostQps; }))
    return fail(Errc::invalid_argument, fmt::format("queue pairs: from 1 to {}", kMostQps));
  const TimelineOptions& time = spec.cell.timeline;
  if (time.period.count() > 0 &&
      static_cast<std::uint64_t>(time.end / time.period) > time.most_epochs)
    return fail(Errc::invalid_argument, fmt::format("period: with {} s to simulate at least {} ms",
                                                    static_cast<double>(time.end.count()) / 1e9,
                                                    static_cast<double>(time.end.count()) / 1e6 /
                                                        static_cast<double>(time.most_epochs)));
  for (const std::string& scheme : spec.schemes)
    if (make_scheme(scheme) == nullptr)
      return fail(Errc::invalid_argument, fmt::format("no scheme is called '{}'; there are {}",
                                                      scheme, fmt::join(all_schemes(), ", ")));
  return {};
}

}  // namespace

std::vector<std::string> all_schemes() {
  std::vector<std::string> names;
  for (const std::string_view name : scheme_names())
    names.emplace_back(name);
  return names;
}

Result<Sweep> run_sweep(const SweepSpec& asked, const Progress& progress) {
  const SweepSpec spec = without_repeats(asked);
  if (Result<void> checked = check(spec); !checked)
    return tl::unexpected(checked.error());
  Result<std::vector<Cell>> cells = Planner(spec).plan();
  if (!cells)
    return tl::unexpected(cells.error());

  Sweep sweep;
  std::vector<Task> tasks;
  bool left_out = false;
  for (std::size_t c = 0; c < cells->size(); ++c) {
    for (const std::string& scheme : spec.schemes) {
      if (scheme == "ilp" && (*cells)[c].topology->nics().size() > kMostIlpNics)
        left_out = true;
      else
        tasks.push_back({c, scheme});
    }
  }
  if (left_out)
    sweep.notes.push_back(fmt::format(
        "ilp is left out where there are more than {} NICs: it would not end in its time",
        kMostIlpNics));

  sweep.rows.resize(tasks.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex reporting;
  std::size_t done = 0;
  std::optional<Error> first_error;
  std::size_t erroneous = tasks.size();  // the first of them, whatever thread is faster
  const auto work = [&] {
    // Whoever has taken a task ends it, so that the first error is the same with any number of
    // threads.
    while (!failed) {
      const std::size_t t = next++;
      if (t >= tasks.size())
        return;
      Cell& cell = (*cells)[tasks[t].cell];
      std::call_once(*cell.bounded, [&cell] { cell.bound = bound_of_all(cell.scenario); });
      const std::unique_ptr<Optimiser> scheme = make_scheme(tasks[t].scheme);
      HEDDLE_CHECK(scheme != nullptr);
      Result<Row> row = run_cell(cell.scenario, *scheme, cell.at, spec.cell, cell.bound);
      const std::scoped_lock lock(reporting);
      if (!row) {
        failed = true;
        if (t < erroneous) {
          erroneous = t;
          first_error = {row.error().code, fmt::format("{}, {}: {}", describe(cell.at),
                                                       tasks[t].scheme, row.error().message)};
        }
        return;
      }
      sweep.rows[t] = *std::move(row);
      ++done;
      if (progress)
        progress(done, tasks.size());
    }
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const auto threads =
      std::min<std::size_t>(spec.threads == 0 ? cores : spec.threads, tasks.size());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  others.clear();
  if (first_error)
    return tl::unexpected(*std::move(first_error));
  return sweep;
}

}  // namespace heddle::sim
