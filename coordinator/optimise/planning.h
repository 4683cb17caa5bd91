// Between what is known of the network and what an optimiser takes: which subflows one pin moves
// together, which of them are ours to place, where they run now; and back, from a routing to every
// node's pins.
//
// Pure functions over values; any thread. A PlanningProblem refers to the topology and the link
// state it was made from, which must outlive it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/core/optimiser.h"
#include "common/core/plan.h"
#include "common/core/topology.h"
#include "coordinator/predict/prediction.h"

namespace heddle {

// A pin among all of them: the node where it is installed, and what it moves.
struct PinKey {
  NodeId node;
  SteeringUnit unit;
  auto operator<=>(const PinKey&) const = default;
};

// What SRv6 can be steered by just now.
struct Segments {
  std::set<HostId> senders;             // whose agent can wrap packets in a list of segments
  std::map<SpineId, IpAddress> spines;  // the segment that leads over a spine
  std::map<std::pair<HostId, Family>, IpAddress> hosts;  // and the one that a host unwraps at
  bool operator==(const Segments&) const = default;
};

struct PlanningInput {
  const Topology* topology{};
  const LinkState* links{};
  std::vector<Forbidden> forbidden;  // sorted
  const Prediction* prediction{};
  // How finely a node's agent can steer; not there if it cannot or may not (absent, observing,
  // disabled).
  std::map<NodeId, Granularity> steering;
  // Nodes whose agent has not been heard since the start and may still hold its pins: they are
  // neither planned nor taken away.
  std::set<NodeId> unheard;
  // Pins that their agent could not install, with the cable they were to lead to: their flows run
  // where they are seen. The way is among the forbidden ones.
  std::map<PinKey, CableId> failing;
  std::set<std::string> disabled_jobs;
  std::vector<Prefix> never_touch{};  // flows from or to these are not ours
  std::set<PinKey> refused{};         // nor these, as their agent will not
  Segments segments{};
  std::set<HostId> host_routes{};  // whose agent can choose among its attachments
  // Attachments by which their hosts do not reach these destinations, by the hosts' routing.
  std::set<std::pair<AttachmentId, NicId>> unreached{};
  // For the reasons, and for hosts that can send by another leaf: what leads there is among the
  // forbidden ones, where there is another way.
  std::set<CableId> draining{};
  const RoutePlan* present{};
};

// What one pin moves.
struct Unit {
  NodeId node;  // where the pin is installed
  LeafId to;
  SteeringUnit steering;
  bool pinnable{};
  bool pinned{};  // the present plan has a pin for it that can still hold
  std::vector<std::uint32_t> subflows{};
  // The set of uplinks that it can be led to; of the problem's.
  std::uint32_t uplinks{FlowWay::kEveryUplink};
};

// A host's choice of the attachment that it sends to a destination by. It is made before the rest
// is placed, so that the plan's other numbers, and what a plan promises, hold for it.
struct Entry {
  HostId host;
  NicId destination;
  AttachmentId chosen;
  AttachmentId before;     // not valid: nobody saw it
  std::uint32_t flow{};    // of the prediction: the first of those that it is for
  std::uint32_t beside{};  // subflows that enter by the chosen one, with its own
};

struct PlanningProblem {
  Problem problem;
  std::vector<Unit> units;             // by the numbers in Problem::unit_of_subflow
  std::vector<std::uint32_t> flow_of;  // by flow of the problem: its number in the prediction
  std::vector<std::uint32_t>
      subflow_of;                // by subflow of the problem: its place in the predicted flow
  std::uint32_t unplaced{};      // fixed subflows whose path nobody sees: left out
  std::vector<bool> incomplete;  // by job: some of its subflows were left out
  std::vector<Entry> entries;
  // By spine: its agent can choose among parallel cables. The rest says where it may not or should
  // not; as in the input.
  std::vector<bool> picks_downlink;
  std::set<CableId> draining;
  std::set<PinKey> refused;
  std::vector<Prefix> never_touch;
};

PlanningProblem make_problem(const PlanningInput& input);

// Destinations that several NICs of a host send to: one pin of the host would move the flows of all
// of them, which enter the fabric at different places, so hosts steer none of these.
using SharedDestinations = std::set<std::pair<HostId, NicId>>;
SharedDestinations shared_destinations(const PlanningInput& input);

// The hosts' choices, by the flows of the prediction: to balance what enters by each attachment and
// each leaf, with as few changes as it takes. First where it is pinned, else where it is seen.
struct EntryChoice {
  std::vector<AttachmentId> of_flow;  // by flow of the prediction
  std::vector<Entry> entries;
};
EntryChoice choose_entries(const PlanningInput& input, const SharedDestinations& shared);
// By which of its attachments a destination is reached: one on the entry's own leaf if there is one
// (it needs no core), else the first that lives and that the core leads to.
AttachmentId exit_of(const PlanningInput& input, AttachmentId entry, NicId destination);
// Whether a host steers a flow by segments.
bool wrapped(const PlanningInput& input, const SharedDestinations& shared, const FlowDemand& flow);

// The routing with a downlink cable for each of its subflows over parallel cables that a spine can
// choose among. `keep`: what is chosen already stays.
Routing with_downlinks(const PlanningProblem& planning, Routing routing, bool keep);
// The pin of a spine that a path has need of, as the spine shall choose its downlink: what comes in
// by the path's uplink for its destination. Nothing if the downlink is no choice, or the spine's
// hash makes it.
std::optional<PinKey> spine_pin(const PlanningProblem& planning, const Path& path);
// "spine1", and the downlink if a spine's pin chooses it: "spine1 by spine1-leaf2#2".
std::string describe(const PlanningProblem& planning, const Path& path);

// Whether a pin of the unit can lead it that way.
bool can_lead(const PlanningProblem& planning, const Unit& unit, const Path& path);
// Whether a subflow that goes one way has to be moved to go the other.
bool differs(const Topology& topology, const Path& from, const Path& to);

// Subflows on each link of the core, by the link's number: what reasons and budgets speak of.
std::vector<std::uint32_t> count_elephants(const Topology& topology, const Routing& routing);

// The cable that a pin of this node leads to.
std::optional<CableId> pinned_cable(const Topology& topology, NodeId node, const Pin& pin);

// Which spine a list of segments leads over.
std::optional<SpineId> spine_of(const std::map<SpineId, IpAddress>& segments,
                                const SegmentList& list);

// Whether a pin of this unit would also move flows from or to these prefixes: where the unit does
// not name a source, those of all hosts whose packets it takes.
bool touches(const Topology& topology, std::span<const Prefix> prefixes, const PinKey& pin);

// What flows are steered by, or would be if their leaf could: the pins that are asked for.
std::set<PinKey> demanded_units(const PlanningInput& input);

// By job: whether its efficiency under `routing` is known, as every subflow of it has a path
// there.
std::vector<bool> judged_jobs(const PlanningProblem& planning, const Routing& routing);
// Worst and mean of the judged jobs alone; nothing if there is none.
std::optional<Efficiency> of_judged(Efficiency efficiency, const std::vector<bool>& judged);

// Whether the path crosses only live links and is offered by routing.
bool usable(const Problem& problem, const Path& path);
// The path through a cable; the downlink is left to the hash where parallel cables give the spine a
// choice. Not routable if the cable's spine does not lead to the destination's leaf.
Path path_through(const Topology& topology, AttachmentId from, CableId up, AttachmentId to);

// One routing that could become the next plan.
struct Candidate {
  std::string scheme;
  Routing routing;
  Efficiency efficiency{};
  std::uint32_t moves{};  // units that leave the path they are on now
};

// In order of growing movement: "stay" (every unit where it is, if all can stay), "repair" (only
// what is new or broken is placed), and what the optimiser makes of the whole. Routings that break
// the problem's rules (a fixed subflow moved, a unit torn apart, a dead or forbidden path) are
// dropped and noted: an optimiser is trusted with quality, not with safety.
struct Candidates {
  std::vector<Candidate> list;
  std::vector<std::string> notes;
};
Candidates make_candidates(const PlanningProblem& planning, const Optimiser& optimiser,
                           std::uint64_t seed);

struct FlowMove {
  std::string flow;  // "10.1.1.2 10.2.1.2", as `plan explain` takes it
  std::string from;  // "spine1"; "ecmp" if nobody saw where it ran
  std::string to;
  std::string reason;
  bool operator==(const FlowMove&) const = default;
};

// A plan with a reason for every pin. A node whose pins stay the same keeps its version, so that
// only nodes with a change are sent anything. `keep_unknown`: pins of the present plan whose unit
// is not in demand stay (after a restart, when flows have not been seen again yet).
struct PlanAndMoves {
  RoutePlan plan;
  std::vector<FlowMove> moves;
  bool changed{};  // whether any node's pins differ from the present plan's
};
PlanAndMoves make_plan(const PlanningInput& input, const PlanningProblem& planning,
                       const Routing& routing, PlanVersion version, bool keep_unknown);

}  // namespace heddle
