// Events: what comes in, and when something is due.
#include "coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

std::set<std::string> node_names(const Topology& topology) {
  std::set<std::string> names;
  for (const NodeId node : topology.nodes())
    names.insert(topology.name_of(node));
  return names;
}

}  // namespace

Coordinator::Coordinator(CoordinatorSettings settings, CoordinatorParts parts,
                         std::vector<JobDeclaration> jobs, OperatorState operators)
    : settings_(std::move(settings)),
      parts_(std::move(parts)),
      topology_(parts_.topology),
      file_jobs_(std::move(jobs)),
      operators_(std::move(operators)),
      flows_(topology_, settings_.flows),
      links_(topology_),
      broadcast_(settings_.broadcast, parts_.reign, parts_.port,
                 [this](const Notice& said) { notice(said.level, said.text); }),
      started_(parts_.clock.now()),
      watched_since_(started_),
      first_epoch_(parts_.reign.version().epoch),
      begun_(parts_.reign.version()),
      dwell_(settings_.decide.dwell),
      rollout_(settings_.rollout, {}, started_),
      next_period_(started_ + settings_.period),
      access_(parts_.audit, parts_.clock) {
  broadcast_.set_nodes(node_names(topology_));
  broadcast_.on_refusal([this](const Sender& sender, const std::string& why) {
    access_.turned_away(sender.key_name, sender.role, "agent", sender.node, why);
  });
  broadcast_.set_disabled(operators_.disabled_nodes);
  resolve_drains();
}

void Coordinator::notice(Notice::Level level, std::string text) {
  parts_.log({level, text});
  parts_.history.keep(EventRecord{parts_.clock.wall(), std::move(text)});
}

// Before the first plan, flows must have had the time to show themselves.
bool Coordinator::warm() const {
  return broadcast_.published() ||
         parts_.clock.now() - watched_since_ >= 2 * settings_.broadcast.report_interval;
}

void Coordinator::received(const Sender& sender, const Envelope& envelope) {
  const Time now = parts_.clock.now();
  if (const auto* request = std::get_if<Request>(&envelope.message)) {
    on_request(sender, *request);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&envelope.message)) {
    on_hello(sender, *hello);
    return;
  }
  if (!broadcast_.admit(sender, now))
    return;
  if (const auto* report = std::get_if<Report>(&envelope.message))
    on_report(sender.node, *report);
  else if (const auto* change = std::get_if<LinkChange>(&envelope.message))
    on_link_change(sender.node, *change);
  else if (const auto* ack = std::get_if<Acknowledgement>(&envelope.message)) {
    broadcast_.acknowledged(sender.node, *ack, now);
    note_failures(sender.node);
  } else if (const auto* wanted = std::get_if<SnapshotRequest>(&envelope.message))
    broadcast_.snapshot_requested(sender.node, *wanted, now);
  // Anything else is a coordinator's to say; an agent that says it is not answered.
  follow_epoch();
  if (operators_.disabled_nodes != broadcast_.disabled()) {
    operators_.disabled_nodes = broadcast_.disabled();
    (void)store_operators();  // Said, and tried again, if it fails.
  }
  check_waiting();
}

void Coordinator::on_hello(const Sender& sender, const Hello& hello) {
  const Time now = parts_.clock.now();
  doubt_restored(sender, hello);
  const bool known = broadcast_.find(sender.node) != nullptr;
  const auto before = broadcast_.steering(sender.node, now);
  if (!broadcast_.hello(sender, hello, now))
    return;
  follow_epoch();
  watch_segments();
  // An agent says hello again when what it can do has changed.
  if (const auto steers = broadcast_.steering(sender.node, now); known && steers != before)
    plan_soon(fmt::format("{} {}", sender.node,
                          !steers  ? "can no longer steer"
                          : before ? "steers differently"
                                   : "can steer again"));
  if (const auto node = topology_.find_node(sender.node)) {
    std::erase_if(failing_, [&](const auto& entry) { return entry.first.node == *node; });
    std::erase_if(refused_, [&](const PinKey& pin) { return pin.node == *node; });
  }
  links_changed(links_.set_ports(sender.node, hello.ports));
}

void Coordinator::on_report(const std::string& node, const Report& report) {
  const Time now = parts_.clock.now();
  const bool was_watched = reports(node);
  broadcast_.reported(node, report, now);
  flows_.add(node, report, now);
  links_.count(node, report);
  cables_.set_ports(node, report.ports);
  links_changed(links_.set_ports(node, report.ports));
  errors_.add(node, report, now);
  note_drained_traffic(node, was_watched);
  look_for_quiet_now();
  parts_.history.keep(parts_.clock.wall(), node, report);
}

