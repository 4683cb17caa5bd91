// Looks at this machine's RDMA by netlink, sysfs and drivers' statistics and keeps the picture of
// it: which devices and queue pairs there are, what ports count, and what queue pairs send where
// the driver can count that. Gives queue pairs counters of their own and takes them back at the
// end.
//
// A look costs the kernel a command to the NIC for each queue pair, so the next one waits twenty
// times as long as the last one took; in between the picture stands. A queue pair that was seen to
// be connected shortens the wait to a quarter.
//
// Logic over ports. One thread; lives as long as its source.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "agent/observe/counter_binder.h"
#include "agent/observe/driver_statistics.h"
#include "agent/observe/file_tree.h"
#include "agent/observe/rdma_channel.h"
#include "agent/observe/rdma_inventory.h"
#include "common/core/clock.h"
#include "common/core/messages.h"

namespace heddle {

class RdmaObserver {
 public:
  // `bind`: whether queue pairs may be given counters.
  RdmaObserver(RdmaChannel& channel, const FileTree& files, const DriverStatistics& statistics,
               const Clock& clock, bool bind);
  ~RdmaObserver();
  RdmaObserver(const RdmaObserver&) = delete;
  RdmaObserver& operator=(const RdmaObserver&) = delete;

  // By what the last look found, or a first one.
  SourceCapability capability();
  // `connections`: that the kernel was seen to make since the last look.
  const RdmaView& look(Time now, std::span<const QpConnection> connections);

 private:
  Result<RdmaLook> gather(Time now);
  void read_counters(RdmaLook& look) const;
  template <class Take>
  bool dump(RdmaCommand command, std::optional<std::uint32_t> device, Take take);
  void read_addresses(RdmaLook& look, Time now);
  void bind(const RdmaLook& look);
  std::optional<std::vector<OptionalCounter>> optional_counters(CounterBinder::Port port);
  enum class Outcome : std::uint8_t { accepted, refused, unknown };
  Outcome ask(const RdmaRequest& request, RdmaAnswer& answer);
  void insist(const RdmaRequest& request);
  void undo();

  RdmaChannel& channel_;
  const FileTree& files_;
  const DriverStatistics& statistics_;
  const Clock& clock_;
  bool bind_;
  CounterBinder binder_;
  RdmaInventory inventory_;
  RdmaView view_;
  SourceCapability capability_;
  std::optional<Time> next_look_;  // none: at once
  Time looked_;
  Duration cost_{};                     // of that look
  std::optional<std::size_t> devices_;  // that it found
  std::vector<RdmaAddress> addresses_;
  std::vector<RdmaPort> addresses_of_;
  Time addresses_due_;
};

}  // namespace heddle
