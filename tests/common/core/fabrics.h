// Fabrics and demands for tests and benchmarks of the optimiser, made by rule or drawn from a seed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/core/optimiser.h"

namespace heddle::testing {

struct FabricShape {
  std::uint32_t leaves{};
  std::uint32_t spines{};
  std::uint32_t nics{};     // per leaf, one a host
  std::uint32_t cables{1};  // per leaf and spine
  Rate nic{100e9};
  Rate cable{100e9};
};

inline FabricDescription describe(const FabricShape& shape) {
  FabricDescription d;
  d.name = "test";
  for (std::uint32_t s = 0; s < shape.spines; ++s)
    d.spines.push_back({fmt::format("spine{}", s + 1), 0});
  for (std::uint32_t l = 0; l < shape.leaves; ++l) {
    const std::string leaf = fmt::format("leaf{}", l + 1);
    d.leaves.push_back({leaf, "", 0});
    for (std::uint32_t n = 0; n < shape.nics; ++n) {
      const std::uint32_t i = l * shape.nics + n;
      d.hosts.push_back({fmt::format("h{}-{}", l + 1, n + 1),
                         "",
                         {{"eth0",
                           fmt::format("10.{}.{}.{}", i >> 16, (i >> 8) & 255, i & 255),
                           {{leaf, fmt::format("p{}", n + 1), shape.nic, 0}},
                           0}},
                         0});
    }
    for (std::uint32_t s = 0; s < shape.spines; ++s)
      for (std::uint32_t c = 0; c < shape.cables; ++c)
        d.cables.push_back({leaf, fmt::format("spine{}", s + 1),
                            fmt::format("up{}-{}", s + 1, c + 1),
                            fmt::format("d{}-{}", l + 1, c + 1), shape.cable, 0});
  }
  return d;
}

inline Topology make_fabric(const FabricShape& shape) {
  return Topology::build(describe(shape)).value();
}

// One flow of weight 1 in phase 0 of a job.
inline FlowDemand flow(std::uint32_t job, std::uint32_t source, std::uint32_t destination,
                       double weight = 1.0, std::uint32_t subflows = 1) {
  return {.job = {job},
          .source = {source},
          .destination = {destination},
          .weight = weight,
          .subflows = subflows};
}

inline Demand demand_of(std::vector<FlowDemand> flows) {
  Demand demand;
  demand.flows = std::move(flows);
  std::uint32_t jobs = 0;
  for (const FlowDemand& f : demand.flows)
    jobs = std::max(jobs, f.job.value + 1);
  for (std::uint32_t j = 0; j < jobs; ++j)
    demand.jobs.push_back({.name = fmt::format("job{}", j + 1)});
  return demand;
}

// All NICs of the fabric in rings of the given sizes, placed at random; the last ring takes what is
// left.
template <class Sizes>
Demand ring_jobs(const Topology& topology, std::mt19937_64& random, Sizes size,
                 std::uint32_t subflows = 1) {
  std::vector<std::uint32_t> nics(topology.nics().size());
  std::iota(nics.begin(), nics.end(), 0U);
  std::ranges::shuffle(nics, random);
  std::vector<FlowDemand> flows;
  std::uint32_t job = 0;
  for (std::size_t begin = 0; begin < nics.size(); ++job) {
    std::size_t n = std::min<std::size_t>(size(random), nics.size() - begin);
    if (nics.size() - begin - n == 1)  // a ring of one is none
      ++n;
    for (std::size_t i = 0; i < n; ++i)
      flows.push_back(flow(job, nics[begin + i], nics[begin + (i + 1) % n], 1.0, subflows));
    begin += n;
  }
  return demand_of(std::move(flows));
}

// Every NIC sends to another leaf's NIC by a random permutation: D = NICs per leaf, all in one job.
inline Demand permutation(const Topology& topology, std::mt19937_64& random,
                          std::uint32_t subflows = 1) {
  return ring_jobs(
      topology, random, [&](auto&) { return topology.nics().size(); }, subflows);
}

// Random sources and destinations, never the same.
inline Demand random_flows(const Topology& topology, std::mt19937_64& random, std::size_t count,
                           std::uint32_t jobs = 1, std::uint32_t subflows = 1) {
  std::uniform_int_distribution<std::uint32_t> nic(
      0, static_cast<std::uint32_t>(topology.nics().size()) - 1);
  std::vector<FlowDemand> flows;
  while (flows.size() < count) {
    const std::uint32_t a = nic(random), b = nic(random);
    if (a != b)
      flows.push_back(flow(static_cast<std::uint32_t>(flows.size()) % jobs, a, b, 1.0, subflows));
  }
  return demand_of(std::move(flows));
}

// The largest number of core-crossing subflows that leave or enter one leaf.
inline std::uint32_t core_degree(const Topology& topology, const Demand& demand) {
  std::vector<std::uint32_t> out(topology.leaves().size(), 0), in(out);
  for (const FlowDemand& f : demand.flows) {
    const LeafId from = topology[topology[f.source].attachments.front()].leaf;
    const LeafId to = topology[topology[f.destination].attachments.front()].leaf;
    if (from == to)
      continue;
    out[from.value] += f.subflows;
    in[to.value] += f.subflows;
  }
  return std::max(std::ranges::max(out), std::ranges::max(in));
}

// Every subflow a steering unit of its own: queue pairs can be split.
inline std::vector<std::uint32_t> by_queue_pair(const Demand& demand) {
  std::vector<std::uint32_t> units(demand.subflow_count());
  std::iota(units.begin(), units.end(), 0U);
  return units;
}

inline Problem problem_of(const Topology& topology, const LinkState& links, Demand demand) {
  Problem problem;
  problem.topology = &topology;
  problem.links = &links;
  problem.demand = std::move(demand);
  return problem;
}

}  // namespace heddle::testing
