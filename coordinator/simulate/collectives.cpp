#include "coordinator/simulate/collectives.h"

#include <bit>

namespace heddle::sim {

std::uint32_t CollectiveBuilder::flow(NicId source, NicId destination) {
  const auto [it, fresh] =
      flows_.emplace(std::pair(source, destination), static_cast<std::uint32_t>(job_.flows.size()));
  if (fresh)
    job_.flows.push_back({source, destination});
  return it->second;
}

void CollectiveBuilder::add(Group group) {
  if (job_.iteration.empty())
    job_.iteration.emplace_back();
  for (const Round& round : group.rounds)
    job_.phases = std::max(job_.phases, round.phase + 1);
  job_.iteration.back().groups.push_back(std::move(group));
}

std::uint32_t CollectiveBuilder::ring(std::span<const NicId> members, double bytes,
                                      std::uint32_t first_phase) {
  return ring_of_parts(members, bytes / static_cast<double>(members.size()), first_phase);
}

std::uint32_t CollectiveBuilder::ring_of_parts(std::span<const NicId> members,
                                               double bytes_in_round, std::uint32_t first_phase) {
  const auto n = static_cast<std::uint32_t>(members.size());
  if (n < 2)
    return 0;
  Round round{.repeat = 2 * (n - 1), .phase = first_phase};
  for (std::uint32_t i = 0; i < n; ++i)
    round.transfers.push_back({flow(members[i], members[(i + 1) % n]), bytes_in_round});
  add({.rounds = {std::move(round)}});
  return 1;
}

std::uint32_t CollectiveBuilder::halving_doubling(std::span<const NicId> members, double bytes,
                                                  std::uint32_t first_phase) {
  if (members.size() < 2)
    return 0;
  const auto n = std::bit_floor(static_cast<std::uint32_t>(members.size()));
  const auto pairs = static_cast<std::uint32_t>(members.size()) - n;
  Group group;
  std::uint32_t phase = first_phase;
  std::vector<NicId> active;
  Round fold{.phase = phase}, unfold;
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    const NicId folded = members[2 * pair], kept = members[2 * pair + 1];
    fold.transfers.push_back({flow(folded, kept), bytes});
    unfold.transfers.push_back({flow(kept, folded), bytes});
    active.push_back(kept);
  }
  active.insert(active.end(), members.begin() + 2 * pairs, members.end());
  if (pairs > 0) {
    group.rounds.push_back(std::move(fold));
    ++phase;
  }
  const std::size_t first_exchange = group.rounds.size();
  double part = bytes / 2;
  for (std::uint32_t distance = n / 2; distance > 0; distance /= 2, part /= 2) {
    Round round{.phase = phase++};
    for (std::uint32_t i = 0; i < n; ++i)
      round.transfers.push_back({flow(active[i], active[i ^ distance]), part});
    group.rounds.push_back(std::move(round));
  }
  // Gathering is the same exchanges in the opposite order; at distance 1 they follow each other.
  for (std::size_t i = group.rounds.size(); i > first_exchange; --i)
    group.rounds.push_back(Round(group.rounds[i - 1]));
  if (pairs > 0) {
    unfold.phase = phase++;
    group.rounds.push_back(std::move(unfold));
  }
  add(std::move(group));
  return phase - first_phase;
}

std::uint32_t CollectiveBuilder::all_to_all(std::span<const NicId> members, double bytes,
                                            std::uint32_t first_phase) {
  const std::size_t n = members.size();
  if (n < 2)
    return 0;
  Round round{.phase = first_phase};
  for (std::size_t shift = 1; shift < n; ++shift)
    for (std::size_t i = 0; i < n; ++i)
      round.transfers.push_back(
          {flow(members[i], members[(i + shift) % n]), bytes / static_cast<double>(n)});
  add({.rounds = {std::move(round)}});
  return 1;
}

std::uint32_t CollectiveBuilder::pipeline(std::span<const NicId> stages, double bytes,
                                          std::uint32_t microbatches, std::uint32_t first_phase) {
  if (stages.size() < 2 || microbatches == 0)
    return 0;
  Round round{.repeat = microbatches, .phase = first_phase};
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    round.transfers.push_back({flow(stages[i], stages[i + 1]), bytes});
  add({.rounds = {std::move(round)}});
  return 1;
}

}  // namespace heddle::sim
