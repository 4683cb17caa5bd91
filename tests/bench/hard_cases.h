// The hard cases: jobs of many sizes at random places, unequal weights, single links down,
// oversubscription, bundles.
#pragma once

#include "tests/common/core/fabrics.h"

namespace heddle::testing {

struct HardCase {
  double links_down{};  // the part of all links, each direction by itself
  double oversubscription{1.0};
  bool bundles{};          // two cables to each of 16 spines, a tenth of the pairs with one
  bool unequal_weights{};  // uniform from {1/4, 1/2, 3/4, 1}, flow by flow; else 1
  std::uint32_t subflows{1};
  std::uint64_t seed{};
};

// 64 leaves x 32 spines (or 16, with two cables to each) x 32 NICs; rings of 4 to 256 NICs,
// geometric with mean 64, at random places.
struct HardInstance {
  Topology fabric;
  LinkState links;
  Problem problem;

  explicit HardInstance(const HardCase& c)
      : HardInstance(c, std::mt19937_64(c.seed * 1000003 + 17)) {}

 private:
  HardInstance(const HardCase& c, std::mt19937_64 random)
      : fabric(build(c, random)), links(fabric) {
    const auto chance = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    for (std::uint32_t l = 0; l < 2 * fabric.cables().size(); ++l)
      if (chance() < c.links_down)
        links.set(LinkId{l}, false);
    std::geometric_distribution<std::uint32_t> size(1.0 / 60);
    problem = problem_of(
        fabric, links,
        ring_jobs(
            fabric, random, [&](auto& r) { return std::min(256U, 4 + size(r)); }, c.subflows));
    if (c.unequal_weights)
      for (FlowDemand& flow : problem.demand.flows)
        flow.weight = static_cast<double>(1 + random() % 4) / 4;
    problem.unit_of_subflow = by_queue_pair(problem.demand);
  }

  static Topology build(const HardCase& c, std::mt19937_64& random) {
    FabricDescription d = describe({.leaves = 64,
                                    .spines = c.bundles ? 16U : 32U,
                                    .nics = 32,
                                    .cables = c.bundles ? 2U : 1U,
                                    .cable = 100_gbps / c.oversubscription});
    if (c.bundles) {
      std::vector<FabricDescription::Cable> kept;
      for (std::size_t i = 0; i < d.cables.size(); i += 2) {
        kept.push_back(d.cables[i]);
        if (random() % 10 != 0)
          kept.push_back(d.cables[i + 1]);
      }
      d.cables = kept;
    }
    return Topology::build(d).value();
  }
};

}  // namespace heddle::testing
