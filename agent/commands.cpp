#include "agent/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "agent/file_store.h"
#include "agent/program/disable_switch.h"
#include "agent/program/flush.h"
#include "agent/program/guard.h"
#include "agent/program/programmer.h"
#include "agent/program/segments.h"
#include "common/core/reconcile.h"

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

// Reads as the kernel does and prints what it is asked to change, instead of asking.
class DryKernel final : public RouteKernel {
 public:
  explicit DryKernel(RouteKernel& kernel) : kernel_(kernel) {}
  void use(const RoutingRanges& ranges) override { kernel_.use(ranges); }
  Result<void> probe() override { return kernel_.probe(); }
  Result<void> subscribe() override { return {}; }
  Result<KernelState> read() override { return kernel_.read(); }
  Result<KernelState> read_ours() override { return kernel_.read_ours(); }
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override {
    for (const Action& action : actions)
      fmt::print("would {}\n", to_string(action));
    printed_ = printed_ || !actions.empty();
    return std::vector<ActionFailure>{};
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    return kernel_.look_up(lookups);
  }
  void resolve(std::uint32_t, const IpAddress&) override {}

  bool printed() const { return printed_; }

 private:
  RouteKernel& kernel_;
  bool printed_{};
};

// The record as it is, never written.
class ReadOnlyRecord final : public OwnershipStore {
 public:
  explicit ReadOnlyRecord(OwnershipStore& record) : record_(record) {}
  Result<Ownership> load() override { return record_.load(); }
  Result<void> save(const Ownership&) override { return {}; }

 private:
  OwnershipStore& record_;
};

ProgramConfig program_config(const AgentConfig& config) {
  return {.mode = Mode::program,
          .uplinks = config.uplinks,
          .host_ports = config.host_ports,
          .never_touch = config.never_touch,
          .ranges = config.routing,
          .enforcer = config.enforcer,
          .segments = segments_of(config.role, config.sid)};
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
  DisableSwitch off_switch(config.state_dir.string());
  if (const Result<void> turned = off_switch.disable("heddle-agent disable"); !turned)
    return explain(turned.error());

  const Result<AgentLock> lock = AgentLock::take(config.run_dir.string());
  if (agent_runs(lock)) {
    const auto patience = std::chrono::steady_clock::now() + kObedience;
    do {
      const Result<std::size_t> pins = count_pins(kernel, config.routing);
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
  if (flushed == kOk)
    fmt::print("disabled\n");
  return flushed;
}

ExitCode enable_command(const AgentConfig& config) {
  DisableSwitch off_switch(config.state_dir.string());
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

ExitCode reconcile_command(RouteKernel& kernel, OwnershipStore& ownership,
                           const AgentConfig& config, const Clock& clock) {
  const DisableSwitch off_switch(config.state_dir.string());
  const Result<NodePlan> plan = load_plan(config.state_dir);
  if (!plan && plan.error().code != Errc::not_found)
    return explain(plan.error());

  DryKernel dry(kernel);
  ReadOnlyRecord record(ownership);
  Programmer programmer(dry, record, clock, program_config(config));
  if (const Result<void> started = programmer.start(); !started)
    return explain(started.error());
  if (const EnforcerCapability able = programmer.capability(); !able.usable)
    return explain({Errc::unsupported, fmt::format("{}: {}", able.name, able.reason)});

  if (off_switch.disabled()) {
    fmt::print("disabled by {}: no pin is wanted\n", off_switch.by());
    programmer.want_nothing("disabled");
  } else if (!plan) {
    fmt::print("no plan was ever accepted here: no pin is wanted\n");
    programmer.want_nothing("no plan");
  } else {
    fmt::print("plan {} wants {} pins\n", to_string(plan->version), plan->pins.size());
    programmer.want(*plan);
  }
  programmer.step();
  if (!programmer.state().conflict.empty())
    return explain({Errc::foreign_state, programmer.state().conflict});
  if (!dry.printed())
    fmt::print("the tables agree\n");
  return kOk;
}

Result<EnforcerCapability> probe_enforcer(RouteKernel& kernel, OwnershipStore& ownership,
                                          const AgentConfig& config, const Clock& clock) {
  ReadOnlyRecord record(ownership);
  Programmer programmer(kernel, record, clock, program_config(config));
  if (const Result<void> started = programmer.start(); !started)
    return tl::unexpected(started.error());
  return programmer.capability();
}

}  // namespace heddle
