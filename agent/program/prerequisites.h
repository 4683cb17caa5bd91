// What has to hold on this node before a pin can do only good (design, section 6). Pure; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "agent/program/main_view.h"

namespace heddle {

struct PrerequisitesInput {
  const MainView& view;
  const std::vector<std::string>& uplinks;
  const std::vector<std::string>& host_ports;
};

// The first thing that is missing, and what to do about it; empty if nothing is.
std::string missing_prerequisite(const PrerequisitesInput& input);
// What is missing for pins of IPv6 besides.
std::string missing_prerequisite_of_ipv6(const MainView& view);

}  // namespace heddle
