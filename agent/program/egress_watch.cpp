#include "agent/program/egress_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <variant>

namespace heddle {
namespace {

// One period may hold the moment in which something went and came back.
constexpr int kPeriodsAstray = 2;
// A flow that fell silent leaves its verdict behind for so long.
constexpr Duration kBelieved = std::chrono::minutes{1};

std::uint64_t counted(const std::vector<std::pair<std::string, std::uint64_t>>& counts,
                      const std::string& port) {
  const auto at = std::ranges::find(counts, port, &std::pair<std::string, std::uint64_t>::first);
  return at == counts.end() ? 0 : at->second;
}

// The port by which packets from an address come in; empty if there are several, or none is known.
class Entrances {
 public:
  explicit Entrances(const MainView& view) : view_(view) {}
  const std::string& of(const IpAddress& source) {
    const auto [at, is_new] = known_.try_emplace(source);
    if (is_new) {
      const auto way = view_.way_to(source);
      if (const Link* const link = way ? view_.link(*way) : nullptr; link != nullptr)
        at->second = link->name;
    }
    return at->second;
  }

 private:
  const MainView& view_;
  std::map<IpAddress, std::string> known_;
};

}  // namespace

bool EgressWatch::observed(std::span<const Departure> departures, const MainView& view,
                           const std::vector<Pin>& pins, std::span<const std::size_t> held,
                           Time now) {
  follow(pins, held);
  count(departures, view);
  bool news = false;
  for (Watched& pin : watched_)
    news = judge(pin, now) || news;
  return news;
}

// Those that are held now; what is known of those that lead where they led.
void EgressWatch::follow(const std::vector<Pin>& pins, std::span<const std::size_t> held) {
  std::vector<Watched> next;
  next.reserve(held.size());
  auto known = watched_.begin();
  for (const std::size_t position : held) {
    const Pin& pin = pins[position];
    const std::string* const uplink = out_port_of(pin.target);
    if (uplink == nullptr)
      continue;
    while (known != watched_.end() && known->unit < pin.unit)
      ++known;
    if (known != watched_.end() && known->unit == pin.unit && known->out_port == *uplink)
      next.push_back(std::move(*known));
    else
      next.push_back({.unit = pin.unit, .out_port = *uplink});
  }
  watched_ = std::move(next);
}

void EgressWatch::count(std::span<const Departure> departures, const MainView& view) {
  Entrances entrances(view);
  const auto note = [this](const SteeringUnit& unit, const Departure& departure) {
    const auto at = std::ranges::lower_bound(watched_, unit, {}, &Watched::unit);
    if (at == watched_.end() || at->unit != unit)
      return;
    for (auto& [port, packets] : at->now) {
      if (port == departure.out_port) {
        packets += departure.packets;
        return;
      }
    }
    at->now.emplace_back(departure.out_port, departure.packets);
  };
  for (const Departure& one : departures) {
    const Link* const out = view.link(one.out_port);
    if (out == nullptr || !view.is_uplink(out->index))
      continue;
    note(
        ByQueuePair{
            .source = one.source, .destination = one.destination, .source_port = one.source_port},
        one);
    note(ByDestination{one.destination}, one);
    if (const std::string& in_port = entrances.of(one.source); !in_port.empty())
      note(ByPortAndDestination{.in_port = in_port, .destination = one.destination}, one);
  }
}

bool EgressWatch::judge(Watched& pin, Time now) {
  const bool was_proven = pin.proven;
  const std::string said = pin.failure;
  std::optional<std::string> elsewhere;
  bool by_its_uplink = false;
  for (const auto& [port, packets] : pin.now) {
    if (pin.is_new || packets <= counted(pin.before, port))
      continue;
    if (port == pin.out_port)
      by_its_uplink = true;
    else
      elsewhere = port;
  }
  pin.before = std::move(pin.now);
  pin.now.clear();
  pin.is_new = false;
  if (elsewhere) {
    ++pin.astray;
    pin.astray_at = now;
    if (pin.astray >= kPeriodsAstray) {
      pin.failure = fmt::format("not effective: seen leaving by {}", *elsewhere);
      pin.proven = false;
    }
  } else if (by_its_uplink) {
    pin.astray = 0;
    pin.failure.clear();
    pin.proven = true;
  } else if (now - pin.astray_at > kBelieved) {
    pin.astray = 0;
    pin.failure.clear();
  }
  return pin.proven != was_proven || pin.failure != said;
}

const EgressWatch::Watched* EgressWatch::find(const SteeringUnit& unit) const {
  const auto at = std::ranges::lower_bound(watched_, unit, {}, &Watched::unit);
  return at == watched_.end() || at->unit != unit ? nullptr : &*at;
}

const std::string* EgressWatch::failure(const SteeringUnit& unit) const {
  const Watched* const pin = find(unit);
  return pin == nullptr || pin->failure.empty() ? nullptr : &pin->failure;
}

bool EgressWatch::proven(const SteeringUnit& unit) const {
  const Watched* const pin = find(unit);
  return pin != nullptr && pin->proven;
}

}  // namespace heddle
