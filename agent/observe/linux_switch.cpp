#include "agent/observe/linux_switch.h"

#include <fnmatch.h>
#include <net/if.h>

#include <algorithm>
#include <utility>

namespace heddle {

LinuxSwitch::LinuxSwitch(const std::vector<std::string>& uplinks,
                         const std::vector<std::string>& host_ports)
    : patterns_(uplinks), packets_(uplinks), samples_(uplinks, host_ports) {
  patterns_.insert(patterns_.end(), host_ports.begin(), host_ports.end());
  watch_ports();
}

std::vector<SourceCapability> LinuxSwitch::check(const std::vector<std::string>& uplinks,
                                                 const std::vector<std::string>& host_ports) {
  std::vector<SourceCapability> all = PsampleSource(uplinks, host_ports).probe();
  all.insert(all.begin(), TcBpfSource::check(uplinks));
  return all;
}

void LinuxSwitch::links_changed() {
  all_.links_changed();
  watch_ports();
}

void LinuxSwitch::watch_ports() {
  std::vector<std::string> ports;
  if (struct if_nameindex* const list = ::if_nameindex()) {
    for (const struct if_nameindex* i = list; i->if_index != 0; ++i)
      if (std::ranges::any_of(patterns_, [i](const std::string& pattern) {
            return ::fnmatch(pattern.c_str(), i->if_name, 0) == 0;
          }))
        ports.emplace_back(i->if_name);
    ::if_freenameindex(list);
  }
  all_.watch(std::move(ports));
}

}  // namespace heddle
