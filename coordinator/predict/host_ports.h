// What the ports of hosts, and of leaves, sent as a whole, to hold against the flows that are seen
// of them: the difference is traffic that nobody explains; and the congestion that RDMA felt there.
// RDMA's own counters where a port has them, because what hardware sends by RDMA passes by the
// interface's.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "common/core/units.h"

namespace heddle {

struct HostPort {
  std::string device;        // of RDMA; empty: none
  std::optional<Rate> sent;  // nothing: not known (yet)
  bool by_rdma{};            // counted by RDMA's own counters
  bool hidden{};             // its device is in another network namespace
  // What RDMA, or a leaf's driver, counted when it was read last, congestion among it, and how long
  // that took.
  std::vector<PortCount> counts;
  Duration length{};
};

class HostPorts {
 public:
  void add(const std::string& node, const Report& report);
  // nullptr if nothing is known of it (safety rule 7).
  const HostPort* find(const std::string& node, const std::string& interface) const;
  // By node and interface.
  const std::map<std::pair<std::string, std::string>, HostPort>& ports() const { return ports_; }

 private:
  // What an interface had sent when it was read last, and when that was by the sender's clock.
  struct Sent {
    std::uint64_t bytes{};
    Time read;
  };

  std::map<std::pair<std::string, std::string>, HostPort> ports_;
  std::map<std::pair<std::string, std::string>, Sent> before_;
};

}  // namespace heddle
