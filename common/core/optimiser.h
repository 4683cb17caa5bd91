// One interface for every scheme that places flows. Pure: same problem, same seed, same answer.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/flow.h"
#include "common/core/routing.h"
#include "common/core/topology.h"

namespace heddle {

// Paths that exist by the cabling and the links' state, but that routing does not offer from this
// leaf to that one (safety rule 12): never to be used.
struct Forbidden {
  LeafId from;
  LeafId to;
  CableId up;
  auto operator<=>(const Forbidden&) const = default;
};

// Uplinks by cable: those that what steers a flow can lead it to. `spread`: it chooses a spine, and
// the leaf hashes over the cables that are parallel to the one that stands for it (Path::spread).
struct UplinkSet {
  std::vector<bool> cables;
  bool spread{};
};

// How one flow may go, where not every live way is open to it.
struct FlowWay {
  static constexpr std::uint32_t kEveryUplink = std::numeric_limits<std::uint32_t>::max();

  AttachmentId from;  // where it enters and leaves the fabric
  AttachmentId to;
  std::uint32_t uplinks{kEveryUplink};  // the number of its set in Problem::uplink_sets
};

struct Problem {
  const Topology* topology{};
  const LinkState* links{};
  Demand demand;
  // By subflow: subflows with one number must share a path, because one pin moves them together.
  // Empty: each flow is one unit (its subflows share a path).
  std::vector<std::uint32_t> unit_of_subflow;
  // By subflow: where it runs now (the present plan, or the observed or hashed path). Empty:
  // nowhere yet.
  Routing current;
  // By subflow: not ours to place; stays on `current`. Empty: all are ours.
  std::vector<bool> fixed;
  std::vector<Rate> residual;        // by link: load that is not ours. Empty: none
  std::vector<Forbidden> forbidden;  // sorted
  // By flow. Empty: each by any of its NICs' attachments and any uplink.
  std::vector<FlowWay> ways;
  std::vector<UplinkSet> uplink_sets;
  // Churn budget: how many units may leave a path that still works. A unit whose path is dead or
  // forbidden moves beyond it, and one that is nowhere yet is placed; that is no churn. Only the
  // heddle scheme keeps it.
  std::uint32_t max_moves{std::numeric_limits<std::uint32_t>::max()};
};

struct Move {
  std::uint32_t subflow{};  // the first of its unit
  Path from;
  Path to;
  std::string reason;  // "off leaf3-spine7: 3 elephants, now 1"
};

struct Placement {
  Routing routing;
  std::vector<Move> moves;         // against Problem::current; empty if there was none
  std::vector<std::string> notes;  // what could not be placed, and why
  bool proven{};                   // the scheme proved its own objective optimal
};

class Optimiser {
 public:
  virtual ~Optimiser() = default;
  virtual std::string_view name() const = 0;
  virtual Placement place(const Problem& problem, std::uint64_t seed) const = 0;
};

// "ecmp", "greedy", "edge-colouring", "annealing", "heddle"; nullptr for an unknown name. ("ilp"
// needs a solver, so it is not in the core: coordinator/simulate/ilp.h.)
std::unique_ptr<Optimiser> make_optimiser(std::string_view name);
std::vector<std::string_view> optimiser_names();

}  // namespace heddle
