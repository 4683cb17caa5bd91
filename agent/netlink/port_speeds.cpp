#include "agent/netlink/port_speeds.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstring>

namespace heddle {
namespace {

constexpr std::chrono::seconds kAskAgain{30};

// The kernel first says how many words its three masks of link modes have, then fills that many.
class Settings {
 public:
  bool exchange(int fd, const std::string& port) {
    head().cmd = ETHTOOL_GLINKSETTINGS;
    ifreq request{};
    std::strncpy(request.ifr_name, port.c_str(), IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(bytes_.data());
    return ::ioctl(fd, SIOCETHTOOL, &request) == 0;
  }
  ethtool_link_settings& head() { return *reinterpret_cast<ethtool_link_settings*>(bytes_.data()); }

 private:
  static constexpr std::size_t kMasks = 3 * sizeof(std::uint32_t) * std::size_t{SCHAR_MAX};
  alignas(
      ethtool_link_settings) std::array<std::byte, sizeof(ethtool_link_settings) + kMasks> bytes_{};
};

}  // namespace

std::optional<Rate> speed_of(std::uint32_t ethtool_speed) {
  if (ethtool_speed == 0 || ethtool_speed > static_cast<std::uint32_t>(INT_MAX))
    return std::nullopt;
  return Rate{ethtool_speed * 1e6};
}

PortSpeeds::PortSpeeds(PortSource& ports, const Clock& clock)
    : ports_(ports), clock_(clock), fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

PortSpeeds::~PortSpeeds() {
  if (fd_ >= 0)
    ::close(fd_);
}

std::optional<Rate> PortSpeeds::ask(const std::string& port) const {
  Settings settings;
  if (!settings.exchange(fd_, port) || settings.head().link_mode_masks_nwords >= 0)
    return std::nullopt;
  settings.head().link_mode_masks_nwords =
      static_cast<__s8>(-settings.head().link_mode_masks_nwords);
  if (!settings.exchange(fd_, port))
    return std::nullopt;
  return speed_of(settings.head().speed);
}

Result<std::vector<PortStatus>> PortSpeeds::ports() {
  Result<std::vector<PortStatus>> all = ports_.ports();
  if (!all)
    return all;
  std::map<std::string, Known> now;
  for (PortStatus& port : *all) {
    const auto before = known_.find(port.name);
    const bool fresh = before != known_.end() && before->second.carrier == port.carrier &&
                       clock_.now() < before->second.until;
    // Without carrier there is no speed, whatever a driver remembers.
    const Known known =
        fresh ? before->second
              : Known{.speed = port.carrier ? ask(port.name).value_or(Rate{}) : Rate{},
                      .carrier = port.carrier,
                      .until = clock_.now() + kAskAgain};
    port.speed = known.speed;
    now.emplace(port.name, known);
  }
  known_ = std::move(now);
  return all;
}

}  // namespace heddle
