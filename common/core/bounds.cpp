#include "common/core/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>

namespace heddle {
namespace {

constexpr double kEqual = 1e-9;

// What must leave (or enter) one leaf: what each unit needs in all, in bits per second.
using Needs = std::vector<double>;
// The leaf's live links of that direction.
using Lanes = std::vector<double>;

// The largest share that every one of n equal units can have: n units on links, c / units per link.
double best_share(const Lanes& lanes, std::size_t n) {
  if (lanes.empty() || n == 0)
    return lanes.empty() ? 0.0 : std::numeric_limits<double>::infinity();
  if (lanes.front() == lanes.back()) {  // sorted: all alike
    const std::size_t on_the_fullest = (n + lanes.size() - 1) / lanes.size();
    return lanes.front() / static_cast<double>(on_the_fullest);
  }
  // Unit by unit to where its share is largest; none then can be better off elsewhere.
  std::priority_queue<std::pair<double, std::size_t>> shares;
  std::vector<double> units(lanes.size(), 0.0);
  for (std::size_t i = 0; i < lanes.size(); ++i)
    shares.emplace(lanes[i], i);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < n; ++k) {
    const auto [share, lane] = shares.top();
    shares.pop();
    least = std::min(least, share);
    units[lane] += 1.0;
    shares.emplace(lanes[lane] / (units[lane] + 1.0), lane);
  }
  return least;
}

// Both bounds over one leaf's links. Units that need at least x, however many others there are,
// share the links as equal units of x would at best.
double leaf_bound(Needs& needs, const Lanes& lanes) {
  if (needs.empty())
    return 1.0;
  std::ranges::sort(needs, std::greater{});
  double capacity = 0.0, needed = 0.0, bound = 1.0;
  for (const double lane : lanes)
    capacity += lane;
  for (std::size_t k = 0; k < needs.size(); ++k) {
    needed += needs[k];
    if (k + 1 == needs.size() || needs[k + 1] < needs[k])
      bound = std::min(bound, best_share(lanes, k + 1) / needs[k]);
  }
  return std::min(bound, capacity / needed);
}

struct LeafLoad {
  Needs out;
  Needs in;
  std::size_t out_subflows{};
  std::size_t in_subflows{};

  void add(const LeafLoad& other) {
    out.insert(out.end(), other.out.begin(), other.out.end());
    in.insert(in.end(), other.in.begin(), other.in.end());
    out_subflows += other.out_subflows;
    in_subflows += other.in_subflows;
  }
};

class Finder {
 public:
  Finder(const Model& model, const Evaluator& evaluator) : model_(model), evaluator_(evaluator) {
    const std::size_t leaves = model.topology().leaves().size();
    up_.resize(leaves);
    down_.resize(leaves);
    for (std::uint32_t l = 0; l < leaves; ++l) {
      for (const Model::Uplink& up : model.uplinks({l}))
        up_[l].push_back(model.resources()[model.uplink(up.cable).value].capacity);
      for (std::uint32_t s = 0; s < model.topology().spines().size(); ++s) {
        const Model::Resource& bundle = model.resources()[model.downlinks({s}, {l}).value];
        down_[l].insert(down_[l].end(), bundle.lanes, bundle.capacity / std::max(1U, bundle.lanes));
      }
      std::ranges::sort(up_[l]);
      std::ranges::sort(down_[l]);
    }
  }

  Bounds find() {
    Bounds bounds;
    const std::size_t jobs = model_.problem().demand.jobs.size();
    std::vector<std::vector<Load>> loads_of_job(jobs);
    std::vector<LeafLoad> all(up_.size());
    std::map<std::vector<std::uint32_t>, LeafLoad> by_leaves;
    for (const Model::Unit& unit : model_.units()) {
      if (unit.end_way - unit.first_way != 1) {
        add_to_sets(unit, by_leaves);
        continue;
      }
      const Model::Way& way = model_.ways()[unit.first_way];
      Load load{.from = way.from_leaf.value, .to = way.to_leaf.value};
      for (const std::uint32_t s : model_.members(unit)) {
        const FlowDemand& flow = model_.demand_of(s);
        if (flow.phase != evaluator_.heaviest_phase(flow.job))
          continue;
        ++load.subflows;
        const double need = evaluator_.needed_rate(model_.flow_of(s)) / flow.subflows;
        load.need += need;
        auto& own = loads_of_job[flow.job.value];
        if (!own.empty() && own.back().unit == &unit)
          own.back().need += need;
        else
          own.push_back({.unit = &unit, .from = load.from, .to = load.to, .need = need});
      }
      if (load.subflows == 0)
        continue;
      all[load.from].out.push_back(load.need);
      all[load.from].out_subflows += load.subflows;
      all[load.to].in.push_back(load.need);
      all[load.to].in_subflows += load.subflows;
      bounds.max_on_link =
          std::max(bounds.max_on_link, (load.subflows + widest(load.to) - 1) / widest(load.to));
    }
    for (const auto& [leaves, own] : by_leaves) {
      // All that has no other way than over these leaves, on all of their links.
      LeafLoad load;
      Lanes up, down;
      for (const std::uint32_t l : leaves) {
        load.add(all[l]);
        up.insert(up.end(), up_[l].begin(), up_[l].end());
        down.insert(down.end(), down_[l].begin(), down_[l].end());
      }
      for (const auto& [others, theirs] : by_leaves)
        if (std::ranges::includes(leaves, others))
          load.add(theirs);
      std::ranges::sort(up);
      std::ranges::sort(down);
      bound_by(load, up, down, bounds);
    }
    for (std::size_t l = 0; l < all.size(); ++l)
      bound_by(all[l], up_[l], down_[l], bounds);
    for (auto& loads : loads_of_job)
      bounds.by_job.push_back(alone(loads));
    return bounds;
  }

