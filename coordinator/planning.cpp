// The planning cycle: from what is known now to the next plan, or to none.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/core/check.h"
#include "coordinator/coordinator.h"
#include "coordinator/decide/quiet.h"

namespace heddle {

namespace {

constexpr std::size_t kRecentPlans = 32;
constexpr Duration kLookForQuiet = std::chrono::milliseconds(20);
// How long flows must stay silent to be moved: a plan is in the tables sooner.
constexpr Duration kReachesTables = std::chrono::milliseconds(50);

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

// Who wants what, and what may be steered: when this changes, so has the task.
std::uint64_t Coordinator::situation_signature() const {
  std::uint64_t hash = demand_signature(prediction_);
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const auto& [node, granularity] : input_.steering) {
    mix(node.index());
    mix(std::visit([](auto id) { return id.value; }, node));
    mix(static_cast<std::uint64_t>(granularity));
  }
  for (const std::string& job : input_.disabled_jobs)
    for (const char c : job)
      mix(static_cast<unsigned char>(c));
  mix(input_.refused.size());
  for (const HostId host : input_.segments.senders)
    mix(host.value);
  for (const auto& [spine, segment] : input_.segments.spines)
    mix(spine.value);
  mix(input_.segments.hosts.size());
  for (const HostId host : input_.host_routes)
    mix(host.value);
  for (const CableId cable : input_.draining)
    mix(cable.value);
  return hash;
}

// What would be planned for a problem, and why. What was moved just now is held fast in it.
Coordinator::Chosen Coordinator::choose(PlanningProblem& planning, const Optimiser& optimiser,
                                        const Situation& situation) const {
  const auto units =
      static_cast<std::size_t>(std::ranges::count(planning.units, true, &Unit::pinnable));
  const std::uint32_t held = dwell_.hold(planning, parts_.clock.now());
  Chosen chosen{.candidates = make_candidates(planning, optimiser, settings_.seed), .decision = {}};
  chosen.decision = decide(chosen.candidates.list, units, situation, settings_.decide);
  if (chosen.decision.chosen)
    keep_to_budget(planning, chosen);
  if (held > 0)
    chosen.decision.reason += fmt::format("; {} moved less than {:.0f} s ago stay{}", held,
                                          seconds(settings_.decide.dwell), held == 1 ? "s" : "");
  return chosen;
}

void Coordinator::plan(const Situation& cause) {
  prediction_ = predict(topology_, flows_, declared(), &prediction_);
  std::erase_if(failing_,
                [&](const auto& entry) { return parts_.clock.now() >= entry.second.until; });
  input_ = planning_input();
  // Refusals of flows that are gone are forgotten, as queue pairs come and go without end.
  if (!refused_.empty()) {
    const auto demanded = demanded_units(input_);
    std::erase_if(refused_, [&](const auto& unit) { return !demanded.contains(unit); });
  }
  planning_ = make_problem(input_);
  const std::uint64_t signature = situation_signature();
  Situation situation = cause;
  situation.demand_changed = situation.demand_changed || signature != signature_ ||
                             (quiet_wait_ && quiet_wait_->situation.demand_changed);
  signature_ = signature;

  auto [candidates, decision] = choose(planning_, parts_.optimiser, situation);
  for (const std::string& note : candidates.notes)
    if (notes_.insert(note).second)
      notice(Notice::Level::info, note);
  if (notes_.size() > 1000)
    notes_.clear();
  routing_ = planning_.problem.current;
  efficiency_.reset();
  std::uint32_t moves = 0;
  // What holds waits for nothing; a wait that stayed would be looked at without end.
  if (!decision.chosen)
    quiet_wait_.reset();
  const bool waits =
      decision.chosen && wait_for_quiet(situation, candidates.list[*decision.chosen].routing);
  if (!candidates.list.empty() && (!waits || candidates.list.front().scheme == "stay")) {
    // Held means that all stay, which is the first candidate.
    Candidate& chosen = candidates.list[waits ? 0 : decision.chosen.value_or(0)];
    routing_ = std::move(chosen.routing);
    moves = chosen.moves;
    judge(std::move(chosen.efficiency));
  }
  if (waits) {
    note_decision("waits", decision.reason + quiet_wait_->words, 0);
    return;
  }
  // Flows that were not seen since the start may only be pausing: the pins of the plan before stay
  // for them.
  const bool keep_unknown = parts_.clock.now() - started_ < settings_.flows.memory;
  PlanVersion next = parts_.reign.version();
  ++next.generation;
  PlanAndMoves made = make_plan(input_, planning_, routing_, next, keep_unknown);
  if (made.changed && !decision.chosen)
    decision.reason = "pins without a flow are dropped";
  const bool changed = made.changed || !broadcast_.published();
  if (changed) {
    dwell_.moved(planning_, routing_, parts_.clock.now());
    take(std::move(made), decision.reason);
  }
  note_decision(changed ? "moved" : "held", std::move(decision.reason), changed ? moves : 0);
}

// More moves than one plan may have become the first step of them.
void Coordinator::keep_to_budget(const PlanningProblem& planning, Chosen& chosen) const {
  std::vector<Candidate>& candidates = chosen.candidates.list;
  Decision& decision = chosen.decision;
  const std::uint32_t budget = settings_.decide.moves_per_plan;
  Candidate& goal = candidates[*decision.chosen];
  const std::uint32_t wanted = voluntary_moves(planning, goal.routing);
  if (budget == 0 || wanted <= budget)
    return;
  if (auto step = step_towards(planning, goal, candidates.front(), budget)) {
    goal = std::move(*step);
    decision.reason += fmt::format("; the first {} of {} moves", budget, wanted);
    return;
  }
  decision.reason = fmt::format("{}; held, as no {} of these {} moves alone do any good",
                                decision.reason, budget, wanted);
  decision.chosen.reset();
  if (candidates.front().scheme != "stay")
    decision.chosen = 0;
}

// Whether the plan is to wait until what it moves is silent. What has an event, a link or an order,
// does not.
bool Coordinator::wait_for_quiet(const Situation& situation, const Routing& routing) {
  const Time now = parts_.clock.now();
  const std::optional<QuietWait> before = std::exchange(quiet_wait_, std::nullopt);
  if (situation.links_changed || !situation.event.empty() || !broadcast_.published() ||
      settings_.decide.quiet_wait <= Duration::zero())
    return false;
  QuietWait wait{.situation = situation,
                 .flows = moving_flows(planning_, prediction_, routing),
                 .until = {},
                 .look_at = now + kLookForQuiet,
                 .words = {}};
  const Quiet quiet = look_for_quiet(flows_, wait.flows, now, kReachesTables);
  if (quiet.now())
    return false;
  // Within one period and a half all that have a silent phase have had it.
  wait.until = before ? before->until
                      : now + std::min(settings_.decide.quiet_wait, quiet.longest_period * 3 / 2);
  if (now >= wait.until)
    return false;
  wait.words = fmt::format("; waits for a silent phase of {} flows with a period of {:.1f} s",
                           quiet.periodic, seconds(quiet.longest_period));
  quiet_wait_ = std::move(wait);
  return true;
}

void Coordinator::look_for_quiet_now() {
  const Time now = parts_.clock.now();
  if (!quiet_wait_ || now < quiet_wait_->look_at)
    return;
  quiet_wait_->look_at = now + kLookForQuiet;
  if (now < quiet_wait_->until &&
      !look_for_quiet(flows_, quiet_wait_->flows, now, kReachesTables).now())
    return;
  plan(quiet_wait_->situation);
}

void Coordinator::note_decision(std::string outcome, std::string reason, std::uint64_t moves) {
  DecisionRecord decision;
  decision.outcome = std::move(outcome);
  decision.reason = std::move(reason);
  decision.version = record_ ? record_->plan.version : PlanVersion{};
  decision.judged = efficiency_.has_value();
  decision.worst = efficiency_ ? efficiency_->worst : 0;
  decision.mean = efficiency_ ? efficiency_->mean : 0;
  decision.moves = moves;
  for (const DecisionRecord& kept : decisions_.note(std::move(decision), parts_.clock.wall()))
    parts_.history.keep(kept);
}

// What is not known of every flow of a job promises nothing for it (safety rule 7).
void Coordinator::judge(Efficiency efficiency) {
  judged_ = judged_jobs(planning_, routing_);
  efficiency_ = of_judged(std::move(efficiency), judged_);
}

void Coordinator::take(PlanAndMoves next, std::string reason) {
  const WallTime wall = parts_.clock.wall();
  next.plan.version = parts_.reign.next();
  PlanRecord record{.wall = wall, .reason = std::move(reason), .plan = std::move(next.plan)};
  if (efficiency_) {
    record.worst = efficiency_->worst;
    record.mean = efficiency_->mean;
    for (std::size_t j = 0; j < efficiency_->by_job.size(); ++j)
      if (judged_[j])
        record.by_job[prediction_.jobs[j].name] = efficiency_->by_job[j];
  }
  for (FlowMove& move : next.moves)
    record.moves.push_back(
        {std::move(move.flow), std::move(move.from), std::move(move.to), std::move(move.reason)});

  date_pins(record);

  record_ = std::make_shared<const PlanRecord>(std::move(record));
  broadcast_.publish(record_->plan, parts_.clock.now());
  recent_.push_back(record_);
  if (recent_.size() > kRecentPlans)
    recent_.pop_front();
  parts_.history.keep(record_);
  notice(Notice::Level::info, fmt::format("plan {}: {}; {} moves", to_string(record_->plan.version),
                                          record_->reason, record_->moves.size()));
}

// What a pin was before says nothing about what it becomes, so only pins that stay keep their date,
// also over a restart.
void Coordinator::date_pins(PlanRecord& next) const {
  static const std::vector<Pin> kNone;
  const PlanRecord* last = record_ ? record_.get() : restored_ ? &*restored_ : nullptr;
  for (const auto& [node, part] : next.plan.nodes) {
    const std::vector<Pin>* before = &kNone;
    const std::vector<WallTime>* dates = nullptr;
    if (last != nullptr) {
      if (const auto found = last->plan.nodes.find(node); found != last->plan.nodes.end())
        before = &found->second.pins;
      if (const auto found = last->since.find(node); found != last->since.end())
        dates = &found->second;
    }
    std::vector<WallTime>& dated = next.since[node];
    dated.reserve(part.pins.size());
    for (const Pin& pin : part.pins) {
      const Pin* const old = find_pin(*before, pin.unit);
      if (old == nullptr || old->target != pin.target) {
        dated.push_back(next.wall);
        continue;
      }
      const auto place = static_cast<std::size_t>(old - before->data());
      dated.push_back(dates != nullptr && place < dates->size() ? (*dates)[place] : last->wall);
    }
  }
}

std::optional<WallTime> Coordinator::since(const std::string& node,
                                           const SteeringUnit& unit) const {
  if (!record_)
    return std::nullopt;
  const auto part = record_->plan.nodes.find(node);
  const auto dates = record_->since.find(node);
  if (part == record_->plan.nodes.end() || dates == record_->since.end())
    return std::nullopt;
  const Pin* const pin = find_pin(part->second.pins, unit);
  if (pin == nullptr)
    return std::nullopt;
  return dates->second.at(static_cast<std::size_t>(pin - part->second.pins.data()));
}

// A higher epoch makes every plan of ours an older one: all nodes get their part again, under it.
void Coordinator::follow_epoch() {
  const std::uint64_t epoch = parts_.reign.version().epoch;
  if (epoch == begun_.epoch)
    return;
  begun_ = parts_.reign.version();
  if (!record_)
    return;
  PlanAndMoves again;
  again.plan = record_->plan;
  PlanVersion next = parts_.reign.version();
  ++next.generation;
  for (auto& [node, part] : again.plan.nodes)
    part.version = next;
  take(std::move(again), fmt::format("the same pins under epoch {}", epoch));
}

void Coordinator::restore(const PlanRecord& last) {
  HEDDLE_CHECK(!record_);
  PlanVersion next = parts_.reign.version();
  ++next.generation;
  restored_ = last;
  PlanAndMoves again;
  for (const auto& [node, part] : last.plan.nodes) {
    // A fabric file may have lost a node since then, or a rack been turned back.
    const auto place = topology_.find_node(node);
    if (!place || !may_steer(*place))
      continue;
    NodePlan& renewed = again.plan.nodes[node] = part;
    renewed.version = next;
    // The configuration may keep more to itself than before.
    std::erase_if(renewed.pins, [&](const Pin& pin) {
      return touches(topology_, settings_.never_touch, {*place, pin.unit});
    });
  }
  take(std::move(again),
       fmt::format("plan {} goes on after a restart", to_string(last.plan.version)));
}

// A history that could not be written for a while (a full disk) gives an old plan for the last one.
// The agents know better: then it is as if there were no history, before they are sent any of it.
void Coordinator::doubt_restored(const Sender& sender, const Hello& hello) {
  if (!restored_ || !broadcast_.entitled(sender))
    return;
  if (parts_.clock.now() - started_ >= settings_.broadcast.lease) {
    restored_.reset();  // Nothing of it is left that was not planned anew.
    return;
  }
  const PlanVersion held = std::max(hello.installed, hello.highest_seen);
  const RoutePlan& plan = restored_->plan;
  const auto part = plan.nodes.find(sender.node);
  const bool has_part = part != plan.nodes.end();
  const PlanVersion stored = has_part ? part->second.version : PlanVersion{plan.version.epoch, 0};
  const std::uint64_t pins = digest(has_part ? part->second.pins : std::vector<Pin>{});
  // Of our own reigns it may have seen more; a generation of 0 is an epoch without a plan.
  const bool ours = held.epoch >= first_epoch_ && held.epoch <= parts_.reign.version().epoch;
  if (ours || !parts_.reign.plausible(held) || held.generation == 0 || held <= stored ||
      hello.digest == pins)
    return;
  notice(Notice::Level::error,
         parts_.reign.leave(fmt::format(
             "the history's last plan is out of date: {} holds {}, and the history had {} for it; "
             "agents keep their pins until flows have been seen again",
             sender.node, to_string(held), to_string(stored))));
  begun_ = parts_.reign.version();
  restored_.reset();
  record_.reset();
  watched_since_ = parts_.clock.now();
  broadcast_.withdraw();
}

}  // namespace heddle
