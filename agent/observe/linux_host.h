// The flow source of a host, with the adapters it stands on: the kernel's hooks for packets, RDMA
// netlink, sysfs, drivers' statistics, the watch on connections. One thread; lives as long as the
// agent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/observe/flow_source.h"
#include "common/core/clock.h"

namespace heddle {

class LinuxHost final : public FlowSource {
 public:
  // Shell patterns of interface names; the clock outlives it.
  LinuxHost(std::vector<std::string> port_patterns, const Clock& clock);
  ~LinuxHost() override;
  LinuxHost(const LinuxHost&) = delete;
  LinuxHost& operator=(const LinuxHost&) = delete;

  // What probe() would say, without attaching to the traffic or binding anything: for use beside a
  // running agent.
  static std::vector<SourceCapability> check(std::vector<std::string> port_patterns,
                                             const Clock& clock);

  std::vector<SourceCapability> probe() override;
  void links_changed() override;
  Result<FlowReading> read(Time now) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace heddle
