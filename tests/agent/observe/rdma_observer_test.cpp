#include "agent/observe/rdma_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "agent/observe/host_source.h"
#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::connected;
using test::RdmaBuilder;
using testing::HasSubstr;

class FakeFiles final : public FileTree {
 public:
  std::vector<std::string> devices{"mlx5_0"};

  std::vector<std::string> list(const std::string&) const override { return devices; }
  Result<std::string> read(const std::string& file) const override {
    if (file == "mlx5_0/ports/1/gids/0")
      return "0000:0000:0000:0000:0000:ffff:0a01:0102";
    if (file == "mlx5_0/ports/1/gid_attrs/types/0")
      return "RoCE v2";
    return fail(Errc::not_found, file);
  }
};

// One driver that counts pauses, or none.
class FakeStatistics final : public DriverStatistics {
 public:
  std::vector<NamedCount> eth0;

  Result<std::vector<NamedCount>> statistics(const std::string& interface) const override {
    if (interface != "eth0" || eth0.empty())
      return fail(Errc::unobservable, interface);
    return eth0;
  }
};

class HandClock final : public Clock {
 public:
  Time now() const override { return now_; }
  WallTime wall() const override { return WallTime(now_.time_since_epoch()); }
  void pass(Duration time) { now_ += time; }

 private:
  Time now_{seconds(1000)};
};

// A kernel with one mlx5 whose per-queue-pair counters of bytes are as the UAPI headers have them.
class FakeKernel final : public RdmaChannel {
 public:
  explicit FakeKernel(HandClock& clock) : clock_(clock) {}

  std::vector<QueuePair> pairs;
  std::vector<RdmaRequest> changes;  // what asked the kernel to change something
  std::optional<Error> fails;        // every exchange
  bool cuts_queue_pairs{};           // the dump of queue pairs has no end
  bool cuts_counters{};              // nor that of their counters, which lists none
  int unanswered{};                  // so many changes, which are made all the same
  bool refuses_to_bind{};
  bool without_device{};
  bool held{};  // as a module that something uses
  Duration takes{};
  int looks{};
  std::deque<Result<std::vector<std::byte>>> announcements;

