#include "common/core/efficiency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/core/check.h"

namespace heddle {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-9;

bool uses_network(const FlowDemand& flow) {
  return flow.source != flow.destination && flow.subflows > 0 && std::isfinite(flow.weight) &&
         flow.weight > 0.0;
}

Duration to_duration(double seconds) {
  const double nanoseconds = seconds * 1e9;
  if (!(nanoseconds < static_cast<double>(Duration::max().count())))
    return Duration::max();
  return Duration(std::llround(nanoseconds));
}

}  // namespace

Evaluator::Evaluator(const Topology& topology, const LinkState& links, const Demand& demand,
                     std::span<const Rate> residual)
    : topology_(topology), demand_(demand), links_(links) {
  capacities_.resize(topology.link_count());
  for (std::uint32_t i = 0; i < capacities_.size(); ++i) {
    const double taken = residual.empty() ? 0.0 : residual[i].bits_per_second;
    const double left = topology.capacity(LinkId{i}).bits_per_second - taken;
    capacities_[i] = links.up(LinkId{i}) ? std::max(0.0, left) : 0.0;
  }
  first_subflow_.reserve(demand.flows.size());
  std::uint32_t next = 0;
  for (const FlowDemand& flow : demand.flows) {
    HEDDLE_CHECK(flow.job.value < demand.jobs.size());
    first_subflow_.push_back(next);
    next += flow.subflows;
  }
  find_phases();
  solve_ideal();
}

void Evaluator::find_phases() {
  phases_.assign(demand_.jobs.size(), 1);
  for (std::size_t j = 0; j < phases_.size(); ++j)
    phases_[j] = std::max(1U, demand_.jobs[j].phases);
  for (const FlowDemand& flow : demand_.flows)
    phases_[flow.job.value] = std::max(phases_[flow.job.value], flow.phase + 1);

  std::vector<std::vector<double>> bytes(phases_.size());
  for (std::size_t j = 0; j < phases_.size(); ++j)
    bytes[j].assign(phases_[j], 0.0);
  for (const FlowDemand& flow : demand_.flows)
    if (uses_network(flow))
      bytes[flow.job.value][flow.phase] += flow.weight;

  scenarios_.push_back({});
  for (std::uint32_t j = 0; j < phases_.size(); ++j) {
    const auto heaviest = std::ranges::max_element(bytes[j]);
    heaviest_.push_back(static_cast<std::uint32_t>(heaviest - bytes[j].begin()));
    for (std::uint32_t phase = 0; phase < phases_[j]; ++phase)
      if (phase != heaviest_[j])
        scenarios_.push_back({.job = {j}, .phase = phase});
  }
}

bool Evaluator::takes_part(const FlowDemand& flow, const Scenario& scenario) const {
  const std::uint32_t running =
      flow.job == scenario.job ? scenario.phase : heaviest_[flow.job.value];
  return flow.phase == running && uses_network(flow);
}

// Whether the scenario's rates are the ones that this flow is judged by.
bool Evaluator::judged(const FlowDemand& flow, const Scenario& scenario) const {
  return takes_part(flow, scenario) && (!scenario.job.valid() || flow.job == scenario.job);
}

