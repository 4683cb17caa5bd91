#include "coordinator/file_audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

namespace heddle {

void FileAuditLog::keep(const AuditRecord& record) {
  const std::string line = audit_line(record) + "\n";
  std::error_code absent;
  const std::uintmax_t size = std::filesystem::file_size(file_, absent);
  if (!absent && size + line.size() > limits_.bytes)
    rotate();
  int error = 0;
  const int fd =
      ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) {
    error = errno;
  } else {
    const off_t end = ::lseek(fd, 0, SEEK_END);
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written != static_cast<ssize_t>(line.size())) {
      error = written < 0 ? errno : ENOSPC;
      // Half a line would spoil the next one, too.
      if (written > 0 && ::ftruncate(fd, end) != 0)
        error = errno;
    }
    ::close(fd);
  }
  if (error != 0 && !failing_)
    notices_({Notice::Level::error, fmt::format("the audit log is not kept: {}: {}", file_.string(),
                                                std::strerror(error))});
  if (error == 0 && failing_)
    notices_({Notice::Level::info, "the audit log is kept again"});
  failing_ = error != 0;
}

void FileAuditLog::rotate() {
  std::error_code ignored;  // What cannot be renamed goes on growing, rather than being lost.
  for (int i = limits_.older; i > 0; --i)
    std::filesystem::rename(
        i == 1 ? file_ : std::filesystem::path(fmt::format("{}.{}", file_.string(), i - 1)),
        fmt::format("{}.{}", file_.string(), i), ignored);
}

}  // namespace heddle
