#include "agent/program/lease.h"

#include <fmt/format.h>

#include <charconv>

#include "agent/program/files.h"

namespace heddle {
namespace {

constexpr Duration kNotable = std::chrono::seconds{1};

std::string lease_path(const std::string& run_dir) {
  return run_dir + "/lease";
}

}  // namespace

Lease::Lease(const std::string& run_dir, std::string boot_id)
    : path_(lease_path(run_dir)), boot_id_(std::move(boot_id)) {}

Result<void> Lease::extend(Time deadline) {
  deadline_ = deadline;
  if (written_ && deadline >= *written_ && deadline - *written_ < kNotable)
    return {};
  auto done =
      replace_file(path_, fmt::format("{} {}\n", boot_id_, deadline.time_since_epoch().count()));
  if (done)
    written_ = deadline;
  return done;
}

Result<LeaseRecord> read_lease(const std::string& run_dir) {
  const auto content = read_small_file(lease_path(run_dir));
  if (!content)
    return tl::unexpected(content.error());
  const auto damaged = [&] {
    return fail(Errc::parse, lease_path(run_dir) + " does not hold a boot id and a deadline");
  };
  const std::size_t space = content->find(' ');
  if (space == std::string::npos || space == 0 || content->back() != '\n')
    return damaged();
  Duration::rep nanoseconds{};
  const char* const end = content->data() + content->size() - 1;
  const auto [stop, error] = std::from_chars(content->data() + space + 1, end, nanoseconds);
  if (error != std::errc{} || stop != end)
    return damaged();
  return LeaseRecord{.boot_id = content->substr(0, space), .deadline = Time{Duration{nanoseconds}}};
}

bool lease_expired(const LeaseRecord& lease, const std::string& boot_id, Time now) {
  return lease.boot_id != boot_id || now >= lease.deadline;
}

Result<std::string> current_boot_id() {
  auto id = read_small_file("/proc/sys/kernel/random/boot_id");
  if (id && !id->empty() && id->back() == '\n')
    id->pop_back();
  return id;
}

}  // namespace heddle
