#include "tests/lab/netns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/core/check.h"

namespace heddle::lab {
namespace {

constexpr const char* kFolder = "/run/netns";
constexpr std::string_view kTestPrefix = "hdt";

std::string path_of(const std::string& name) {
  return fmt::format("{}/{}", kFolder, name);
}

tl::unexpected<Error> os_failure(std::string_view what) {
  const Errc code = errno == EPERM || errno == EACCES ? Errc::permission : Errc::kernel;
  return fail(code, fmt::format("{}: {}", what, std::strerror(errno)));
}

// The folder must be a shared mount, as iproute2 makes it: a removal then reaches every mount
// namespace.
Result<void> prepare_folder() {
  if (::mkdir(kFolder, 0755) != 0 && errno != EEXIST)
    return os_failure(kFolder);
  if (::mount("", kFolder, "none", MS_SHARED | MS_REC, nullptr) == 0)
    return {};
  if (errno != EINVAL)
    return os_failure("making /run/netns a shared mount");
  if (::mount(kFolder, kFolder, "none", MS_BIND | MS_REC, nullptr) != 0 ||
      ::mount("", kFolder, "none", MS_SHARED | MS_REC, nullptr) != 0)
    return os_failure("making /run/netns a mount point");
  return {};
}

void bring_up_loopback() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  ::ioctl(fd, SIOCSIFFLAGS, &request);
  ::close(fd);
}

Result<void> unshare_and_bind(const std::string& path) {
  if (::unshare(CLONE_NEWNET) != 0)
    return os_failure("making a network namespace");
  bring_up_loopback();
  if (::mount("/proc/thread-self/ns/net", path.c_str(), "none", MS_BIND, nullptr) != 0)
    return os_failure(path);
  return {};
}

void remove_what_dead_tests_left() {
  for (const std::string& name : list_namespaces(kTestPrefix)) {
    int pid = 0;
    std::from_chars(name.data() + kTestPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
      if (auto removed = remove_namespace(name); !removed)
        continue;
  }
}

}  // namespace

Result<NetNamespace> NetNamespace::create(const std::string& name) {
  if (auto ready = prepare_folder(); !ready)
    return tl::unexpected(ready.error());
  const std::string path = path_of(name);
  const int file = ::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
  if (file < 0) {
    if (errno == EEXIST)
      return fail(Errc::duplicate, fmt::format("namespace {} exists", name));
    return os_failure(path);
  }
  ::close(file);
  // A thread of its own, so that the caller stays where it is.
  Result<void> bound;
  std::thread([&] { bound = unshare_and_bind(path); }).join();
  if (!bound) {
    ::unlink(path.c_str());
    return tl::unexpected(bound.error());
  }
  auto made = open(name);
  if (made)
    made->owned_ = true;
  return made;
}

Result<NetNamespace> NetNamespace::open(const std::string& name) {
  NetNamespace result;
  result.name_ = name;
  result.fd_ = ::open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC);
  if (result.fd_ < 0) {
    if (errno == ENOENT)
      return fail(Errc::not_found, fmt::format("no namespace {}", name));
    return os_failure(path_of(name));
  }
  return result;
}

NetNamespace& NetNamespace::operator=(NetNamespace&& other) noexcept {
  if (this == &other)
    return *this;
  close();
  name_ = std::move(other.name_);
  fd_ = std::exchange(other.fd_, -1);
  owned_ = std::exchange(other.owned_, false);
  return *this;
}

NetNamespace::~NetNamespace() {
  close();
}

void NetNamespace::close() {
  if (fd_ >= 0)
    ::close(std::exchange(fd_, -1));
  if (std::exchange(owned_, false))
    (void)remove_namespace(name_);
}

void NetNamespace::run_on_thread(const std::function<void()>& body) const {
  std::thread([&] {
    HEDDLE_CHECK(::setns(fd_, CLONE_NEWNET) == 0);
    body();
  }).join();
}

Result<int> NetNamespace::socket(int domain, int type, int protocol) const {
  const InNamespace here(*this);
  const int fd = ::socket(domain, type | SOCK_CLOEXEC, protocol);
  if (fd < 0)
    return os_failure(fmt::format("a socket in {}", name_));
  return fd;
}

Result<void> NetNamespace::set_sysctl(std::string_view name, std::string_view value) const {
  const InNamespace here(*this);
  const std::string path = fmt::format("/proc/sys/{}", name);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return os_failure(path);
  const auto written = ::write(fd, value.data(), value.size());
  Result<void> result;
  if (written != static_cast<ssize_t>(value.size()))
    result = os_failure(fmt::format("{} = {}", path, value));
  ::close(fd);
  return result;
}

InNamespace::InNamespace(const NetNamespace& target)
    : back_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  HEDDLE_CHECK(back_ >= 0);
  HEDDLE_CHECK(::setns(target.fd(), CLONE_NEWNET) == 0);
}

InNamespace::~InNamespace() {
  HEDDLE_CHECK(::setns(back_, CLONE_NEWNET) == 0);
  ::close(back_);
}

std::string unique_namespace_name(std::string_view stem) {
  static std::once_flag swept;
  static std::atomic<int> counter{0};
  std::call_once(swept, remove_what_dead_tests_left);
  return fmt::format("{}{}-{}-{}", kTestPrefix, ::getpid(), ++counter, stem);
}

std::vector<std::string> list_namespaces(std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code ignored;  // no folder: no namespaces
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(prefix))
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> remove_namespace(const std::string& name) {
  const std::string path = path_of(name);
  ::umount2(path.c_str(), MNT_DETACH);  // a leftover file may be no mount any more
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT)
      return fail(Errc::not_found, fmt::format("no namespace {}", name));
    return os_failure(path);
  }
  return {};
}

}  // namespace heddle::lab
