// Why a job is no faster: its slowest flow, the link that holds it up and who shares that link; and
// what no routing could beat.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/core/bounds.h"
#include "coordinator/optimise/planning.h"

namespace heddle {

// What no placement can beat, whatever may be steered: what is fixed counts as free.
Bounds bounds_of(const PlanningProblem& planning);
// The bound of the worst job, where every flow of every job is known; else nothing (safety rule 7).
std::optional<double> bound_of_worst(const PlanningProblem& planning,
                                     const std::vector<bool>& judged);

struct Diagnosis {
  std::uint32_t subflow{};  // the slowest, measured by what its job needs of it
  std::uint32_t flow{};     // of the problem
  Rate rate;                // what it gets by the model
  Rate needed;              // what each subflow of this flow must get for efficiency 1
  // The full link on its path where nobody gets more than it does. None: its path has a dead link,
  // or nothing holds it up.
  std::optional<LinkId> bottleneck;
  std::vector<std::uint32_t> sharing;  // the other subflows on that link
};

// Nothing if none of the job's flows needs the network.
std::optional<Diagnosis> diagnose(const PlanningProblem& planning, const Routing& routing,
                                  JobId job);

// The links of a path that is routable; over parallel cables that the spine hashes over, all of
// them.
std::vector<LinkId> links_of(const Topology& topology, const LinkState& links, const Path& path);

}  // namespace heddle