void Coordinator::on_link_change(const std::string& node, const LinkChange& change) {
  if (!broadcast_.links_told(node, change))
    return;
  cables_.set_ports(node, change.ports);
  cables_.set_neighbours(node, change.neighbours);
  std::vector<std::string> changes = links_.set_ports(node, change.ports);
  for (std::string& withdrawn : links_.set_withdrawn(node, change.withdrawn))
    changes.push_back(std::move(withdrawn));
  links_changed(changes);
  parts_.history.keep(parts_.clock.wall(), node, change);
}

void Coordinator::links_changed(const std::vector<std::string>& changes) {
  if (changes.empty())
    return;
  for (const std::string& change : changes)
    notice(Notice::Level::info, change);
  plan_soon(changes.front());
}

void Coordinator::plan_soon(std::string event) {
  if (link_plan_at_)
    return;
  link_plan_at_ = parts_.clock.now() + settings_.debounce;
  link_event_ = std::move(event);
}

void Coordinator::watch_history() {
  const HistoryStatus status = parts_.history.status();
  if (history_ok_ == status.ok)
    return;
  if (history_ok_.has_value() || !status.ok) {
    // Not into the history, which may be what is broken.
    if (status.ok)
      parts_.log({Notice::Level::info, "the history is kept again"});
    else
      parts_.log({Notice::Level::warning,
                  fmt::format("the history is degraded, routing is not: {}", status.reason)});
  }
  history_ok_ = status.ok;
}

Result<void> Coordinator::store_operators() {
  return note_kept(operators_kept_, "what operators ordered",
                   parts_.store.store_operator_state(operators_));
}

Result<void> Coordinator::store_rollout(const RolloutState& state) {
  return note_kept(rollout_kept_, "the roll-out's state", parts_.store.store_rollout(state));
}

// Said once when a disk begins to fail, and once when it works again.
Result<void> Coordinator::note_kept(bool& kept, std::string_view what, Result<void> stored) {
  if (kept != stored.has_value())
    notice(stored ? Notice::Level::info : Notice::Level::error,
           stored ? fmt::format("{} is kept again", what)
                  : fmt::format("{} cannot be kept, and is tried again: {}", what,
                                stored.error().message));
  kept = stored.has_value();
  return stored;
}

// What holds already must not be forgotten by a restart for longer than the disk fails.
void Coordinator::store_again() {
  if (!operators_kept_)
    (void)store_operators();
  if (!rollout_kept_)
    (void)store_rollout(rollout_.state());
}

void Coordinator::step() {
  const Time now = parts_.clock.now();
  if (link_plan_at_ && now >= *link_plan_at_) {
    link_plan_at_.reset();
    // Before the first plan nobody steers anything, and flows are not known yet.
    if (warm())
      plan({.links_changed = true, .demand_changed = false, .event = link_event_});
  }
  if (now >= next_period_) {
    next_period_ = now + settings_.period;
    flows_.age(now);
    store_again();
    if (warm()) {
      plan({});
      step_rollout();
    }
    watch_history();
  }
  look_for_quiet_now();
  if (now >= broadcast_.next_tick())
    broadcast_.tick(now);
  watch_segments();
  check_waiting();
}

Time Coordinator::next_deadline() const {
  Time next = std::min(next_period_, broadcast_.next_tick());
  if (link_plan_at_)
    next = std::min(next, *link_plan_at_);
  if (quiet_wait_)
    next = std::min(next, std::max(quiet_wait_->until, quiet_wait_->look_at));
  for (const Waiting& one : waiting_)
    next = std::min(next, one.deadline);
  for (const auto& [number, one] : reading_)
    next = std::min(next, one.deadline);
  return next;
}

void Coordinator::reconfigure(CoordinatorSettings settings, std::vector<JobDeclaration> jobs) {
  settings_ = std::move(settings);
  file_jobs_ = std::move(jobs);
  flows_.reconfigure(settings_.flows);
  broadcast_.reconfigure(settings_.broadcast);
  dwell_.set(settings_.decide.dwell);
  next_period_ = parts_.clock.now();  // What is planned now may be planned otherwise.
}

std::string Coordinator::describe() const {
  std::size_t connected = 0;
  for (const auto& [name, agent] : broadcast_.agents())
    connected += agent.connected ? 1 : 0;
  std::string text = fmt::format("{} agents, {} jobs, epoch {}", connected, prediction_.jobs.size(),
                                 parts_.reign.version().epoch);
  if (record_)
    text += fmt::format(", plan {}", to_string(record_->plan.version));
  if (efficiency_ && !efficiency_->by_job.empty())
    text += fmt::format(", worst job at {:.0f} %", efficiency_->worst * 100);
  return text;
}

}  // namespace heddle
