// The metric (design, section 3): how much of what its NICs allow each job gets under a routing.
#pragma once

#include <span>
#include <vector>

#include "common/core/flow.h"
#include "common/core/routing.h"
#include "common/core/topology.h"
#include "common/core/units.h"

namespace heddle {

struct Efficiency {
  std::vector<double> by_job;  // e_j, in the order of Demand::jobs
  std::vector<double>
      ascending;  // the same, sorted: what routings are compared by, lexicographically
  double worst{};
  double mean{};
  std::vector<Duration>
      communication;            // time of one iteration's communication, by job; weights are bytes
  std::uint32_t max_on_link{};  // the largest number of subflows on any core link
  std::vector<Rate> subflow_rates;
};

// `residual`: load per link that is not ours to place (empty: none), taken off the capacities.
// Every job is taken in its heaviest phase for the rates of others; see the .cpp.
Efficiency evaluate(const Topology& topology, const LinkState& links, const Demand& demand,
                    const Routing& routing, std::span<const Rate> residual = {});

// -1, 0 or 1: whether a is worse than, equal to or better than b, by their ascending vectors;
// differences below 1e-9 count as none.
int compare(const Efficiency& a, const Efficiency& b);

}  // namespace heddle
