// The roll-out as the coordinator sees to it: what its gates are shown, what is stored before it
// holds, and the plan that follows.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"

namespace heddle {

namespace {

// What `main` does not offer is told as a withdrawal, and is no fault of the agent's.
bool fails(const PinFailure& failure) {
  return failure.code != Errc::not_found;
}

void add(std::string& list, const std::string& what) {
  list += (list.empty() ? "" : "; ") + what;
}

}  // namespace

void Coordinator::take_up(RolloutState state) {
  rollout_ = Rollout(settings_.rollout, std::move(state), parts_.clock.now());
}

// A host steers when all its racks may. A spine is in no rack: a pin of it takes what comes in by
// one leaf's cable and was led there by that leaf's own pin, so it goes with that leaf's rack.
bool Coordinator::may_steer(NodeId node) const {
  return std::ranges::all_of(topology_.racks_of(node),
                             [this](const std::string& rack) { return rollout_.allows(rack); });
}

// A leaf stands for its rack whether its agent is there or not; a host only as far as it programs.
bool Coordinator::counts_for(const std::string& rack, NodeId node) const {
  if (!topology_.racks_of(node).contains(rack))
    return false;
  if (std::holds_alternative<LeafId>(node))
    return true;
  const AgentState* agent = broadcast_.find(topology_.name_of(node));
  return agent != nullptr && agent->mode == Mode::program &&
         std::ranges::any_of(agent->enforcers, &EnforcerCapability::usable);
}

void Coordinator::step_rollout() {
  confirm_turned_back();
  if (!rollout_.watching())
    return;
  Rollout next = rollout_;
  const std::optional<std::string> said = next.step(rollout_sight(), parts_.clock.now());
  (void)adopt(std::move(next), said.value_or(""));  // Said, and tried again, if it fails.
}

// Stored first: a crash must not leave racks enabled that nobody remembers, nor begin a wave again
// that was turned back. An error with nothing changed if it cannot be stored; a step backwards is
// taken all the same, and its error says that it may not last. `said`: for the log; empty if
// nothing has happened.
Result<void> Coordinator::adopt(Rollout next, const std::string& said) {
  const RolloutState& before = rollout_.state();
  const RolloutState& after = next.state();
  Result<void> kept;
  if (after != before)
    if (Result<void> stored = store_rollout(after); !stored) {
      // Turning back must work on a broken disk, too, and holds whether it is remembered or not.
      const bool onwards =
          after.phase == RolloutPhase::running && before.phase != RolloutPhase::running;
      if (onwards || !std::ranges::includes(before.enabled, after.enabled))
        return stored;
      kept = fail(stored.error().code,
                  fmt::format("it is done, and would be undone by a restart of the coordinator, as "
                              "it cannot be kept: {}; that is tried again",
                              stored.error().message));
    }
  std::set<std::string> left;
  std::ranges::set_difference(before.enabled, after.enabled, std::inserter(left, left.end()));
  const bool other_racks = after.enabled != before.enabled;
  turned_back_.insert(left.begin(), left.end());
  for (const std::string& rack : after.enabled)
    turned_back_.erase(rack);
  rollout_ = std::move(next);
  if (!said.empty())
    notice(left.empty() ? Notice::Level::info : Notice::Level::error, said);
  if (other_racks && warm())
    plan({.links_changed = false, .demand_changed = true, .event = said});
  return kept;
}

// What was ordered is over when the agents have read back that nothing of ours is left.
void Coordinator::confirm_turned_back() {
  std::erase_if(turned_back_, [&](const std::string& rack) {
    for (const NodeId node : topology_.nodes()) {
      if (!counts_for(rack, node))
        continue;
      const AgentState* agent = broadcast_.find(topology_.name_of(node));
      if (agent == nullptr || !agent->connected || agent->installed_pins != 0 ||
          !broadcast_.converged(*agent))
        return false;
    }
    notice(Notice::Level::info, fmt::format("{} holds no pin any more, read back", rack));
    return true;
  });
}

RolloutSight Coordinator::rollout_sight() const {
  const Time now = parts_.clock.now();
  RolloutSight sight;
  const Wave* wave = rollout_.current();
  if (wave == nullptr)
    return sight;
  const Evaluator evaluator(topology_, links_.state(), prediction_.demand);
  std::vector<double> needed;
  for (std::uint32_t i = 0; i < prediction_.demand.flows.size(); ++i)
    needed.push_back(evaluator.needed_rate(i));
  const Watch watch{.since = rollout_.since(), .now = now, .patience = rollout_.patience()};
  sight.measures.jobs = measure_jobs(flows_, prediction_, needed, watch);
  for (const PredictedJob& job : prediction_.jobs)
    for (const std::string& host : job.hosts)
      sight.measures.hosts[host] = errors_.rates(host, rollout_.since(), now);
  const Measures& before = rollout_.state().baseline;
  for (const auto& [host, rates] : before.hosts)
    sight.measures.hosts[host] = errors_.rates(host, rollout_.since(), now);
  sight.measures.remains = remains_of(flows_, prediction_, before.jobs, watch);
  sight.measures.unheard = unheard_of(flows_, before.jobs, watch);
  for (const NodeId node : topology_.nodes())
    if (std::ranges::any_of(wave->racks,
                            [&](const std::string& rack) { return counts_for(rack, node); }))
      look_at_node(topology_.name_of(node), sight);
  look_for_strays(*wave, sight);
  return sight;
}

void Coordinator::look_at_node(const std::string& name, RolloutSight& sight) const {
  const AgentState* agent = broadcast_.find(name);
  if (agent == nullptr || !agent->connected) {
    add(sight.not_ready, fmt::format("{}: no agent is heard", name));
    add(sight.not_held, fmt::format("{} is not heard", name));
    return;
  }
  std::string wrong;
  if (agent->mode != Mode::program)
    wrong =
        fmt::format("{}: its agent only observes; set 'mode: program' there and restart it", name);
  else if (agent->disabled || broadcast_.disabled().contains(name))
    wrong = fmt::format("{} is disabled; see 'heddle enable'", name);
  else if (!agent->conflict.empty())
    wrong = fmt::format("{}: {}", name, agent->conflict);
  else if (!broadcast_.steering(name, parts_.clock.now()))
    wrong = fmt::format("{} cannot steer; 'heddle agents' says why", name);
  if (!wrong.empty())
    add(sight.not_ready, wrong);
  const auto failures = std::ranges::count_if(agent->failed, fails);
  if (failures > 0)
    add(wrong, fmt::format("{} could not install {} of its pins: {}", name, failures,
                           std::ranges::find_if(agent->failed, fails)->reason));
  if (!wrong.empty())
    add(sight.trouble, wrong);
  const NodePlan part = broadcast_.part_of(name);
  const bool all_but_withdrawn =
      agent->installed == part.version && !agent->failed.empty() && failures == 0;
  if (!broadcast_.converged(*agent) && !all_but_withdrawn)
    add(sight.not_held, fmt::format("{} holds {} pins of plan {}, and should hold {} of plan {}",
                                    name, agent->installed_pins, to_string(agent->installed),
                                    part.pins.size(), to_string(part.version)));
}

// Whether what was seen on an uplink may run as the path says. Queue pairs of RDMA hardware stay at
// the attachment that they were made at, whatever their host routes by now.
bool Coordinator::leads_as(CableId seen, const Path& path) const {
  const Topology::Cable& one = topology_[seen];
  const Topology::Cable& other = topology_[path.up];
  return seen == path.up || one.leaf != other.leaf || (path.spread && one.spine == other.spine);
}

// Flows that were seen on another uplink than their pin's, since the pin must have been seen to
// lead them. Each by its own pin: a plan for others says nothing of it.
void Coordinator::look_for_strays(const Wave& wave, RolloutSight& sight) const {
  const Time now = parts_.clock.now();
  const WallTime wall = parts_.clock.wall();
  std::size_t count = 0;
  std::string example;
  std::size_t subflow = 0;
  for (std::size_t i = 0; i < planning_.flow_of.size(); ++i) {
    const PredictedFlow& flow = prediction_.flows[planning_.flow_of[i]];
    for (std::uint32_t k = 0; k < planning_.problem.demand.flows[i].subflows; ++k, ++subflow) {
      const Unit& unit = planning_.units[planning_.problem.unit_of_subflow[subflow]];
      const CableId seen = flow.observed[planning_.subflow_of[subflow]];
      if (!unit.pinnable || subflow >= routing_.size() || !routing_[subflow].crosses_core() ||
          !seen.valid() ||
          std::ranges::none_of(topology_.racks_of(unit.node), [&](const std::string& rack) {
            return std::ranges::find(wave.racks, rack) != wave.racks.end();
          }))
        continue;
      const auto known = flows_.subflows().find(flow.subflows[planning_.subflow_of[subflow]]);
      const std::optional<WallTime> pinned = since(topology_.name_of(unit.node), unit.steering);
      // A report that was under way when it was pinned, and the next one, may tell of before.
      if (known == flows_.subflows().end() || !pinned ||
          known->second.observed_at <=
              now - (wall - *pinned) + 2 * settings_.broadcast.report_interval)
        continue;
      ++sight.followed;
      if (leads_as(seen, routing_[subflow]))
        continue;
      ++count;
      if (example.empty())
        example = fmt::format("{} by {}", to_string(known->first), topology_[seen].leaf_port);
    }
  }
  if (count > 0)
    sight.astray = fmt::format("{} flows run elsewhere than their pins say: {}", count, example);
}

}  // namespace heddle
