#include "coordinator/simulate/placement.h"

#include <algorithm>

namespace heddle::sim {
namespace {

constexpr std::uint32_t kRails = 8;

}  // namespace

std::optional<Placement> placement_named(std::string_view name) {
  if (name == "slices")
    return Placement::slices;
  if (name == "random")
    return Placement::random;
  if (name == "packed")
    return Placement::packed;
  if (name == "rail")
    return Placement::rail;
  return std::nullopt;
}

NicPool::NicPool(const Topology& topology)
    : leaves_(topology.leaves().size()),
      used_(topology.nics().size(), false),
      free_(static_cast<std::uint32_t>(topology.nics().size())) {
  for (std::uint32_t n = 0; n < topology.nics().size(); ++n)
    leaves_[topology[topology[NicId{n}].attachments.front()].leaf.value].push_back({n});
}

std::optional<std::vector<NicId>> NicPool::take(std::uint32_t count, Placement rule,
                                                Random& random) {
  if (count > free_)
    return std::nullopt;
  std::vector<NicId> taken;
  if (rule == Placement::slices) {
    if (!take_slices(count, random, taken))
      return std::nullopt;
  } else {
    taken = rule == Placement::rail ? by_rail() : all_free();
    if (rule == Placement::random)
      random.shuffle(taken);
    if (taken.size() < count)
      return std::nullopt;
    taken.resize(count);
  }
  for (const NicId nic : taken)
    used_[nic.value] = true;
  free_ -= count;
  return taken;
}

bool NicPool::take_slices(std::uint32_t count, Random& random, std::vector<NicId>& taken) const {
  while (taken.size() < count) {
    const std::size_t missing = count - taken.size();
    // A leaf is either taken whole, or a slice of it if what is missing fits.
    std::vector<std::vector<NicId>> candidates;
    for (std::uint32_t l = 0; l < leaves_.size(); ++l) {
      std::vector<NicId> free = free_in(l, taken);
      const bool whole =
          !free.empty() && free.size() == leaves_[l].size() && missing >= free.size();
      if (whole || (free.size() >= missing && missing < leaves_[l].size()))
        candidates.push_back(std::move(free));
    }
    if (candidates.empty())
      return false;
    const std::vector<NicId>& chosen = candidates[random.below(candidates.size())];
    const std::size_t part = std::min(missing, chosen.size());
    taken.insert(taken.end(), chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(part));
  }
  return true;
}

std::vector<NicId> NicPool::free_in(std::uint32_t leaf, const std::vector<NicId>& taken) const {
  std::vector<NicId> free;
  for (const NicId nic : leaves_[leaf])
    if (!used_[nic.value] && std::ranges::find(taken, nic) == taken.end())
      free.push_back(nic);
  return free;
}

std::vector<NicId> NicPool::all_free() const {
  std::vector<NicId> free;
  for (const std::vector<NicId>& leaf : leaves_)
    for (const NicId nic : leaf)
      if (!used_[nic.value])
        free.push_back(nic);
  return free;
}

std::vector<NicId> NicPool::by_rail() const {
  std::vector<NicId> free;
  for (std::size_t group = 0; group + kRails <= leaves_.size(); group += kRails) {
    std::size_t machines = leaves_[group].size();
    for (std::size_t rail = 1; rail < kRails; ++rail)
      machines = std::min(machines, leaves_[group + rail].size());
    for (std::size_t machine = 0; machine < machines; ++machine)
      for (std::size_t rail = 0; rail < kRails; ++rail)
        if (const NicId nic = leaves_[group + rail][machine]; !used_[nic.value])
          free.push_back(nic);
  }
  return free;
}

}  // namespace heddle::sim
