#include "coordinator/loop_executor.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace heddle {

Result<std::unique_ptr<LoopExecutor>> LoopExecutor::create(EventLoop& loop) {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0)
    return fail(Errc::io, fmt::format("eventfd: {}", std::strerror(errno)));
  std::unique_ptr<LoopExecutor> executor(new LoopExecutor(fd));
  Result<EventSource> source =
      loop.on_readable(fd, [executor = executor.get()] { executor->run(); });
  if (!source)
    return tl::unexpected(source.error());
  executor->source_ = std::move(*source);
  return executor;
}

LoopExecutor::~LoopExecutor() {
  source_ = {};
  ::close(fd_);
}

void LoopExecutor::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop is awake anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void LoopExecutor::run() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  for (const std::function<void()>& one : work)
    one();
}

}  // namespace heddle
