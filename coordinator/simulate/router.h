// Runs one scheme on one workload again and again, as a coordinator would: for the jobs that
// communicate now, starting from the paths of before. Times the scheme and judges each routing.
// Single threaded; refers to its scenario.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/core/optimiser.h"
#include "coordinator/simulate/bound.h"
#include "coordinator/simulate/workload.h"

namespace heddle::sim {

// What all schemes of one cell share. The topology outlives it.
struct Scenario {
  const Topology* topology{};
  Workload workload{};
  std::uint32_t qps{1};
  Steering steering{Steering::flow};
  std::vector<CableId> failed{};
  std::vector<Rate> background{};  // by link; empty: none
  std::vector<bool> enabled{};     // by leaf: whether an agent steers there; empty: everywhere
  std::uint64_t seed{1};
};

// One run of the scheme, and what came of it.
struct Epoch {
  Duration at{};
  std::vector<std::uint32_t> jobs{};  // that communicate
  Efficiency efficiency{};            // without the subflows' rates
  Bound bound{};
  Duration solver{};
  std::uint32_t link_changes{};  // before it, in simulated time
  std::uint32_t moves{};         // units that had a live path and were given another
  bool proven{};
  std::vector<std::string> notes{};
};

class Router {
 public:
  Router(const Scenario& scenario, const Optimiser& scheme);

  // `known`: the bound, where it was computed before; it is the same for all schemes.
  Epoch route(std::span<const std::uint32_t> jobs, const LinkState& links, Duration at,
              const Bound* known = nullptr);
  // Solver times of `count` runs from nothing, all jobs communicating; the paths are left as they
  // are.
  std::vector<Duration> time_cold(const LinkState& links, std::uint32_t count) const;
  // Hashed paths for what communicates but was never placed.
  void hash_missing(std::span<const std::uint32_t> jobs, const LinkState& links);

  // The paths of these jobs, as routing_file.h has it.
  std::string exported(std::span<const std::uint32_t> jobs, const LinkState& links) const;

  const FlowIndex& index() const { return index_; }
  // By slot (FlowIndex); not routable where nothing was placed.
  const Routing& paths() const { return paths_; }

 private:
  Problem problem(const ActiveDemand& active, const LinkState& links, bool from_nothing) const;
  Routing hashed(const ActiveDemand& active, const LinkState& links) const;

  const Scenario& scenario_;
  const Optimiser& scheme_;
  std::unique_ptr<Optimiser> hash_;
  FlowIndex index_;
  Routing paths_;
};

}  // namespace heddle::sim
