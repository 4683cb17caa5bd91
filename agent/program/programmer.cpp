#include "agent/program/programmer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "agent/program/claims.h"
#include "agent/program/desire.h"
#include "agent/program/journal.h"
#include "agent/program/main_view.h"
#include "agent/program/prerequisites.h"
#include "agent/program/summary.h"
#include "agent/program/verifier.h"

namespace heddle {
namespace {

// Reading everything may take a tenth of the time, however fast things change, but the gap grows no
// further than rule 12 allows: a withdrawal whose notification was lost is found only by the next
// read. Its 100 ms are kept while one read and the removals fit into the other half; where reading
// takes longer, they hold only for what is notified.
constexpr Duration kReadGapLeast = std::chrono::milliseconds{20};
constexpr Duration kReadGapMost = std::chrono::milliseconds{50};
constexpr int kReadGapFactor = 10;
constexpr Duration kFailedReadGapMost = std::chrono::seconds{1};
constexpr Duration kRetryFirst = std::chrono::milliseconds{100};
constexpr Duration kRetryMost = std::chrono::seconds{10};
// The kernel itself asks three times, a second apart, before it gives a neighbour up.
constexpr Duration kAskAgain = std::chrono::seconds{1};

bool is_removal(const Action& action) {
  return std::holds_alternative<RemoveRoute>(action);
}

}  // namespace

class Programmer::Impl {
 public:
  Impl(RouteKernel& kernel, OwnershipStore& store, const Clock& clock, ProgramConfig config)
      : kernel_(kernel),
        journal_(store),
        clock_(clock),
        config_(std::move(config)),
        view_(config_.uplinks) {}

  Result<void> start() {
    if (auto subscribed = kernel_.subscribe(); !subscribed)
      return subscribed;
    prepare_full_check();
    if (auto read = read_all(); !read)
      return read;
    if (config_.mode == Mode::program)
      plan_.pins = pins_of(installed_, view_);
    else
      clearing_ = !installed_.empty();
    const char* const others =
        ranges_ == config_.ranges ? nullptr : "protocol or ranges are others now";
    const char* const why = clearing_ ? "this node only observes" : others;
    if (why != nullptr)
      leftovers_ = fmt::format("{} pins of an earlier life, as {}", installed_.routes.size(), why);
    return {};
  }

  void want(NodePlan plan) {
    plan_ = std::move(plan);
    why_nothing_.clear();
    asked_at_ = clock_.now();
    acknowledgement_due_ = dirty_ = true;
  }

  void want_nothing(std::string why) {
    want({});
    why_nothing_ = std::move(why);
  }

  void kernel_changed(const KernelEvent& event) {
    std::visit([this](const auto& e) { take(e); }, event);
  }

  std::optional<Time> next_deadline() const {
    if (dirty_)
      return Time{};
    Time next = last_full_check_ + config_.full_check;
    if (read_again_)
      next = std::min(next, last_read_ + read_gap_);
    for (const auto& due : {retry_at_, ask_at_}) {
      if (due)
        next = std::min(next, *due);
    }
    return next;
  }

  std::optional<Acknowledgement> step() {
    const Time now = clock_.now();
    const bool full_check = now >= last_full_check_ + config_.full_check;
    if (full_check || (read_again_ && now >= last_read_ + read_gap_)) {
      if (full_check)
        prepare_full_check();
      if (!read_all()) {
        // What is known goes on being enforced, above all withdrawals; the gap is the back-off.
        last_read_ = now;
        read_gap_ = std::min(kFailedReadGapMost, 2 * read_gap_);
        read_again_ = true;
      }
      dirty_ = true;
    }
    const bool retry = retry_at_ && now >= *retry_at_;
    const bool ask = ask_at_ && now >= *ask_at_;
    if (!dirty_ && !retry && !ask)
      return std::nullopt;
    dirty_ = false;
    retry_at_.reset();
    if (ask)
      ask_at_.reset();
    if (retry) {
      verifier_.forget_failures();
      if (!unable_.empty())
        probe();
    } else {
      retry_gap_ = kRetryFirst;  // something is new; what failed before may work now
    }
    const bool changing = config_.mode == Mode::program || clearing_;
    if (changing)
      program(now);
    clearing_ = clearing_ && !(installed_known_ && installed_.empty());
    refresh_withdrawn();
    return changing ? news() : std::nullopt;
  }

