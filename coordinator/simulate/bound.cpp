#include "coordinator/simulate/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/core/efficiency.h"

namespace heddle::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kSteps = 400;
constexpr double kRounding = 1e-9;

// One side of a leaf: what leaves it upwards, or enters it from above.
struct Side {
  std::uint32_t links{};  // alive
  double capacity{};
  double widest{};
  std::uint64_t subflows{};
  double needed{};
  double easiest{};  // the largest of subflows / needed over its flows
};

class Bounder {
 public:
  Bounder(const Topology& topology, const LinkState& links, const Demand& demand,
          std::span<const Rate> residual)
      : topology_(topology),
        demand_(demand),
        evaluator_(topology, links, demand, residual),
        leaves_(static_cast<std::uint32_t>(topology.leaves().size())),
        spines_(static_cast<std::uint32_t>(topology.spines().size())),
        up_(std::size_t{leaves_} * spines_, 0.0),
        down_(up_.size(), 0.0),
        demands_(std::size_t{leaves_} * leaves_, 0.0),
        outward_(leaves_),
        inward_(leaves_) {
    for (std::uint32_t c = 0; c < topology.cables().size(); ++c)
      add_cable({c});
    for (std::uint32_t f = 0; f < demand.flows.size(); ++f)
      add_flow(f);
  }

  Bound compute(BoundEffort effort) const {
    Bound bound;
    if (cut_off())
      return {.max_on_link = 0, .efficiency = 0.0, .combinatorial = 0.0, .linear = 0.0};
    double combinatorial = 1.0, linear = 1.0;
    for (const auto* sides : {&outward_, &inward_}) {
      for (const Side& side : *sides) {
        if (side.subflows == 0)
          continue;
        const std::uint64_t most = (side.subflows + side.links - 1) / side.links;
        bound.max_on_link = std::max(bound.max_on_link, static_cast<std::uint32_t>(most));
        // On the fullest link somebody gets at most an equal share.
        combinatorial =
            std::min(combinatorial, side.widest / static_cast<double>(most) * side.easiest);
        if (side.needed > 0.0)
          linear = std::min(linear, side.capacity / side.needed);
      }
    }
    if (effort == BoundEffort::linear)
      linear = std::min(linear, by_weights());
    bound.combinatorial = over_phases(combinatorial);
    bound.linear = over_phases(linear);
    bound.efficiency = std::min(bound.combinatorial, bound.linear);
    return bound;
  }

 private:
  std::size_t pair(std::uint32_t leaf, std::uint32_t spine) const {
    return std::size_t{leaf} * spines_ + spine;
  }

  void add_cable(CableId id) {
    const Topology::Cable& cable = topology_[id];
    const std::size_t at = pair(cable.leaf.value, cable.spine.value);
    const auto add = [this](LinkId link, Side& side, double& sum) {
      const double capacity = evaluator_.capacities()[link.value];
      if (capacity <= 0.0)
        return;
      ++side.links;
      side.capacity += capacity;
      side.widest = std::max(side.widest, capacity);
      sum += capacity;
    };
    add(topology_.uplink(id), outward_[cable.leaf.value], up_[at]);
    add(topology_.downlink(id), inward_[cable.leaf.value], down_[at]);
  }

  void add_flow(std::uint32_t f) {
    const FlowDemand& flow = demand_.flows[f];
    const double needed = evaluator_.needed_rate(f);
    if (flow.phase != evaluator_.heaviest_phase(flow.job) || !(needed > 0.0) || flow.subflows == 0)
      return;
    const auto& from = topology_[flow.source].attachments;
    const auto& to = topology_[flow.destination].attachments;
    if (from.size() != 1 || to.size() != 1)
      return;
    const std::uint32_t source = topology_[from.front()].leaf.value;
    const std::uint32_t destination = topology_[to.front()].leaf.value;
    if (source == destination)
      return;
    demands_[std::size_t{source} * leaves_ + destination] += needed;
    for (Side* side : {&outward_[source], &inward_[destination]}) {
      side->subflows += flow.subflows;
      side->needed += needed;
      side->easiest = std::max(side->easiest, flow.subflows / needed);
    }
  }

  bool cut_off() const {
    for (std::uint32_t a = 0; a < leaves_; ++a)
      for (std::uint32_t b = 0; b < leaves_; ++b)
        if (demands_[std::size_t{a} * leaves_ + b] > 0.0 && !connected(a, b))
          return true;
    return false;
  }
  bool connected(std::uint32_t a, std::uint32_t b) const {
    for (std::uint32_t s = 0; s < spines_; ++s)
      if (up_[pair(a, s)] > 0.0 && down_[pair(b, s)] > 0.0)
        return true;
    return false;
  }

