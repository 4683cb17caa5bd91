// The flow source of a leaf, with the adapters it stands on: the kernel's hooks for the packets
// that it forwards itself, and its samples of what the hardware forwards. One thread, the event
// loop's: watch fd() for reading and call ready(). Lives as long as the agent.
#pragma once

#include <string>
#include <vector>

#include "agent/observe/flow_source.h"
#include "agent/observe/psample_source.h"
#include "agent/observe/switch_source.h"
#include "agent/observe/tc_bpf_source.h"

namespace heddle {

class LinuxSwitch final : public FlowSource {
 public:
  // Shell patterns of interface names: the uplinks, and the ports that face hosts.
  LinuxSwitch(std::vector<std::string> uplinks, std::vector<std::string> host_ports)
      : packets_(uplinks), samples_(std::move(uplinks), std::move(host_ports)) {}

  // What probe() would say, without attaching to the traffic: for use beside a running agent.
  static std::vector<SourceCapability> check(const std::vector<std::string>& uplinks,
                                             const std::vector<std::string>& host_ports);

  int fd() const { return samples_.fd(); }  // -1: nothing to watch
  void ready(Time now) { samples_.ready(now); }

  std::vector<SourceCapability> probe() override { return all_.probe(); }
  void links_changed() override { all_.links_changed(); }
  Result<FlowReading> read(Time now) override { return all_.read(now); }

 private:
  TcBpfSource packets_;
  PsampleSource samples_;
  SwitchSource all_{packets_, samples_};
};

}  // namespace heddle
