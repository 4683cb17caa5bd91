#include "agent/observe/host_source.h"

namespace heddle {

std::vector<SourceCapability> HostSource::probe() {
  std::vector<SourceCapability> all = packets_.probe();
  all.push_back(rdma_.capability());
  all.push_back(connections_.probe());
  return all;
}

Result<FlowReading> HostSource::read(Time now) {
  const std::vector<QpConnection> connections = connections_.take();
  const RdmaView& view = rdma_.look(now, connections);
  return merger_.merge(packets_.read(now), view, rdma_.capability().usable, now);
}

}  // namespace heddle
