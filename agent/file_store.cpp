#include "agent/file_store.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/program/files.h"
#include "common/runtime/log.h"
#include "common/wire/codec.h"

namespace heddle {
namespace {

constexpr const char* kPlanFile = "plan";
constexpr const char* kVersionFile = "highest-seen";

Result<PlanVersion> parse_version(const std::string& text) {
  PlanVersion version;
  const char* const end = text.data() + text.size();
  const auto epoch = std::from_chars(text.data(), end, version.epoch);
  if (epoch.ec == std::errc{} && epoch.ptr != end && *epoch.ptr == '.') {
    const auto generation = std::from_chars(epoch.ptr + 1, end, version.generation);
    if (generation.ec == std::errc{} && (generation.ptr == end || *generation.ptr == '\n'))
      return version;
  }
  return fail(Errc::parse, "is not a plan version");
}

}  // namespace

FileStore::FileStore(std::filesystem::path state_dir, std::filesystem::path run_dir,
                     std::string boot_id)
    : state_dir_(std::move(state_dir)),
      run_dir_(std::move(run_dir)),
      boot_id_(std::move(boot_id)),
      switch_(state_dir_.string(), run_dir_.string()),
      lease_(run_dir_.string(), boot_id_) {}

StoredState FileStore::load() {
  StoredState state;
  const auto left_out = [](const char* what, const Error& error) {
    if (error.code != Errc::not_found)
      log_warning("{} cannot be read and counts as missing: {}", what, error.message);
  };

  const Result<PlanVersion> version =
      read_small_file((state_dir_ / kVersionFile).string()).and_then(parse_version);
  if (version)
    state.highest_seen = *version;
  else
    left_out("the highest version seen", version.error());

  Result<NodePlan> plan = load_plan(state_dir_);
  if (plan)
    state.plan = *std::move(plan);
  else
    left_out("the last plan", plan.error());

  const Result<LeaseRecord> lease = read_lease(run_dir_.string());
  if (!lease)
    left_out("the lease", lease.error());
  else if (lease->boot_id == boot_id_)
    state.lease_deadline = lease->deadline;
  return state;
}

Result<void> FileStore::save_highest_seen(PlanVersion version) {
  const std::string text = fmt::format("{}.{}\n", version.epoch, version.generation);
  // After a loss of power no plan of an earlier epoch may come in. Generations are too many to wait
  // for the disk each time, and a coordinator that lives knows its own.
  const bool sync = version.epoch != synced_epoch_;
  Result<void> saved = replace_file((state_dir_ / kVersionFile).string(), text,
                                    sync ? Outlives::power : Outlives::process);
  if (saved)
    synced_epoch_ = version.epoch;
  return saved;
}

Result<void> FileStore::save_plan(const NodePlan& plan) {
  const Envelope envelope{
      .node = "coordinator",
      .sequence = 0,
      .message = Snapshot{.plan = plan, .digest = digest(plan.pins)},
  };
  const std::vector<std::byte> bytes = encode(envelope);
  const std::string file = (state_dir_ / kPlanFile).string();
  Result<void> saved =
      replace_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!saved)
    (void)remove_file(file);  // a full disk allows this; if it cannot be done, `saved` says enough
  return saved;
}

Result<void> FileStore::extend_lease(Time deadline) {
  return lease_.extend(deadline);
}

Result<NodePlan> load_plan(const std::filesystem::path& state_dir) {
  const Result<std::string> bytes = read_small_file((state_dir / kPlanFile).string());
  if (!bytes)
    return tl::unexpected(bytes.error());
  Result<Envelope> envelope = decode(std::as_bytes(std::span(*bytes)));
  if (!envelope)
    return tl::unexpected(envelope.error());
  Snapshot* snapshot = std::get_if<Snapshot>(&envelope->message);
  if (!snapshot || digest(snapshot->plan.pins) != snapshot->digest)
    return fail(Errc::parse, (state_dir / kPlanFile).string() + " holds no plan");
  return std::move(snapshot->plan);
}

}  // namespace heddle
