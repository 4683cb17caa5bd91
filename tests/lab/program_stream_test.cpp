// A stream of numbered packets through one leaf while its pin moves 500 times: none may be lost or
// doubled, whichever way the pin is held.
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "tests/lab/each_way.h"
#include "tests/lab/program_lab.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

constexpr int kMoves = 500;
constexpr std::uint64_t kPerMillisecond = 20;
constexpr std::uint16_t kRocePort = 4791;

// A frame of the stream, in segments or not.
struct Numbered {
  std::uint64_t number{};
  bool wrapped{};
};

std::optional<Numbered> numbered(std::span<const char> frame) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(frame[at]); };
  constexpr std::size_t kLongest = 14 + 40 + 40 + 40 + 8 + sizeof(std::uint64_t);
  Numbered result;
  std::size_t at = 14;
  // What is not there reads as zero.
  std::array<char, kLongest> room{};
  std::copy_n(frame.begin(), std::min(frame.size(), room.size()), room.begin());
  frame = room;
  unsigned next = byte(12) == 0x86 ? 41 : 4;
  if (next == 41 && byte(at + 6) == IPPROTO_ROUTING) {
    result.wrapped = true;
    at += 40;
    next = byte(at);
    at += 8 + 8 * std::size_t{byte(at + 1)};
  }
  if (at > 14 + 40 + 40)
    return std::nullopt;
  const unsigned protocol = byte(at + (next == 41 ? 6 : 9));
  at += next == 41 ? 40 : 20;
  if (protocol != IPPROTO_UDP || (byte(at + 2) << 8 | byte(at + 3)) != kRocePort)
    return std::nullopt;
  std::memcpy(&result.number, frame.data() + at + 8, sizeof result.number);
  return result;
}

// What came out of the leaf, by any uplink, seen at their far ends.
class Arrivals {
 public:
  // By which two links they may come.
  Arrivals(const Leaf& leaf, std::array<int, 2> links)
      : links_(links),
        fd_(must(leaf.beyond.socket(AF_PACKET, SOCK_RAW,
                                    htons(segments_tested               ? ETH_P_ALL
                                          : tested_family == Family::v4 ? ETH_P_IP
                                                                        : ETH_P_IPV6)))) {
    constexpr int kBuffer = 64 << 20;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer);
    thread_ = std::thread([this] { run(); });
  }
  ~Arrivals() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
  }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  bool await(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, std::chrono::seconds{5}, condition);
  }
  // Inside await()'s condition, or once nothing is sent any more.
  int last_link{};
  std::uint64_t received{};
  std::uint64_t duplicates{};
  std::uint64_t reordered{};
  std::uint64_t astray{};  // by another link, or not in the segments that the pin wraps them in

 private:
  void run() {
    run_before_others();
    std::vector<char> frame(256);
    while (!stop_) {
      pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, 100) <= 0)
        continue;
      const std::lock_guard lock(mutex_);
      for (;;) {
        sockaddr_ll from{};
        socklen_t length = sizeof from;
        const ssize_t got = ::recvfrom(fd_, frame.data(), frame.size(), MSG_DONTWAIT,
                                       reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 0)
          break;
        if (from.sll_pkttype != PACKET_OUTGOING)
          take({frame.data(), static_cast<std::size_t>(got)}, from.sll_ifindex);
      }
      news_.notify_all();
    }
  }
  void take(std::span<const char> frame, int link) {
    const auto found = numbered(frame);
    if (!found)
      return;
    const std::uint64_t number = found->number;
    const bool by_main =
        (segments_tested && !found->wrapped) || std::ranges::find(links_, link) == links_.end();
    astray += by_main ? 1 : 0;
    if (number >= seen_.size())
      seen_.resize(number + 1 + (1U << 16U));
    if (seen_[number])
      ++duplicates;
    else
      ++received;
    seen_[number] = true;
    if (number < newest_)
      ++reordered;
    newest_ = std::max(newest_, number);
    if (!by_main)
      last_link = link;
  }

  std::array<int, 2> links_;
  int fd_;
  std::atomic<bool> stop_{};
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<bool> seen_;
  std::uint64_t newest_{};
  std::thread thread_;
};

