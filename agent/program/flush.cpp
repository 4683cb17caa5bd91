#include "agent/program/flush.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "agent/program/claims.h"
#include "agent/program/segments.h"

namespace heddle {
namespace {

constexpr int kRounds = 8;

std::vector<Action> removals(const Claims& claims, FlushScope scope) {
  Reconciliation all =
      reconcile({}, scope == FlushScope::pins ? without_segments(claims.ours) : claims.ours);
  std::vector<Action> actions = std::move(all.make);
  for (Action& action : actions) {
    if (auto* const marks = std::get_if<ChangeMarks>(&action); claims.mark_table_lent && marks)
      marks->drop_table = marks->drop_former = false;
  }
  std::erase(actions, Action{ChangeMarks{}});
  for (Action& action : all.sweep) {
    // A next hop takes every route over it along, and some of these are others'.
    const auto* const next_hop = std::get_if<RemoveNextHop>(&action);
    if (next_hop == nullptr ||
        !std::binary_search(claims.lent.begin(), claims.lent.end(), next_hop->id))
      actions.push_back(std::move(action));
  }
  return actions;
}

void count(const std::vector<Action>& actions, FlushReport& report) {
  for (const Action& action : actions) {
    report.routes += std::holds_alternative<RemoveRoute>(action) ? 1 : 0;
    report.rules += std::holds_alternative<RemoveRule>(action) ? 1 : 0;
    report.next_hops += std::holds_alternative<RemoveNextHop>(action) ? 1 : 0;
    if (const auto* const marks = std::get_if<ChangeMarks>(&action))
      report.marks += marks->off.size();
  }
}

}  // namespace

Result<FlushReport> flush(RouteKernel& kernel, OwnershipStore& store,
                          const RoutingRanges& configured, FlushScope scope) {
  // Without a record nothing can be proven ours, and what cannot is not touched.
  const auto record = store.load();
  if (!record)
    return tl::unexpected(record.error());
  const RoutingRanges ranges = record->ranges.value_or(configured);
  kernel.use(ranges);
  FlushReport report;
  for (int round = 0; round < kRounds; ++round) {
    const auto state = kernel.read();
    if (!state)
      return tl::unexpected(state.error());
    Claims claims = claim(*state, ranges, *record);
    const std::vector<Action> actions = removals(claims, scope);
    if (actions.empty()) {
      report.left_alone = std::move(claims.foreign);
      report.segments_kept = segments_in(claims.ours).routes.size();
      for (const NextHop& next_hop : without_segments(claims.ours).next_hops)
        report.left_alone.push_back(
            fmt::format("nexthop id {}: ours, but others' routes use it", next_hop.id));
      if (claims.ours.mark_table != MarkTable::none)
        report.left_alone.push_back(fmt::format(
            "nft table inet {}: ours, but others have put something into it", ranges.mark_table()));
      if (auto saved = store.save(Ownership::of(claims.ours, ranges)); !saved)
        return tl::unexpected(saved.error());
      return report;
    }
    if (round == 0)
      count(actions, report);
    // What fails shows in the next round's read back; only a refusal of everything is worth a word
    // of its own.
    const auto failed = kernel.apply(actions);
    if (!failed)
      return tl::unexpected(failed.error());
    if (failed->size() == actions.size() && failed->front().error == EPERM)
      return fail(Errc::permission, "not allowed to change routes; CAP_NET_ADMIN is needed");
  }
  return fail(Errc::kernel, "something puts back what is being removed; is an agent running?");
}

}  // namespace heddle
