#include "agent/report/port_deltas.h"

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

std::vector<RdmaPortCounts> PortDeltas::since_last(const std::vector<RdmaPortReading>& ports) {
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
      if (const auto last = before_.find(key); last != before_.end())
        counts.counts.push_back(growth(counter, last->second));
      now.emplace(std::move(key), counter.value);
    }
    result.push_back(std::move(counts));
  }
  before_ = std::move(now);
  return result;
}

}  // namespace heddle
