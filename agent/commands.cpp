#include "agent/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>

#include "agent/program/disable_switch.h"
#include "agent/program/flush.h"
#include "agent/program/guard.h"
#include "agent/program/lease.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;

// How long a running agent gets to obey the switch before its pins are taken from under it.
constexpr Duration kObedience = std::chrono::seconds{5};
constexpr auto kLookAgain = milliseconds{20};

bool agent_runs(const Result<AgentLock>& lock) {
  return !lock && lock.error().code == Errc::duplicate;
}

Result<std::size_t> count_pins(RouteKernel& kernel, const RoutingRanges& ranges) {
  const Result<KernelState> state = kernel.read_ours();
  if (!state)
    return tl::unexpected(state.error());
  // Those of its segments are no pins, and stay.
  std::set<std::uint32_t> of_segments;
  for (const KernelNextHop& next_hop : state->next_hops) {
    if (next_hop.action)
      of_segments.insert(next_hop.id);
  }
  const auto routes = std::ranges::count_if(state->routes, [&](const KernelRoute& route) {
    return route.protocol == ranges.protocol && ranges.owns_table(route.table) &&
           !of_segments.contains(route.next_hop_id);
  });
  return static_cast<std::size_t>(routes) +
         (state->mark_table ? state->mark_table->flows.size() : 0);
}

void print(const FlushReport& report) {
  fmt::print("removed {} routes, {} rules, {} next hops", report.routes, report.rules,
             report.next_hops);
  if (report.marks > 0)
    fmt::print(", {} marks", report.marks);
  fmt::print("\n");
  if (report.segments_kept > 0)
    fmt::print(
        "kept {} SRv6 segments of this node, by which other nodes' pins may lead; "
        "\"heddle-agent flush\" removes them\n",
        report.segments_kept);
  for (const std::string& foreign : report.left_alone)
    fmt::print("left alone, not ours: {}\n", foreign);
}

ExitCode flush_and_print(RouteKernel& kernel, OwnershipStore& ownership,
                         const RoutingRanges& ranges, FlushScope scope) {
  const Result<FlushReport> report = flush(kernel, ownership, ranges, scope);
  if (!report)
    return explain(report.error());
  print(*report);
  return kOk;
}

void sweep_and_print(const FilterSweep& sweep) {
  if (const std::size_t filters = sweep(); filters > 0)
    fmt::print("removed {} filters that counted flows\n", filters);
}

// What is still to be done once the switch is turned as far as that goes.
ExitCode remove_pins(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                     const DisableSwitch& off_switch, const Result<void>& kept) {
  // An agent that runs goes by the ranges that it started with, whatever the configuration says
  // now.
  const Result<Ownership> record = ownership.load();
  const RoutingRanges ranges = record ? record->ranges.value_or(config.routing) : config.routing;
  kernel.use(ranges);
  const Result<AgentLock> lock = AgentLock::take(config.run_dir.string());
  if (agent_runs(lock)) {
    // It would put its pins back.
    if (!off_switch.disabled())
      return explain(kept.error());
    const auto patience = std::chrono::steady_clock::now() + kObedience;
    do {
      const Result<std::size_t> pins = count_pins(kernel, ranges);
      if (!pins)
        return explain(pins.error());
      if (*pins == 0) {
        fmt::print("disabled: the agent has removed every pin\n");
        return kOk;
      }
      std::this_thread::sleep_for(kLookAgain);
    } while (std::chrono::steady_clock::now() < patience);
    fmt::print("the running agent does not answer; its pins are removed without it\n");
  } else if (!lock) {
    return explain(lock.error());
  }
  const ExitCode flushed = flush_and_print(kernel, ownership, config.routing, FlushScope::pins);
  if (flushed == kOk) {
    fmt::print("disabled\n");
  } else if (const auto pins = count_pins(kernel, ranges); pins && *pins == 0) {
    // The record, on the same disk, names what is gone, which does no harm.
    fmt::print("no pin is left\n");
  }
  return flushed;
}

}  // namespace

ExitCode explain(const Error& error) {
  fmt::print(stderr, "heddle-agent: {}\n", error.message);
  switch (error.code) {
    case Errc::permission:
      return kNotPermitted;
    case Errc::duplicate:
      return kAgentRuns;
    default:
      return kFailed;
  }
}

AgentConfig config_by_record(const Error& unreadable, const std::string& boot_id) {
  AgentConfig config;
  const std::string first_line = unreadable.message.substr(0, unreadable.message.find('\n'));
  fmt::print(stderr, "heddle-agent: {}; going on with the record in {}\n", first_line,
             config.state_dir.string());
  // A damaged record proves nothing to be ours; what needs it says so.
  if (const auto ranges = recorded_ranges(config.state_dir.string(), boot_id))
    config.routing = *ranges;
  return config;
}

ExitCode flush_command(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const FilterSweep& sweep) {
  const Result<AgentLock> lock = AgentLock::take(config.run_dir.string());
  if (agent_runs(lock)) {
    return explain(
        {Errc::duplicate,
         "an agent is running and would put its pins back; use \"heddle-agent disable\""});
  }
  if (!lock)
    return explain(lock.error());
  sweep_and_print(sweep);
  return flush_and_print(kernel, ownership, config.routing, FlushScope::everything);
}

ExitCode disable_command(RouteKernel& kernel, OwnershipStore& ownership,
                         const AgentConfig& config) {
  DisableSwitch off_switch(config.state_dir.string(), config.run_dir.string());
  const Result<void> kept = off_switch.disable("heddle-agent disable");
  const ExitCode removed = remove_pins(kernel, ownership, config, off_switch, kept);
  if (kept)
    return removed;
  fmt::print(stderr, "heddle-agent: the switch is not kept, {}: {}\n",
             off_switch.disabled() ? "and holds until a reboot"
                                   : "and an agent that is started will program",
             kept.error().message);
  return removed == kOk ? kFailed : removed;
}

ExitCode enable_command(const AgentConfig& config) {
  DisableSwitch off_switch(config.state_dir.string(), config.run_dir.string());
  if (const Result<void> turned = off_switch.enable(); !turned)
    return explain(turned.error());
  fmt::print("enabled\n");
  return kOk;
}

ExitCode guard_command(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const std::string& boot_id, const FilterSweep& sweep, Time now, Time& next) {
  const Result<GuardOutcome> outcome = guard(
      kernel, ownership,
      {.run_dir = config.run_dir.string(), .boot_id = boot_id, .ranges = config.routing}, now);
  if (!outcome)
    return explain(outcome.error());
  next = outcome->next;
  if (outcome->verdict == GuardVerdict::flushed) {
    fmt::print("the lease is over and no agent has seen to it\n");
    print(outcome->report);
    sweep_and_print(sweep);
  }
  return kOk;
}

}  // namespace heddle