  Acknowledgement state() const { return state_; }
  const std::vector<Withdrawal>& withdrawn() const { return withdrawn_; }
  const ProgramCounters& counters() const { return counters_; }
  const std::string& why_nothing() const { return why_nothing_; }
  const std::string& leftovers() const { return leftovers_; }

  EnforcerCapability capability() const {
    const std::string& why = !unable_.empty() ? unable_ : unfit_;
    return {.name = "port-tables",
            .granularity = Granularity::port_and_destination,
            .usable = why.empty(),
            .reason = why};
  }

 private:
  // Events.
  void note(MainView::Effect effect) {
    if (effect == MainView::Effect::read_again)
      read_again_ = true;
    if (effect != MainView::Effect::none)
      dirty_ = true;
  }
  void take(const LinkEvent& event) { note(view_.apply(event)); }
  void take(const NeighbourEvent& event) { note(view_.apply(event)); }
  void take(const RouteEvent& event) {
    const KernelRoute& r = event.route;
    const RoutingRanges& ours = ranges_;
    if (r.protocol == ours.protocol || ours.owns_table(r.table) ||
        ours.owns_next_hop(r.next_hop_id))
      read_again_ = true;
    note(view_.apply(event));
  }
  void take(const NextHopEvent& event) {
    const KernelNextHop& n = event.next_hop;
    const auto owns = [&](std::uint32_t id) { return ranges_.owns_next_hop(id); };
    if (owns(n.id) || n.protocol == ranges_.protocol ||
        std::any_of(n.members.begin(), n.members.end(), owns))
      read_again_ = true;
    note(view_.apply(event));
  }
  void take(const RuleEvent& event) {
    const KernelRule& r = event.rule;
    if (r.priority == ranges_.rule_priority || r.protocol == ranges_.protocol ||
        ranges_.owns_table(r.table))
      read_again_ = true;
  }
  void take(const SettingsEvent&) { read_again_ = true; }
  void take(const EventsLost&) {
    ++counters_.events_lost;
    read_again_ = true;
  }

  // Reading.
  void prepare_full_check() {
    last_full_check_ = clock_.now();
    probe();
    verifier_.forget();
    journal_.open();
    // What was installed under an earlier configuration is ours under that one only.
    const Ownership& record = journal_.record();
    use(record.empty() ? ranges_ : record.ranges.value_or(config_.ranges));
  }

  // A question that went unanswered says nothing of what is allowed; only a refusal does.
  void probe() {
    const auto probed = kernel_.probe();
    if (probed)
      unable_.clear();
    else if (probed.error().code == Errc::permission || probed.error().code == Errc::unsupported)
      unable_ = probed.error().message;
  }

  void use(const RoutingRanges& ranges) {
    ranges_ = ranges;
    kernel_.use(ranges_);
  }

  // The pins of an earlier configuration are gone: from here on the present one holds. True if
  // there is nothing to wait for.
  bool leave_former_ranges() {
    if (ranges_ == config_.ranges)
      return true;
    if (!installed_known_ || !installed_.empty())
      return false;
    journal_.narrow(Ownership::of({}, ranges_));
    if (!journal_.record().empty())
      return false;
    const RoutingRanges former = ranges_;
    use(config_.ranges);
    // Nothing is programmed where nobody has looked.
    if (!read_all()) {
      use(former);
      return false;
    }
    dirty_ = true;
    return true;
  }

  Result<void> read_all() {
    const Time begin = clock_.now();
    auto state = kernel_.read();
    if (!state)
      return tl::unexpected(state.error());
    ++counters_.full_reads;
    last_read_ = clock_.now();
    read_gap_ = std::clamp((last_read_ - begin) * kReadGapFactor, kReadGapLeast, kReadGapMost);
    read_again_ = state->inconsistent;
    view_.load(*state);
    Claims claims = claim(*state, ranges_, journal_.record());
    if (counters_.full_reads > 1 && claims.ours != installed_) {
      ++counters_.repairs;
      journal_.suspect();
    }
    conflict_ = claims.conflict();
    if (claims.foreign_count == 0)
      journal_.nothing_is_there();
    lent_ = std::move(claims.lent);
    adopt(std::move(claims));
    unfit_ = missing_prerequisite(
        {.view = view_, .uplinks = config_.uplinks, .host_ports = config_.host_ports});
    return {};
  }

