// The metric (design, section 3): how much of what its NICs allow each job gets under a routing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/core/fairness.h"
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
// Every job is taken in its heaviest phase (most bytes, then first) for the rates of others. A
// subflow without a live path makes its job's efficiency 0; a flow of a NIC to itself or of no
// weight needs no network. Weights that are not finite and positive count as no weight.
Efficiency evaluate(const Topology& topology, const LinkState& links, const Demand& demand,
                    const Routing& routing, std::span<const Rate> residual = {});

// The same for many routings of one demand: what does not depend on the routing is computed once.
// `topology` and `demand` must outlive it.
class Evaluator {
 public:
  Evaluator(const Topology& topology, const LinkState& links, const Demand& demand,
            std::span<const Rate> residual = {});

  Efficiency evaluate(const Routing& routing);

  // By job: the time of one iteration's communication on an infinitely fast core, in seconds;
  // infinite if a NIC that takes part is cut off. Zero for a job without traffic.
  std::span<const double> ideal_seconds() const { return ideal_seconds_; }
  // What a flow must get for its job to reach efficiency 1, in bits per second: its weight over the
  // job's ideal time, or over the ideal time of its phase where a job has several.
  double needed_rate(std::uint32_t flow) const;
  std::uint32_t heaviest_phase(JobId job) const { return heaviest_[job.value]; }
  // By link, what is left for this demand: nothing where the link is down.
  std::span<const double> capacities() const { return capacities_; }

 private:
  // One water-filling: every job in its heaviest phase, but `job` in `phase`.
  struct Scenario {
    JobId job;  // invalid: none differs
    std::uint32_t phase{};
  };
  bool takes_part(const FlowDemand& flow, const Scenario& scenario) const;
  bool judged(const FlowDemand& flow, const Scenario& scenario) const;
  void find_phases();
  void solve_ideal();
  void load_ideal(const Scenario& scenario);
  void load_routing(const Scenario& scenario, const Routing& routing);
  void cross_uplinks(const Path& path);
  void cross_downlinks(const Path& path);
  // Cables that are hashed over, each with its part.
  void cross_hashed(LeafId leaf, SpineId spine, bool up);
  std::uint32_t count_on_links();

  const Topology& topology_;
  const Demand& demand_;
  LinkState links_;
  std::vector<double> capacities_;  // by link
  // While ideal times are found: by NIC port, then the fastest ports of flows that have several.
  std::vector<double> ideal_capacities_;
  std::vector<std::uint32_t> first_subflow_;  // by flow
  std::vector<std::uint32_t> phases_;         // by job
  std::vector<std::uint32_t> heaviest_;       // by job
  std::vector<Scenario> scenarios_;
  std::vector<double> ideal_seconds_;                     // by job
  std::vector<std::vector<double>> ideal_phase_seconds_;  // by job and phase
  FairNetwork network_;
  std::vector<std::uint32_t> loaded_;  // the flows in network_, in its order
  std::vector<double> count_;          // by link
  MaxMin solver_;
};

// -1, 0 or 1: whether a is worse than, equal to or better than b, by their ascending vectors;
// differences below 1e-9 count as none.
int compare(const Efficiency& a, const Efficiency& b);

}  // namespace heddle
