// Which flows send, how fast, and when each will have sent what it has: the fluid part of the
// simulator. Rates are computed again only if the set of sending flows, a path or a link is not
// what it was when they were computed, so a ring whose members end together and begin their next
// round costs nothing. Single threaded.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/core/fairness.h"
#include "common/core/routing.h"
#include "common/core/topology.h"
#include "coordinator/simulate/workload.h"

namespace heddle::sim {

class FlowRates {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  FlowRates(const Topology& topology, const FlowIndex& index);

  void set_links(const LinkState& links, std::span<const Rate> background);
  void set_paths(const Routing& paths);  // by slot

  // `bits` above zero; the flow must be idle. It has no rate before the next update().
  void begin(std::uint32_t flow, double bits, std::int64_t now);
  // The flows that have sent everything at `now`; they are idle then. Valid until the next call.
  std::span<const std::uint32_t> take_ended(std::int64_t now);
  // After all changes of an instant.
  void update(std::int64_t now);
  // When the first flow ends; kNever if none will.
  std::int64_t next_end() const { return next_end_; }
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    bool sending{};
    bool listed{};  // in sending_, that is, part of the last computation
    bool fresh{};   // began since the last update
    double rate{};  // bits per nanosecond
    double bits{};  // left at `since`
    std::int64_t since{};
    std::int64_t end{kNever};
  };
  bool same_flows() const;
  void list_flows();
  void solve();
  bool cross(std::uint32_t flow);
  void cross(const Path& path);
  static void set_end(Flow& flow);

  const Topology& topology_;
  const FlowIndex& index_;
  LinkState links_;
  std::vector<double> capacities_;  // bits per nanosecond
  Routing paths_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> sending_;  // in the order in which they began
  std::vector<std::uint32_t> begun_;    // since the last update
  std::vector<std::uint32_t> ended_;
  bool network_changed_{true};
  std::int64_t next_end_{kNever};
  FairNetwork network_;
  std::vector<std::uint32_t>
      carried_;  // the flows in network_, which has index_.qps() subflows of each
  std::vector<double> fresh_rates_;  // of sending_
  MaxMin solver_;
};

}  // namespace heddle::sim
