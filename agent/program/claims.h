// Which of the kernel's objects are ours, and which lie where only ours should be (safety rule 1).
// Ours carries our protocol number, lies in our ranges, and is in the record of what we installed;
// all three, or it is foreign. A table of packet rules has no protocol number, so its name has it,
// and it carries our signature. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"

namespace heddle {

struct Claims {
  SteeringTables ours;
  std::vector<PinRoute> offloaded;            // of ours, sorted
  std::vector<PinRoute> refused_by_hardware;  // likewise
  std::vector<std::string> foreign;           // named for people; the first few
  std::size_t foreign_count{};
  std::vector<std::uint32_t> lent;  // next hops of ours that foreign routes or groups use; sorted
  bool mark_table_lent{};           // others have put something into it

  // For Acknowledgement::conflict: the first, and how many more; empty if none.
  std::string conflict() const;
};

Claims claim(const KernelState& state, const RoutingRanges& ranges, const Ownership& record);

}  // namespace heddle