  bool read_back() {
    const auto state = kernel_.read_ours();
    if (!state) {
      installed_known_ = false;
      read_again_ = true;
      return false;
    }
    Claims claims = claim(*state, ranges_, journal_.record());
    // Only a full read sees enough to say whose it is.
    if (claims.foreign_count != 0 && conflict_.empty())
      read_again_ = true;
    adopt(std::move(claims));
    return true;
  }

  void adopt(Claims claims) {
    installed_ = std::move(claims.ours);
    installed_known_ = true;
    refused_by_hardware_ = std::move(claims.refused_by_hardware);
  }

  // Programming. While something forbids it, what is ours is taken away: nothing proves it right.
  bool may_program() const {
    return config_.mode == Mode::program && ranges_ == config_.ranges && unable_.empty() &&
           unfit_.empty() && conflict_.empty() && journal_.error().empty();
  }

  void program(Time now) {
    static const std::vector<Pin> kNone;
    failures_.clear();
    Desire desired = desire({.pins = may_program() ? plan_.pins : kNone,
                             .view = view_,
                             .installed = installed_,
                             .record = journal_.record(),
                             .uplinks = config_.uplinks,
                             .host_ports = config_.host_ports,
                             .ranges = ranges_});
    counters_.pins_withdrawn +=
        desired.withdrawn > withdrawn_pins_ ? desired.withdrawn - withdrawn_pins_ : 0;
    withdrawn_pins_ = desired.withdrawn;
    bool settled = converge(desired.tables) && unable_.empty();
    ask_for(desired.unresolved, now);
    if (installed_known_ && !verifier_.verify(kernel_, view_, plan_.pins, desired.held, installed_))
      settled = false;
    if (!leave_former_ranges())
      settled = false;
    if (!settled || verifier_.any_failure()) {
      retry_at_ = now + retry_gap_;
      retry_gap_ = std::min(kRetryMost, 2 * retry_gap_);
    }
    // What could not be read back is not acknowledged, nor what is about to change.
    if (installed_known_ && !dirty_)
      summarise(desired);
  }

  // True if what is read back is what was wanted.
  bool converge(const PortTables& wanted) {
    // A next hop takes the routes over it along, which may be others'; while something has changed
    // that was not read yet, nobody knows.
    const auto takes_along = [this](const Action& a) {
      const auto* const removal = std::get_if<RemoveNextHop>(&a);
      return removal != nullptr &&
             (read_again_ || std::binary_search(lent_.begin(), lent_.end(), removal->id));
    };
    Reconciliation todo = reconcile(wanted, installed_);
    if (!todo.make.empty()) {
      // The record first: whatever happens after it, it names all that can be there.
      if (auto recorded = journal_.widen(Ownership::of(wanted, ranges_)); !recorded) {
        failures_.try_emplace({0, IpAddress{}}, std::move(recorded.error().message));
        std::erase_if(todo.make, [](const Action& a) { return !is_removal(a); });
      }
      // An object in place of ours has to go first, and what is to lean on ours waits for that.
      if (std::any_of(todo.make.begin(), todo.make.end(), takes_along))
        std::erase_if(todo.make, [](const Action& a) { return !is_removal(a); });
      if (!apply(todo.make))
        return false;
    }
    std::vector<Action> sweep = reconcile(wanted, installed_).sweep;
    std::erase_if(sweep, takes_along);
    if (!sweep.empty() && !apply(sweep))
      return false;
    if (!todo.make.empty() || !sweep.empty() || journal_.suspected() ||
        journal_.record().ranges != ranges_)
      journal_.narrow(Ownership::of(installed_, ranges_));
    return reconcile(wanted, installed_).empty();
  }

  // Applies and reads back. False if what is installed now is not known.
  bool apply(const std::vector<Action>& actions) {
    if (actions.empty())
      return true;
    const auto failed = kernel_.apply(actions);
    if (failed) {
      counters_.changes += actions.size() - failed->size();
      for (const ActionFailure& f : *failed)
        note_failure(failures_, actions[f.action], f);
    }
    return read_back() && failed.has_value();
  }

  void ask_for(const std::vector<std::pair<std::uint32_t, IpAddress>>& gateways, Time now) {
    if (gateways.empty()) {
      ask_at_.reset();
      asked_.clear();
      return;
    }
    // At once for a new one; the others when their time comes.
    const bool all = !ask_at_;
    for (const auto& gateway : gateways) {
      if (all || !asked_.contains(gateway))
        kernel_.resolve(gateway.first, gateway.second);
    }
    asked_ = {gateways.begin(), gateways.end()};
    if (all)
      ask_at_ = now + kAskAgain;
  }