 private:
  struct Load {
    const Model::Unit* unit{};
    std::uint32_t from{};
    std::uint32_t to{};
    std::uint32_t subflows{};
    double need{};
  };

  // A unit with several ways in or out is bound to no leaf, but to a set of them.
  void add_to_sets(const Model::Unit& unit,
                   std::map<std::vector<std::uint32_t>, LeafLoad>& by_leaves) const {
    double need = 0.0;
    std::size_t subflows = 0;
    for (const std::uint32_t s : model_.members(unit)) {
      const FlowDemand& flow = model_.demand_of(s);
      if (flow.phase != evaluator_.heaviest_phase(flow.job))
        continue;
      ++subflows;
      need += evaluator_.needed_rate(model_.flow_of(s)) / flow.subflows;
    }
    if (subflows == 0)
      return;
    std::vector<std::uint32_t> from, to;
    for (std::uint32_t w = unit.first_way; w < unit.end_way; ++w) {
      from.push_back(model_.ways()[w].from_leaf.value);
      to.push_back(model_.ways()[w].to_leaf.value);
    }
    for (auto* leaves : {&from, &to}) {
      std::ranges::sort(*leaves);
      leaves->erase(std::unique(leaves->begin(), leaves->end()), leaves->end());
    }
    LeafLoad& out = by_leaves[from];
    out.out.push_back(need);
    out.out_subflows += subflows;
    LeafLoad& in = by_leaves[to];
    in.in.push_back(need);
    in.in_subflows += subflows;
  }

  static void bound_by(LeafLoad& load, const Lanes& up, const Lanes& down, Bounds& bounds) {
    bounds.worst = std::min({bounds.worst, leaf_bound(load.out, up), leaf_bound(load.in, down)});
    for (const auto& [subflows, lanes] :
         {std::pair{load.out_subflows, up.size()}, std::pair{load.in_subflows, down.size()}})
      if (lanes > 0)
        bounds.max_on_link = std::max(bounds.max_on_link,
                                      static_cast<std::uint32_t>((subflows + lanes - 1) / lanes));
  }

  // The most parallel cables that the spine may hash a unit over.
  std::uint32_t widest(std::uint32_t leaf) const {
    std::uint32_t most = 1;
    for (std::uint32_t s = 0; s < model_.topology().spines().size(); ++s)
      most = std::max(most, model_.resources()[model_.downlinks({s}, {leaf}).value].lanes);
    return most;
  }

  double alone(std::vector<Load>& loads) {
    double bound = 1.0;
    for (const bool out : {true, false}) {
      const auto leaf = [out](const Load& load) { return out ? load.from : load.to; };
      std::ranges::stable_sort(loads, {}, leaf);
      for (std::size_t begin = 0; begin < loads.size();) {
        Needs needs;
        std::size_t end = begin;
        for (; end < loads.size() && leaf(loads[end]) == leaf(loads[begin]); ++end)
          needs.push_back(loads[end].need);
        const std::uint32_t l = leaf(loads[begin]);
        bound = std::min(bound, leaf_bound(needs, out ? up_[l] : down_[l]));
        begin = end;
      }
    }
    return bound;
  }

  const Model& model_;
  const Evaluator& evaluator_;
  std::vector<Lanes> up_;  // by leaf, ascending
  std::vector<Lanes> down_;
};

}  // namespace

Bounds find_bounds(const Model& model, const Evaluator& evaluator) {
  return Finder(model, evaluator).find();
}

