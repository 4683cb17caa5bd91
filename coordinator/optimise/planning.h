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
  std::set<CableId> draining{};  // for the reasons: what leads there is among the forbidden ones
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
};

struct PlanningProblem {
  Problem problem;
  std::vector<Unit> units;             // by the numbers in Problem::unit_of_subflow
  std::vector<std::uint32_t> flow_of;  // by flow of the problem: its number in the prediction
  std::vector<std::uint32_t>
      subflow_of;                // by subflow of the problem: its place in the predicted flow
  std::uint32_t unplaced{};      // fixed subflows whose path nobody sees: left out
  std::vector<bool> incomplete;  // by job: some of its subflows were left out
};

PlanningProblem make_problem(const PlanningInput& input);

// Subflows on each link of the core, by the link's number: what reasons and budgets speak of.
std::vector<std::uint32_t> count_elephants(const Topology& topology, const Routing& routing);

// The cable that a pin of this node leads to.
std::optional<CableId> pinned_cable(const Topology& topology, NodeId node, const Pin& pin);

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
