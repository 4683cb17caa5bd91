// What RDMA ports counted in the last interval that their host reported: congestion where it is
// felt.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "common/core/units.h"

namespace heddle {

struct PortCounts {
  std::vector<PortCount> counts;
  Duration length{};
};

class PortTable {
 public:
  // Takes the place of what this node reported before; a port that it no longer lists is not
  // known any more.
  void add(const std::string& node, const Report& report);
  // By the interface's name; nullptr if nothing is known of it (safety rule 7).
  const PortCounts* find(const std::string& node, const std::string& netdev) const;

 private:
  std::map<std::pair<std::string, std::string>, PortCounts> ports_;
};

}  // namespace heddle
