// What drivers count, by the ethtool requests of the classic kind: these statistics have names of
// the driver's own and no other way out of the kernel. Takes no privilege. One thread; of the
// network namespace of the thread that made it.
#pragma once

#include "agent/observe/driver_statistics.h"

namespace heddle {

class EthtoolStatistics final : public DriverStatistics {
 public:
  EthtoolStatistics();
  ~EthtoolStatistics() override;
  EthtoolStatistics(const EthtoolStatistics&) = delete;
  EthtoolStatistics& operator=(const EthtoolStatistics&) = delete;

  Result<std::vector<NamedCount>> statistics(const std::string& interface) const override;

 private:
  int fd_;
};

}  // namespace heddle
