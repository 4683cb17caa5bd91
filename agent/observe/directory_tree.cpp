#include "agent/observe/directory_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace heddle {

std::vector<std::string> DirectoryTree::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root_ / folder, error), end;
       !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

Result<std::string> DirectoryTree::read(const std::string& file) const {
  // One read() of at most a page, as sysfs makes its files up at each.
  const std::filesystem::path path = root_ / file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Errc code = errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::unobservable;
    return fail(code, path.string() + ": " + std::strerror(errno));
  }
  std::array<char, 4096> buffer;
  const ssize_t size = ::read(fd, buffer.data(), buffer.size());
  const int error = errno;
  ::close(fd);
  if (size < 0)
    return fail(Errc::unobservable, path.string() + ": " + std::strerror(error));
  std::string text(buffer.data(), static_cast<std::size_t>(size));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0'))
    text.pop_back();
  return text;
}

}  // namespace heddle
