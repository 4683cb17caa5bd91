// What the simulated jobs do: iterations of computing and communicating, as plain values. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/core/flow.h"
#include "common/core/ids.h"
#include "common/core/topology.h"
#include "common/core/units.h"

namespace heddle::sim {

// Traffic of one pair of NICs. A flow is idle or sends one transfer; it never sends two at once.
struct JobFlow {
  NicId source{};
  NicId destination{};
};

struct Transfer {
  std::uint32_t flow{};  // index into the job's flows
  double bytes{};
};

// Transfers that begin together. `repeat` such rounds follow each other. `phase` numbers the sets
// of rounds whose flows compete, for the metric: rounds of one phase overlap in time with each
// other, or repeat each other.
struct Round {
  std::vector<Transfer> transfers{};
  std::uint32_t repeat{1};
  std::uint32_t phase{};
};

// Rounds with a barrier after each: a ring, or all of a halving-doubling.
struct Group {
  std::vector<Round> rounds{};
};

// Compute, then let all groups communicate at once; the step is over when the last group is.
struct Step {
  Duration compute{};
  std::vector<Group> groups{};
};

struct SimJob {
  std::string name{};
  Duration start{};
  std::uint32_t phases{1};
  std::vector<JobFlow> flows{};
  std::vector<Step> iteration{};
};

struct Workload {
  std::string name{};
  std::vector<SimJob> jobs{};

  // The workload of the first k jobs; all if there are fewer or k is 0.
  Workload first(std::uint32_t k) const;
};

// By what the agents can steer: everything from one leaf to one NIC together, each flow, or each
// queue pair.
enum class Steering : std::uint8_t { destination, flow, queue_pair };

// The demand of some of the jobs, and where each of its subflows is in the whole workload.
struct ActiveDemand {
  Demand demand;
  std::vector<std::uint32_t> unit_of_subflow{};  // as Problem has it
  std::vector<std::uint32_t> slots{};  // by subflow: its place in the whole workload's routing
};

// Numbers the flows of all jobs, one after the other; each has `qps` slots in the workload's
// routing.
class FlowIndex {
 public:
  FlowIndex(const Workload& workload, std::uint32_t qps);

  std::uint32_t flow(std::uint32_t job, std::uint32_t flow) const { return base_[job] + flow; }
  std::uint32_t slot(std::uint32_t global_flow, std::uint32_t qp) const {
    return global_flow * qps_ + qp;
  }
  std::uint32_t qps() const { return qps_; }
  std::uint32_t flows() const { return base_.back(); }
  std::uint32_t slots() const { return base_.back() * qps_; }

 private:
  std::vector<std::uint32_t> base_{0};
  std::uint32_t qps_;
};

// `jobs`: indices into the workload's, ascending. A flow's weight is the bytes it moves in the
// phase in one iteration.
ActiveDemand make_demand(const Workload& workload, const FlowIndex& index, const Topology& topology,
                         std::span<const std::uint32_t> jobs, Steering steering);

}  // namespace heddle::sim