  Result<std::vector<std::byte>> exchange(const RdmaRequest& request) override {
    if (fails)
      return tl::unexpected(*fails);
    held = true;
    std::uint16_t type = 0;
    std::memcpy(&type, request.data() + 4, sizeof(type));
    RdmaBuilder b;
    switch (RdmaCommand{static_cast<std::uint16_t>(type & 0x3FFU)}) {
      case RdmaCommand::system:
        ++looks;
        clock_.pass(takes);
        b.message(RdmaCommand::system,
                  [](RdmaBuilder& m) { m.put<std::uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1); });
        return b.answer(0).bytes();
      case RdmaCommand::device:
        if (without_device)
          return b.done().bytes();
        test::device_message(b, 3, "mlx5_0", 7);
        return b.done().bytes();
      case RdmaCommand::port:
        test::port_message(b, 3, "mlx5_0", "eth0");
        return b.done().bytes();
      case RdmaCommand::queue_pairs:
        test::pairs_message(b, 3, "mlx5_0", pairs);
        return cuts_queue_pairs ? b.bytes() : b.done().bytes();
      case RdmaCommand::stat_status:
        status(b);
        return b.answer(0).bytes();
      case RdmaCommand::stat:
        if (cuts_counters)
          return b.bytes();
        counters(b);
        return b.done().bytes();
      case RdmaCommand::stat_set:
      case RdmaCommand::stat_delete: {
        changes.push_back(request);
        std::vector<std::byte> answer = change(request);
        if (unanswered == 0)
          return answer;
        --unanswered;
        return fail(Errc::unobservable, "the kernel dropped answers: no buffer space");
      }
      default:
        return b.done().bytes();
    }
  }
  Result<std::vector<std::byte>> announced() override {
    if (announcements.empty())
      return std::vector<std::byte>{};
    auto next = announcements.front();
    announcements.pop_front();
    return next;
  }
  void let_go() override { held = false; }

  std::vector<std::uint32_t> bound() const { return bound_; }
  bool counts() const { return on_; }

 private:
  void status(RdmaBuilder& b) const {
    b.message(RdmaCommand::stat_status, [this](RdmaBuilder& m) {
      test::handle(m, 3, "mlx5_0");
      m.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, [this](RdmaBuilder& t) {
        t.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [this](RdmaBuilder& e) {
          e.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "rdma_tx_bytes")
              .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 21)
              .put<std::uint8_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, on_ ? 1 : 0);
        });
      });
    });
  }
  void counters(RdmaBuilder& b) const {
    b.message(RdmaCommand::stat, [this](RdmaBuilder& m) {
      test::handle(m, 3, "mlx5_0");
      m.nest(RDMA_NLDEV_ATTR_STAT_COUNTER, [this](RdmaBuilder& t) {
        for (const std::uint32_t qpn : bound_) {
          t.nest(RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, [qpn](RdmaBuilder& e) {
            e.put<std::uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
                .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, qpn + 1)
                .put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL)
                .nest(RDMA_NLDEV_ATTR_RES_QP,
                      [qpn](RdmaBuilder& q) {
                        q.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [qpn](RdmaBuilder& one) {
                          one.put<std::uint32_t>(RDMA_NLDEV_ATTR_RES_LQPN, qpn);
                        });
                      })
                .nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, [](RdmaBuilder& v) {
                  v.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [](RdmaBuilder& one) {
                    one.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "rdma_tx_bytes")
                        .put<std::uint64_t>(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, 4096);
                  });
                });
          });
        }
      });
    });
  }
  std::vector<std::byte> change(const RdmaRequest& request) {
    RdmaBuilder b;
    // The switch has a table; a binding names its queue pair last, as does its end.
    std::uint32_t last = 0;
    std::memcpy(&last, request.data() + request.size() - 4, sizeof(last));
    nlattr attribute{};
    std::memcpy(&attribute, request.data() + 32, std::min<std::size_t>(4, request.size() - 32));
    if ((attribute.nla_type & NLA_TYPE_MASK) == RDMA_NLDEV_ATTR_STAT_HWCOUNTERS) {
      on_ = attribute.nla_len > NLA_HDRLEN;
      return b.answer(0).bytes();
    }
    std::uint16_t type = 0;
    std::memcpy(&type, request.data() + 4, sizeof(type));
    if (type == rdma_message_type(RdmaCommand::stat_delete)) {
      std::erase(bound_, last);
      return b.answer(0).bytes();
    }
    if (refuses_to_bind)
      return b.answer(-ENOMEM).bytes();
    bound_.push_back(last);
    b.message(RdmaCommand::stat_set, [last](RdmaBuilder& m) {
      test::handle(m, 3, "mlx5_0");
      m.put<std::uint32_t>(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, last + 1);
    });
    return b.answer(0).bytes();
  }

  HandClock& clock_;
  std::vector<std::uint32_t> bound_;
  bool on_{};
};

class RdmaObserverTest : public ::testing::Test {
 protected:
  const RdmaView& look() { return observer->look(clock.now(), {}); }

  HandClock clock;
  FakeKernel kernel{clock};
  FakeFiles files;
  FakeStatistics statistics;
  std::optional<RdmaObserver> observer{std::in_place, kernel, files, statistics, clock, true};
};

TEST_F(RdmaObserverTest, CountsQueuePairsByCountersOfItsOwnAsSynthesisedFromTheUapiHeaders) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  EXPECT_FALSE(look().queue_pairs.at(0).bytes) << "bound only now";
  EXPECT_TRUE(kernel.counts());
  EXPECT_EQ(kernel.bound(), std::vector<std::uint32_t>{178});
  clock.pass(seconds(1));
  EXPECT_EQ(look().queue_pairs.at(0).bytes, Bytes{4096});
  EXPECT_EQ(kernel.changes.size(), 2U) << "once";
  EXPECT_TRUE(observer->capability().usable);
}

TEST_F(RdmaObserverTest, SafetyRule1LeavesNoCounterBehindAsSynthesisedFromTheUapiHeaders) {
  kernel.pairs = {connected(3, 178, 200, 197), connected(3, 179, 201, 197)};
  look();
  ASSERT_EQ(kernel.bound().size(), 2U);
  observer.reset();
  EXPECT_TRUE(kernel.bound().empty());
  EXPECT_FALSE(kernel.counts());
}

