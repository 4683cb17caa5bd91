#include "agent/observe/lldp_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "agent/observe/lldp.h"

namespace heddle {
namespace {

constexpr const char* kName = "lldp";
// 4,096 neighbours take about 2 MB.
constexpr off_t kLargestFile = 8 << 20;

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 16384> buffer{};
  ssize_t got = 0;
  while (text.size() <= static_cast<std::size_t>(kLargestFile) &&
         (got = ::read(fd, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

}  // namespace

Result<std::vector<LldpNeighbour>> LldpFile::look(WallTime now) {
  const File file(file_);
  struct stat status {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) {
    stamp_.reset();
    if (errno == ENOENT)
      return fail(Errc::not_found,
                  fmt::format("there is no {}; install lldpd and start heddle-agent-lldp.timer",
                              file_.string()));
    return fail(Errc::io, fmt::format("{}: {}", file_.string(), std::strerror(errno)));
  }
  const WallTime changed{std::chrono::seconds(status.st_mtim.tv_sec) +
                         std::chrono::nanoseconds(status.st_mtim.tv_nsec)};
  // The same words for as long as it lasts: a changed reason is news to the coordinator.
  if (now - changed > kLldpFileAge)
    return fail(Errc::unobservable,
                fmt::format("{} was not renewed for {} s; see journalctl -u heddle-agent-lldp",
                            file_.string(), kLldpFileAge.count()));
  if (!S_ISREG(status.st_mode) || status.st_size > kLargestFile)
    return fail(Errc::io, fmt::format("{} is no file of neighbours", file_.string()));
  const std::pair stamp(changed, std::uint64_t{status.st_ino});
  if (stamp_ != stamp) {
    stamp_ = stamp;
    last_ = parse_lldp(read_all(file.fd()));
  }
  return last_;
}

SourceCapability LldpFile::probe(WallTime now) {
  const Result<std::vector<LldpNeighbour>> seen = look(now);
  if (!seen)
    return {kName, false, seen.error().message};
  return {kName, true, seen->empty() ? "lldpd hears no neighbour" : ""};
}

std::optional<std::vector<LldpNeighbour>> LldpFile::neighbours(WallTime now) {
  Result<std::vector<LldpNeighbour>> seen = look(now);
  return seen ? std::optional(*std::move(seen)) : std::nullopt;
}

}  // namespace heddle
