#include "tests/lab/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/pin_watch.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

TEST(Process, CapturesOutputErrorsAndStatus) {
  const Output output =
      must(capture({.words = {"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}, .log = {}}, 5s));
  EXPECT_EQ(output.text, "out\n");
  EXPECT_EQ(output.errors, "err\n");
  EXPECT_EQ(output.status, 7);
}

TEST(Process, RunsInsideANamespace) {
  const NetNamespace space = must(NetNamespace::create(unique_namespace_name("x")));
  const Output inside = must(capture(
      {.words = {"/bin/sh", "-c", "wc -l < /proc/net/dev"}, .space = &space, .log = {}}, 5s));
  EXPECT_EQ(inside.text, "3\n");  // two lines of heading, and loopback
}

TEST(Process, ALongSilenceIsATimeout) {
  EXPECT_EQ(capture({.words = {"/bin/sleep", "60"}, .log = {}}, 20ms).error().code, Errc::timeout);
}

TEST(Process, AMissingProgramIsAnErrorAtOnce) {
  EXPECT_EQ(Child::start({.words = {"/no/such/program"}, .log = {}}).error().code, Errc::not_found);
}

TEST(Process, EndsWithItsObject) {
  pid_t pid = 0;
  {
    const Child child = must(Child::start({.words = {"/bin/sleep", "60"}, .log = {}}));
    pid = child.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Process, OneThatIgnoresTheSignalIsKilled) {
  ::signal(SIGTERM, SIG_IGN);  // a child begins with what its parent ignores
  Child child = must(Child::start({.words = {"/bin/sleep", "60"}, .log = {}}));
  ::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(child.stop(SIGTERM, 50ms), 128 + SIGKILL);
}

TEST(PinWatch, NotesARouteOfWhateverProtocolWithItsTimeAndTable) {
  const NetNamespace space = must(NetNamespace::create(unique_namespace_name("leaf")));
  const auto watch = must(PinWatch::start({{"leaf", &space}}));
  Netlink net = must(Netlink::open(space));
  const Time begin = boot_now();
  const RouteSpec route{.destination = Prefix::host(IpAddress::v4(10, 2, 1, 2)),
                        .device = "lo",
                        .table = 18801,
                        .protocol = 188};
  net.add_route(route);
  must(net.commit());
  net.delete_route(route);
  must(net.commit());
  must(watch->await(
      begin, [](const std::vector<TableEvent>& events) { return events.size() >= 2; }, 5s));
  const auto events = watch->since(begin);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, TableEvent::Kind::route_set);
  EXPECT_EQ(events[1].kind, TableEvent::Kind::route_removed);
  for (const TableEvent& event : events) {
    EXPECT_EQ(event.node, "leaf");
    EXPECT_EQ(event.protocol, 188);
    EXPECT_EQ(event.table, 18801U);
    EXPECT_EQ(event.destination, route.destination);
    EXPECT_LT(event.at - begin, 1s);
  }
}

TEST(PinWatch, WaitingInVainEnds) {
  const NetNamespace space = must(NetNamespace::create(unique_namespace_name("leaf")));
  const auto watch = must(PinWatch::start({{"leaf", &space}}));
  EXPECT_EQ(watch
                ->await(
                    boot_now(), [](const std::vector<TableEvent>&) { return false; }, 10ms)
                .error()
                .code,
            Errc::timeout);
}

}  // namespace
}  // namespace heddle::lab
