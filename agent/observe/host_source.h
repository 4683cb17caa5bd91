// A host's flow source: every way of looking that Linux offers on a machine with RDMA, joined
// behind the one port. Logic over ports. One thread; lives as long as the agent.
#pragma once

#include <vector>

#include "agent/observe/flow_merger.h"
#include "agent/observe/flow_source.h"
#include "agent/observe/rdma_channel.h"
#include "agent/observe/rdma_observer.h"

namespace heddle {

class HostSource final : public FlowSource {
 public:
  // What it joins; all outlive it. `packets`: those that leave this host by the kernel's own hooks.
  HostSource(FlowSource& packets, RdmaObserver& rdma, ConnectionWatch& connections)
      : packets_(packets), rdma_(rdma), connections_(connections) {}

  std::vector<SourceCapability> probe() override;
  void links_changed() override { packets_.links_changed(); }
  Result<FlowReading> read(Time now) override;

 private:
  FlowSource& packets_;
  RdmaObserver& rdma_;
  ConnectionWatch& connections_;
  FlowMerger merger_;
};

}  // namespace heddle
