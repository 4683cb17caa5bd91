#include "common/runtime/event_loop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "common/runtime/notify.h"
#include "common/runtime/system_clock.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class EventLoopTest : public testing::Test {
 protected:
  // Turns the loop until the condition holds; false after ten seconds, which only a failure takes.
  bool await(const std::function<bool()>& condition) {
    const Time end = clock_.now() + 10s;
    while (!condition()) {
      if (clock_.now() > end)
        return false;
      EXPECT_TRUE(loop_->run_once(50ms));
    }
    return true;
  }
  // Everything that is due now has its turn.
  void settle() {
    bool settled = false;
    const EventSource last = loop_->at(clock_.now(), [&] { settled = true; });
    EXPECT_TRUE(await([&] { return settled; }));
  }

  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
};

class EventFd {
 public:
  ~EventFd() { close(fd_); }
  int get() const { return fd_; }
  void write() const { EXPECT_EQ(eventfd_write(fd_, 1), 0); }
  void read() const {
    eventfd_t value = 0;
    EXPECT_EQ(eventfd_read(fd_, &value), 0);
  }

 private:
  int fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

TEST_F(EventLoopTest, TimersFireInTheirOrderAndNeverEarly) {
  const Time start = clock_.now();
  std::vector<int> order;
  std::vector<Time> fired;
  const auto note = [&](int n) {
    return [&, n] {
      order.push_back(n);
      fired.push_back(clock_.now());
    };
  };
  const EventSource second = loop_->at(start + 6ms, note(2));
  const EventSource first = loop_->at(start + 3ms + 1ns, note(1));
  const EventSource passed = loop_->at(Time(-5s), note(0));
  ASSERT_TRUE(await([&] { return order.size() == 3; }));
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  EXPECT_GE(fired[1], start + 3ms + 1ns);
  EXPECT_GE(fired[2], start + 6ms);
}

// sd-event by itself would collect timers for up to 250 ms to save wake-ups.
TEST_F(EventLoopTest, ATimerIsNotPutOff) {
  std::vector<Duration> late;
  for (int i = 0; i < 20; ++i) {
    const Time due = clock_.now() + 2ms;
    bool fired = false;
    const EventSource timer = loop_->at(due, [&] {
      fired = true;
      late.push_back(clock_.now() - due);
    });
    ASSERT_TRUE(await([&] { return fired; }));
  }
  EXPECT_LT(*std::ranges::min_element(late), 20ms);
}

// Busy for ten periods, then the next calls come a period apart again, not ten at once.
TEST_F(EventLoopTest, PeriodsThatPassedAreSkipped) {
  std::vector<Time> calls;
  const EventSource timer = loop_->every(5ms, [&] {
    if (calls.empty()) {
      const Time end = clock_.now() + 50ms;
      while (clock_.now() < end) {
      }
    }
    calls.push_back(clock_.now());
  });
  ASSERT_TRUE(await([&] { return calls.size() == 5; }));
  for (std::size_t k = 1; k < calls.size(); ++k)
    EXPECT_GE(calls[k] - calls[0], (k - 1) * 5ms) << k;
}

TEST_F(EventLoopTest, AReadableDescriptorIsHandledUntilItIsRead) {
  const EventFd fd;
  int calls = 0;
  const auto source = loop_->on_readable(fd.get(), [&] {
    if (++calls == 3)
      fd.read();
  });
  ASSERT_TRUE(source) << source.error().message;
  settle();
  EXPECT_EQ(calls, 0);
  fd.write();
  ASSERT_TRUE(await([&] { return calls == 3; }));
  settle();
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, ADescriptorThatCannotBeWatchedIsAnError) {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const auto source = loop_->on_readable(fd, [] {});
  close(fd);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, Errc::io);
}

// As with ZeroMQ: the work is there, the descriptor says nothing more about it.
TEST_F(EventLoopTest, EdgesAreHandledAsLongAsThereIsWorkAndOthersHaveTheirTurns) {
  const EventFd fd;
  int work = 0;
  int timer_calls = 0;
  int work_left_at_timer = -1;
  const auto edge = loop_->on_edge(
      fd.get(), [&] { return work > 0; }, [&] { --work; });
  ASSERT_TRUE(edge) << edge.error().message;
  work = 1'000;  // not a word from the descriptor
  const EventSource timer = loop_->at(clock_.now(), [&] {
    ++timer_calls;
    work_left_at_timer = work;
  });
  ASSERT_TRUE(await([&] { return work == 0 && timer_calls == 1; }));
  EXPECT_GT(work_left_at_timer, 0) << "the timer had to wait until all work was done";

  // A loop that waits is woken by the descriptor.
  const EventSource later = loop_->soon([&] {
    work = 1;
    fd.write();
  });
  ASSERT_TRUE(await([&] { return work == 1; }));
  ASSERT_TRUE(await([&] { return work == 0; }));
  fd.read();
}