// The dump of counters was cut off, so nobody knows of the binding; it is ours all the same.
TEST_F(RdmaObserverTest, SafetyRule1TakesBackCountersThatALookDidNotRead) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  look();
  kernel.cuts_counters = true;
  clock.pass(seconds(1));
  kernel.pairs.push_back(connected(3, 179, 201, 197));
  const RdmaView& unread = look();
  EXPECT_FALSE(unread.queue_pairs.at(0).bytes) << "not read is not zero";
  EXPECT_EQ(kernel.bound(), std::vector<std::uint32_t>{178}) << "179 may be somebody else's";
  observer.reset();
  EXPECT_TRUE(kernel.bound().empty());
  EXPECT_FALSE(kernel.counts());
}

TEST_F(RdmaObserverTest, SafetyRule1TakesBackWhatTheKernelDidWithoutAnAnswer) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  kernel.unanswered = 1;
  look();
  EXPECT_TRUE(kernel.counts()) << "switched on, as nobody was told";
  EXPECT_TRUE(kernel.bound().empty());
  clock.pass(seconds(1));
  look();
  clock.pass(seconds(1));
  kernel.pairs.push_back(connected(3, 179, 201, 197));
  kernel.unanswered = 1;
  look();
  ASSERT_EQ(kernel.bound(), (std::vector<std::uint32_t>{178, 179}));
  // The two unbindings and the switch are not answered at once either.
  kernel.unanswered = 2;
  observer.reset();
  EXPECT_TRUE(kernel.bound().empty());
  EXPECT_FALSE(kernel.counts());
}

// As on a kernel that has no memory for it, or lets nobody do it.
TEST_F(RdmaObserverTest, DoesNotInsistOnACounter) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  kernel.refuses_to_bind = true;
  for (int i = 0; i < 3; ++i) {
    look();
    clock.pass(seconds(1));
  }
  EXPECT_EQ(kernel.changes.size(), 2U) << "to switch on, and to bind once";
}

TEST_F(RdmaObserverTest, ChangesNothingWhereItMayNot) {
  observer.emplace(kernel, files, statistics, clock, false);
  kernel.pairs = {connected(3, 178, 200, 197)};
  look();
  observer.reset();
  EXPECT_TRUE(kernel.changes.empty());
}

TEST_F(RdmaObserverTest, SafetyRule5LooksAgainAfterAnswersWereLost) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  look();
  const Time first = clock.now();
  clock.pass(seconds(1));
  kernel.fails = Error{Errc::unobservable, "the kernel dropped answers: no buffer space"};
  EXPECT_TRUE(look().gap);
  EXPECT_FALSE(observer->capability().usable);
  EXPECT_THAT(observer->capability().reason, HasSubstr("no buffer space"));
  kernel.fails.reset();
  clock.pass(seconds(1));
  EXPECT_FALSE(look().gap);
  EXPECT_EQ(look().queue_pairs.at(0).first_seen, first) << "the same queue pair";
}

TEST_F(RdmaObserverTest, SafetyRule7ADumpThatIsCutOffIsAGap) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  kernel.cuts_queue_pairs = true;
  EXPECT_TRUE(look().gap);
  EXPECT_THAT(observer->capability().reason, HasSubstr("may be missing"));
}

// 0.5 s a look: the next in 10 s.
TEST_F(RdmaObserverTest, TakesNoMoreThanATwentiethOfTheTimeForLooking) {
  kernel.takes = milliseconds(500);
  look();
  for (int i = 0; i < 9; ++i) {
    clock.pass(seconds(1));
    look();
  }
  EXPECT_EQ(kernel.looks, 1);
  clock.pass(seconds(1));
  look();
  EXPECT_EQ(kernel.looks, 2);
}

// 0.5 s a look: after a connection was seen the next in 2.5 s.
TEST_F(RdmaObserverTest, LooksSoonWhenAQueuePairWasConnected) {
  kernel.takes = milliseconds(500);
  look();
  const std::vector<QpConnection> made{test::connection(178, 200, clock.now())};
  clock.pass(seconds(1));
  observer->look(clock.now(), made);
  EXPECT_EQ(kernel.looks, 1);
  clock.pass(seconds(2));
  look();
  EXPECT_EQ(kernel.looks, 2);
}

