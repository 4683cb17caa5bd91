#include "common/core/fairness.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "common/core/check.h"

namespace heddle {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNoSlot = std::numeric_limits<std::uint32_t>::max();
// Sums of many rates are exact to about this part; below it a link is not called too narrow.
constexpr double kRounding = 1e-12;
constexpr std::uint32_t kBuckets = 2048;  // 32 octaves; beyond them the last one takes all

// A positive number's bits order as the number does, so the leading ones tell a bucket: 64 of them
// for every factor of two.
std::uint64_t leading_bits(double level) {
  return std::bit_cast<std::uint64_t>(level) >> 46;
}

}  // namespace

// Most links of a good routing are not contended: even with every flow at the most that its own
// narrowest link allows they are not overfull, so they can never be what stops a flow that is not
// stopped anyway. Leaving them out first makes the heap small; the rest is the textbook algorithm
// (Bertsekas and Gallager) with a heap whose keys may be stale. They may, because a link's level
// only ever rises: a flow that stops elsewhere does so at or below the level, and leaves at least
// its equal share to the others.
std::span<const double> MaxMin::solve(const FairNetwork& network,
                                      std::span<const double> capacities) {
  find_limits(network, capacities);
  collect_contended(network, capacities);
  if (!contended_.empty())
    fill(network);
  return rates_;
}

void MaxMin::find_limits(const FairNetwork& network, std::span<const double> capacities) {
  const std::size_t flows = network.flows();
  limits_.assign(flows, kInfinite);
  wanted_.assign(capacities.size(), 0.0);
  weights_.assign(capacities.size(), 0.0);
  for (std::size_t f = 0; f < flows; ++f) {
    const std::uint32_t begin = network.first[f], end = network.first[f + 1];
    double limit = kInfinite;
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t link = network.links[i].value;
      HEDDLE_CHECK(link < capacities.size());
      limit = std::min(limit, capacities[link] / network.parts[i]);
    }
    limits_[f] = limit;
    for (std::uint32_t i = begin; i < end; ++i) {
      wanted_[network.links[i].value] += limit * network.parts[i];
      weights_[network.links[i].value] += network.parts[i];
    }
  }
  rates_ = limits_;
}

void MaxMin::collect_contended(const FairNetwork& network, std::span<const double> capacities) {
  slots_.assign(capacities.size(), kNoSlot);
  contended_.clear();
  for (std::uint32_t link = 0; link < capacities.size(); ++link) {
    if (!(wanted_[link] > capacities[link] * (1.0 + kRounding)))
      continue;
    slots_[link] = static_cast<std::uint32_t>(contended_.size());
    contended_.push_back({.capacity = capacities[link], .weight = weights_[link]});
  }
  if (contended_.empty())
    return;

  rising_.clear();
  stopped_.assign(network.flows(), true);
  crossed_.resize(network.links.size());
  for (std::uint32_t f = 0; f < network.flows(); ++f) {
    for (std::uint32_t i = network.first[f]; i < network.first[f + 1]; ++i) {
      const std::uint32_t slot = crossed_[i] = slots_[network.links[i].value];
      if (slot == kNoSlot)
        continue;
      ++contended_[slot].end;  // a count, until the offsets are known
      if (stopped_[f]) {
        stopped_[f] = false;
        rising_.push_back(f);
      }
    }
  }
  std::uint32_t offset = 0;
  for (Contended& link : contended_) {
    link.first = offset;
    offset += link.end;
    link.end = link.first;
  }
  members_.resize(offset);
  for (const std::uint32_t f : rising_) {
    for (std::uint32_t i = network.first[f]; i < network.first[f + 1]; ++i)
      if (crossed_[i] != kNoSlot)
        members_[contended_[crossed_[i]].end++] = f;
  }
  const auto limit = [this](std::uint32_t f) { return limits_[f]; };
  if (!std::ranges::is_sorted(rising_, {}, limit))
    std::ranges::stable_sort(rising_, {}, limit);
}

std::uint32_t MaxMin::bucket(double level) const {
  const std::uint64_t bits = std::max(leading_bits(level), lowest_) - lowest_;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bits, kBuckets - 1));
}

// Links wait in buckets, and only those of the present bucket are kept in order.
void MaxMin::fill(const FairNetwork& network) {
  const auto level_of = [this](std::uint32_t slot) {
    return std::max(contended_[slot].capacity, 0.0) / contended_[slot].weight;
  };
  double least = kInfinite;
  for (std::uint32_t slot = 0; slot < contended_.size(); ++slot)
    least = std::min(least, level_of(slot));
  lowest_ = leading_bits(least);
  buckets_.assign(kBuckets, kNoSlot);
  waiting_.resize(contended_.size());
  const auto wait = [&](std::uint32_t slot, double level) {
    std::uint32_t& first = buckets_[bucket(level)];
    waiting_[slot] = std::exchange(first, slot);
  };
  for (std::uint32_t slot = 0; slot < contended_.size(); ++slot)
    wait(slot, level_of(slot));

  auto next = rising_.begin();
  heap_.clear();
  for (std::uint32_t present = 0; next != rising_.end();) {
    if (stopped_[*next]) {
      ++next;
      continue;
    }
    while (heap_.empty() && present < kBuckets) {
      for (std::uint32_t slot = buckets_[present]; slot != kNoSlot;) {
        const std::uint32_t after = waiting_[slot];
        if (contended_[slot].weight > kRounding) {  // else all its flows have stopped elsewhere
          const double level = level_of(slot);
          if (bucket(level) > present)
            wait(slot, level);
          else
            heap_.emplace_back(level, slot);
        }
        slot = after;
      }
      std::ranges::make_heap(heap_, std::greater{});
      ++present;
    }
    const double limit = limits_[*next];
    if (heap_.empty() || heap_.front().first >= limit) {
      stop(network, *next++, limit);
      continue;
    }
    std::ranges::pop_heap(heap_, std::greater{});
    const auto [key, slot] = heap_.back();
    heap_.pop_back();
    const Contended& link = contended_[slot];
    if (link.weight <= kRounding)
      continue;
    const double level = level_of(slot);
    if (level > key * (1.0 + kRounding)) {
      if (bucket(level) >= present) {
        wait(slot, level);
      } else {
        heap_.emplace_back(level, slot);
        std::ranges::push_heap(heap_, std::greater{});
      }
      continue;
    }
    for (std::uint32_t i = link.first; i < link.end; ++i)
      if (!stopped_[members_[i]])
        stop(network, members_[i], level);
  }
}

void MaxMin::stop(const FairNetwork& network, std::uint32_t flow, double rate) {
  stopped_[flow] = true;
  rates_[flow] = rate;
  for (std::uint32_t i = network.first[flow]; i < network.first[flow + 1]; ++i) {
    const std::uint32_t slot = crossed_[i];
    if (slot == kNoSlot)
      continue;
    contended_[slot].capacity -= rate * network.parts[i];
    contended_[slot].weight -= network.parts[i];
  }
}

std::vector<Rate> max_min_fair(std::span<const FairFlow> flows, std::span<const Rate> capacities) {
  FairNetwork network;
  for (const FairFlow& flow : flows) {
    for (const LinkId link : flow.links)
      network.cross(link);
    network.end_flow();
  }
  std::vector<double> bits_per_second;
  bits_per_second.reserve(capacities.size());
  for (const Rate rate : capacities)
    bits_per_second.push_back(rate.bits_per_second);
  MaxMin solver;
  std::vector<Rate> rates;
  for (const double rate : solver.solve(network, bits_per_second))
    rates.push_back({rate});
  return rates;
}

}  // namespace heddle