  // Acknowledging.
  void summarise(const Desire& desired) {
    Acknowledgement next =
        heddle::summarise({.plan = plan_,
                           .desired = desired,
                           .installed = installed_,
                           .refused_by_hardware = refused_by_hardware_,
                           .verifier = verifier_,
                           .failures = failures_,
                           .refusal = may_program() ? std::nullopt : std::optional(refusal())});
    next.conflict = conflict_;
    next.apply_time = acknowledgement_due_ ? clock_.now() - asked_at_ : state_.apply_time;
    if (next != state_)
      acknowledgement_due_ = true;
    state_ = std::move(next);
  }

  Error refusal() const {
    if (config_.mode != Mode::program)
      return {Errc::unsupported, "this node only observes"};
    if (!journal_.error().empty())
      return {Errc::io, journal_.error()};
    if (!conflict_.empty())
      return {Errc::foreign_state, "foreign state where only ours may be: " + conflict_};
    if (ranges_ != config_.ranges)
      return {Errc::foreign_state, "what an earlier configuration installed is not all gone yet"};
    return {Errc::unsupported, capability().reason};
  }

  void refresh_withdrawn() {
    std::set<IpAddress> destinations;
    for (const Pin& pin : plan_.pins)
      destinations.insert(destination_of(pin.unit));
    withdrawn_ = view_.withdrawn({destinations.begin(), destinations.end()});
  }

  std::optional<Acknowledgement> news() {
    if (!installed_known_ || !std::exchange(acknowledgement_due_, false))
      return std::nullopt;
    return state_;
  }

  RouteKernel& kernel_;
  Journal journal_;
  const Clock& clock_;
  ProgramConfig config_;
  RoutingRanges ranges_{config_.ranges};  // the recorded ones while their pins are there

  MainView view_;
  PortTables installed_;    // as last read back,
  bool installed_known_{};  // and not changed since
  std::vector<PinRoute> refused_by_hardware_;
  std::vector<std::uint32_t> lent_;  // as of the last full read: others' routes are not read back
  Verifier verifier_;

  // What forbids programming, by what would lift it; so does the journal's error.
  std::string unable_;    // by another kernel or more capabilities
  std::string unfit_;     // by other settings
  std::string conflict_;  // by removing what is foreign

  NodePlan plan_;
  std::string why_nothing_;
  std::string leftovers_;
  bool clearing_{};  // observing, with pins of an earlier life still there
  Time asked_at_;
  Acknowledgement state_;
  std::vector<Withdrawal> withdrawn_;
  ChangeFailures failures_;  // of the last attempt
  std::size_t withdrawn_pins_{};
  ProgramCounters counters_;

  bool dirty_{true};
  bool acknowledgement_due_{};
  bool read_again_{};
  Time last_read_;        // by whatever cause
  Time last_full_check_;  // by time alone
  Duration read_gap_{kReadGapLeast};
  std::optional<Time> retry_at_;
  Duration retry_gap_{kRetryFirst};
  std::optional<Time> ask_at_;
  std::set<std::pair<std::uint32_t, IpAddress>> asked_;
};

Programmer::Programmer(RouteKernel& kernel, OwnershipStore& store, const Clock& clock,
                       ProgramConfig config)
    : impl_(std::make_unique<Impl>(kernel, store, clock, std::move(config))) {}
Programmer::~Programmer() = default;

Result<void> Programmer::start() {
  return impl_->start();
}
void Programmer::want(NodePlan plan) {
  impl_->want(std::move(plan));
}
void Programmer::want_nothing(std::string why) {
  impl_->want_nothing(std::move(why));
}
const std::string& Programmer::leftovers() const {
  return impl_->leftovers();
}
const std::string& Programmer::why_nothing() const {
  return impl_->why_nothing();
}
void Programmer::kernel_changed(const KernelEvent& event) {
  impl_->kernel_changed(event);
}
std::optional<Time> Programmer::next_deadline() const {
  return impl_->next_deadline();
}
std::optional<Acknowledgement> Programmer::step() {
  return impl_->step();
}
Acknowledgement Programmer::state() const {
  return impl_->state();
}
const std::vector<Withdrawal>& Programmer::withdrawn() const {
  return impl_->withdrawn();
}
EnforcerCapability Programmer::capability() const {
  return impl_->capability();
}
const ProgramCounters& Programmer::counters() const {
  return impl_->counters();
}

}  // namespace heddle
