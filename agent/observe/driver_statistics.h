// The port to what an interface's driver counts beyond what every interface counts. One thread; an
// implementation lives as long as the source that uses it.
#pragma once

#include <string>
#include <vector>

#include "agent/observe/rdma_values.h"
#include "common/core/result.h"

namespace heddle {

class DriverStatistics {
 public:
  virtual ~DriverStatistics() = default;

  // Under the driver's own names, in its order. Errc::unobservable if it offers none, or if there
  // is no such interface here.
  virtual Result<std::vector<NamedCount>> statistics(const std::string& interface) const = 0;
};

}  // namespace heddle
