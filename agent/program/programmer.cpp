#include "agent/program/programmer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "agent/program/desire.h"
#include "agent/program/egress_watch.h"
#include "agent/program/idle_next_hops.h"
#include "agent/program/installed_pins.h"
#include "agent/program/main_view.h"
#include "agent/program/own_segments.h"
#include "agent/program/prerequisites.h"
#include "agent/program/segments.h"
#include "agent/program/summary.h"
#include "agent/program/tables.h"
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

}  // namespace

class Programmer::Impl {
 public:
  Impl(RouteKernel& kernel, OwnershipStore& store, const Clock& clock, ProgramConfig config)
      : kernel_(kernel),
        clock_(clock),
        config_(std::move(config)),
        view_(config_.uplinks),
        tables_(kernel, store, config_.ranges),
        segments_(config_.segments) {}

  Result<void> start() {
    if (auto subscribed = kernel_.subscribe(); !subscribed)
      return subscribed;
    prepare_full_check();
    if (auto read = read_all(); !read)
      return read;
    judge_fitness();
    if (config_.mode == Mode::program)
      plan_.pins = pins_of(tables_.installed(), view_);
    else
      clearing_ = !tables_.installed().empty();
    const char* const others =
        tables_.by_former_ranges() ? "protocol or ranges are others now" : nullptr;
    const char* const why = clearing_ ? "this node only observes" : others;
    if (why != nullptr)
      leftovers_ = fmt::format("{} pins of an earlier life, as {}",
                               pins_of(tables_.installed(), view_).size(), why);
    return {};
  }