// On an infinitely fast core only NIC ports limit, and all subflows of a flow fare alike: one flow
// of that weight, whose rate is each subflow's. A NIC with several attachments spreads over those
// that live; its subflow cannot be faster than its fastest port, which is a link of its own here.
void Evaluator::load_ideal(const Scenario& scenario) {
  network_.clear();
  loaded_.clear();
  // The core's links take no part, so NIC ports are numbered from 0.
  const auto core = static_cast<std::uint32_t>(2 * topology_.cables().size());
  const auto cross = [this, core](NicId nic, bool sending, std::uint32_t subflows) {
    if (nic.value >= topology_.nics().size())
      return 0.0;
    const auto& attachments = topology_[nic].attachments;
    const auto link = [&](AttachmentId a) {
      return sending ? topology_.nic_tx(a) : topology_.nic_rx(a);
    };
    const auto live = std::ranges::count_if(
        attachments, [&](AttachmentId a) { return capacities_[link(a).value] > 0.0; });
    double fastest = 0.0;
    for (const AttachmentId a : attachments) {
      const double capacity = capacities_[link(a).value];
      if (capacity > 0.0)
        network_.cross({link(a).value - core},
                       static_cast<double>(subflows) / static_cast<double>(live));
      fastest = std::max(fastest, capacity);
    }
    return live == 1 ? kInfinite : fastest;  // by one port, the port itself limits it
  };
  ideal_capacities_.assign(capacities_.begin() + core, capacities_.end());
  for (std::uint32_t f = 0; f < demand_.flows.size(); ++f) {
    const FlowDemand& flow = demand_.flows[f];
    if (!takes_part(flow, scenario))
      continue;
    const double fastest = std::min(cross(flow.source, true, flow.subflows),
                                    cross(flow.destination, false, flow.subflows));
    if (fastest < kInfinite) {
      network_.cross(LinkId{static_cast<std::uint32_t>(ideal_capacities_.size())});
      ideal_capacities_.push_back(fastest);
    }
    network_.end_flow();
    loaded_.push_back(f);
  }
}

void Evaluator::solve_ideal() {
  ideal_phase_seconds_.resize(phases_.size());
  for (std::size_t j = 0; j < phases_.size(); ++j)
    ideal_phase_seconds_[j].assign(phases_[j], 0.0);

  for (const Scenario& scenario : scenarios_) {
    load_ideal(scenario);
    const std::span<const double> rates = solver_.solve(network_, ideal_capacities_);
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      const FlowDemand& flow = demand_.flows[loaded_[i]];
      if (!judged(flow, scenario))
        continue;
      double& seconds = ideal_phase_seconds_[flow.job.value][flow.phase];
      seconds = std::max(seconds, flow.weight * 8.0 / (rates[i] * flow.subflows));
    }
  }
  // Many an evaluator is asked for nothing else.
  ideal_capacities_ = {};
  network_ = {};
  solver_ = {};
  for (const auto& phases : ideal_phase_seconds_)
    ideal_seconds_.push_back(std::accumulate(phases.begin(), phases.end(), 0.0));
}

double Evaluator::needed_rate(std::uint32_t flow) const {
  const FlowDemand& demand = demand_.flows[flow];
  if (!uses_network(demand))
    return 0.0;
  return demand.weight * 8.0 / ideal_phase_seconds_[demand.job.value][demand.phase];
}

void Evaluator::cross_uplinks(const Path& path) {
  if (path.spread)
    cross_hashed(topology_[path.from].leaf, topology_[path.up].spine, true);
  else
    network_.cross(topology_.uplink(path.up));
}

void Evaluator::cross_downlinks(const Path& path) {
  if (path.down.valid())
    network_.cross(topology_.downlink(path.down));
  else
    cross_hashed(topology_[path.to].leaf, topology_[path.up].spine, false);
}

void Evaluator::cross_hashed(LeafId leaf, SpineId spine, bool up) {
  const auto cables = topology_.cables_between(leaf, spine);
  const auto link = [&](CableId c) { return up ? topology_.uplink(c) : topology_.downlink(c); };
  const auto lives = [&](CableId c) { return links_.up(link(c)); };
  const auto live = std::ranges::count_if(cables, lives);
  for (const CableId cable : cables) {
    // With none alive all are crossed, and being down they give the rate of 0 that is true.
    if (live == 0 || lives(cable))
      network_.cross(link(cable), 1.0 / static_cast<double>(
                                            live == 0 ? static_cast<long>(cables.size()) : live));
  }
}

