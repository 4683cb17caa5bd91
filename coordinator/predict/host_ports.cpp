#include "coordinator/predict/host_ports.h"

#include <algorithm>

namespace heddle {
namespace {

std::optional<Rate> rate_of(std::uint64_t bytes, Duration length) {
  if (length <= Duration::zero())
    return std::nullopt;
  return Rate{static_cast<double>(bytes) * 8.0 / std::chrono::duration<double>(length).count()};
}

// Takes out what a map by node and port has of a node.
template <typename Value>
std::map<std::pair<std::string, std::string>, Value> take(
    std::map<std::pair<std::string, std::string>, Value>& all, const std::string& node) {
  std::map<std::pair<std::string, std::string>, Value> taken;
  for (auto at = all.lower_bound({node, ""}); at != all.end() && at->first.first == node;)
    taken.insert(all.extract(at++));
  return taken;
}

}  // namespace

void HostPorts::add(const std::string& node, const Report& report) {
  // Only this node's own, as reports of many nodes come each second.
  const auto known_before = take(ports_, node);
  const auto before = take(before_, node);
  // Interfaces are read for each report. Where flows could not be, its interval is longer than
  // that: it goes on from the last reading of flows.
  const Time read = report.begin + report.length;
  for (const PortStatus& port : report.ports) {
    const std::pair key{node, port.name};
    HostPort& known = ports_[key];
    // A counter that went back was reset: what was sent is not known.
    if (const auto last = before.find(key);
        last != before.end() && last->second.bytes <= port.tx_bytes && !report.gap)
      known.sent = rate_of(port.tx_bytes - last->second.bytes, read - last->second.read);
    before_[key] = {.bytes = port.tx_bytes, .read = read};
    known.counts = port.counts;
    known.length = report.length;
  }
  for (const RdmaPortCounts& port : report.rdma_ports) {
    if (port.netdev.empty())
      continue;
    HostPort& known = ports_[{node, port.netdev}];
    known.device = port.device;
    known.hidden = port.hidden;
    // Between two looks at its counters the last stands.
    const auto last = known_before.find({node, port.netdev});
    if (port.length == Duration::zero() && port.counts.empty() && !port.hidden &&
        last != known_before.end() && last->second.device == port.device &&
        !last->second.counts.empty()) {
      known = last->second;
      continue;
    }
    known.counts = port.counts;
    known.length = port.length > Duration::zero() ? port.length : report.length;
    const auto sent = std::ranges::find(port.counts, "tx_bytes", &PortCount::name);
    if (sent != port.counts.end()) {
      known.by_rdma = true;
      known.sent = sent->reset ? std::nullopt : rate_of(sent->value, known.length);
    }
  }
}

const HostPort* HostPorts::find(const std::string& node, const std::string& interface) const {
  const auto port = ports_.find({node, interface});
  return port == ports_.end() ? nullptr : &port->second;
}

}  // namespace heddle
