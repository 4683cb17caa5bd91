#include "agent/program/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace heddle {
namespace {

constexpr std::size_t kLimit = 64U << 20U;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> failed(const char* verb, const std::string& path, int error) {
  const Errc code = error == ENOENT                     ? Errc::not_found
                    : error == EACCES || error == EPERM ? Errc::permission
                                                        : Errc::io;
  return fail(code, fmt::format("cannot {} {}: {}", verb, path, std::strerror(error)));
}

int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

// A name that was given by a rename is on the disk when its folder is.
Result<void> sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0)
    return failed("open", folder, errno);
  if (::fsync(opened.get()) != 0)
    return failed("sync", folder, errno);
  return {};
}

}  // namespace

Result<std::string> read_small_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    return failed("open", path, errno);
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n == 0)
      return content;
    if (n < 0) {
      if (errno == EINTR)
        continue;
      return failed("read", path, errno);
    }
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > kLimit)
      return fail(Errc::io, fmt::format("{} is larger than it can be", path));
  }
}

Result<void> replace_file(const std::string& path, std::string_view content, Outlives outlives) {
  // The process id keeps apart the agent, the guard and the command line, which may write at the
  // same time.
  const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
  int error = 0;
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (file.get() < 0)
      return failed("create", temporary, errno);
    error = write_all(file.get(), content);
    if (error == 0 && outlives == Outlives::power && ::fsync(file.get()) != 0)
      error = errno;
  }
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0)
    error = errno;
  if (error == 0 && outlives == Outlives::power)
    return sync_folder_of(path);
  if (error == 0)
    return {};
  ::unlink(temporary.c_str());
  return failed("write", path, error);
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return failed("remove", path, errno);
  return {};
}

}  // namespace heddle
