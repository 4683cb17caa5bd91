#include "agent/observe/linux_switch.h"

namespace heddle {

std::vector<SourceCapability> LinuxSwitch::check(const std::vector<std::string>& uplinks,
                                                 const std::vector<std::string>& host_ports) {
  std::vector<SourceCapability> all = PsampleSource(uplinks, host_ports).probe();
  all.insert(all.begin(), TcBpfSource::check(uplinks));
  return all;
}

}  // namespace heddle
