#include "agent/program/tables.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

// Only what takes away: a flow that cannot be moved goes back to `main`, as what it leaves may not
// lead on any more.
void only_take_away(ChangeMarks& marks) {
  ChangeMarks left;
  left.ports_off = std::move(marks.ports_off);
  left.off = std::move(marks.off);
  for (const MarkedFlow& flow : marks.moved)
    left.off.push_back(flow.flow);
  marks = std::move(left);
}

// While nothing new can be recorded, things are only taken away.
void keep_removals(std::vector<Action>& actions) {
  for (Action& action : actions) {
    if (auto* const marks = std::get_if<ChangeMarks>(&action))
      only_take_away(*marks);
  }
  std::erase_if(actions, [](const Action& action) {
    const auto* const marks = std::get_if<ChangeMarks>(&action);
    return marks != nullptr ? marks->empty() : !std::holds_alternative<RemoveRoute>(action);
  });
}

}  // namespace

Tables::Tables(RouteKernel& kernel, OwnershipStore& store, const RoutingRanges& configured)
    : kernel_(kernel), journal_(store), configured_(configured), ranges_(configured) {}

void Tables::open_record() {
  journal_.open();
  const Ownership& record = journal_.record();
  use(record.empty() ? ranges_ : record.ranges.value_or(configured_));
}

void Tables::use(const RoutingRanges& ranges) {
  ranges_ = ranges;
  kernel_.use(ranges_);
}

Result<KernelState> Tables::read() {
  auto state = kernel_.read();
  if (!state)
    return state;
  ++reads_;
  stale_ = state->inconsistent;
  Claims claims = claim(*state, ranges_, journal_.record());
  if (reads_ > 1 && claims.ours != installed_) {
    ++repairs_;
    journal_.suspect();
  }
  conflict_ = claims.conflict();
  if (claims.foreign_count == 0)
    journal_.nothing_is_there();
  lent_ = std::move(claims.lent);
  adopt(std::move(claims));
  return state;
}

bool Tables::read_back() {
  const auto state = kernel_.read_ours();
  if (!state) {
    installed_known_ = false;
    stale_ = true;
    return false;
  }
  Claims claims = claim(*state, ranges_, journal_.record());
  // Only a full read sees enough to say whose it is.
  if (claims.foreign_count != 0 && conflict_.empty())
    stale_ = true;
  adopt(std::move(claims));
  return true;
}

void Tables::adopt(Claims claims) {
  installed_ = std::move(claims.ours);
  installed_known_ = true;
  offloaded_ = std::move(claims.offloaded);
  refused_by_hardware_ = std::move(claims.refused_by_hardware);
  mark_table_lent_ = claims.mark_table_lent;
}

bool Tables::answered_by_hardware(const PinRoute& route) const {
  return std::ranges::binary_search(offloaded_, route) ||
         std::ranges::binary_search(refused_by_hardware_, route);
}

void Tables::heard(const KernelRoute& route) {
  if (route.protocol == ranges_.protocol || ranges_.owns_table(route.table) ||
      ranges_.owns_next_hop(route.next_hop_id))
    doubt();
}

void Tables::heard(const KernelNextHop& next_hop) {
  const auto owns = [this](std::uint32_t id) { return ranges_.owns_next_hop(id); };
  if (owns(next_hop.id) || next_hop.protocol == ranges_.protocol ||
      std::ranges::any_of(next_hop.members, owns))
    doubt();
}

void Tables::heard(const KernelRule& rule) {
  if (rule.priority == ranges_.rule_priority || rule.protocol == ranges_.protocol ||
      ranges_.owns_table(rule.table))
    doubt();
}

bool Tables::leave_former_ranges() {
  if (!installed_known_ || !installed_.empty())
    return false;
  journal_.narrow(Ownership::of({}, ranges_));
  if (!journal_.record().empty())
    return false;
  use(configured_);
  return true;
}

// A next hop takes the routes over it along, which may be others'; while something has changed that
// was not read yet, nobody knows. The table of marks takes along what others have put into it.
void Tables::spare_what_others_use(std::vector<Action>& actions) const {
  for (Action& action : actions) {
    if (auto* const marks = std::get_if<ChangeMarks>(&action);
        marks != nullptr && (marks->drop_table || marks->drop_former) &&
        (mark_table_lent_ || stale_))
      only_take_away(*marks);
  }
  std::erase_if(actions, [this](const Action& action) {
    if (const auto* const marks = std::get_if<ChangeMarks>(&action))
      return marks->empty();
    const auto* const removal = std::get_if<RemoveNextHop>(&action);
    return removal != nullptr && (stale_ || std::ranges::binary_search(lent_, removal->id));
  });
}

bool Tables::converge(const SteeringTables& wanted) {
  failures_.clear();
  Reconciliation todo = reconcile(wanted, installed_);
  if (!todo.make.empty()) {
    // The record first: whatever happens after it, it names all that can be there.
    if (auto recorded = journal_.widen(Ownership::of(wanted, ranges_)); !recorded) {
      failures_.try_emplace({0, IpAddress{}}, std::move(recorded.error().message));
      keep_removals(todo.make);
    }
    const std::size_t all = todo.make.size();
    spare_what_others_use(todo.make);
    // An object in place of ours has to go first, and what is to lean on ours waits for that.
    if (todo.make.size() < all)
      keep_removals(todo.make);
    if (!apply(todo.make))
      return false;
  }
  std::vector<Action> sweep = reconcile(wanted, installed_).sweep;
  spare_what_others_use(sweep);
  if (!sweep.empty() && !apply(sweep))
    return false;
  if (!todo.make.empty() || !sweep.empty() || journal_.suspected() ||
      journal_.record().ranges != ranges_)
    journal_.narrow(Ownership::of(installed_, ranges_));
  return reconcile(wanted, installed_).empty();
}

// Applies and reads back. False if what is installed now is not known.
bool Tables::apply(const std::vector<Action>& actions) {
  if (actions.empty())
    return true;
  const auto failed = kernel_.apply(actions);
  if (failed) {
    changes_ += actions.size() - failed->size();
    for (const ActionFailure& f : *failed)
      note_failure(failures_, actions[f.action], f);
  }
  return read_back() && failed.has_value();
}

}  // namespace heddle
