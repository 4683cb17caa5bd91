#include "tests/lab/fabric.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "tests/lab/expect.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

FabricSpec small(int leaves = 2, int spines = 2, int hosts = 1) {
  return {.leaves = leaves,
          .spines = spines,
          .hosts = hosts,
          .rate = 25_mbps,
          .prefix = unique_namespace_name("")};
}

// The spines that a leaf's main table offers towards another leaf.
std::set<std::uint32_t> offered(Fabric& fabric, int leaf, int remote) {
  Netlink& net = fabric.netlink(NodeName::leaf(leaf));
  std::uint32_t group = 0;
  for (const RouteSeen& route : must(net.routes()))
    if (route.destination == leaf_prefix(remote))
      group = route.nexthop_id;
  for (const NexthopSeen& hop : must(net.nexthops()))
    if (group != 0 && hop.id == group)
      return {hop.members.begin(), hop.members.end()};
  return {};
}

Time await(const Routing& routing, RoutingEvent::Kind kind, int count) {
  return must(routing.await(kind, count, {}, 5s)).at;
}

TEST(Fabric, IsRaisedInLessThanASecondAndLeavesNothingBehind) {
  FabricSpec spec = small(4, 4, 4);
  {
    const Time begin = boot_now();
    Fabric fabric = must(Fabric::raise(spec));
    EXPECT_LT(boot_now() - begin, 1s);
    EXPECT_EQ(list_namespaces(spec.prefix).size(), 25U);  // 4 + 4 + 16 nodes and management
    EXPECT_EQ(offered(fabric, 1, 4), (std::set<std::uint32_t>{1, 2, 3, 4}));
    EXPECT_EQ(Fabric::raise(spec).error().code, Errc::duplicate);
  }
  EXPECT_TRUE(list_namespaces(spec.prefix).empty());
  EXPECT_FALSE(std::filesystem::exists("/run/heddle-lab/" + spec.prefix + "state"));
}

// A process that dies without a word leaves its fabric; tear_down() finds everything by itself.
TEST(Fabric, IsRemovedByAnotherProcessAfterACrash) {
  const FabricSpec spec = small();
  const pid_t crashing = ::fork();
  ASSERT_GE(crashing, 0);
  if (crashing == 0) {
    auto fabric = Fabric::raise(spec);
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      ::pause();
      ::_exit(0);
    }
    if (!fabric || !fabric->remember_process(orphan, "orphan"))
      ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(crashing, &status, 0), crashing);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(list_namespaces(spec.prefix).size(), 7U);
  EXPECT_EQ(must(Fabric::tear_down(spec.prefix)), 8);  // and the orphan
  EXPECT_TRUE(list_namespaces(spec.prefix).empty());
  EXPECT_EQ(must(Fabric::tear_down(spec.prefix)), 0);
}

TEST(Fabric, IsFoundAgainByAnotherObject) {
  const FabricSpec spec = small();
  Fabric fabric = must(Fabric::raise(spec));
  Fabric second = must(Fabric::attach(spec.prefix));
  EXPECT_EQ(second.spec().spines, 2);
  EXPECT_TRUE(second.cable_up(1, 2));
  ASSERT_EQ(why(second.cut_cable(1, 2)), "");
  EXPECT_FALSE(fabric.cable_up(1, 2));
}

// Leaf 2's cable to spine 1 dies. Leaf 2 loses the carrier, so its kernel goes on over spine 2 at
// once; leaf 1 cannot know before routing tells it.
TEST(Routing, WithdrawsACableThatDiedBeyondTheSpineAfterTheDelayAndRestoresIt) {
  Fabric fabric = must(Fabric::raise(small()));
  const auto routing = must(Routing::start(fabric, 50ms));
  ASSERT_EQ(why(fabric.cut_cable(2, 1)), "");
  const Time lost = await(*routing, RoutingEvent::Kind::cable_lost, 1);
  EXPECT_EQ(offered(fabric, 1, 2), (std::set<std::uint32_t>{1, 2}));
  EXPECT_EQ(offered(fabric, 2, 1), (std::set<std::uint32_t>{2}));
  const Time withdrawn = await(*routing, RoutingEvent::Kind::withdrawn, 1);
  EXPECT_GE(withdrawn - lost, 50ms);
  EXPECT_EQ(offered(fabric, 1, 2), (std::set<std::uint32_t>{2}));

  ASSERT_EQ(why(fabric.restore_cable(2, 1)), "");
  await(*routing, RoutingEvent::Kind::restored, 1);
  EXPECT_EQ(offered(fabric, 1, 2), (std::set<std::uint32_t>{1, 2}));
  EXPECT_EQ(offered(fabric, 2, 1), (std::set<std::uint32_t>{1, 2}));
  EXPECT_TRUE(routing->complaints().empty()) << routing->complaints().front();
}

TEST(Routing, SurvivesTheLossAndReturnOfEverySpine) {
  Fabric fabric = must(Fabric::raise(small(3, 2)));
  const auto routing = must(Routing::start(fabric, 5ms));
  ASSERT_EQ(why(fabric.cut_spine(1)), "");
  ASSERT_EQ(why(fabric.cut_spine(2)), "");
  await(*routing, RoutingEvent::Kind::withdrawn, 6);
  EXPECT_TRUE(offered(fabric, 1, 2).empty());
  ASSERT_EQ(why(fabric.restore_spine(2)), "");
  await(*routing, RoutingEvent::Kind::restored, 3);
  EXPECT_EQ(offered(fabric, 1, 3), (std::set<std::uint32_t>{2}));
  ASSERT_EQ(why(fabric.restore_spine(1)), "");
  await(*routing, RoutingEvent::Kind::restored, 6);
  for (int leaf = 1; leaf <= 3; ++leaf) {
    for (int remote = 1; remote <= 3; ++remote) {
      if (leaf == remote)
        continue;
      EXPECT_EQ(offered(fabric, leaf, remote), (std::set<std::uint32_t>{1, 2}));
    }
  }
  EXPECT_TRUE(routing->complaints().empty()) << routing->complaints().front();
}

}  // namespace
}  // namespace heddle::lab