  // Maximum concurrent flow, bounded by its dual: for any lengths of the links, capacity x length
  // over demand x distance. Lengths grow where the shortest paths crowd (Garg and Koenemann); the
  // least ratio met is returned.
  double by_weights() const {
    std::vector<double> up_length(up_.size(), 1.0), down_length(down_.size(), 1.0);
    std::vector<double> up_load, down_load;
    double best = kInfinite;
    for (int step = 0; step < kSteps; ++step) {
      up_load.assign(up_.size(), 0.0);
      down_load.assign(down_.size(), 0.0);
      double wanted = 0.0, offered = 0.0;
      for (std::uint32_t a = 0; a < leaves_; ++a)
        for (std::uint32_t b = 0; b < leaves_; ++b)
          if (const double demand = demands_[std::size_t{a} * leaves_ + b]; demand > 0.0)
            wanted += demand * route(a, b, demand, up_length, down_length, up_load, down_load);
      for (std::size_t i = 0; i < up_.size(); ++i)
        offered += up_[i] * up_length[i] + down_[i] * down_length[i];
      if (wanted <= 0.0)
        return 1.0;
      best = std::min(best, offered / wanted);
      const double rate = 0.5 / std::sqrt(1.0 + step);
      lengthen(up_, up_load, up_length, rate);
      lengthen(down_, down_load, down_length, rate);
    }
    return best;
  }

  // The distance from a to b. Spreads the demand over the paths that are nearly shortest, by their
  // capacity: all of it on one would make the lengths swing.
  double route(std::uint32_t a, std::uint32_t b, double demand,
               const std::vector<double>& up_length, const std::vector<double>& down_length,
               std::vector<double>& up_load, std::vector<double>& down_load) const {
    constexpr double kNearly = 1.02;
    double distance = kInfinite;
    for (std::uint32_t s = 0; s < spines_; ++s)
      if (up_[pair(a, s)] > 0.0 && down_[pair(b, s)] > 0.0)
        distance = std::min(distance, up_length[pair(a, s)] + down_length[pair(b, s)]);
    double width = 0.0;
    const auto usable = [&](std::uint32_t s) {
      const double w = std::min(up_[pair(a, s)], down_[pair(b, s)]);
      return w > 0.0 && up_length[pair(a, s)] + down_length[pair(b, s)] <= distance * kNearly ? w
                                                                                              : 0.0;
    };
    for (std::uint32_t s = 0; s < spines_; ++s)
      width += usable(s);
    for (std::uint32_t s = 0; s < spines_; ++s) {
      const double part = demand * usable(s) / width;
      up_load[pair(a, s)] += part;
      down_load[pair(b, s)] += part;
    }
    return distance;
  }

  static void lengthen(const std::vector<double>& capacity, const std::vector<double>& load,
                       std::vector<double>& length, double rate) {
    for (std::size_t i = 0; i < capacity.size(); ++i)
      if (capacity[i] > 0.0)
        length[i] *= std::exp(rate * std::min(4.0, load[i] / capacity[i] - 1.0));
  }

  // From a bound on the heaviest phases to one on jobs: the other phases take their ideal time at
  // best.
  double over_phases(double share) const {
    share = share > 1.0 - kRounding ? 1.0 : share;
    std::vector<std::vector<double>> seconds(demand_.jobs.size());
    for (std::uint32_t f = 0; f < demand_.flows.size(); ++f) {
      const FlowDemand& flow = demand_.flows[f];
      const double needed = evaluator_.needed_rate(f);
      auto& phases = seconds[flow.job.value];
      phases.resize(std::max<std::size_t>(phases.size(), flow.phase + 1), 0.0);
      if (needed > 0.0)
        phases[flow.phase] = std::max(phases[flow.phase], flow.weight * 8.0 / needed);
    }
    double bound = share;
    for (std::uint32_t j = 0; j < seconds.size(); ++j) {
      double ideal = 0.0, heaviest = 0.0;
      for (std::uint32_t p = 0; p < seconds[j].size(); ++p) {
        ideal += seconds[j][p];
        if (p == evaluator_.heaviest_phase({j}))
          heaviest = seconds[j][p];
      }
      if (ideal > heaviest * (1.0 + kRounding) && share > 0.0)
        bound = std::max(bound, ideal / (ideal - heaviest + heaviest / share));
    }
    return bound;
  }

  const Topology& topology_;
  const Demand& demand_;
  Evaluator evaluator_;
  std::uint32_t leaves_;
  std::uint32_t spines_;
  std::vector<double> up_;       // capacity by leaf and spine
  std::vector<double> down_;     // likewise
  std::vector<double> demands_;  // by source leaf and destination leaf
  std::vector<Side> outward_;
  std::vector<Side> inward_;
};

}  // namespace

Bound bound_of(const Topology& topology, const LinkState& links, const Demand& demand,
               std::span<const Rate> residual, BoundEffort effort) {
  return Bounder(topology, links, demand, residual).compute(effort);
}

}  // namespace heddle::sim
