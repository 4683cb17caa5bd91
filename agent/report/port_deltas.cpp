#include "agent/report/port_deltas.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

constexpr std::uint64_t kWrap = std::uint64_t{1} << 32U;

// From the last quarter of its range into the first: anything else that goes back was set back.
bool wrapped(const CounterValue& now, std::uint64_t before) {
  return now.wraps && before < kWrap && before >= kWrap / 4 * 3 && now.value < kWrap / 4;
}

PortCount growth(const CounterValue& now, std::uint64_t before) {
  if (now.value >= before)
    return {.name = now.name, .value = now.value - before, .reset = false};
  if (wrapped(now, before))
    return {.name = now.name, .value = kWrap - before + now.value, .reset = false};
  return {.name = now.name, .value = now.value, .reset = true};
}

// Of a device that was re-added between the two: if its counters went on, this is what they grew,
// and if they began anew, they grew by more.
PortCount growth_at_least(const CounterValue& now, std::uint64_t before) {
  return {.name = now.name,
          .value = now.value >= before ? now.value - before : now.value,
          .reset = true};
}

}  // namespace

PortDeltas::Ports::const_iterator PortDeltas::last(const Port& port,
                                                   const std::vector<RdmaPortReading>& now) const {
  if (const auto same = before_.find(port); same != before_.end())
    return same;
  // Several devices may have no GUID, so none is known by that.
  if (port.guid == 0)
    return before_.end();
  return std::ranges::find_if(before_, [&](const auto& entry) {
    const Port& old = entry.first;
    const auto still = [&old](const RdmaPortReading& reading) {
      return reading.guid == old.guid && reading.index == old.index;
    };
    return old.guid == port.guid && old.port == port.port && std::ranges::none_of(now, still);
  });
}

std::vector<RdmaPortCounts> PortDeltas::since_last(const std::vector<RdmaPortReading>& ports,
                                                   Time read) {
  const bool again = read_ == read;
  const Duration length = read_ ? read - *read_ : Duration{};  // 0: not read since
  std::vector<RdmaPortCounts> result;
  Ports now;
  for (const RdmaPortReading& port : ports) {
    RdmaPortCounts counts{.device = port.device,
                          .port = port.port,
                          .netdev = port.netdev,
                          .guid = port.guid,
                          .hidden = port.hidden,
                          .counts = {}};
    const Port key{port.guid, port.port, port.index};
    const auto before = last(key, ports);
    Values& values = now[key];
    for (const CounterValue& counter : port.counters) {
      values.emplace(counter.name, counter.value);
      if (again || before == before_.end())
        continue;
      if (const auto value = before->second.find(counter.name); value != before->second.end())
        counts.counts.push_back(before->first == key ? growth(counter, value->second)
                                                     : growth_at_least(counter, value->second));
    }
    counts.length = length;  // also where there is nothing to read: somebody looked
    result.push_back(std::move(counts));
  }
  before_ = std::move(now);
  read_ = read;
  return result;
}

void InterfaceDeltas::since_last(const std::vector<InterfaceReading>& interfaces,
                                 std::vector<PortStatus>& ports) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> now;
  for (const InterfaceReading& interface : interfaces) {
    const auto port = std::ranges::find(ports, interface.name, &PortStatus::name);
    for (const CounterValue& counter : interface.counters) {
      std::pair key{interface.name, counter.name};
      if (const auto last = before_.find(key); last != before_.end() && port != ports.end())
        port->counts.push_back(growth(counter, last->second));
      now.emplace(std::move(key), counter.value);
    }
  }
  before_ = std::move(now);
}

}  // namespace heddle