void Evaluator::load_routing(const Scenario& scenario, const Routing& routing) {
  network_.clear();
  for (std::size_t f = 0; f < demand_.flows.size(); ++f) {
    if (!takes_part(demand_.flows[f], scenario))
      continue;
    for (std::uint32_t q = 0; q < demand_.flows[f].subflows; ++q) {
      const std::uint32_t subflow = first_subflow_[f] + q;
      const Path& path = routing[subflow];
      if (!path.routable())
        continue;
      network_.cross(topology_.nic_tx(path.from));
      if (path.crosses_core()) {
        cross_uplinks(path);
        cross_downlinks(path);
      }
      network_.cross(topology_.nic_rx(path.to));
      network_.end_flow();
    }
  }
}

std::uint32_t Evaluator::count_on_links() {
  count_.assign(topology_.link_count(), 0.0);
  for (std::size_t i = 0; i < network_.links.size(); ++i)
    if (topology_.is_core(network_.links[i]))
      count_[network_.links[i].value] += network_.parts[i];
  const auto most = std::ranges::max_element(count_);
  return most == count_.end() ? 0 : static_cast<std::uint32_t>(std::ceil(*most - kEqual));
}

Efficiency Evaluator::evaluate(const Routing& routing) {
  const std::size_t subflows = demand_.subflow_count();
  HEDDLE_CHECK(routing.size() == subflows);
  Efficiency result;
  result.subflow_rates.assign(subflows, Rate{});
  std::vector<std::vector<double>> phase_seconds(phases_.size());
  for (std::size_t j = 0; j < phases_.size(); ++j)
    phase_seconds[j].assign(phases_[j], 0.0);

  for (const Scenario& scenario : scenarios_) {
    load_routing(scenario, routing);
    result.max_on_link = std::max(result.max_on_link, count_on_links());
    const std::span<const double> rates = solver_.solve(network_, capacities_);
    std::size_t i = 0;
    for (std::size_t f = 0; f < demand_.flows.size(); ++f) {
      const FlowDemand& flow = demand_.flows[f];
      if (!takes_part(flow, scenario))
        continue;
      double slowest = kInfinite;
      const bool is_judged = judged(flow, scenario);
      for (std::uint32_t s = first_subflow_[f]; s < first_subflow_[f] + flow.subflows; ++s) {
        const double rate = routing[s].routable() ? rates[i++] : 0.0;
        slowest = std::min(slowest, rate);
        if (is_judged)
          result.subflow_rates[s] = {rate};
      }
      if (is_judged) {
        double& seconds = phase_seconds[flow.job.value][flow.phase];
        seconds = std::max(seconds, flow.weight * 8.0 / (slowest * flow.subflows));
      }
    }
  }

  for (std::size_t j = 0; j < phases_.size(); ++j) {
    const double seconds = std::accumulate(phase_seconds[j].begin(), phase_seconds[j].end(), 0.0);
    result.communication.push_back(to_duration(seconds));
    double efficiency = 1.0;  // of a job that waits for nothing
    if (seconds > 0.0)
      efficiency = std::isfinite(seconds) ? std::min(1.0, ideal_seconds_[j] / seconds) : 0.0;
    result.by_job.push_back(efficiency);
  }
  result.ascending = result.by_job;
  std::ranges::sort(result.ascending);
  if (!result.by_job.empty()) {
    result.worst = result.ascending.front();
    result.mean = std::accumulate(result.by_job.begin(), result.by_job.end(), 0.0) /
                  static_cast<double>(result.by_job.size());
  }
  return result;
}

Efficiency evaluate(const Topology& topology, const LinkState& links, const Demand& demand,
                    const Routing& routing, std::span<const Rate> residual) {
  return Evaluator(topology, links, demand, residual).evaluate(routing);
}

int compare(const Efficiency& a, const Efficiency& b) {
  const std::size_t n = std::min(a.ascending.size(), b.ascending.size());
  for (std::size_t i = 0; i < n; ++i) {
    const double difference = a.ascending[i] - b.ascending[i];
    if (std::abs(difference) >= kEqual)
      return difference < 0 ? -1 : 1;
  }
  return 0;
}

}  // namespace heddle
