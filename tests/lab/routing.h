// Plays the routing protocol of a laboratory fabric: watches the carrier of every uplink and, after
// a set delay, withdraws or restores next hops in the `main` tables of all leaves and spines, as
// BGP would. One thread of its own from start() to the end of the object; events() may be called
// from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/fabric.h"

namespace heddle::lab {

Time boot_now();  // CLOCK_BOOTTIME

// The calling thread stands for hardware or for an instrument: it does not wait its turn behind
// programs.
void run_before_others();

// Which cables are up, leaf-major; numbers count from 1.
class Cables {
 public:
  explicit Cables(const FabricSpec& spec)
      : spines_(spec.spines), up_(static_cast<std::size_t>(spec.leaves * spec.spines), true) {}
  bool up(int leaf, int spine) const { return up_[at(leaf, spine)]; }
  void set(int leaf, int spine, bool is_up) { up_[at(leaf, spine)] = is_up; }
  bool operator==(const Cables&) const = default;

 private:
  std::size_t at(int leaf, int spine) const {
    return static_cast<std::size_t>((leaf - 1) * spines_ + spine - 1);
  }
  int spines_;
  std::vector<bool> up_;
};

// A leaf's next hops: object <spine> for each spine, group 100 + <leaf> for each other leaf.
std::uint32_t nexthop_of(int spine);
std::uint32_t group_of(int leaf);
// And those of the underlay: object 200 + <spine>, group 300 + <leaf>.
std::uint32_t underlay_nexthop_of(int spine);
std::uint32_t underlay_group_of(int leaf);

// All routes of a fabric in which every cable is up. Used once, while it is raised.
Result<void> program_routes(Fabric& fabric);

struct RoutingEvent {
  enum class Kind : std::uint8_t { cable_lost, cable_back, withdrawn, restored };
  Time at;
  Kind kind{};
  int leaf{};  // whose cable
  int spine{};
};

class Routing {
 public:
  static Result<std::unique_ptr<Routing>> start(Fabric& fabric, Duration delay);
  ~Routing();
  Routing(const Routing&) = delete;
  Routing& operator=(const Routing&) = delete;

  // In the order they happened; `withdrawn` and `restored` once all tables hold it.
  std::vector<RoutingEvent> events() const;
  // Waits for the nth event of a kind at or after `since`; Errc::timeout.
  Result<RoutingEvent> await(RoutingEvent::Kind kind, int count, Time since,
                             Duration patience) const;
  // The kernel's refusals, which leave routing wrong; empty in a healthy laboratory.
  std::vector<std::string> complaints() const;

 private:
  struct Pending {
    Time due;
    int leaf{};
    int spine{};
    bool up{};
  };
  Routing(const FabricSpec& spec, Duration delay);
  void run();
  void read_carrier(int leaf);
  void apply(const Pending& change);
  std::vector<std::uint32_t>& members(int leaf, int remote);
  std::vector<std::uint32_t> wanted_members(int leaf, int remote) const;
  void update_group(int leaf, int remote);
  void repair_underlay(const Pending& change);
  void tell_hosts(const Pending& change);
  void note(RoutingEvent event);
  void complain(const Result<void>& result);

  FabricSpec spec_;
  Duration delay_;
  Cables carrier_;  // as the leaves' ports say now
  Cables offered_;  // as routing believes: later by the delay
  Cables nexthop_;  // the leaf's next hop object exists; the kernel removes it with the carrier
  std::vector<std::vector<std::uint32_t>> members_;  // of each leaf's group for each other leaf
  std::vector<Pending> pending_;
  std::vector<Netlink> leaf_nets_;
  std::vector<Netlink> spine_nets_;
  std::vector<std::vector<Netlink>> host_nets_;  // by leaf; only with an underlay
  std::vector<int> monitors_;                    // one socket per leaf
  std::vector<std::vector<int>> uplink_index_;   // by leaf, by spine
  int stop_{-1};
  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  std::vector<RoutingEvent> events_;
  std::vector<std::string> complaints_;
  std::thread thread_;
};

}  // namespace heddle::lab