// 20,000 packets a second, from the host behind p1, or from the host that the leaf is.
class Stream {
 public:
  Stream(Leaf& leaf, bool own) {
    leaf.at_beyond.add_route(
        {.destination = net("10.2.0.0/16"), .gateway = ip("10.1.1.1"), .device = "h1"});
    must(leaf.at_beyond.commit());
    const SocketAddress from(own ? "10.1.1.1" : Leaf::behind("p1"), Leaf::kSourcePort);
    fd_ = must((own ? leaf.leaf : leaf.beyond).socket(from.family(), SOCK_DGRAM, 0));
    EXPECT_EQ(::bind(fd_, from.get(), sizeof from.storage), 0);
    thread_ = std::thread([this] { run(); });
  }
  // The number of packets sent in all.
  std::uint64_t stop() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
    return number_;
  }

 private:
  void run() {
    run_before_others();
    const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const itimerspec each{.it_interval = {0, 1'000'000}, .it_value = {0, 1'000'000}};
    EXPECT_EQ(::timerfd_settime(timer, 0, &each, nullptr), 0);
    const SocketAddress to("10.2.1.2", kRocePort);
    while (!stop_) {
      // What was slept through is made up for, but not all at once.
      std::uint64_t due = 0;
      EXPECT_EQ(::read(timer, &due, sizeof due), static_cast<ssize_t>(sizeof due));
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(due, 5) * kPerMillisecond; ++i) {
        std::array<char, 64> payload{};
        std::memcpy(payload.data(), &number_, sizeof number_);
        // One that cannot be sent, as there is no route for a moment, is lost.
        ::sendto(fd_, payload.data(), payload.size(), 0, to.get(), sizeof to.storage);
        ++number_;
      }
    }
    ::close(timer);
  }

  int fd_{-1};
  std::uint64_t number_{};
  std::atomic<bool> stop_{};
  std::thread thread_;
};

using NumberedStream = EachEnforcer;
INSTANTIATE_TEST_SUITE_P(, NumberedStream, every_way(), name_of_case);

TEST_P(NumberedStream, LosesAndDoublesNothingInFiveHundredMoves) {
  Case c(GetParam());
  const auto to = [](int move) {
    return plan(static_cast<std::uint64_t>(move) + 1,
                {pin("p1", "10.2.1.2", Leaf::uplink(1 + move % 2))});
  };
  // Both gateways are known then: what waits for one goes by `main`, unwrapped.
  ASSERT_TRUE(c.agent.installs(to(1)));
  ASSERT_TRUE(c.agent.installs(to(0)));
  const std::array links{static_cast<int>(c.leaf.at_beyond.index_of("s1")),
                         static_cast<int>(c.leaf.at_beyond.index_of("s2"))};
  Arrivals arrivals(c.leaf, links);
  Stream stream(c.leaf, is_of_hosts(GetParam().enforcer));
  EXPECT_TRUE(arrivals.await([&] { return arrivals.last_link == links[0]; }));
  const Time begin = c.agent.clock.now();
  int effective = 0;
  for (int move = 1; move <= kMoves; ++move) {
    const bool installed = c.agent.installs(to(move));
    const bool seen = arrivals.await([&] { return arrivals.last_link == links[move % 2]; });
    effective += installed && seen ? 1 : 0;
  }
  const double ms = milliseconds(c.agent.clock.now() - begin);
  const std::uint64_t sent = stream.stop();
  arrivals.await([&] { return arrivals.received == sent; });
  EXPECT_EQ(effective, kMoves);
  EXPECT_EQ(arrivals.received, sent);
  EXPECT_EQ(arrivals.duplicates, 0U);
  // IPv6 passes a packet whose route is replaced while it is looked up on to the next rule, so to
  // `main`. That is between the two states, and rare; a pin that was away for a moment would show
  // it at every move.
  EXPECT_LE(arrivals.astray, GetParam().family == Family::v6 ? 5U : 0U);
  const double rate = static_cast<double>(sent) / ms * 1000;
  EXPECT_GT(rate, 15'000);
  std::printf(
      "[ measured ] %d moves in %.0f ms under %.0f packets/s: %llu of %llu packets came, "
      "%llu reordered, %llu off their path\n",
      kMoves, ms, rate, static_cast<unsigned long long>(arrivals.received),
      static_cast<unsigned long long>(sent), static_cast<unsigned long long>(arrivals.reordered),
      static_cast<unsigned long long>(arrivals.astray));
}

}  // namespace
}  // namespace heddle::lab
