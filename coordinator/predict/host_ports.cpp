#include "coordinator/predict/host_ports.h"

#include <algorithm>

namespace heddle {
namespace {

std::optional<Rate> rate_of(std::uint64_t bytes, Duration length) {
  if (length <= Duration::zero())
    return std::nullopt;
  return Rate{static_cast<double>(bytes) * 8.0 / std::chrono::duration<double>(length).count()};
}

}  // namespace

void HostPorts::add(const std::string& node, const Report& report) {
  const auto of_node = [&node](const auto& entry) { return entry.first.first == node; };
  std::erase_if(ports_, of_node);
  std::map<std::pair<std::string, std::string>, std::uint64_t> before;
  before.swap(before_);
  for (const PortStatus& port : report.ports) {
    const std::pair key{node, port.name};
    HostPort& known = ports_[key];
    // A counter that went back was reset: what was sent is not known.
    if (const auto last = before.find(key);
        last != before.end() && last->second <= port.tx_bytes && !report.gap)
      known.sent = rate_of(port.tx_bytes - last->second, report.length);
    before_[key] = port.tx_bytes;
  }
  for (auto& [key, bytes] : before)
    if (key.first != node)
      before_[key] = bytes;
  for (const RdmaPortCounts& port : report.rdma_ports) {
    if (port.netdev.empty())
      continue;
    HostPort& known = ports_[{node, port.netdev}];
    known.device = port.device;
    known.hidden = port.hidden;
    const auto sent = std::ranges::find(port.counts, "tx_bytes", &PortCount::name);
    if (sent != port.counts.end()) {
      known.by_rdma = true;
      known.sent = sent->reset ? std::nullopt : rate_of(sent->value, report.length);
    }
  }
}

}  // namespace heddle