double split_bound(const Model& model, const Evaluator& evaluator, std::uint32_t iterations) {
  // Commodities are pairs of leaves; parallel cables are one link, since flows may split.
  const std::size_t leaves = model.topology().leaves().size();
  const std::size_t spines = model.topology().spines().size();
  std::vector<double> up(leaves * spines, 0.0), down(up);
  for (std::uint32_t l = 0; l < leaves; ++l) {
    for (const Model::Uplink& uplink : model.uplinks({l}))
      up[l * spines + uplink.spine.value] +=
          model.resources()[model.uplink(uplink.cable).value].capacity;
    for (std::uint32_t s = 0; s < spines; ++s)
      down[l * spines + s] = model.resources()[model.downlinks({s}, {l}).value].capacity;
  }
  struct Pair {
    std::uint32_t from, to;
    double need;
  };
  std::vector<double> needed(leaves * leaves, 0.0);
  for (const Model::Unit& unit : model.units()) {
    if (unit.end_way - unit.first_way != 1)
      continue;
    const Model::Way& way = model.ways()[unit.first_way];
    for (const std::uint32_t s : model.members(unit)) {
      const FlowDemand& flow = model.demand_of(s);
      if (flow.phase == evaluator.heaviest_phase(flow.job))
        needed[way.from_leaf.value * leaves + way.to_leaf.value] +=
            evaluator.needed_rate(model.flow_of(s)) / flow.subflows;
    }
  }
  std::vector<Pair> pairs;
  for (std::uint32_t i = 0; i < needed.size(); ++i)
    if (needed[i] > 0.0)
      pairs.push_back({.from = static_cast<std::uint32_t>(i / leaves),
                       .to = static_cast<std::uint32_t>(i % leaves),
                       .need = needed[i]});

  // Lengths grow where the cheapest paths crowd. Each round's lengths prove a bound: what all links
  // can carry, by length, over what the demand must use of it.
  std::vector<double> up_length(up.size()), down_length(up.size());
  std::vector<double> up_load(up.size(), 0.0), down_load(up.size(), 0.0);
  double bound = 1.0;
  // Begin with the cuts that decide most often: one leaf's links in one direction, all of length 1
  // over their capacity.
  std::vector<double> needed_out(leaves, 0.0), needed_in(needed_out), live_up(needed_out),
      live_down(needed_out);
  for (const Pair& pair : pairs) {
    needed_out[pair.from] += pair.need;
    needed_in[pair.to] += pair.need;
  }
  for (std::size_t i = 0; i < up.size(); ++i) {
    live_up[i / spines] += up[i];
    live_down[i / spines] += down[i];
  }
  for (std::size_t l = 0; l < leaves; ++l) {
    if (needed_out[l] > 0.0)
      bound = std::min(bound, live_up[l] / needed_out[l]);
    if (needed_in[l] > 0.0)
      bound = std::min(bound, live_down[l] / needed_in[l]);
  }
  for (std::uint32_t round = 0; round < iterations; ++round) {
    double most = 0.0;
    for (std::size_t i = 0; i < up.size(); ++i) {
      if (up[i] > 0.0)
        most = std::max(most, up_load[i] / up[i]);
      if (down[i] > 0.0)
        most = std::max(most, down_load[i] / down[i]);
    }
    // Sharper as the rounds go on; the mean load then is close to the optimal flow.
    const double sharpness = most > 0.0 ? 4.0 * std::sqrt(round + 1.0) / most : 0.0;
    const auto length = [&](double load, double capacity) {
      return capacity > 0.0 ? std::exp(sharpness * (load / capacity - most)) / capacity : 0.0;
    };
    double carried = 0.0, used = 0.0;
    for (std::size_t i = 0; i < up.size(); ++i) {
      up_length[i] = length(up_load[i], up[i]);
      down_length[i] = length(down_load[i], down[i]);
      carried += up_length[i] * up[i] + down_length[i] * down[i];
    }
    const double step = 1.0 / (round + 1.0);
    for (std::size_t i = 0; i < up.size(); ++i) {
      up_load[i] *= 1.0 - step;
      down_load[i] *= 1.0 - step;
    }
    for (const Pair& pair : pairs) {
      const std::size_t from = pair.from * spines, to = pair.to * spines;
      double shortest = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < spines; ++s)
        if (up[from + s] > 0.0 && down[to + s] > 0.0)
          shortest = std::min(shortest, up_length[from + s] + down_length[to + s]);
      if (!std::isfinite(shortest))
        continue;
      used += pair.need * shortest;
      // Equally short paths share, which symmetric fabrics have many of.
      double ties = 0.0;
      for (const bool counting : {true, false})
        for (std::size_t s = 0; s < spines; ++s)
          if (up[from + s] > 0.0 && down[to + s] > 0.0 &&
              up_length[from + s] + down_length[to + s] <= shortest * (1.0 + kEqual)) {
            if (counting) {
              ties += 1.0;
              continue;
            }
            up_load[from + s] += step * pair.need / ties;
            down_load[to + s] += step * pair.need / ties;
          }
    }
    if (used > 0.0)
      bound = std::min(bound, carried / used);
  }
  return bound;
}

double linear_program_bound(const Model& model, const Evaluator& evaluator,
                            std::uint32_t iterations) {
  return std::min(split_bound(model, evaluator, iterations), find_bounds(model, evaluator).worst);
}

}  // namespace heddle
