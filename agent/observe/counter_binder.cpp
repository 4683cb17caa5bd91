#include "agent/observe/counter_binder.h"

#include <algorithm>

namespace heddle {
namespace {

bool wanted(const OptionalCounter& counter) {
  return counter.name == "rdma_tx_bytes" || counter.name == "rdma_tx_packets";
}

bool unread(const RdmaLook& look, std::uint32_t device) {
  return std::ranges::find(look.uncounted, device) != look.uncounted.end();
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
  perhaps_switched(port);
  ports_[port].on = true;
}

void CounterBinder::not_switched(Port port) {
  ports_[port].ours.clear();
}

void CounterBinder::perhaps_switched(Port port) {
  Offer& offer = ports_[port];
  for (const OptionalCounter& counter : offer.counters) {
    if (wanted(counter) && !counter.on)
      offer.ours.insert(counter.number);
  }
}

// Takes note of what became of queue pairs and of their counters.
void CounterBinder::settle(const RdmaLook& look, const CounterOf& counter_of) {
  std::set<Pair> present;
  for (const QueuePair& pair : look.queue_pairs)
    present.emplace(Port{pair.device, pair.port}, pair.qpn);
  // It had none when it was asked for, and it has one for itself now: ours, whose answer was lost.
  std::erase_if(perhaps_, [&](const Pair& pair) {
    if (unread(look, pair.first.first))
      return false;
    const auto found = counter_of.find({pair.first.first, pair.second});
    if (found == counter_of.end())
      return true;  // not obeyed: to be asked for again
    if (!found->second->automatic && found->second->qpns.size() == 1)
      ours_.insert({.port = pair.first, .qpn = pair.second, .counter = found->second->id});
    return true;
  });
  if (look.incomplete)
    return;
  // The kernel unbinds a queue pair that ends, and its number may come again. One whose counter is
  // gone was unbound by somebody, who is left in peace.
  std::erase_if(ours_, [&](const Binding& binding) {
    const bool there = present.contains({binding.port, binding.qpn});
    if (there && unread(look, binding.port.first))
      return false;
    const auto found = counter_of.find({binding.port.first, binding.qpn});
    const bool still = found != counter_of.end() && found->second->id == binding.counter;
    if (there && !still)
      refused_.emplace(binding.port, binding.qpn);
    return !there || !still;
  });
  std::erase_if(refused_, [&present](const Pair& pair) { return !present.contains(pair); });
}

std::vector<CounterBinder::Binding> CounterBinder::to_bind(const RdmaLook& look) {
  CounterOf counter_of;
  std::set<Port> automatic;
  for (const QpCounter& counter : look.counters) {
    for (const std::uint32_t qpn : counter.qpns)
      counter_of.emplace(std::pair(counter.device, qpn), &counter);
    if (counter.automatic)
      automatic.emplace(counter.device, counter.port);
  }
  settle(look, counter_of);
  std::vector<Binding> result;
  for (const QueuePair& pair : look.queue_pairs) {
    const Port port{pair.device, pair.port};
    const auto offer = ports_.find(port);
    if (unread(look, pair.device))
      continue;  // it may have a counter of somebody else's
    if (offer == ports_.end() || !offer->second.counts_bytes || !offer->second.on ||
        automatic.contains(port) || !pair.remote_qpn || pair.pid == 0 ||
        counter_of.contains({pair.device, pair.qpn}) || refused_.contains({port, pair.qpn}))
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

void CounterBinder::perhaps_bound(const Binding& binding) {
  perhaps_.emplace(binding.port, binding.qpn);
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
