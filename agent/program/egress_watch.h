// Whether packets of pinned flows leave by the uplinks that their pins name (stage "verify"). What
// the kernel answers when it is asked for a route is no proof: a rule with a selector that was not
// asked about, a packet filter that takes a mark off, or hardware leads packets elsewhere, and of
// IPv6 it answers less. So what was counted where packets left is held against the pins.
//
// Pure but for what it remembers. One thread; lives as long as the programmer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/program/main_view.h"
#include "common/core/address.h"
#include "common/core/plan.h"
#include "common/core/units.h"

namespace heddle {

// One subflow where it left this node, as it was seen there.
struct Departure {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  std::string out_port;
  std::uint64_t packets{};  // since it was first seen
};

class EgressWatch {
 public:
  // What was counted up to now, once a period. `held` are the positions of pins that are in the
  // kernel, in order. True if something is to be told that was not before.
  bool observed(std::span<const Departure> departures, const MainView& view,
                const std::vector<Pin>& pins, std::span<const std::size_t> held, Time now);

  // Why a pin is not effective; nullptr if nothing was seen that says so.
  const std::string* failure(const SteeringUnit& unit) const;
  // Packets were seen leaving by its uplink, and none by another since.
  bool proven(const SteeringUnit& unit) const;

 private:
  struct Watched {
    SteeringUnit unit;
    std::string out_port;
    // By port: packets until the last period, and until now.
    std::vector<std::pair<std::string, std::uint64_t>> before{};
    std::vector<std::pair<std::string, std::uint64_t>> now{};
    bool is_new{true};  // what was counted before it was there says nothing of it
    int astray{};       // periods in a row in which packets left elsewhere
    Time astray_at{};
    bool proven{};
    std::string failure{};
  };
  void follow(const std::vector<Pin>& pins, std::span<const std::size_t> held);
  void count(std::span<const Departure> departures, const MainView& view);
  static bool judge(Watched& pin, Time now);
  const Watched* find(const SteeringUnit& unit) const;

  std::vector<Watched> watched_;  // by unit
};

}  // namespace heddle
