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

}  // namespace

std::vector<RdmaPortCounts> PortDeltas::since_last(const std::vector<RdmaPortReading>& ports,
                                                   Time read) {
  const bool again = read_ == read;
  const Duration length = read_ ? read - *read_ : Duration{};  // 0: not read since
  std::vector<RdmaPortCounts> result;
  std::map<Key, std::uint64_t> now;
  for (const RdmaPortReading& port : ports) {
    RdmaPortCounts counts{.device = port.device,
                          .port = port.port,
                          .netdev = port.netdev,
                          .guid = port.guid,
                          .hidden = port.hidden,
                          .counts = {}};
    for (const CounterValue& counter : port.counters) {
      Key key{port.guid, port.port, counter.name};
      if (const auto last = before_.find(key); last != before_.end() && !again)
        counts.counts.push_back(growth(counter, last->second));
      now.emplace(std::move(key), counter.value);
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
