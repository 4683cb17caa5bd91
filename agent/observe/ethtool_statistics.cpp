#include "agent/observe/ethtool_statistics.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle {
namespace {

// The kernel does not ask how much room there is: it writes as many as the driver has at that
// moment. Switching flow control on adds some, so there is room for far more than were counted.
constexpr std::size_t kRoom = 4096;
// No driver has as many; the kernel itself gives up far above.
constexpr std::uint32_t kMost = 65536;

bool ask(int fd, const std::string& interface, void* question) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  request.ifr_data = static_cast<char*>(question);
  return ::ioctl(fd, SIOCETHTOOL, &request) == 0;
}

// A request's head with room for `octets` after it, in words as the kernel wants them aligned.
template <class Head>
class Question {
 public:
  explicit Question(std::size_t octets) : words_((sizeof(Head) + octets + 7) / 8) {}
  Head& head() { return *reinterpret_cast<Head*>(words_.data()); }
  const std::byte* answer() const {
    return reinterpret_cast<const std::byte*>(words_.data()) + sizeof(Head);
  }

 private:
  std::vector<std::uint64_t> words_;
};

std::uint32_t how_many(int fd, const std::string& interface) {
  Question<ethtool_sset_info> question(sizeof(std::uint32_t));
  question.head().cmd = ETHTOOL_GSSET_INFO;
  question.head().sset_mask = std::uint64_t{1} << static_cast<unsigned>(ETH_SS_STATS);
  if (!ask(fd, interface, &question.head()) || question.head().sset_mask == 0)
    return 0;
  std::uint32_t count = 0;
  std::memcpy(&count, question.answer(), sizeof(count));
  return count;
}

}  // namespace

EthtoolStatistics::EthtoolStatistics() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

EthtoolStatistics::~EthtoolStatistics() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<std::vector<NamedCount>> EthtoolStatistics::statistics(const std::string& interface) const {
  const std::uint32_t count = how_many(fd_, interface);
  if (count == 0 || count > kMost)
    return fail(Errc::unobservable, fmt::format("the driver of {} counts nothing", interface));

  Question<ethtool_gstrings> names((count + kRoom) * ETH_GSTRING_LEN);
  names.head().cmd = ETHTOOL_GSTRINGS;
  names.head().string_set = ETH_SS_STATS;
  names.head().len = count;
  Question<ethtool_stats> values((count + kRoom) * sizeof(std::uint64_t));
  values.head().cmd = ETHTOOL_GSTATS;
  values.head().n_stats = count;
  if (!ask(fd_, interface, &names.head()) || !ask(fd_, interface, &values.head())) {
    return fail(Errc::unobservable, fmt::format("the driver of {} does not tell what it counts: {}",
                                                interface, std::strerror(errno)));
  }
  if (names.head().len != count || values.head().n_stats != count)
    return fail(Errc::unobservable, fmt::format("what {} counts has just changed", interface));

  std::vector<NamedCount> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const name = reinterpret_cast<const char*>(names.answer()) + i * ETH_GSTRING_LEN;
    result[i].name.assign(name, ::strnlen(name, ETH_GSTRING_LEN));
    std::memcpy(&result[i].value, values.answer() + i * sizeof(std::uint64_t),
                sizeof(std::uint64_t));
  }
  return result;
}

}  // namespace heddle
