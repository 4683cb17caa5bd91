#include "coordinator/simulate/fabric_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "coordinator/simulate/random.h"

namespace heddle::sim {
namespace {

std::string address_of(std::uint32_t nic) {
  const std::uint32_t host = nic + 1;
  return fmt::format("10.{}.{}.{}", host >> 16 & 255, host >> 8 & 255, host & 255);
}

std::vector<bool> thin_pairs(const FabricSpec& spec, std::size_t pairs) {
  std::vector<std::uint32_t> order(pairs);
  for (std::uint32_t i = 0; i < pairs; ++i)
    order[i] = i;
  Random(spec.seed).shuffle(order);
  std::vector<bool> thin(pairs, false);
  const auto count =
      static_cast<std::size_t>(std::lround(spec.thin_bundles * static_cast<double>(pairs)));
  for (std::size_t i = 0; i < std::min(count, pairs); ++i)
    thin[order[i]] = true;
  return thin;
}

}  // namespace

Result<FabricDescription> describe_fabric(const FabricSpec& spec) {
  if (spec.leaves == 0 || spec.nics_per_leaf == 0 || spec.uplinks == 0 || spec.bundle == 0)
    return fail(Errc::invalid_argument,
                "leaves, NICs per leaf, uplinks and bundle must be above zero");
  if (!std::isfinite(spec.oversubscription) || spec.oversubscription <= 0)
    return fail(Errc::invalid_argument, "oversubscription must be above zero and finite");
  if (!(spec.thin_bundles >= 0 && spec.thin_bundles <= 1))
    return fail(Errc::invalid_argument, "the share of thin bundles must be from 0 to 1");
  const std::uint64_t leaves = spec.leaves;
  if (leaves > kMostLeaves || spec.nics_per_leaf > kMostPerLeaf || spec.uplinks > kMostPerLeaf ||
      leaves * spec.nics_per_leaf > kMostInFabric || leaves * spec.uplinks > kMostInFabric)
    return fail(
        Errc::invalid_argument,
        fmt::format("{} leaves with {} NICs and {} uplinks: at most {} leaves, {} of either "
                    "on a leaf, and {} of either in all",
                    spec.leaves, spec.nics_per_leaf, spec.uplinks, kMostLeaves, kMostPerLeaf,
                    kMostInFabric));
  if (spec.uplinks / spec.oversubscription > kMostPerLeaf)
    return fail(Errc::invalid_argument,
                fmt::format("oversubscription {} leaves more than {} uplinks on a leaf",
                            spec.oversubscription, kMostPerLeaf));
  const double wanted = spec.uplinks / spec.oversubscription / spec.bundle;
  const auto spines = static_cast<std::uint32_t>(std::lround(wanted));
  if (spines == 0 || std::abs(wanted - spines) > 1e-9)
    return fail(
        Errc::invalid_argument,
        fmt::format(
            "{} uplinks, oversubscription {} and bundles of {} give {} spines, which is not a "
            "whole number above zero",
            spec.uplinks, spec.oversubscription, spec.bundle, wanted));

  FabricDescription fabric;
  fabric.name = fmt::format("{}x{}x{}", spec.leaves, spines, spec.nics_per_leaf);
  for (std::uint32_t s = 1; s <= spines; ++s)
    fabric.spines.push_back({.name = fmt::format("spine{}", s)});
  const std::vector<bool> thin = thin_pairs(spec, std::size_t{spec.leaves} * spines);
  for (std::uint32_t l = 1; l <= spec.leaves; ++l) {
    const std::string leaf = fmt::format("leaf{}", l);
    fabric.leaves.push_back({.name = leaf, .rack = leaf});
    for (std::uint32_t n = 1; n <= spec.nics_per_leaf; ++n) {
      const std::string host = fmt::format("h{}-{}", l, n);
      const std::uint32_t nic = (l - 1) * spec.nics_per_leaf + n - 1;
      fabric.hosts.push_back({.name = host,
                              .rack = leaf,
                              .nics = {{.name = "eth0",
                                        .address = address_of(nic),
                                        .attachments = {{.leaf = leaf,
                                                         .leaf_port = fmt::format("p{}", n),
                                                         .capacity = spec.capacity}}}}});
    }
    for (std::uint32_t s = 1; s <= spines; ++s) {
      const bool is_thin = thin[std::size_t{l - 1} * spines + s - 1];
      for (std::uint32_t c = 1; c <= (is_thin ? 1 : spec.bundle); ++c) {
        const std::string number = spec.bundle == 1 ? "" : fmt::format(".{}", c);
        fabric.cables.push_back({.leaf = leaf,
                                 .spine = fmt::format("spine{}", s),
                                 .leaf_port = fmt::format("up{}{}", s, number),
                                 .spine_port = fmt::format("d{}{}", l, number),
                                 .capacity = spec.capacity});
      }
    }
  }
  return fabric;
}

Result<Topology> generate_fabric(const FabricSpec& spec) {
  const Result<FabricDescription> description = describe_fabric(spec);
  if (!description)
    return tl::unexpected(description.error());
  auto topology = Topology::build(*description);
  if (!topology)
    return fail(Errc::invalid_argument, topology.error().front().message);
  return *std::move(topology);
}

std::vector<CableId> failed_cables(const Topology& topology, const Failures& failures) {
  std::vector<bool> failed(topology.cables().size(), false);
  const auto spines = static_cast<std::uint32_t>(topology.spines().size());
  for (std::uint32_t s = spines - std::min(spines, failures.spines); s < spines; ++s)
    for (const CableId cable : topology[SpineId{s}].cables)
      failed[cable.value] = true;

  std::vector<std::uint32_t> order(failed.size());
  for (std::uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  Random(failures.seed).shuffle(order);
  const auto count =
      static_cast<std::size_t>(std::lround(failures.links * static_cast<double>(order.size())));
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i)
    failed[order[i]] = true;

  std::vector<CableId> cables;
  for (std::uint32_t i = 0; i < failed.size(); ++i)
    if (failed[i])
      cables.push_back({i});
  return cables;
}

}  // namespace heddle::sim
