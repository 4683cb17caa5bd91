#include "tests/lab/fabric.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

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

// Sends to a host on the other leaf by way of a spine that the packet names, as an agent would have
// it wrapped, and returns by how much each uplink of the first leaf has grown.
std::map<std::string, std::uint64_t> sent_by_segments(Fabric& fabric, int spine) {
  const auto configure = [&](const std::string& node, const std::string& words) {
    const std::string command = fmt::format("ip -n {}{} {}", fabric.spec().prefix, node, words);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  };
  configure(NodeName::spine(spine),
            fmt::format("-6 route replace {}/128 encap seg6local action End dev d1",
                        to_string(spine_segment(spine))));
  configure(NodeName::host(2, 1),
            fmt::format("-6 route replace {}/128 encap seg6local action End.DX4 nh4 {} dev eth0",
                        to_string(host_segment(2, 1)), to_string(host_address(2, 1))));
  configure(NodeName::host(1, 1),
            fmt::format("route replace {} encap seg6 mode encap segs {},{} dev eth0",
                        to_string(host_address(2, 1)), to_string(spine_segment(spine)),
                        to_string(host_segment(2, 1))));
  const auto uplinks = [&] {
    std::map<std::string, std::uint64_t> bytes;
    for (const LinkSeen& link : must(fabric.netlink(NodeName::leaf(1)).links()))
      if (link.name.starts_with("up"))
        bytes[link.name] = link.tx_bytes;
    return bytes;
  };
  const auto udp = [&](const std::string& node, const IpAddress& address) {
    const int fd = must(fabric.space(node).socket(AF_INET, SOCK_DGRAM, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(4791);
    std::memcpy(&own.sin_addr, address.octets.data(), sizeof own.sin_addr);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    const timeval patience{.tv_sec = 2, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return std::pair(fd, own);
  };
  const auto [from, from_address] = udp(NodeName::host(1, 1), host_address(1, 1));
  const auto [to, to_address] = udp(NodeName::host(2, 1), host_address(2, 1));
  auto grown = uplinks();
  std::array<char, 1000> payload{};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(::sendto(from, payload.data(), payload.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to_address), sizeof to_address),
              static_cast<ssize_t>(payload.size()));
    EXPECT_EQ(::recv(to, payload.data(), payload.size(), 0), static_cast<ssize_t>(payload.size()))
        << "packet " << i << " by spine " << spine;
  }
  for (const auto& [port, bytes] : uplinks())
    grown[port] = bytes - grown[port];
  ::close(from);
  ::close(to);
  return grown;
}

TEST(Fabric, TakesPacketsByTheSegmentsThatTheyName) {
  FabricSpec spec = small();
  spec.segments = true;
  Fabric fabric = must(Fabric::raise(spec));
  const auto routing = must(Routing::start(fabric, 5ms));
  const auto expect_by = [&](int spine, int other) {
    const auto grown = sent_by_segments(fabric, spine);
    EXPECT_GT(grown.at(fmt::format("up{}", spine)), 10'000U) << "by spine " << spine;
    EXPECT_LT(grown.at(fmt::format("up{}", other)), 2'000U) << "by spine " << spine;
  };
  expect_by(1, 2);
  expect_by(2, 1);
  // A host does not send towards a spine that its leaf has lost, and does again when it is back.
  const auto announced = [&](int host_leaf, int spine) {
    const auto routes = must(fabric.netlink(NodeName::host(host_leaf, 1)).routes(Family::v6));
    return std::ranges::any_of(
        routes, [&](const RouteSeen& route) { return route.destination == spine_segments(spine); });
  };
  EXPECT_TRUE(announced(1, 1));
  ASSERT_EQ(why(fabric.cut_cable(1, 1)), "");
  await(*routing, RoutingEvent::Kind::withdrawn, 1);
  EXPECT_FALSE(announced(1, 1));
  EXPECT_TRUE(announced(2, 1));
  ASSERT_EQ(why(fabric.restore_cable(1, 1)), "");
  await(*routing, RoutingEvent::Kind::restored, 1);
  EXPECT_TRUE(announced(1, 1));
  expect_by(1, 2);
  // Beyond the spine nothing tells the host. The spine sends by another leaf, here back to the
  // first, and that by the other spine.
  ASSERT_EQ(why(fabric.cut_cable(2, 1)), "");
  await(*routing, RoutingEvent::Kind::withdrawn, 2);
  EXPECT_TRUE(announced(1, 1));
  const auto repaired = sent_by_segments(fabric, 1);
  EXPECT_GT(repaired.at("up1"), 10'000U);
  EXPECT_GT(repaired.at("up2"), 10'000U);
  ASSERT_EQ(why(fabric.restore_cable(2, 1)), "");
  await(*routing, RoutingEvent::Kind::restored, 2);
  expect_by(1, 2);
  EXPECT_TRUE(routing->complaints().empty()) << routing->complaints().front();
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
