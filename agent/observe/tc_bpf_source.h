// The flow source for software paths: a kernel program at the clsact egress hook of each port that
// matches a pattern. On a leaf these are the uplinks, so that a subflow is seen with the uplink it
// took; on a host the NICs. RDMA done by hardware is invisible here.
//
// It keeps to its own filter handle and priority. Foreign filters stay and go on being asked; a
// foreign filter in our place is named and left alone (safety rule 1). At the end our filters are
// removed, and the clsact qdisc stays, because others may have come to use it.
//
// Needs CAP_BPF and CAP_NET_ADMIN; without them it is unusable. One thread. One object per network
// namespace.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "agent/observe/flow_source.h"

namespace heddle {

class TcBpfSource final : public FlowSource {
 public:
  // Shell patterns of interface names ("up*").
  explicit TcBpfSource(std::vector<std::string> port_patterns);
  ~TcBpfSource() override;

  // What probe() would say, without attaching anything: for use beside a running agent.
  static SourceCapability check(std::vector<std::string> port_patterns);

  // Removes the filters of an agent that was killed, from every interface, and says how many there
  // were. The clsact qdiscs stay: nothing tells who made them, and others may use them. Beside a
  // running agent it does no harm: that one attaches again at its next reading. Takes no CAP_BPF.
  static std::size_t remove_left_behind();

  std::vector<SourceCapability> probe() override;
  void links_changed() override;
  Result<FlowReading> read(Time now) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
