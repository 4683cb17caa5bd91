#include "agent/observe/counter_binder.h"

#include <algorithm>

namespace heddle {
namespace {

bool wanted(const OptionalCounter& counter) {
  return counter.name == "rdma_tx_bytes" || counter.name == "rdma_tx_packets";
}

}  // namespace

void CounterBinder::offers(Port port, const std::vector<OptionalCounter>& counters) {
  Offer& offer = ports_[port];
  offer.counters = counters;
  offer.counts_bytes = std::ranges::any_of(
      counters, [](const OptionalCounter& counter) { return counter.name == "rdma_tx_bytes"; });
  offer.on = std::ranges::none_of(
      counters, [](const OptionalCounter& counter) { return wanted(counter) && !counter.on; });
}

bool CounterBinder::counts_bytes(Port port) const {
  const auto offer = ports_.find(port);
  return offer != ports_.end() && offer->second.counts_bytes;
}

std::vector<CounterBinder::Switch> CounterBinder::to_switch_on(const RdmaLook& look) const {
  std::vector<Switch> result;
  for (const auto& [port, offer] : ports_) {
    const bool used = std::ranges::any_of(look.queue_pairs, [&port = port](const QueuePair& pair) {
      return Port{pair.device, pair.port} == port && pair.remote_qpn;
    });
    if (!offer.counts_bytes || offer.on || !used)
      continue;
    Switch change{.port = port, .on = {}};
    for (const OptionalCounter& counter : offer.counters) {
      if (counter.on || wanted(counter))
        change.on.push_back(counter.number);
    }
    result.push_back(std::move(change));
  }
  return result;
}

void CounterBinder::switched_on(Port port) {
  Offer& offer = ports_[port];
  offer.on = true;
  for (const OptionalCounter& counter : offer.counters) {
    if (wanted(counter) && !counter.on)
      offer.ours.insert(counter.number);
  }
}

std::vector<CounterBinder::Binding> CounterBinder::to_bind(const RdmaLook& look) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> has_counter;  // device and queue pair
  std::set<Port> automatic;
  for (const QpCounter& counter : look.counters) {
    for (const std::uint32_t qpn : counter.qpns)
      has_counter.emplace(counter.device, qpn);
    if (counter.automatic)
      automatic.emplace(counter.device, counter.port);
  }
  std::set<std::pair<Port, std::uint32_t>> present;
  for (const QueuePair& pair : look.queue_pairs)
    present.emplace(Port{pair.device, pair.port}, pair.qpn);
  if (!look.incomplete) {
    // The kernel unbinds a queue pair that ends, and its number may come again. One whose counter
    // is gone was unbound by somebody, who is left in peace.
    std::erase_if(ours_, [&](const Binding& binding) {
      const bool there = present.contains({binding.port, binding.qpn});
      const bool still = has_counter.contains({binding.port.first, binding.qpn});
      if (there && !still)
        refused_.emplace(binding.port, binding.qpn);
      return !there || !still;
    });
    std::erase_if(refused_, [&present](const auto& entry) { return !present.contains(entry); });
  }

  std::vector<Binding> result;
  for (const QueuePair& pair : look.queue_pairs) {
    const Port port{pair.device, pair.port};
    const auto offer = ports_.find(port);
    if (offer == ports_.end() || !offer->second.counts_bytes || !offer->second.on ||
        automatic.contains(port) || !pair.remote_qpn || pair.pid == 0 ||
        has_counter.contains({pair.device, pair.qpn}) || refused_.contains({port, pair.qpn}))
      continue;
    if (result.size() == kMostAtOnce)
      break;
    result.push_back({.port = port, .qpn = pair.qpn});
  }
  return result;
}

void CounterBinder::bound(const Binding& binding) {
  ours_.insert(binding);
}

void CounterBinder::refused(const Binding& binding) {
  refused_.emplace(binding.port, binding.qpn);
}

std::vector<CounterBinder::Port> CounterBinder::switched() const {
  std::vector<Port> result;
  for (const auto& [port, offer] : ports_) {
    if (!offer.ours.empty())
      result.push_back(port);
  }
  return result;
}

CounterBinder::Switch CounterBinder::back(Port port,
                                          const std::vector<OptionalCounter>& now) const {
  Switch change{.port = port, .on = {}};
  const auto offer = ports_.find(port);
  for (const OptionalCounter& counter : now) {
    const bool by_us = offer != ports_.end() && offer->second.ours.contains(counter.number);
    if (counter.on && !by_us)
      change.on.push_back(counter.number);
  }
  return change;
}

}  // namespace heddle
