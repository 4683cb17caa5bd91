#include "agent/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/runtime/log.h"

namespace heddle {
namespace {

constexpr const char* kCoordinator = "coordinator";

}  // namespace

Session::Session(SessionConfig config, AgentStore& store, FactSource facts)
    : config_(std::move(config)),
      store_(store),
      facts_(std::move(facts)),
      granted_lease_(config_.longest_lease),
      report_interval_(config_.report_interval) {}

void Session::start(Time now) {
  StoredState stored = store_.load();
  highest_seen_ = stored.highest_seen;
  if (stored.plan && stored.plan->node == config_.node) {
    plan_ = std::move(stored.plan);
    // The two are written one after the other, so a crash can leave the plan the newer one.
    highest_seen_ = std::max(highest_seen_, plan_->version);
    plan_in_doubt_ = plan_->version < highest_seen_;  // then a newer one could not be kept
  }
  lease_ = stored.lease_deadline;
  read_switch();
  decide(now);
}

void Session::connected(Time now) {
  connected_ = true;
  welcomed_ = false;
  columns_of_one_ = false;  // perhaps another coordinator, of another version
  refusal_.reset();
  snapshot_asked_.reset();
  sequence_ = 0;
  say_hello(now);
}

void Session::lost(Time, const std::string& reason) {
  connected_ = false;
  welcomed_ = false;
  hello_due_.reset();
  lost_reason_ = reason;
}

void Session::received(Time now, const Envelope& envelope) {
  if (envelope.node != kCoordinator) {
    log_warning("a message from \"{}\" came in place of the coordinator's; ignored", envelope.node);
    return;
  }
  std::visit([&](const auto& message) { on(now, message); }, envelope.message);
  decide(now);
}

void Session::abilities_changed(Time now) {
  // A hello that waits for its answer is repeated anyway, with what holds then.
  if (welcomed_ && !hello_due_)
    say_hello(now);
}

void Session::switch_turned(Time now) {
  const bool before = disabled_;
  read_switch();
  if (disabled_ != before)
    owes_acknowledgement_ = true;
  decide(now);
}

void Session::tick(Time now) {
  if (connected_ && hello_due_ && now >= *hello_due_)
    say_hello(now);
  decide(now);
}

std::optional<Time> Session::next_deadline() const {
  std::optional<Time> next = connected_ ? hello_due_ : std::nullopt;
  const bool lease_runs = lease_ && !lease_over_ && config_.mode == Mode::program;
  if (lease_runs && (!next || *lease_ < *next))
    next = lease_;
  return next;
}

void Session::acknowledge(Acknowledgement acknowledgement) {
  owes_acknowledgement_ = false;
  acknowledgement.disabled = disabled_;
  if (welcomed_)
    send(std::move(acknowledgement));
}

void Session::send_report(Report report) {
  report.links = links_;
  if (welcomed_)
    send(std::move(report));
}

void Session::send_link_change(LinkChange change) {
  // Not a number of an earlier life, whose last word may still be on its way.
  links_ = (links_ == 0 ? config_.instance : links_) + 1;
  change.state = links_;
  if (welcomed_)
    send(std::move(change));
}

std::vector<Envelope> Session::take_outbox() {
  return std::exchange(outbox_, {});
}

std::optional<Wish> Session::take_wish() {
  return std::exchange(new_wish_, std::nullopt);
}

std::string Session::describe() const {
  if (!connected_)
    return fmt::format("no coordinator: {}", lost_reason_);
  if (refusal_)
    return fmt::format("refused by the coordinator: {}", refusal_->reason);
  return welcomed_ ? "connected" : "waiting for the coordinator's welcome";
}

void Session::on(Time, const Welcome& welcome) {
  if (!of_current_epoch(welcome.version.epoch, "a welcome"))
    return;  // it learns of the later epoch from hello, which is repeated
  if (!welcomed_)
    log_info("welcomed by the coordinator of epoch {}", welcome.version.epoch);
  welcomed_ = true;
  refusal_.reset();
  hello_due_.reset();
  columns_of_one_ = welcome.columns_of_one;
  if (welcome.report_interval > Duration::zero())
    report_interval_ = welcome.report_interval;
  granted_lease_ = std::clamp(welcome.lease, Duration::zero(), config_.longest_lease);
  owes_acknowledgement_ = true;
}

void Session::on(Time now, const Refusal& refusal) {
  if (!refusal_ || *refusal_ != refusal)
    log_error("the coordinator refuses {}: {} ({})", config_.node, refusal.reason,
              to_string(refusal.code));
  welcomed_ = false;
  refusal_ = refusal;
  hello_due_ = now + kHelloAfterRefusal;
}

void Session::on(Time now, const PlanDiff& diff) {
  if (!listens_to(diff.version, "a plan"))
    return;
  if (!plan_)
    return ask_for_snapshot(now, "a diff came, and there is no plan here");
  if (diff.version == plan_->version && diff.digest == digest(plan_->pins)) {
    owes_acknowledgement_ = true;  // a repeat: the acknowledgement was lost
    return;
  }
  Result<NodePlan> next = apply(*plan_, diff).and_then([this](NodePlan plan) {
    return accept_plan(std::move(plan), config_.node, highest_seen_);
  });
  if (next)
    return take_over(now, *std::move(next));
  switch (next.error().code) {
    case Errc::stale_plan:
    case Errc::wrong_node:
      log_warning("a plan is refused: {}", next.error().message);
      owes_acknowledgement_ = true;
      return;
    default:
      ask_for_snapshot(now, next.error().message);
  }
}

void Session::on(Time now, const Snapshot& snapshot) {
  if (!listens_to(snapshot.plan.version, "a plan"))
    return;
  Result<NodePlan> plan = accept_plan(snapshot.plan, config_.node, highest_seen_);
  if (!plan) {
    log_warning("a plan is refused: {}", plan.error().message);
    owes_acknowledgement_ = true;
    return;
  }
  if (digest(plan->pins) != snapshot.digest)
    return ask_for_snapshot(now, "the snapshot's pins do not have the announced digest");
  if (plan_ == *plan)
    owes_acknowledgement_ = true;  // a repeat: the acknowledgement was lost
  take_over(now, *std::move(plan));
}

void Session::on(Time now, const Heartbeat& heartbeat) {
  if (!listens_to(heartbeat.version, "a heartbeat"))
    return;
  if (heartbeat.version < highest_seen_ && highest_seen_.generation > 0) {
    // One reign counts upwards, so this is another coordinator that claims the same epoch (safety
    // rule 9).
    log_error(
        "a coordinator of epoch {} knows plan {}, but {} has been seen: its heartbeat does not "
        "count",
        heartbeat.version.epoch, to_string(heartbeat.version), to_string(highest_seen_));
    return;
  }
  renew_lease(now, heartbeat.lease);
  const bool same_pins = plan_ && heartbeat.digest == digest(plan_->pins);
  if (same_pins && heartbeat.version == plan_->version) {
    plan_in_doubt_ = false;
  } else if (same_pins && heartbeat.version >= highest_seen_) {
    // A newer plan in which nothing changed for this node.
    NodePlan renamed = *plan_;
    renamed.version = heartbeat.version;
    take_over(now, std::move(renamed));
  } else {
    ask_for_snapshot(now, plan_ ? "the heartbeat's plan is another" : "there is no plan here");
  }
}

void Session::on(Time, const Switch& change) {
  if (!welcomed_)
    return;
  const Result<void> kept = change.enable ? store_.enable() : store_.disable(change.by);
  if (!kept)
    log_error("the off switch cannot be kept: {}", kept.error().message);
  log_warning("heddle is {} on this node by {}", change.enable ? "enabled" : "disabled", change.by);
  off_until_restart_.reset();
  if (!change.enable && !kept && !store_.disabled())
    off_until_restart_ = change.by;
  read_switch();
  owes_acknowledgement_ = true;
}

void Session::on(Time, const LinkRequest& request) {
  log_debug("the coordinator asks for the links: it heard state {}, now is {}", request.have,
            links_);
  links_asked_ = true;
}

template <class Other>
void Session::on(Time, const Other&) {
  log_warning("a message that only agents send came from the coordinator; ignored");
}

void Session::say_hello(Time now) {
  NodeFacts facts = facts_();
  hello_due_ = now + (refusal_ ? kHelloAfterRefusal : kHelloAgain);
  send(Hello{.role = config_.role,
             .mode = config_.mode,
             .disabled = disabled_,
             .software = config_.software,
             .boot_id = config_.boot_id,
             .instance = config_.instance,
             .installed = facts.installed.version,
             .highest_seen = highest_seen_,
             .digest = facts.installed.digest,
             .enforcers = std::move(facts.enforcers),
             .sources = std::move(facts.sources),
             .ports = std::move(facts.ports),
             .segments = std::move(facts.segments)});
}

void Session::send(Message message) {
  outbox_.push_back({.node = config_.node, .sequence = ++sequence_, .message = std::move(message)});
}

void Session::ask_for_snapshot(Time now, std::string reason) {
  // While the answer travels, each further diff would ask again.
  if (snapshot_asked_ && now < *snapshot_asked_ + kSnapshotAgain)
    return;
  snapshot_asked_ = now;
  log_debug("asking for a snapshot: {}", reason);
  send(
      SnapshotRequest{.have = plan_ ? plan_->version : PlanVersion{}, .reason = std::move(reason)});
}

bool Session::of_current_epoch(std::uint64_t epoch, const char* what) {
  if (epoch < highest_seen_.epoch) {
    if (epoch_warned_of_ != epoch) {
      log_warning("{} of epoch {} is refused: epoch {} has been seen", what, epoch,
                  highest_seen_.epoch);
    }
    epoch_warned_of_ = epoch;
    owes_acknowledgement_ = true;
    return false;
  }
  epoch_warned_of_.reset();
  if (epoch > highest_seen_.epoch)
    note_version({.epoch = epoch, .generation = 0});
  return true;
}

bool Session::listens_to(PlanVersion version, const char* what) {
  return welcomed_ && config_.mode == Mode::program && of_current_epoch(version.epoch, what);
}

void Session::take_over(Time now, NodePlan plan) {
  // Remembered before it is programmed: a crash in between must not let an older plan in.
  note_version(plan.version);
  if (!plan_ || *plan_ != plan) {
    plan_changed_ = true;
    if (const Result<void> kept = store_.save_plan(plan); !kept)
      log_error("the plan cannot be kept: {}", kept.error().message);
  }
  plan_ = std::move(plan);
  plan_in_doubt_ = false;
  snapshot_asked_.reset();
  renew_lease(now, granted_lease_);
}

void Session::renew_lease(Time now, Duration lease) {
  granted_lease_ = std::clamp(lease, Duration::zero(), config_.longest_lease);
  lease_ = now + granted_lease_;
  lease_over_ = false;
  if (const Result<void> kept = store_.extend_lease(*lease_); !kept)
    log_error("the lease cannot be kept: {}", kept.error().message);
}

void Session::note_version(PlanVersion version) {
  if (version <= highest_seen_)
    return;
  highest_seen_ = version;
  if (const Result<void> kept = store_.save_highest_seen(version); !kept)
    log_error("the plan's version cannot be kept: {}", kept.error().message);
}

void Session::read_switch() {
  const bool kept = store_.disabled();
  disabled_ = kept || off_until_restart_;
  disabled_by_ = kept ? store_.disabled_by() : off_until_restart_.value_or("");
}

void Session::decide(Time now) {
  if (config_.mode == Mode::observe)
    return;
  if (!lease_ || now >= *lease_) {
    if (lease_ && !lease_over_)
      log_warning("no word from the coordinator for the whole lease: back to ECMP");
    lease_over_ = true;
    plan_in_doubt_ = true;
    return want_nothing("no lease from the coordinator");
  }
  if (disabled_)
    return want_nothing("disabled by " + disabled_by_);
  // In doubt, or before the first plan, things stay as they are until the lease ends.
  if (plan_ && !plan_in_doubt_)
    want_plan();
}

void Session::want_nothing(std::string why) {
  if (!wants_plan_ && why == why_nothing_)
    return;
  wants_plan_ = false;
  why_nothing_ = why;
  new_wish_ = Wish{.plan = std::nullopt, .why_nothing = std::move(why)};
}

// Called with every event, so it copies the plan only when there is something new in it.
void Session::want_plan() {
  if (wants_plan_ && !plan_changed_)
    return;
  wants_plan_ = true;
  plan_changed_ = false;
  why_nothing_.clear();
  new_wish_ = Wish{.plan = plan_, .why_nothing = {}};
}

}  // namespace heddle
