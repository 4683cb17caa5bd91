// How much the counters of ports grew since they were read last, and in which time. A counter that
// is read for the first time, or again after it could not be read, has no growth yet and is left
// out, and so is each where nothing was read since the last report: not observed is not zero
// (safety rule 7). Pure; one thread; lives as long as its reporter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/report/flow_reading.h"
#include "common/core/messages.h"

namespace heddle {

// The same of a leaf's interfaces, whose states are reported anyway; they are read each time.
class InterfaceDeltas {
 public:
  // Puts the growth into the `ports` of these names.
  void since_last(const std::vector<InterfaceReading>& interfaces, std::vector<PortStatus>& ports);

 private:
  std::map<std::pair<std::string, std::string>, std::uint64_t> before_;  // interface, counter
};

class PortDeltas {
 public:
  // `read`: when the counters were.
  std::vector<RdmaPortCounts> since_last(const std::vector<RdmaPortReading>& ports, Time read);

 private:
  // Not the name: a device that is renamed counts on, and one that took its name does not.
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::string>;

  std::map<Key, std::uint64_t> before_;
  std::optional<Time> read_;  // when those were
};

}  // namespace heddle
