#include "tests/lab/netns.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"

namespace heddle::lab {
namespace {

IpAddress ip(const char* text) {
  return must(IpAddress::parse(text));
}

// a -- b: one veth pair, both ends up and addressed.
struct Pair {
  NetNamespace a = must(NetNamespace::create(unique_namespace_name("a")));
  NetNamespace b = must(NetNamespace::create(unique_namespace_name("b")));
  Netlink net_a = must(Netlink::open(a));
  Netlink net_b = must(Netlink::open(b));

  Pair() {
    net_a.add_veth("left", net_b, "right", 4200);
    net_a.set_up("left");
    net_a.add_address("left", ip("10.9.0.1"), 30);
    EXPECT_TRUE(net_a.commit());
    net_b.set_up("right");
    net_b.add_address("right", ip("10.9.0.2"), 30);
    EXPECT_TRUE(net_b.commit());
  }
};

TEST(NetNamespace, IsSeenByNameWhileItLivesAndNotAfter) {
  const std::string name = unique_namespace_name("x");
  {
    const NetNamespace space = must(NetNamespace::create(name));
    EXPECT_TRUE(std::filesystem::exists("/run/netns/" + name));
    EXPECT_EQ(NetNamespace::create(name).error().code, Errc::duplicate);
  }
  EXPECT_FALSE(std::filesystem::exists("/run/netns/" + name));
}

TEST(NetNamespace, RunsAFunctionInsideAndLeavesTheCallerOutside) {
  const auto here = std::filesystem::read_symlink("/proc/thread-self/ns/net");
  const NetNamespace space = must(NetNamespace::create(unique_namespace_name("x")));
  const auto inside =
      space.run([] { return std::filesystem::read_symlink("/proc/thread-self/ns/net"); });
  EXPECT_NE(inside, here);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/thread-self/ns/net"), here);
}

TEST(LabNetlink, JoinsTwoNamespacesSoThatPacketsCross) {
  Pair pair;
  const int sender = must(pair.a.socket(AF_INET, SOCK_DGRAM, 0));
  const int receiver = must(pair.b.socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  address.sin_addr.s_addr = inet_addr("10.9.0.2");
  ASSERT_EQ(::bind(receiver, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(
      ::sendto(sender, "shuttle", 7, 0, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 7);
  pollfd ready{.fd = receiver, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&ready, 1, 2000), 1);
  std::array<char, 16> text{};
  EXPECT_EQ(::recv(receiver, text.data(), text.size(), 0), 7);
  ::close(sender);
  ::close(receiver);
}

TEST(LabNetlink, ReadsBackTheRoutesRulesAndNextHopsItWrote) {
  Pair pair;
  const std::array<std::uint32_t, 1> members{7};
  pair.net_a.set_nexthop(7, ip("10.9.0.2"), "left", Write::create);
  pair.net_a.set_group(70, members);
  pair.net_a.add_route({.destination = must(Prefix::parse("10.50.0.0/16")), .nexthop_id = 70});
  pair.net_a.add_route({.destination = Prefix::host(ip("10.60.0.1")),
                        .gateway = ip("10.9.0.2"),
                        .device = "left",
                        .table = 18801,
                        .protocol = 188});
  const RuleSpec rule{.in_port = "left", .table = 18801, .priority = 1880, .protocol = 188};
  pair.net_a.add_rule(rule);
  ASSERT_EQ(why(pair.net_a.commit()), "");

  int through_group = 0;
  int pins = 0;
  for (const RouteSeen& route : must(pair.net_a.routes())) {
    through_group += route.nexthop_id == 70 && route.protocol == RTPROT_BGP;
    pins += route.table == 18801 && route.protocol == 188;
  }
  EXPECT_EQ(through_group, 1);
  EXPECT_EQ(pins, 1);
  const auto rules = must(pair.net_a.rules());
  EXPECT_EQ(std::count(rules.begin(), rules.end(), rule), 1);
  const auto hops = must(pair.net_a.nexthops());
  ASSERT_EQ(hops.size(), 2U);
  EXPECT_EQ(hops[0].gateway, ip("10.9.0.2"));
  EXPECT_EQ(hops[1].members, std::vector<std::uint32_t>{7});

  pair.net_a.delete_rule(rule);
  pair.net_a.delete_nexthop(7);
  ASSERT_TRUE(pair.net_a.commit());
  const auto left = must(pair.net_a.rules());
  EXPECT_EQ(std::count(left.begin(), left.end(), rule), 0);
}

TEST(LabNetlink, TellsWhichMessageOfABatchTheKernelRefusedAndDoesTheRest) {
  Pair pair;
  pair.net_a.set_nexthop(7, ip("10.9.0.2"), "left");
  pair.net_a.set_nexthop(8, ip("10.77.0.1"), "left");  // not on link
  pair.net_a.set_nexthop(9, ip("10.9.0.2"), "left");
  const auto result = pair.net_a.commit();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kernel);
  EXPECT_NE(result.error().message.find("nexthop 8"), std::string::npos) << result.error().message;
  EXPECT_EQ(must(pair.net_a.nexthops()).size(), 2U);
}

TEST(LabNetlink, TakesCarrierAwayFromTheOtherEnd) {
  Pair pair;
  pair.net_b.set_up("right", false);
  pair.net_b.set_mtu("right", 1500);
  ASSERT_TRUE(pair.net_b.commit());
  bool seen = false;
  for (const LinkSeen& link : must(pair.net_a.links())) {
    if (link.name != "left")
      continue;
    seen = true;
    EXPECT_TRUE(link.up);
    EXPECT_FALSE(link.carrier);
  }
  EXPECT_TRUE(seen);
}

// 100 packets of 4,000 octets are 3 s at 1 Mbit/s; a bucket of 32 KiB lets the first 8 pass.
TEST(LabNetlink, LetsWhatWantsLowDelayGoBeforeAFullQueue) {
  constexpr int kWaiting = 100;
  Pair pair;
  pair.net_a.add_tbf("left", 1_mbps, 32768, 1 << 20);
  pair.net_a.add_priority_bands("left");
  ASSERT_EQ(why(pair.net_a.commit()), "");
  const int receiver = must(pair.b.socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  address.sin_addr.s_addr = inet_addr("10.9.0.2");
  ASSERT_EQ(::bind(receiver, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const int data = must(pair.a.socket(AF_INET, SOCK_DGRAM, 0));
  const int urgent = must(pair.a.socket(AF_INET, SOCK_DGRAM, 0));
  const int room = 4 << 20;  // or it waits until the queue has drained
  ASSERT_EQ(::setsockopt(data, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)), 0);
  const int low_delay = IPTOS_LOWDELAY;
  ASSERT_EQ(::setsockopt(urgent, IPPROTO_IP, IP_TOS, &low_delay, sizeof(low_delay)), 0);
  const std::vector<char> packet(4000);
  const auto send = [&](int socket, std::size_t size) {
    EXPECT_EQ(::sendto(socket, packet.data(), size, 0, reinterpret_cast<sockaddr*>(&address),
                       sizeof(address)),
              static_cast<ssize_t>(size));
  };
  for (int i = 0; i < kWaiting; ++i)
    send(data, packet.size());
  send(urgent, 10);
  int before = 0;
  for (std::array<char, 4096> got{};; ++before) {
    pollfd ready{.fd = receiver, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, 2000), 1);
    if (::recv(receiver, got.data(), got.size(), 0) == 10)
      break;
  }
  EXPECT_LT(before, kWaiting / 2);
  for (const int socket : {receiver, data, urgent})
    ::close(socket);
}

TEST(LabNetlink, ShapesAndHooksAnInterface) {
  Pair pair;
  pair.net_a.add_tbf("left", 25_mbps, 32768, 1 << 20);
  pair.net_a.add_clsact("left");
  ASSERT_EQ(why(pair.net_a.commit()), "");
  pair.net_a.add_clsact("left");
  EXPECT_FALSE(pair.net_a.commit());  // there is one already
  pair.net_a.delete_root_qdisc("left");
  EXPECT_TRUE(pair.net_a.commit());
}

}  // namespace
}  // namespace heddle::lab
