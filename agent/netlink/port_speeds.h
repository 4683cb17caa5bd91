// Adds to ports the speed that they have negotiated, which rtnetlink does not tell: the ethtool
// request of the classic kind, which every driver answers. Drivers may take long to, so a speed is
// asked for when the carrier changes and every half minute.
//
// One thread. Of the network namespace of the thread that made it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/program/route_kernel.h"
#include "common/core/clock.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

// From what the kernel answers: megabits a second, where 0 and the largest number stand for "not
// known". Nothing then.
std::optional<Rate> speed_of(std::uint32_t ethtool_speed);

class PortSpeeds final : public PortSource {
 public:
  // Both outlive it.
  PortSpeeds(PortSource& ports, const Clock& clock);
  ~PortSpeeds() override;
  PortSpeeds(const PortSpeeds&) = delete;
  PortSpeeds& operator=(const PortSpeeds&) = delete;

  Result<std::vector<PortStatus>> ports() override;

 private:
  struct Known {
    Rate speed;
    bool carrier{};
    Time until;
  };

  std::optional<Rate> ask(const std::string& port) const;

  PortSource& ports_;
  const Clock& clock_;
  int fd_;
  std::map<std::string, Known> known_;
};

}  // namespace heddle
