#include "agent/dry_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "agent/file_store.h"
#include "agent/program/disable_switch.h"
#include "agent/program/lease.h"
#include "agent/program/programmer.h"
#include "agent/program/segments.h"
#include "common/core/reconcile.h"

namespace heddle {
namespace {

// Reads as the kernel does and notes what it is asked to change, instead of asking.
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
      noted_.push_back(to_string(action));
    return std::vector<ActionFailure>{};
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    return kernel_.look_up(lookups);
  }
  void resolve(std::uint32_t, const IpAddress&) override {}

  std::vector<std::string> take() { return std::move(noted_); }

 private:
  RouteKernel& kernel_;
  std::vector<std::string> noted_;
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

std::string remark_on_lease(const AgentConfig& config, const std::string& boot_id, Time now) {
  const auto lease = read_lease(config.run_dir.string());
  if (lease && !lease_expired(*lease, boot_id, now))
    return {};
  return "no lease runs: an agent holds no pin until its coordinator confirms the plan";
}

}  // namespace

Result<DryRun> dry_run(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                       const std::string& boot_id, const Clock& clock) {
  DryRun run;
  const DisableSwitch off_switch(config.state_dir.string(), config.run_dir.string());
  const Result<NodePlan> plan = load_plan(config.state_dir);
  if (!plan && plan.error().code != Errc::not_found)
    return tl::unexpected(plan.error());

  DryKernel dry(kernel);
  ReadOnlyRecord record(ownership);
  Programmer programmer(dry, record, clock, program_config(config));
  if (const Result<void> started = programmer.start(); !started)
    return tl::unexpected(started.error());

  if (plan)
    run.plan = plan->version;
  if (off_switch.disabled())
    run.why_nothing = "disabled by " + off_switch.by();
  else if (!plan)
    run.why_nothing = "no plan was ever accepted here";
  if (run.why_nothing.empty()) {
    run.pins = plan->pins.size();
    run.lease_remark = remark_on_lease(config, boot_id, clock.now());
    programmer.want(*plan);
  } else {
    programmer.want_nothing(run.why_nothing);
  }
  // One step is all that an agent would do at once: what it reads back is what was there before.
  programmer.step();
  run.actions = dry.take();
  const Acknowledgement state = programmer.state();
  const EnforcerCapability able = programmer.capability();
  if (!state.conflict.empty())
    run.refusal = "foreign state where only ours may be: " + state.conflict;
  else if (!able.usable)
    run.refusal = fmt::format("{}: {}", able.name, able.reason);
  for (const PinFailure& failure : state.failed) {
    // What the kernel does not have yet is what the actions are for.
    if (run.refusal.empty() && failure.code != Errc::kernel)
      run.not_held.push_back(failure);
  }
  return run;
}

std::string text_of(const DryRun& run) {
  std::string text = run.why_nothing.empty()
                         ? fmt::format("plan {} wants {} pins\n", to_string(*run.plan), run.pins)
                         : fmt::format("{}: no pin is wanted\n", run.why_nothing);
  if (!run.lease_remark.empty())
    text += run.lease_remark + "\n";
  for (const PinFailure& failure : run.not_held)
    text += fmt::format("would not hold {}: {}\n", to_string(failure.unit), failure.reason);
  if (!run.actions.empty())
    text += "would change, in this order:\n";
  for (const std::string& action : run.actions)
    text += fmt::format("  {}\n", action);
  if (run.actions.empty() && run.refusal.empty())
    text += run.not_held.empty() ? "the tables agree\n"
                                 : "the tables agree with what can be held now\n";
  return text;
}

std::string json_of(const DryRun& run) {
  nlohmann::ordered_json not_held = nlohmann::ordered_json::array();
  for (const PinFailure& failure : run.not_held)
    not_held.push_back({{"pin", to_string(failure.unit)}, {"reason", failure.reason}});
  nlohmann::ordered_json json;
  json["agrees"] = run.actions.empty() && run.refusal.empty();
  json["plan"] = run.plan ? nlohmann::ordered_json(to_string(*run.plan)) : nullptr;
  json["pins"] = run.pins;
  json["why_nothing"] = run.why_nothing;
  json["lease"] = run.lease_remark;
  json["refusal"] = run.refusal;
  json["actions"] = run.actions;
  json["not_held"] = std::move(not_held);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

ExitCode reconcile_command(RouteKernel& kernel, OwnershipStore& ownership,
                           const AgentConfig& config, const std::string& boot_id,
                           const Clock& clock, bool json) {
  const Result<DryRun> run = dry_run(kernel, ownership, config, boot_id, clock);
  if (!run)
    return explain(run.error());
  fmt::print("{}", json ? json_of(*run) : text_of(*run));
  if (!run->refusal.empty())
    return explain({Errc::unsupported, run->refusal});
  return run->actions.empty() ? kOk : kWouldChange;
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
