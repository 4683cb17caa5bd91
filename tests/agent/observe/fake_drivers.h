// Drivers of interfaces that count what a test says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/observe/driver_statistics.h"

namespace heddle {

struct FakeDrivers final : DriverStatistics {
  std::map<std::string, std::vector<NamedCount>> counts;  // by interface

  Result<std::vector<NamedCount>> statistics(const std::string& interface) const override {
    const auto found = counts.find(interface);
    if (found == counts.end())
      return fail(Errc::unobservable, interface);
    return found->second;
  }
};

}  // namespace heddle
