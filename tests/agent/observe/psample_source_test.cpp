// The receiver on real netlink sockets. The kernel's own sender is not needed for that: processes
// may send to a group of NETLINK_USERSOCK, and the kernel drops messages there as it drops its own.
#include "agent/observe/psample_source.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "agent/observe/generic_family.h"
#include "tests/agent/observe/psample_builder.h"

namespace heddle {
namespace {

using test::kPsampleFamily;

constexpr Time kNow{std::chrono::seconds(1)};

class Socket {
 public:
  Socket() : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK)) {
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    socklen_t length = sizeof(own);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length), 0);
    port_ = own.nl_pid;
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  std::uint32_t port() const { return port_; }
  // False if the kernel had no room for it.
  bool send(const Socket& to, const test::Octets& bytes) const {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_pid = to.port();
    return ::sendto(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT,
                    reinterpret_cast<const sockaddr*>(&address), sizeof(address)) >= 0;
  }
  // To whoever listens; what a listener has no room for is dropped, and that is its own to learn.
  void multicast(int group, const test::Octets& bytes) const {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = 1U << (group - 1);
    (void)::sendto(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }

 private:
  int fd_;
  std::uint32_t port_{};
};

test::Octets message(std::uint32_t sequence) {
  return test::psample_message({.size = 1'000, .rate = 1, .sequence = sequence},
                               test::roce_frame({}))
      .bytes();
}

struct Receiving {
  Socket sender, receiver;
  SampledFlows flows;
  SampleReceiver samples{flows, sender.port()};
  Receiving() { flows.watch({{4, "up1"}}, {}); }
  void drain() { samples.drain(receiver.fd(), kPsampleFamily, kNow); }
};

TEST(SampleReceiver, TakesEveryMessageOfEveryDatagram) {
  Receiving at;
  test::Octets two = message(1);
  const test::Octets second = message(2);
  two.insert(two.end(), second.begin(), second.end());
  ASSERT_TRUE(at.sender.send(at.receiver, two));
  ASSERT_TRUE(at.sender.send(at.receiver, message(3)));
  at.drain();
  const FlowReading reading = at.flows.read(kNow);
  EXPECT_FALSE(reading.gap);
  ASSERT_EQ(reading.flows.size(), 1U);
  EXPECT_EQ(reading.flows[0].bytes.value, 3'000U);
  at.drain();  // nothing waits, and it does not either
}

TEST(SampleReceiver, ListensToItsSenderAndItsFamilyOnly) {
  Receiving at;
  const Socket stranger;
  ASSERT_TRUE(stranger.send(at.receiver, message(1)));
  test::Octets other = message(2);
  other[offsetof(nlmsghdr, nlmsg_type)] ^= std::byte{1};
  ASSERT_TRUE(at.sender.send(at.receiver, other));
  test::Octets liar = message(3);
  liar[0] = std::byte{0xff};  // longer than its datagram
  ASSERT_TRUE(at.sender.send(at.receiver, liar));
  at.drain();
  EXPECT_EQ(at.flows.samples(), 0U);
}

// 4,096 octets hold a few messages; the kernel drops the rest of 100 and says ENOBUFS.
TEST(SampleReceiver, AnOverrunIsAGapAndNoEnd) {
  Receiving at;
  const int group = 1, size = 4'096;
  ASSERT_EQ(::setsockopt(at.receiver.fd(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
  if (::setsockopt(at.receiver.fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) !=
      0)
    GTEST_SKIP() << "joining a netlink group takes CAP_NET_ADMIN";
  for (std::uint32_t i = 0; i < 100; ++i)
    at.sender.multicast(group, message(i));
  at.drain();
  const std::uint64_t before = at.flows.samples();
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, 100U);
  const FlowReading overrun = at.flows.read(kNow);
  EXPECT_TRUE(overrun.gap);
  at.sender.multicast(group, message(100));
  at.drain();
  EXPECT_EQ(at.flows.samples(), before + 1);
  // 100 went by between, and one was lost for each that did not arrive: the rest stands for it.
  const FlowReading after = at.flows.read(kNow);
  EXPECT_TRUE(after.gap);
  EXPECT_EQ(after.flows[0].packets, 101U);
}

TEST(SampleReceiver, HandsDatagramsToARecording) {
  Receiving at;
  test::Octets recorded;
  at.samples.record_to([&recorded](std::span<const std::byte> datagram) {
    recorded.insert(recorded.end(), datagram.begin(), datagram.end());
  });
  ASSERT_TRUE(at.sender.send(at.receiver, message(1)));
  at.drain();
  EXPECT_EQ(recorded, message(1));
}

// The kernel passes over sockets without an address when it hands out samples.
TEST(PsampleSource, ListensWithAnAddressOfItsOwn) {
  const PsampleSource source({"up*"}, {"p*"});
  sockaddr_nl own{};
  socklen_t length = sizeof(own);
  ASSERT_EQ(::getsockname(source.fd(), reinterpret_cast<sockaddr*>(&own), &length), 0);
  EXPECT_NE(own.nl_pid, 0U);
}

TEST(PsampleSource, SaysWhatIsMissingWhereNothingIsSampled) {
  PsampleSource source({"up*"}, {"p*"});
  const std::vector<SourceCapability> found = source.probe();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "psample");
  EXPECT_NE(found[0].reason.find("action sample"), std::string::npos) << found[0].reason;
  if (find_generic_family("psample")) {
    EXPECT_TRUE(source.read(kNow));
    return;
  }
  EXPECT_FALSE(found[0].usable);
  const Result<FlowReading> reading = source.read(kNow);
  ASSERT_FALSE(reading);
  EXPECT_EQ(reading.error().code, Errc::unobservable);
}

}  // namespace
}  // namespace heddle