  void want(NodePlan plan) {
    plan_ = std::move(plan);
    held_.clear();
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

  void observed(std::span<const Departure> departures) {
    // What is held is about to be decided anew: this period says nothing of it.
    if (!dirty_ && egress_.observed(departures, view_, plan_.pins, held_, clock_.now()))
      dirty_ = true;
  }

  std::optional<Time> next_deadline() const {
    if (dirty_)
      return Time{};
    Time next = last_full_check_ + config_.full_check;
    if (tables_.stale())
      next = std::min(next, last_read_ + read_gap_);
    for (const auto& due : {retry_at_, ask_at_, idle_.sweep_at()}) {
      if (due)
        next = std::min(next, *due);
    }
    return next;
  }

  std::optional<Acknowledgement> step() {
    const Time now = clock_.now();
    const bool is_new = dirty_;
    const bool retry = retry_at_ && now >= *retry_at_;
    if (retry && !hardware_has_all())
      tables_.doubt();
    const bool full_check = now >= last_full_check_ + config_.full_check;
    if (full_check || (tables_.stale() && now >= last_read_ + read_gap_)) {
      if (full_check)
        prepare_full_check();
      if (!read_all()) {
        // What is known goes on being enforced, above all withdrawals; the gap is the back-off.
        last_read_ = now;
        read_gap_ = std::min(kFailedReadGapMost, 2 * read_gap_);
        tables_.doubt();
      }
      dirty_ = true;
    }
    const bool ask = ask_at_ && now >= *ask_at_;
    const bool sweep = idle_.sweep_at() && now >= *idle_.sweep_at();
    if (!dirty_ && !retry && !ask && !sweep)
      return std::nullopt;
    dirty_ = false;
    if (retry || is_new)
      retry_at_.reset();
    if (ask)
      ask_at_.reset();
    if (retry) {
      verifier_.forget_failures();
      if (!unable_.empty())
        probe();
    } else if (is_new) {
      retry_gap_ = kRetryFirst;  // what failed before may work now
    }
    judge_fitness();
    const bool changing = config_.mode == Mode::program || clearing_;
    if (changing)
      program(now);
    clearing_ = clearing_ && !(tables_.known() && tables_.installed().empty());
    refresh_withdrawn();
    return changing ? news() : std::nullopt;
  }

  Acknowledgement state() const { return state_; }
  const std::vector<Withdrawal>& withdrawn() const { return withdrawn_; }
  ProgramCounters counters() const {
    ProgramCounters result = counters_;
    result.full_reads = tables_.reads();
    result.changes = tables_.changes();
    result.repairs = tables_.repairs();
    return result;
  }
  const std::vector<LocalSegment>& segments() const { return segments_.in_effect(); }
  const std::string& segments_lack() const { return segments_.lack(); }
  const std::string& why_nothing() const { return why_nothing_; }
  const std::string& leftovers() const { return leftovers_; }

  EnforcerCapability capability() const {
    const std::string& why = !unable_.empty() ? unable_ : unfit_;
    return {.name = name_of(config_.enforcer),
            .granularity = granularity_of(config_.enforcer),
            .usable = why.empty(),
            .reason = why};
  }

 private:
  // Events.
  void note(MainView::Effect effect) {
    if (effect == MainView::Effect::read_again)
      tables_.doubt();
    if (effect != MainView::Effect::none)
      dirty_ = true;
  }
  void take(const LinkEvent& event) { note(view_.apply(event)); }
  void take(const NeighbourEvent& event) { note(view_.apply(event)); }
  void take(const RouteEvent& event) {
    const KernelRoute& r = event.route;
    tables_.heard(r);
    // An interface's address that is a segment's takes its packets, in the table `local`.
    if (std::ranges::any_of(config_.segments, [&](const LocalSegment& segment) {
          return r.destination == Prefix::host(segment.address);
        }))
      dirty_ = true;
    note(view_.apply(event));
  }
  void take(const NextHopEvent& event) {
    tables_.heard(event.next_hop);
    note(view_.apply(event));
  }
  void take(const RuleEvent& event) { tables_.heard(event.rule); }
  void take(const SettingsEvent&) { tables_.doubt(); }
  void take(const MarkEvent&) { tables_.doubt(); }
  void take(const EventsLost&) {
    ++counters_.events_lost;
    tables_.doubt();
  }

  // Reading.
  void prepare_full_check() {
    last_full_check_ = clock_.now();
    probe();
    verifier_.forget();
    tables_.open_record();
  }

  // A question that went unanswered says nothing of what is allowed; only a refusal does.
  void probe() {
    const auto probed = kernel_.probe();
    if (probed)
      unable_.clear();
    else if (probed.error().code == Errc::permission || probed.error().code == Errc::unsupported)
      unable_ = probed.error().message;
  }

  // True if there is nothing to wait for.
  bool leave_former_ranges() {
    if (!tables_.by_former_ranges())
      return true;
    const RoutingRanges former = tables_.ranges();
    if (!tables_.leave_former_ranges())
      return false;
    if (!read_all()) {
      tables_.return_to(former);
      return false;
    }
    dirty_ = true;
    return true;
  }

  Result<void> read_all() {
    const Time begin = clock_.now();
    const auto state = tables_.read();
    if (!state)
      return tl::unexpected(state.error());
    last_read_ = clock_.now();
    // Of what is only remembered nothing must be called held.
    if (state->marks_hidden)
      probe();
    read_gap_ = std::clamp((last_read_ - begin) * kReadGapFactor, kReadGapLeast, kReadGapMost);
    view_.load(*state);
    return {};
  }

  void judge_fitness() {
    unfit_ = missing_prerequisite({.view = view_,
                                   .uplinks = config_.uplinks,
                                   .host_ports = config_.host_ports,
                                   .enforcer = config_.enforcer});
    if (unfit_.empty())
      unfit_ = missing_proof_of_offload(view_, config_.enforcer);
    unfit_for_ipv6_ = missing_prerequisite_of_ipv6(view_, config_.enforcer);
  }

  // Programming. While something forbids it, pins are taken away: nothing proves them right.
  bool may_change() const {
    return config_.mode == Mode::program && !tables_.by_former_ranges() && unable_.empty() &&
           tables_.conflict().empty() && tables_.record_error().empty();
  }
  bool may_program() const { return may_change() && unfit_.empty(); }

  SteeringTables wanted_segments() {
    if (config_.mode != Mode::program || tables_.by_former_ranges() || config_.segments.empty()) {
      segments_.want_none();
      return {};
    }
    return segments_.wanted(may_change(), {.wanted = config_.segments,
                                           .view = view_,
                                           .installed = tables_.installed(),
                                           .uplinks = config_.uplinks,
                                           .host_ports = config_.host_ports,
                                           .ranges = tables_.ranges()});
  }

  bool awaits_hardware() const {
    return view_.uplink_of_asic() != nullptr && !is_of_hosts(config_.enforcer);
  }
  // An ASIC takes a route some time after the kernel, which need not tell of it. What is done with
  // packets for the node's own segments is the kernel's part, which no ASIC takes.
  bool hardware_has_all() const {
    return !awaits_hardware() || std::ranges::all_of(without_segments(tables_.installed()).routes,
                                                     [this](const PinRoute& route) {
                                                       return tables_.answered_by_hardware(route);
                                                     });
  }

  void program(Time now) {
    static const std::vector<Pin> kNone;
    Desire desired = desire({.pins = may_program() ? plan_.pins : kNone,
                             .view = view_,
                             .installed = tables_.installed(),
                             .record = tables_.record(),
                             .uplinks = config_.uplinks,
                             .host_ports = config_.host_ports,
                             .ranges = tables_.ranges(),
                             .enforcer = config_.enforcer,
                             .never_touch = config_.never_touch,
                             .unfit_for_ipv6 = unfit_for_ipv6_,
                             .segments = wanted_segments()});
    counters_.pins_withdrawn +=
        desired.withdrawn > withdrawn_pins_ ? desired.withdrawn - withdrawn_pins_ : 0;
    withdrawn_pins_ = desired.withdrawn;
    // Forwarded packets do not wait for a processor between choosing a next hop and leaving.
    if (is_of_hosts(config_.enforcer) && may_program() && !plan_.pins.empty())
      idle_.spare(desired.tables, tables_.installed(), now);
    else
      idle_ = {};
    bool settled = tables_.converge(desired.tables) && unable_.empty();
    ask_for(desired.unresolved, now);
    if (tables_.known() &&
        !verifier_.verify(kernel_, view_, plan_.pins, desired.held, tables_.installed()))
      settled = false;
    if (tables_.known())
      segments_.check(kernel_, view_, tables_);
    if (!leave_former_ranges() || !hardware_has_all())
      settled = false;
    if (settled && !verifier_.any_failure()) {
      retry_at_.reset();
    } else if (!retry_at_) {
      retry_at_ = now + retry_gap_;
      retry_gap_ = std::min(kRetryMost, 2 * retry_gap_);
    }
    // What could not be read back is not acknowledged, nor what is about to change.
    if (tables_.known() && !dirty_)
      summarise(desired);
    held_.clear();
    for (const Desire::Held& held : desired.held) {
      if (tables_.known() && holds(tables_.installed(), held))
        held_.push_back(held.pin);
    }
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
                           .installed = tables_.installed(),
                           .refused_by_hardware = tables_.refused_by_hardware(),
                           .offloaded = awaits_hardware() ? &tables_.offloaded() : nullptr,
                           .verifier = verifier_,
                           .egress = egress_,
                           .failures = tables_.failures(),
                           .refusal = may_program() ? std::nullopt : std::optional(refusal())});
    next.conflict = tables_.conflict();
    next.apply_time = acknowledgement_due_ ? clock_.now() - asked_at_ : state_.apply_time;
    if (next != state_)
      acknowledgement_due_ = true;
    state_ = std::move(next);
  }

  Error refusal() const {
    if (config_.mode != Mode::program)
      return {Errc::unsupported, "this node only observes"};
    if (!tables_.record_error().empty())
      return {Errc::io, tables_.record_error()};
    if (!tables_.conflict().empty())
      return {Errc::foreign_state, "foreign state where only ours may be: " + tables_.conflict()};
    if (tables_.by_former_ranges())
      return {Errc::foreign_state, "what an earlier configuration installed is not all gone yet"};
    return {Errc::unsupported, capability().reason};
  }

  void refresh_withdrawn() {
    std::vector<IpAddress> destinations;
    destinations.reserve(plan_.pins.size());
    for (const Pin& pin : plan_.pins) {
      const auto* const list = std::get_if<SegmentList>(&pin.target);
      destinations.push_back(list != nullptr && !list->segments.empty() ? list->segments.front()
                                                                        : destination_of(pin.unit));
    }
    std::sort(destinations.begin(), destinations.end());
    destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
    withdrawn_ = view_.withdrawn(destinations);
  }

  std::optional<Acknowledgement> news() {
    if (!tables_.known() || !std::exchange(acknowledgement_due_, false))
      return std::nullopt;
    return state_;
  }

  RouteKernel& kernel_;
  const Clock& clock_;
  ProgramConfig config_;

  MainView view_;
  Tables tables_;
  Verifier verifier_;
  EgressWatch egress_;
  OwnSegments segments_;

  // What forbids programming, by what would lift it; so do what is foreign and an unreadable
  // record.
  std::string unable_;          // by another kernel or more capabilities
  std::string unfit_;           // by other settings
  std::string unfit_for_ipv6_;  // likewise, where only pins of IPv6 are concerned

  NodePlan plan_;
  std::vector<std::size_t> held_;  // positions of its pins that are in the kernel
  std::string why_nothing_;
  std::string leftovers_;
  bool clearing_{};  // observing, with pins of an earlier life still there
  Time asked_at_;
  Acknowledgement state_;
  std::vector<Withdrawal> withdrawn_;
  std::size_t withdrawn_pins_{};
  ProgramCounters counters_;

  bool dirty_{true};
  bool acknowledgement_due_{};
  Time last_read_;        // by whatever cause
  Time last_full_check_;  // by time alone
  Duration read_gap_{kReadGapLeast};
  std::optional<Time> retry_at_;
  Duration retry_gap_{kRetryFirst};
  std::optional<Time> ask_at_;
  IdleNextHops idle_;
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
void Programmer::observed(std::span<const Departure> departures) {
  impl_->observed(departures);
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
const std::vector<LocalSegment>& Programmer::segments() const {
  return impl_->segments();
}
const std::string& Programmer::segments_lack() const {
  return impl_->segments_lack();
}
ProgramCounters Programmer::counters() const {
  return impl_->counters();
}

}  // namespace heddle
