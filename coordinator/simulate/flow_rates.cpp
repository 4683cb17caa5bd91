#include "coordinator/simulate/flow_rates.h"

#include <algorithm>
#include <cmath>

#include "common/core/check.h"

namespace heddle::sim {
namespace {

// Two computations of one rate differ by rounding; such a difference must not make flows that end
// together end apart.
constexpr double kSameRate = 1e-12;
// Ends are whole nanoseconds, rounded up but for what may be rounding.
constexpr double kSlackNs = 1e-3;
constexpr double kLongestNs = 4e18;

}  // namespace

FlowRates::FlowRates(const Topology& topology, const FlowIndex& index)
    : topology_(topology),
      index_(index),
      links_(topology),
      paths_(index.slots()),
      flows_(index.flows()) {
  set_links(links_, {});
}

void FlowRates::set_links(const LinkState& links, std::span<const Rate> background) {
  links_ = links;
  capacities_.resize(topology_.link_count());
  for (std::uint32_t i = 0; i < capacities_.size(); ++i) {
    const double taken = background.empty() ? 0.0 : background[i].bits_per_second;
    const double left = topology_.capacity({i}).bits_per_second - taken;
    capacities_[i] = links.up({i}) ? std::max(0.0, left) / 1e9 : 0.0;
  }
  network_changed_ = true;
}

void FlowRates::set_paths(const Routing& paths) {
  if (paths == paths_)
    return;
  paths_ = paths;
  network_changed_ = true;
}

void FlowRates::begin(std::uint32_t flow, double bits, std::int64_t now) {
  Flow& state = flows_[flow];
  HEDDLE_CHECK(!state.sending && bits > 0);
  state.sending = state.fresh = true;
  state.bits = bits;
  state.since = now;
  begun_.push_back(flow);
}

std::span<const std::uint32_t> FlowRates::take_ended(std::int64_t now) {
  ended_.clear();
  for (const std::uint32_t f : sending_) {
    if (flows_[f].end > now)
      continue;
    flows_[f].sending = false;
    flows_[f].end = kNever;
    ended_.push_back(f);
  }
  return ended_;
}

// Whether the flows that send are those of the last computation: what ended has begun again.
bool FlowRates::same_flows() const {
  return std::ranges::all_of(sending_, [this](std::uint32_t f) { return flows_[f].sending; }) &&
         std::ranges::all_of(begun_, [this](std::uint32_t f) { return flows_[f].listed; });
}

void FlowRates::list_flows() {
  for (const std::uint32_t f : sending_)
    flows_[f].listed = flows_[f].sending;
  std::erase_if(sending_, [this](std::uint32_t f) { return !flows_[f].listed; });
  for (const std::uint32_t f : begun_) {
    if (!flows_[f].listed)
      sending_.push_back(f);
    flows_[f].listed = true;
  }
}

void FlowRates::update(std::int64_t now) {
  if (network_changed_ || !same_flows()) {
    list_flows();
    solve();
    for (std::size_t i = 0; i < sending_.size(); ++i) {
      Flow& flow = flows_[sending_[i]];
      const double rate = fresh_rates_[i];
      if (std::abs(rate - flow.rate) <= kSameRate * flow.rate)
        continue;  // its end is where it was
      if (!flow.fresh) {
        flow.bits = std::max(0.0, flow.bits - flow.rate * static_cast<double>(now - flow.since));
        flow.since = now;
      }
      flow.rate = rate;
      set_end(flow);
    }
    network_changed_ = false;
  }
  for (const std::uint32_t f : begun_) {
    flows_[f].fresh = false;
    set_end(flows_[f]);
  }
  begun_.clear();
  next_end_ = kNever;
  for (const std::uint32_t f : sending_)
    next_end_ = std::min(next_end_, flows_[f].end);
}

void FlowRates::set_end(Flow& flow) {
  const double length = flow.rate > 0.0 ? flow.bits / flow.rate : kLongestNs;
  flow.end = length < kLongestNs ? flow.since + std::llround(std::ceil(length - kSlackNs)) : kNever;
}

// A flow over q subflows moves at q times the slowest of them (design, section 3.1).
void FlowRates::solve() {
  network_.clear();
  carried_.clear();
  for (std::uint32_t i = 0; i < sending_.size(); ++i)
    if (cross(sending_[i]))
      carried_.push_back(i);
  fresh_rates_.assign(sending_.size(), 0.0);
  const std::span<const double> rates = solver_.solve(network_, capacities_);
  const std::uint32_t qps = index_.qps();
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    const auto subflows = rates.subspan(i * qps, qps);
    fresh_rates_[carried_[i]] = *std::ranges::min_element(subflows) * qps;
  }
}

// False, and nothing crossed, if a subflow has no path.
bool FlowRates::cross(std::uint32_t flow) {
  for (std::uint32_t q = 0; q < index_.qps(); ++q)
    if (!paths_[index_.slot(flow, q)].routable())
      return false;
  for (std::uint32_t q = 0; q < index_.qps(); ++q) {
    cross(paths_[index_.slot(flow, q)]);
    network_.end_flow();
  }
  return true;
}

void FlowRates::cross(const Path& path) {
  network_.cross(topology_.nic_tx(path.from));
  if (path.crosses_core()) {
    network_.cross(topology_.uplink(path.up));
    if (path.down.valid()) {
      network_.cross(topology_.downlink(path.down));
    } else {
      // The spine hashes over what lives of the bundle: each cable carries its part in the mean.
      const auto cables =
          topology_.cables_between(topology_[path.to].leaf, topology_[path.up].spine);
      const auto alive = [this](CableId c) { return links_.up(topology_.downlink(c)); };
      const auto live = std::ranges::count_if(cables, alive);
      for (const CableId cable : cables)
        if (live == 0 || alive(cable))
          network_.cross(topology_.downlink(cable),
                         1.0 / static_cast<double>(live == 0 ? std::ssize(cables) : live));
    }
  }
  network_.cross(topology_.nic_rx(path.to));
}

}  // namespace heddle::sim
