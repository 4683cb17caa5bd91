#include "tests/lab/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

// Between fork and exec only calls that are safe in a child of a process with threads.
[[noreturn]] void become(const Command& command, std::vector<char*>& words, pid_t parent,
                         int output, int errors) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (command.outlives_us) {
    ::setsid();
  } else {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
      ::_exit(127);
  }
  if (command.space != nullptr && ::setns(command.space->fd(), CLONE_NEWNET) != 0)
    ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output >= 0 ? output : nothing, STDOUT_FILENO);
  ::dup2(errors >= 0 ? errors : nothing, STDERR_FILENO);
  ::execv(words[0], words.data());
  ::_exit(127);
}

int milliseconds_until(Time end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - boot_now());
  return std::max(0, static_cast<int>(left.count()));
}

}  // namespace

Result<Child> Child::start(const Command& command) {
  int log = -1;
  if (!command.log.empty()) {
    log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0)
      return fail(Errc::io, fmt::format("{}: {}", command.log, std::strerror(errno)));
  }
  auto child = start(command, log, log);
  if (log >= 0)
    ::close(log);
  return child;
}

Result<Child> Child::start(const Command& command, int output, int errors) {
  std::vector<std::string> copy = command.words;
  std::vector<char*> words;
  words.reserve(copy.size() + 1);
  for (std::string& word : copy)
    words.push_back(word.data());
  words.push_back(nullptr);
  if (::access(words[0], X_OK) != 0)
    return fail(Errc::not_found, fmt::format("{}: {}", words[0], std::strerror(errno)));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return fail(Errc::kernel, fmt::format("fork: {}", std::strerror(errno)));
  if (pid == 0)
    become(command, words, parent, output, errors);
  Child child;
  child.pid_ = pid;
  child.pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (child.pidfd_ < 0)
    return fail(Errc::kernel, fmt::format("pidfd: {}", std::strerror(errno)));
  return child;
}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  if (pid_ > 0 && !status_)
    stop(SIGTERM, std::chrono::seconds(2));
  if (pidfd_ >= 0)
    ::close(pidfd_);
}

void Child::release() {
  pid_ = -1;
}

std::optional<int> Child::wait(Duration patience) {
  if (status_)
    return status_;
  const Time end = boot_now() + patience;
  pollfd watched{.fd = pidfd_, .events = POLLIN, .revents = 0};
  while (::poll(&watched, 1, milliseconds_until(end)) < 0 && errno == EINTR) {
  }
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

int Child::stop(int signal, Duration patience) {
  if (!status_)
    ::syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
  if (const auto ended = wait(patience))
    return *ended;
  ::syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
  return wait(std::chrono::seconds(5)).value_or(128 + SIGKILL);
}

Result<Output> capture(const Command& command, Duration patience) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0)
    return fail(Errc::kernel, fmt::format("pipe: {}", std::strerror(errno)));
  auto child = Child::start(command, out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  Output output;
  const Time end = boot_now() + patience;
  if (child) {
    std::array<pollfd, 2> watched{pollfd{.fd = out[0], .events = POLLIN, .revents = 0},
                                  pollfd{.fd = err[0], .events = POLLIN, .revents = 0}};
    const std::array<std::string*, 2> texts{&output.text, &output.errors};
    int open = 2;
    while (open > 0 && ::poll(watched.data(), 2, milliseconds_until(end)) > 0) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (watched[i].revents == 0)
          continue;
        std::array<char, 16384> buffer{};
        const ssize_t got = ::read(watched[i].fd, buffer.data(), buffer.size());
        if (got > 0) {
          texts[i]->append(buffer.data(), static_cast<std::size_t>(got));
        } else {
          watched[i].fd = -1;
          --open;
        }
      }
    }
  }
  ::close(out[0]);
  ::close(err[0]);
  if (!child)
    return tl::unexpected(child.error());
  const auto status = child->wait(std::max(Duration::zero(), end - boot_now()));
  if (!status)
    return fail(Errc::timeout, fmt::format("{} does not end", command.words[0]));
  output.status = *status;
  return output;
}

}  // namespace heddle::lab