TEST_F(RdmaObserverTest, SafetyRule5LooksAtOnceWhenTheKernelAnnouncesAChangeOrLosesOne) {
  kernel.takes = milliseconds(500);
  look();
  RdmaBuilder b;
  b.message(RdmaCommand::monitor, [](RdmaBuilder& m) { test::handle(m, 3, "mlx5_0"); });
  kernel.announcements.emplace_back(b.bytes());
  look();
  EXPECT_EQ(kernel.looks, 2);
  kernel.announcements.emplace_back(fail(Errc::unobservable, "ENOBUFS"));
  look();
  EXPECT_EQ(kernel.looks, 3);
}

TEST_F(RdmaObserverTest, ASystemWithoutRdmaIsNoGapAndNotAskedAllTheTime) {
  kernel.fails = Error{Errc::unsupported, "the kernel has no RDMA netlink"};
  EXPECT_FALSE(look().gap);
  EXPECT_FALSE(observer->capability().usable);
  EXPECT_THAT(observer->capability().reason, HasSubstr("no RDMA netlink"));
  kernel.fails.reset();
  clock.pass(seconds(29));
  EXPECT_FALSE(observer->capability().usable);
  look();
  EXPECT_EQ(kernel.looks, 0);
  clock.pass(seconds(2));
  look();
  EXPECT_TRUE(observer->capability().usable);
}

// Drivers are upgraded beside a running agent: what is held cannot be unloaded.
TEST_F(RdmaObserverTest, HoldsRdmasCoreOnlyWhileThereIsADevice) {
  look();
  EXPECT_TRUE(kernel.held);
  kernel.without_device = true;
  files.devices.clear();
  clock.pass(seconds(1));
  EXPECT_TRUE(look().ports.empty());
  EXPECT_FALSE(kernel.held);
  EXPECT_THAT(observer->capability().reason, HasSubstr("no RDMA device"));
  const int looks = kernel.looks;
  for (int i = 0; i < 60; ++i) {
    clock.pass(seconds(1));
    look();
  }
  EXPECT_EQ(kernel.looks, looks) << "asking is holding";
  kernel.without_device = false;
  files.devices = {"mlx5_0"};
  EXPECT_EQ(look().ports.size(), 1U);
  EXPECT_TRUE(observer->capability().usable);
}

// The names are mlx5's.
TEST_F(RdmaObserverTest, CountsPausesBesideTheOtherSignsOfCongestionAsSynthesisedFromTheDriver) {
  statistics.eth0 = {{"rx_prio3_pause", 5}, {"tx_prio3_pause", 2}};
  EXPECT_EQ(look().ports.at(0).counters,
            (std::vector<CounterValue>{{"pause_received", 5, false}, {"pause_sent", 2, false}}));
}

TEST_F(RdmaObserverTest, SafetyRule7PausesAreUnobservableWhereTheDriverOffersNothing) {
  EXPECT_TRUE(look().ports.at(0).counters.empty());
}

class NoPackets final : public FlowSource {
 public:
  std::vector<SourceCapability> probe() override { return {{"ebpf", false, "no CAP_BPF"}}; }
  void links_changed() override {}
  Result<FlowReading> read(Time) override { return fail(Errc::unobservable, "no CAP_BPF"); }
};
class NoWatch final : public ConnectionWatch {
 public:
  SourceCapability probe() override { return {"kprobe", false, "no BTF"}; }
  std::vector<QpConnection> take() override { return {}; }
};

// From octets to a reading, through all parts.
TEST_F(RdmaObserverTest, MakesAReadingWhereNothingElseSees) {
  kernel.pairs = {connected(3, 178, 200, 197)};
  NoPackets packets;
  NoWatch watch;
  HostSource host(packets, *observer, watch);
  const auto reading = host.read(clock.now());
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->queue_pairs,
            (std::vector<OpenPair>{{{IpAddress::v4(10, 1, 1, 2), 178, 200, 197}, clock.now()}}));
  EXPECT_EQ(reading->rdma_ports.at(0).netdev, "eth0");
  const auto able = host.probe();
  ASSERT_EQ(able.size(), 3U);
  EXPECT_FALSE(able[0].usable);
  EXPECT_TRUE(able[1].usable);
  EXPECT_FALSE(able[2].usable);
}

}  // namespace
}  // namespace heddle
