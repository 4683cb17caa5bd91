// What has to hold on this node before a pin can do only good (design, section 6). Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/program/enforcer.h"
#include "agent/program/main_view.h"

namespace heddle {

struct PrerequisitesInput {
  const MainView& view;
  const std::vector<std::string>& uplinks;
  const std::vector<std::string>& host_ports;
  Enforcer enforcer{};
};

// The first thing that is missing, and what to do about it; empty if nothing is.
std::string missing_prerequisite(const PrerequisitesInput& input);
// Why a pin might be in the kernel and not in the hardware that forwards; empty if the kernel
// forwards itself, or if it shows which routes the hardware has.
std::string missing_proof_of_offload(const MainView& view, Enforcer enforcer);
// What is missing for pins of IPv6 besides.
std::string missing_prerequisite_of_ipv6(const MainView& view, Enforcer enforcer);

// Why packets that are wrapped with so many segments do not fit through a link, and what would
// help; empty if they do. They have to fit with the path MTU that RoCE takes there, which is the
// largest that the link has room for: nobody tells a queue pair that its packets grow on the way.
std::string lacks_room(const Link& link, std::size_t segments);

}  // namespace heddle
