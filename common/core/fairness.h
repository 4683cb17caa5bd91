// Max-min fair rates by water-filling (design, section 3.1): what RoCE congestion control converges
// to. Pure; no thread. A MaxMin keeps its working memory between calls, so one belongs to one
// caller.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/core/units.h"

namespace heddle {

// The links that one subflow crosses.
struct FairFlow {
  std::vector<LinkId> links;
};

// Rates, flow by flow. A flow over no link, or over a link without capacity, gets an infinite, or a
// zero, rate. Cost: O(E log E) for E flow-link incidences.
std::vector<Rate> max_min_fair(std::span<const FairFlow> flows, std::span<const Rate> capacities);

// Many flows over many links, flow after flow in one array: the form for large cases. Each
// incidence has the part of the flow's rate that the link carries: 1, except over hashed parallel
// cables, where each of k carries 1/k in the mean.
struct FairNetwork {
  std::vector<std::uint32_t> first{0};  // flow f has the incidences first[f] up to first[f + 1]
  std::vector<LinkId> links;
  std::vector<double> parts;

  std::size_t flows() const { return first.size() - 1; }
  void cross(LinkId link, double part = 1.0) {
    links.push_back(link);
    parts.push_back(part);
  }
  void end_flow() { first.push_back(static_cast<std::uint32_t>(links.size())); }
  void clear() {
    first.resize(1);
    links.clear();
    parts.clear();
  }
};

// Water-filling: all rates rise together; where a link is full, the flows over it stop.
class MaxMin {
 public:
  // Rates in bits per second, flow by flow, valid until the next call. `capacities` by link, not
  // negative.
  std::span<const double> solve(const FairNetwork& network, std::span<const double> capacities);

 private:
  // A link that flows compete for: what is left of it, and how many still rise.
  struct Contended {
    double capacity{};
    double weight{};
    std::uint32_t first{};  // its flows are members_[first] up to members_[end]
    std::uint32_t end{};
  };
  using Event = std::pair<double, std::uint32_t>;  // the level at which a link is full, the link

  void find_limits(const FairNetwork& network, std::span<const double> capacities);
  void collect_contended(const FairNetwork& network, std::span<const double> capacities);
  void fill(const FairNetwork& network);
  std::uint32_t bucket(double level) const;
  void stop(const FairNetwork& network, std::uint32_t flow, double rate);

  std::vector<double> rates_;
  std::vector<double> limits_;          // by flow: what its narrowest link alone would allow
  std::vector<double> wanted_;          // by link: if every flow ran at its limit
  std::vector<double> weights_;         // by link
  std::vector<std::uint32_t> slots_;    // by link: its place in contended_
  std::vector<std::uint32_t> crossed_;  // by incidence: the same
  std::vector<Contended> contended_;
  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> rising_;  // flows over contended links, by ascending limit
  std::vector<bool> stopped_;
  std::vector<std::uint32_t> buckets_;  // by leading bits of the level: the first link of a list
  std::vector<std::uint32_t> waiting_;  // by link: the next one of the list
  std::uint64_t lowest_{};              // the leading bits of the lowest level of all
  std::vector<Event> heap_;             // the present bucket
};

}  // namespace heddle
