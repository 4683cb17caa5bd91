// How much the counters of RDMA ports grew since they were read last. A counter that is read for
// the first time, or again after it could not be read, has no growth yet and is left out: not
// observed is not zero (safety rule 7). Pure; one thread; lives as long as its reporter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "agent/report/flow_reading.h"
#include "common/core/messages.h"

namespace heddle {

class PortDeltas {
 public:
  std::vector<RdmaPortCounts> since_last(const std::vector<RdmaPortReading>& ports);

 private:
  // Not the name: a device that is renamed counts on, and one that took its name does not.
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::string>;

  std::map<Key, std::uint64_t> before_;
};

}  // namespace heddle
