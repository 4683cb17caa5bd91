#include "coordinator/predict/port_table.h"

namespace heddle {

void PortTable::add(const std::string& node, const Report& report) {
  for (auto port = ports_.lower_bound({node, {}});
       port != ports_.end() && port->first.first == node;)
    port = ports_.erase(port);
  for (const RdmaPortCounts& port : report.rdma_ports)
    if (!port.hidden && !port.netdev.empty() && !port.counts.empty())
      ports_[{node, port.netdev}] = {.counts = port.counts, .length = report.length};
}

const PortCounts* PortTable::find(const std::string& node, const std::string& netdev) const {
  const auto port = ports_.find({node, netdev});
  return port == ports_.end() ? nullptr : &port->second;
}

}  // namespace heddle
