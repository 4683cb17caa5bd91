#include "agent/program/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/program/lease.h"

namespace heddle {
namespace {

constexpr Duration kLookAgain = std::chrono::seconds{1};
// Where only segments are left, which stay, nothing changes but by an agent.
constexpr Duration kLookAtSegmentsAgain = std::chrono::seconds{10};

}  // namespace

Result<AgentLock> AgentLock::take(const std::string& run_dir) {
  const std::string path = run_dir + "/agent.lock";
  AgentLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (lock.fd_ < 0)
    return fail(errno == EACCES ? Errc::permission : Errc::io,
                fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0)
    return fail(Errc::duplicate, fmt::format("{} is held: another agent or guard runs", path));
  return lock;
}

AgentLock::AgentLock(AgentLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

AgentLock& AgentLock::operator=(AgentLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

AgentLock::~AgentLock() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<GuardOutcome> guard(RouteKernel& kernel, OwnershipStore& store, const GuardInput& input,
                           Time now) {
  const auto record = store.load();
  if (!record)
    return tl::unexpected(record.error());
  if (record->empty())
    return GuardOutcome{.verdict = GuardVerdict::nothing_installed, .next = now + kLookAgain};

  // No lease, or one that cannot be read, is one that is over: the agent writes it before it
  // programs.
  const auto lease = read_lease(input.run_dir);
  if (lease && !lease_expired(*lease, input.boot_id, now))
    return GuardOutcome{.verdict = GuardVerdict::lease_valid,
                        .next = std::min(lease->deadline, now + kLookAgain)};

  // An agent that lives acts by itself; one that has hung does not, and gets no more than the
  // grace.
  const auto lock = AgentLock::take(input.run_dir);
  const bool lives = !lock && lock.error().code == Errc::duplicate;
  if (lives && (!lease || now < lease->deadline + kGuardGrace))
    return GuardOutcome{.verdict = GuardVerdict::left_to_agent, .next = now + kLookAgain};

  auto report = flush(kernel, store, input.ranges, FlushScope::pins);
  if (!report)
    return tl::unexpected(report.error());
  if (report->segments_kept != 0 && report->empty())
    return GuardOutcome{.verdict = GuardVerdict::only_segments, .next = now + kLookAtSegmentsAgain};
  return GuardOutcome{
      .verdict = GuardVerdict::flushed, .next = now + kLookAgain, .report = std::move(*report)};
}

}  // namespace heddle
