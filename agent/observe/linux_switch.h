// The flow source of a leaf, with the adapters it stands on: the kernel's hooks for the packets
// that it forwards itself, its samples of what the hardware forwards, and its drivers' statistics.
// One thread, the event loop's: watch fd() for reading and call ready(). Lives as long as the
// agent.
#pragma once

#include <string>
#include <vector>

#include "agent/observe/ethtool_statistics.h"
#include "agent/observe/flow_source.h"
#include "agent/observe/psample_source.h"
#include "agent/observe/switch_source.h"
#include "agent/observe/tc_bpf_source.h"

namespace heddle {

class LinuxSwitch final : public FlowSource {
 public:
  // Shell patterns of interface names: the uplinks, and the ports that face hosts.
  LinuxSwitch(const std::vector<std::string>& uplinks, const std::vector<std::string>& host_ports);

  // What probe() would say, without attaching to the traffic: for use beside a running agent.
  static std::vector<SourceCapability> check(const std::vector<std::string>& uplinks,
                                             const std::vector<std::string>& host_ports);

  int fd() const { return samples_.fd(); }  // -1: nothing to watch
  void ready(Time now) { samples_.ready(now); }

  std::vector<SourceCapability> probe() override { return all_.probe(); }
  void links_changed() override;
  Result<FlowReading> read(Time now) override { return all_.read(now); }

 private:
  void watch_ports();

  std::vector<std::string> patterns_;  // of all its ports
  TcBpfSource packets_;
  PsampleSource samples_;
  EthtoolStatistics statistics_;
  SwitchSource all_{packets_, samples_, statistics_};
};

}  // namespace heddle