TEST_F(EventLoopTest, ASourceMayEndItselfInItsOwnHandler) {
  const EventFd fd, edge_fd;
  fd.write();
  int calls = 0;
  EventSource timer, periodic, soon, readable, edge;
  // Each touches its captures after it ended its source: they must still be there.
  const auto end = [&calls](EventSource& source) {
    source = {};
    ++calls;
  };
  timer = loop_->at(clock_.now(), [&, end] { end(timer); });
  periodic = loop_->every(1ms, [&, end] { end(periodic); });
  soon = loop_->soon([&, end] { end(soon); });
  readable = std::move(loop_->on_readable(fd.get(), [&, end] { end(readable); }).value());
  edge = std::move(loop_
                       ->on_edge(
                           edge_fd.get(), [] { return true; }, [&, end] { end(edge); })
                       .value());
  ASSERT_TRUE(await([&] { return calls == 5; })) << calls;
  settle();
  EXPECT_EQ(calls, 5);
}

TEST_F(EventLoopTest, AHandlerMayReplaceItsSourceByANewOne) {
  int calls = 0;
  EventSource timer;
  const std::function<void()> again = [&] {
    if (++calls < 3)
      timer = loop_->at(clock_.now(), again);
  };
  timer = loop_->at(clock_.now(), again);
  EXPECT_TRUE(await([&] { return calls == 3; }));
}

TEST_F(EventLoopTest, ASourceThatEndedIsSilent) {
  bool called = false;
  loop_->at(clock_.now(), [&] { called = true; });
  EventSource soon = loop_->soon([&] { called = true; });
  soon = {};
  settle();
  EXPECT_FALSE(called);
}

TEST_F(EventLoopTest, SignalsComeAsEvents) {
  int hangups = 0;
  const auto source = loop_->on_signal(SIGHUP, [&] { ++hangups; });
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(kill(getpid(), SIGHUP), 0);
  EXPECT_TRUE(await([&] { return hangups == 1; }));
  EXPECT_EQ(loop_->on_signal(12'345, [] {}).error().code, Errc::invalid_argument);
}

TEST_F(EventLoopTest, RunsUntilItIsStoppedAndCanRunAgain) {
  int turns = 0;
  const EventSource timer = loop_->every(1ms, [&] {
    if (++turns % 3 == 0)
      loop_->stop();
  });
  ASSERT_TRUE(loop_->run());
  EXPECT_EQ(turns, 3);
  ASSERT_TRUE(loop_->run());
  EXPECT_EQ(turns, 6);
  loop_->stop();
  ASSERT_TRUE(loop_->run()) << "stopped before it ran";
  EXPECT_EQ(turns, 6);
}

TEST_F(EventLoopTest, ChangesInAFolderBearTheirFilesNames) {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-test-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::set<std::string> names;
  const auto source = loop_->on_change(folder, [&](std::string_view name) { names.emplace(name); });
  ASSERT_TRUE(source) << source.error().message;
  std::ofstream(folder / "written") << "x";
  ASSERT_TRUE(await([&] { return names.contains("written"); }));
  std::filesystem::rename(folder / "written", folder / "moved");
  ASSERT_TRUE(await([&] { return names.contains("moved"); }));
  names.clear();
  std::filesystem::remove(folder / "moved");
  ASSERT_TRUE(await([&] { return names.contains("moved"); }));
  std::filesystem::remove(folder);
  EXPECT_TRUE(await([&] { return names.contains(""); })) << "the folder itself";
  EXPECT_EQ(loop_->on_change("/nonexistent/folder", [](std::string_view) {}).error().code,
            Errc::io);
}

// A socket where systemd would listen.
class NotifySocket {
 public:
  NotifySocket() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    const std::string path = folder_ / "notify";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(fd_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  std::string next() const {
    char buffer[512];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
  }

 private:
  int fd_;
  std::filesystem::path folder_;
};

TEST_F(EventLoopTest, WatchdogIsAnsweredIfItIsAskedFor) {
  EXPECT_EQ(loop_->enable_watchdog().value(), false);
  const NotifySocket systemd;
  setenv("WATCHDOG_USEC", "100000", 1);
  ASSERT_EQ(loop_->enable_watchdog().value(), true);
  std::string said;
  EXPECT_TRUE(await([&] { return !(said = systemd.next()).empty(); }));
  EXPECT_EQ(said, "WATCHDOG=1");
}

TEST(Notify, TellsSystemdOneStatusLine) {
  notify_status("nobody listens");
  const NotifySocket systemd;
  notify_ready("programming\nREADY=0");
  EXPECT_EQ(systemd.next(), "READY=1\nSTATUS=programming");
  notify_status("observing");
  EXPECT_EQ(systemd.next(), "STATUS=observing");
  notify_stopping();
  EXPECT_EQ(systemd.next(), "STOPPING=1");
}

TEST(SystemClock, IsTheKernelsBootAndUnixTime) {
  const SystemClock clock;
  timespec boot{};
  ASSERT_EQ(clock_gettime(CLOCK_BOOTTIME, &boot), 0);
  const Time now = clock.now();
  EXPECT_GE(now.time_since_epoch(),
            std::chrono::seconds(boot.tv_sec) + std::chrono::nanoseconds(boot.tv_nsec));
  EXPECT_GE(clock.now(), now);
  EXPECT_GT(clock.wall().time_since_epoch(), std::chrono::hours(24 * 365 * 50));
}

}  // namespace
}  // namespace heddle
