#include "coordinator/simulate/workload.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace heddle::sim {

Workload Workload::first(std::uint32_t k) const {
  Workload result{.name = name, .jobs = jobs};
  if (k != 0 && k < jobs.size())
    result.jobs.resize(k);
  return result;
}

FlowIndex::FlowIndex(const Workload& workload, std::uint32_t qps) : qps_(qps) {
  for (const SimJob& job : workload.jobs)
    base_.push_back(base_.back() + static_cast<std::uint32_t>(job.flows.size()));
}

namespace {

// Bytes by (phase, flow) of one job; the order is the order of the demand.
std::map<std::pair<std::uint32_t, std::uint32_t>, double> bytes_by_phase(const SimJob& job) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> bytes;
  for (const Step& step : job.iteration)
    for (const Group& group : step.groups)
      for (const Round& round : group.rounds)
        for (const Transfer& transfer : round.transfers)
          bytes[{round.phase, transfer.flow}] += transfer.bytes * round.repeat;
  return bytes;
}

// Numbers units in the order in which they are first met.
class Units {
 public:
  std::uint32_t of(std::uint64_t key) {
    return numbers_.emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::uint64_t, std::uint32_t> numbers_;
};

}  // namespace

ActiveDemand make_demand(const Workload& workload, const FlowIndex& index, const Topology& topology,
                         std::span<const std::uint32_t> jobs, Steering steering) {
  ActiveDemand active;
  bool repeated = false;  // whether a flow appears in several phases
  for (const std::uint32_t j : jobs) {
    const SimJob& job = workload.jobs[j];
    const JobId id{static_cast<std::uint32_t>(active.demand.jobs.size())};
    active.demand.jobs.push_back({.name = job.name, .phases = job.phases});
    const auto bytes = bytes_by_phase(job);
    repeated = repeated || bytes.size() > job.flows.size();
    for (const auto& [key, weight] : bytes) {
      const auto [phase, flow] = key;
      active.demand.flows.push_back({.job = id,
                                     .phase = phase,
                                     .source = job.flows[flow].source,
                                     .destination = job.flows[flow].destination,
                                     .weight = weight,
                                     .subflows = index.qps()});
      for (std::uint32_t q = 0; q < index.qps(); ++q)
        active.slots.push_back(index.slot(index.flow(j, flow), q));
    }
  }
  // Without this list each flow of the demand is a unit, which is right for one phase steered by
  // flow.
  if (steering == Steering::flow && !repeated)
    return active;
  if (steering == Steering::queue_pair && !repeated) {
    active.unit_of_subflow.resize(active.slots.size());
    std::iota(active.unit_of_subflow.begin(), active.unit_of_subflow.end(), 0U);
    return active;
  }
  Units units;
  for (std::size_t i = 0; i < active.slots.size(); ++i) {
    const std::uint32_t slot = active.slots[i];
    const FlowDemand& flow = active.demand.flows[i / index.qps()];
    std::uint64_t key = slot;
    if (steering == Steering::flow)
      key = slot / index.qps();
    else if (steering == Steering::destination)
      key = std::uint64_t{topology[topology[flow.source].attachments.front()].leaf.value} << 32 |
            flow.destination.value;
    active.unit_of_subflow.push_back(units.of(key));
  }
  return active;
}

}  // namespace heddle::sim
