#include "agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/program/main_view.h"
#include "agent/program/segments.h"
#include "common/runtime/log.h"
#include "common/wire/codec.h"

namespace heddle {
namespace {

std::vector<PortStatus> without_counters(std::vector<PortStatus> ports) {
  for (PortStatus& port : ports)
    port.tx_bytes = port.rx_bytes = 0;
  return ports;
}

}  // namespace

Agent::Agent(const AgentConfig& config, AgentIdentity identity, AgentParts parts)
    : config_(config),
      parts_(parts),
      programmer_(parts.kernel, parts.ownership, parts.clock,
                  {.mode = config.mode,
                   .uplinks = config.uplinks,
                   .host_ports = config.host_ports,
                   .never_touch = config.never_touch,
                   .ranges = config.routing,
                   .enforcer = config.enforcer,
                   .segments = segments_of(config.role, config.sid)}),
      session_({.node = config.node,
                .role = config.role,
                .mode = config.mode,
                .software = std::move(identity.software),
                .boot_id = std::move(identity.boot_id),
                .instance = identity.instance,
                .report_interval = config.report_interval,
                .longest_lease = config.lease},
               parts.store, [this] { return facts(); }),
      reporter_(parts.clock.now(), config.role != Role::host),
      report_due_(parts.clock.now() + config.report_interval) {}

Result<void> Agent::start() {
  if (Result<void> started = programmer_.start(); !started)
    return started;
  if (const std::string& leftovers = programmer_.leftovers(); !leftovers.empty())
    log_warning("takes away {}", leftovers);
  const EnforcerCapability able = programmer_.capability();
  if (config_.mode == Mode::program && !able.usable)
    log_error("nothing will be programmed: {}: {}", able.name, able.reason);
  if (!std::ranges::any_of(parts_.flows.probe(), &SourceCapability::usable))
    log_error("no flow can be observed");
  for (const SourceCapability& source : sources()) {
    if (!source.usable)
      log_info("source {} cannot be used: {}", source.name, source.reason);
    else if (!source.reason.empty())
      log_warning("source {} does not see everything: {}", source.name, source.reason);
  }
  session_.start(parts_.clock.now());
  return {};
}

void Agent::connection_changed(bool connected, const std::string& reason) {
  if (connected) {
    session_.connected(parts_.clock.now());
  } else {
    log_warning("the coordinator is not reached: {}", reason);
    session_.lost(parts_.clock.now(), reason);
  }
}

void Agent::received(Payload payload) {
  Result<Envelope> envelope = decode(payload);
  if (!envelope) {
    ++undecodable_;
    log_warning("a message of {} octets is dropped, the {}. of its kind: {}", payload.size(),
                undecodable_, envelope.error().message);
    return;
  }
  session_.received(parts_.clock.now(), *envelope);
}

void Agent::kernel_changed(const KernelEvent& event) {
  programmer_.kernel_changed(event);
  if (std::holds_alternative<LinkEvent>(event) || std::holds_alternative<EventsLost>(event))
    links_changed_ = true;
}

void Agent::reconfigure(const AgentConfig& next) {
  config_.lease = next.lease;
  session_.set_longest_lease(next.lease);
}

void Agent::switch_turned() {
  session_.switch_turned(parts_.clock.now());
}

Time Agent::next_deadline() const {
  Time next = report_due_;
  if (const std::optional<Time> due = session_.next_deadline())
    next = std::min(next, *due);
  if (const std::optional<Time> due = programmer_.next_deadline())
    next = std::min(next, *due);
  return next;
}

void Agent::step() {
  session_.tick(parts_.clock.now());
  look_at_switch();
  if (std::optional<Wish> wish = session_.take_wish()) {
    if (wish->plan)
      programmer_.want(*std::move(wish->plan));
    else
      programmer_.want_nothing(std::move(wish->why_nothing));
  }

  // Pins first: a route that `main` has withdrawn black-holes until its pin is gone (safety rule
  // 12).
  std::optional<Acknowledgement> changed = programmer_.step();
  const std::optional<Time> more = programmer_.next_deadline();
  const bool at_rest = !more || *more > parts_.clock.now();
  if (!changed && session_.owes_acknowledgement() && at_rest)
    changed = programmer_.state();
  if (changed)
    session_.acknowledge(*std::move(changed));

  tell_link_changes();
  if (std::string conflict = programmer_.state().conflict; conflict != told_conflict_) {
    if (conflict.empty())
      log_info("nothing foreign is in the way of programming any more");
    else
      log_error("nothing is programmed: foreign state where only heddle's may be: {}", conflict);
    told_conflict_ = std::move(conflict);
  }
  if (const Time now = parts_.clock.now(); now >= report_due_) {
    report(now);
    tell_people_of_repairs();
    tell_abilities(now, sources());
    look_at_cables_ = true;
  } else {
    tell_abilities(now, told_sources_);  // probing is for each report, not for each event
  }
  send_outbox();
}

std::string Agent::describe() const {
  const Acknowledgement state = programmer_.state();
  std::string text = fmt::format("{}; {} pins of plan {}", session_.describe(), state.installed,
                                 to_string(state.version));
  if (config_.mode == Mode::observe)
    text = session_.describe() + "; observing only";
  else if (session_.disabled())
    text += "; disabled";
  else if (!state.conflict.empty())
    text += "; programs nothing: " + state.conflict;
  return text;
}

NodeFacts Agent::facts() {
  told_enforcers_ = enforcers();
  told_sources_ = sources();
  told_segments_ = programmer_.segments();
  return {.installed = programmer_.state(),
          .enforcers = told_enforcers_,
          .sources = told_sources_,
          .ports = own_ports(),
          .segments = told_segments_};
}

std::vector<EnforcerCapability> Agent::enforcers() const {
  // What a host could do is nobody's business while it only observes: most never hold a path.
  if (config_.role == Role::host && config_.mode == Mode::observe)
    return {};
  return {programmer_.capability()};
}

std::vector<SourceCapability> Agent::sources() const {
  std::vector<SourceCapability> all = parts_.flows.probe();
  if (parts_.cables != nullptr)
    all.push_back(parts_.cables->probe(parts_.clock.wall()));
  return all;
}

// Notifications of files can be lost like those of routes, so a full check looks at both.
void Agent::look_at_switch() {
  const std::uint64_t reads = programmer_.counters().full_reads;
  if (std::exchange(full_reads_, reads) != reads)
    session_.switch_turned(parts_.clock.now());
}

// An enforcer that broke down must not be planned for, and one that was repaired is waited for.
void Agent::tell_abilities(Time now, const std::vector<SourceCapability>& sources) {
  if (const std::string& lack = programmer_.segments_lack(); lack != logged_lack_) {
    logged_lack_ = lack;
    if (lack.empty())
      log_info("the segments of this node are in effect");
    else
      log_warning("segments of this node: {}", lack);
  }
  if (enforcers() != told_enforcers_ || sources != told_sources_ ||
      programmer_.segments() != told_segments_)
    session_.abilities_changed(now);
}

std::vector<PortStatus> Agent::own_ports() {
  Result<std::vector<PortStatus>> ports = parts_.ports.ports();
  if (!ports) {
    log_warning("the ports cannot be read: {}", ports.error().message);
    return {};
  }
  std::erase_if(*ports, [this](const PortStatus& port) {
    return !matches_any(config_.uplinks, port.name) && !matches_any(config_.host_ports, port.name);
  });
  return *std::move(ports);
}

// Once for all that happened since the last report: a flapping link repeats itself.
void Agent::tell_people_of_repairs() {
  const std::uint64_t repairs = programmer_.counters().repairs;
  const std::uint64_t before = std::exchange(told_repairs_, repairs);
  if (repairs != before)
    log_warning(
        "what was installed here was found changed, by others or by the kernel, {} times: restored "
        "where main offers it",
        repairs - before);
}

void Agent::report(Time now) {
  const Duration interval = session_.report_interval();
  report_due_ += interval;
  if (report_due_ <= now)
    report_due_ = now + interval;  // what was slept through is not made up
  const Result<FlowReading> reading = parts_.flows.read(now);
  if (reading)
    verify(*reading);
  // Also while nobody listens: the first report after a reconnection then covers one interval and
  // no outage.
  session_.send_report(reporter_.report(now, parts_.clock.wall(), reading, own_ports()));
}

// Only packets show where they leave: a queue pair's counter does not.
void Agent::verify(const FlowReading& reading) {
  if (config_.mode != Mode::program)
    return;
  std::vector<Departure> departures;
  for (const FlowCounter& flow : reading.flows) {
    if (flow.peer == PeerOrigin::wire && !flow.unobservable && !flow.out_port.empty())
      departures.push_back({.source = flow.source,
                            .destination = flow.destination,
                            .source_port = flow.source_port,
                            .out_port = flow.out_port,
                            .packets = flow.packets});
  }
  programmer_.observed(departures);
}

void Agent::tell_link_changes() {
  const bool newly_welcomed = session_.welcomed() && !was_welcomed_;
  was_welcomed_ = session_.welcomed();
  if (newly_welcomed)  // its interval may be shorter than the one that runs
    report_due_ = std::min(report_due_, parts_.clock.now() + session_.report_interval());
  if (std::exchange(look_at_cables_, false) && parts_.cables != nullptr) {
    auto neighbours = parts_.cables->neighbours(parts_.clock.wall());
    cables_changed_ = cables_changed_ || neighbours != neighbours_;
    neighbours_ = std::move(neighbours);
  }
  const bool asked = session_.take_link_request();
  if (!links_changed_ && !newly_welcomed && !asked && !cables_changed_ &&
      programmer_.withdrawn() == told_withdrawn_)
    return;
  LinkChange change{
      .ports = own_ports(), .withdrawn = programmer_.withdrawn(), .neighbours = neighbours_};
  std::vector<PortStatus> ports = without_counters(change.ports);
  if (newly_welcomed || asked || std::exchange(cables_changed_, false) || ports != told_ports_ ||
      change.withdrawn != told_withdrawn_) {
    told_ports_ = std::move(ports);
    told_withdrawn_ = change.withdrawn;
    session_.send_link_change(std::move(change));
    send_outbox();
  }
  if (std::exchange(links_changed_, false))
    parts_.flows.links_changed();
}

void Agent::send_outbox() {
  const ReceiverReads reads{.columns_of_one = session_.columns_of_one()};
  for (const Envelope& envelope : session_.take_outbox()) {
    if (const Result<void> sent = parts_.channel.send(encode(envelope, reads)); !sent)
      log_debug("a message is lost: {}", sent.error().message);
  }
}

}  // namespace heddle
