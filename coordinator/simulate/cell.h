// One cell of a sweep under one scheme: the fabric as it is there, the workload on it, what the
// scheme makes of it. Pure but for the stopwatch around the scheme; any thread, each its own cell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "coordinator/simulate/distribution.h"
#include "coordinator/simulate/fabric_generator.h"
#include "coordinator/simulate/presets.h"
#include "coordinator/simulate/router.h"
#include "coordinator/simulate/timeline.h"

namespace heddle::sim {

// Where a cell is in the sweep's grid.
struct Coordinates {
  std::string workload{};
  std::uint32_t concurrent{};
  std::uint32_t spines_down{};
  double links_down{};
  double oversubscription{1.0};
  std::uint32_t qps{1};
  std::uint64_t seed{1};
  bool all_jobs{};  // not so many, but all there were
  bool operator==(const Coordinates&) const = default;
};

// What is the same in all cells.
struct CellOptions {
  TimelineOptions timeline{};  // an end of zero: only all jobs at once are judged
  Steering steering{Steering::queue_pair};
  double background{};      // the mean share of each core link's capacity that others take
  double enabled{1.0};      // the share of racks in which heddle steers
  std::uint32_t solves{5};  // how often a quick scheme is timed; a slow one is timed less
  // The cell's failures happen then, and end then; none: they are there from the beginning.
  std::optional<Duration> fail_at{};
  std::optional<Duration> recover_at{};
  bool export_routing{};  // of all jobs communicating
};

struct Row {
  std::string scheme{};
  Coordinates at{};
  std::size_t flows{};
  Epoch all{};                         // all jobs communicating, placed from nothing
  std::vector<Epoch> epochs{};         // over simulated time
  std::vector<double> allreduce_ms{};  // by job, the mean over its iterations; NaN if none ended
  Distribution completion_ms{};
  Distribution throughput_gbps{};
  Distribution solver_ms{};       // from nothing
  Distribution warm_solver_ms{};  // over simulated time
  std::uint64_t moves{};          // over simulated time
  std::uint32_t stalled{};
  std::uint64_t events{};
  std::string routing{};  // as routing_file.h has it, if asked for

  double percent_of_bound() const;
};

// Not a number where no routing lets every job communicate: nothing is to be reached.
double percent_of_bound(const Epoch& epoch);

// The scenario of a cell: failures, background and racks by its seed.
Scenario make_scenario(const Topology& topology, Workload workload, const Coordinates& at,
                       const CellOptions& options);

// Of all jobs communicating, for run_cell: once for all schemes, because the linear program takes
// its time.
Bound bound_of_all(const Scenario& scenario);

// Errc::unsupported: timeline.h.
Result<Row> run_cell(const Scenario& scenario, const Optimiser& scheme, const Coordinates& at,
                     const CellOptions& options, const Bound& bound);

}  // namespace heddle::sim
