// How much the counters of ports grew since they were read last, and in which time. A counter that
// is read for the first time, or again after it could not be read, has no growth yet and is left
// out, and so is each where nothing was read since the last report: not observed is not zero
// (safety rule 7). A device that was removed and re-added may have begun anew, from zero or not:
// its growth is a lower bound. Pure; one thread; lives as long as its reporter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
  // Of a device by GUID and the kernel's index, and not by name: one that is renamed counts on, and
  // one that took its name does not.
  struct Port {
    std::uint64_t guid{};
    std::uint32_t port{};
    std::uint32_t index{};
    auto operator<=>(const Port&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  using Values = std::map<std::string, std::uint64_t>;
  using Ports = std::map<Port, Values>;

  // What the port, or the one that it was before its device was re-added, counted last.
  Ports::const_iterator last(const Port& port, const std::vector<RdmaPortReading>& now) const;

  Ports before_;
  std::optional<Time> read_;  // when those were
};

}  // namespace heddle
