// A routing with everything needed to judge it, as JSON: so that others can check what a scheme
// did, and we what they did. Reading it is reading a stranger's file: every fault is an error that
// names it. Pure; any thread.
//
//   {"fabric": {"links": [{"leaf", "spine", "cable", "capacity_bps", "up", "down",
//                          "background_bps": {"up", "down"}}],
//               "nics": [{"name", "leaf", "capacity_bps",
//                         "attachments": [{"leaf", "capacity_bps"}]}]},
//    "flows": [{"job", "phase", "src", "dst", "src_leaf", "dst_leaf", "weight",
//               "paths": [{"spine", "cable", "down_cable", "src_attachment", "dst_attachment"}]}]}
//
// A link entry is one cable: `cable` numbers those of one leaf and spine from 0, `up` and `down`
// say whether its directions are alive, and `background_bps`, which may be left out, what other
// traffic takes of each. A flow has one path for each subflow. A path within a leaf
// has a null spine; an unroutable one is null itself. `cable` is the one up; `down_cable` the one
// down, null where the spine's hash chooses; if it is not given it is the same number where there
// is one, else the hash's choice. A flow's weight is in bytes.
//
// A NIC with several attachments lists them all, `leaf` and `capacity_bps` being the first's. A
// path then says by number, from 0, which of them it leaves by and which it arrives at; if it does
// not, it is the one on the flow's `src_leaf` or `dst_leaf`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/result.h"
#include "coordinator/simulate/bound.h"

namespace heddle::sim {

struct RoutedDemand {
  Topology topology;
  LinkState links;
  std::vector<Rate> background;  // by link; empty: none
  Demand demand;
  Routing routing;
};

// `background`: by link; empty: none.
std::string write_routing(const Topology& topology, const LinkState& links,
                          std::span<const Rate> background, const Demand& demand,
                          const Routing& routing);
Result<RoutedDemand> read_routing(std::string_view json);

}  // namespace heddle::sim
