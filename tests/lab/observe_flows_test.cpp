// The eBPF flow source on a real kernel: a leaf with two uplinks to one spine, and packets whose
// number and size the test knows.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "agent/observe/tc_bpf_source.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"

namespace heddle::lab {
namespace {

// Operations of the base transport header, by InfiniBand's numbers.
constexpr std::uint8_t kWriteFirst = 0x06;
constexpr std::uint8_t kWriteMiddle = 0x07;
constexpr std::uint8_t kReadRequest = 0x0c;
constexpr std::uint8_t kAcknowledge = 0x11;
constexpr std::uint16_t kRocePort = 4791;

constexpr std::uint64_t kEthernet = 14;
constexpr std::uint64_t kIp4Udp = 20 + 8;
constexpr std::uint64_t kIp6Udp = 40 + 8;

IpAddress ip(const char* text) {
  return must(IpAddress::parse(text));
}

Time boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return Time{std::chrono::seconds{now.tv_sec} + Duration{now.tv_nsec}};
}

// What a UDP packet to port 4791 carries, of `size` octets in all; with a RETH if `message` is not
// 0.
std::vector<std::uint8_t> roce(std::uint8_t operation, std::uint32_t qpn, std::size_t size,
                               std::uint32_t message = 0) {
  std::vector<std::uint8_t> packet(size);
  packet[0] = operation;
  for (int i = 0; i < 3; ++i)
    packet[5 + i] = static_cast<std::uint8_t>(qpn >> (16 - 8 * i));
  if (message != 0) {
    for (int i = 0; i < 4; ++i)
      packet[24 + i] = static_cast<std::uint8_t>(message >> (24 - 8 * i));
  }
  return packet;
}

struct Target {
  IpAddress address;
  std::uint16_t port{kRocePort};
};

// A UDP socket of a namespace, bound to a source port.
class Sender {
 public:
  Sender(const NetNamespace& where, int family, std::uint16_t source_port)
      : family_(family), fd_(must(where.socket(family, SOCK_DGRAM, 0))) {
    const auto [address, length] =
        socket_address({ip(family == AF_INET ? "0.0.0.0" : "::"), source_port});
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      throw std::runtime_error("bind");
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() { ::close(fd_); }

  void send(const Target& to, std::span<const std::uint8_t> packet) {
    const auto [address, length] = socket_address(to);
    ASSERT_EQ(::sendto(fd_, packet.data(), packet.size(), 0,
                       reinterpret_cast<const sockaddr*>(&address), length),
              static_cast<ssize_t>(packet.size()));
  }
  // One buffer that the kernel cuts into packets of `size` as late as it can.
  void cut_into(int size) {
    ASSERT_EQ(::setsockopt(fd_, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
  }

 private:
  std::pair<sockaddr_storage, socklen_t> socket_address(const Target& to) const {
    sockaddr_storage storage{};
    if (family_ == AF_INET) {
      auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
      v4.sin_family = AF_INET;
      v4.sin_port = htons(to.port);
      std::copy_n(to.address.octets.begin(), 4, reinterpret_cast<std::uint8_t*>(&v4.sin_addr));
      return {storage, sizeof(v4)};
    }
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(to.port);
    std::copy_n(to.address.octets.begin(), 16, reinterpret_cast<std::uint8_t*>(&v6.sin6_addr));
    return {storage, sizeof(v6)};
  }

  int family_;
  int fd_;
};

class FlowSourceTest : public ::testing::Test {
 protected:
  FlowSourceTest() {
    for (const char* number : {"1", "2"})
      cable(number);
    // Two destinations, one by each uplink, so that the test knows which way a flow goes.
    net_leaf.add_route({.destination = Prefix::host(ip("10.2.1.2")),
                        .gateway = ip("10.101.1.2"),
                        .device = "up1"});
    net_leaf.add_route({.destination = Prefix::host(ip("10.2.2.2")),
                        .gateway = ip("10.101.2.2"),
                        .device = "up2"});
    EXPECT_EQ(why(net_leaf.commit()), "");
  }

  void cable(const std::string& number) {
    const std::string up = "up" + number;
    const std::string down = "d" + number;
    net_leaf.add_veth(up, net_spine, down, 4200);
    net_leaf.set_up(up);
    net_leaf.add_address(up, ip(("10.101." + number + ".1").c_str()), 30);
    EXPECT_EQ(why(net_leaf.commit()), "");
    net_spine.set_up(down);
    net_spine.add_address(down, ip(("10.101." + number + ".2").c_str()), 30);
    EXPECT_EQ(why(net_spine.commit()), "");
  }

  // The exit code of `tc ARGUMENTS` on the leaf.
  int tc(const std::string& arguments) const {
    return std::system(
        ("ip netns exec " + leaf.name() + " tc " + arguments + " >/dev/null 2>&1").c_str());
  }
  std::string tc_shows(const std::string& arguments) const {
    std::string text;
    FILE* pipe = ::popen(("ip netns exec " + leaf.name() + " tc " + arguments).c_str(), "r");
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;)
      text.push_back(static_cast<char>(c));
    ::pclose(pipe);
    return text;
  }

  static const FlowCounter* find(const FlowReading& reading, std::uint32_t qpn) {
    const auto found = std::ranges::find(reading.flows, qpn, &FlowCounter::dest_qpn);
    return found == reading.flows.end() ? nullptr : &*found;
  }

  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace spine = must(NetNamespace::create(unique_namespace_name("spine")));
  Netlink net_leaf = must(Netlink::open(leaf));
  Netlink net_spine = must(Netlink::open(spine));
  InNamespace inside{leaf};
  const Target by_up1{ip("10.2.1.2")};
  const Target by_up2{ip("10.2.2.2")};
};
using SafetyRule1FlowSource = FlowSourceTest;
using SafetyRule5FlowSource = FlowSourceTest;
using SafetyRule7FlowSource = FlowSourceTest;

// As a host's agent would have it wrapped: IPv4 and IPv6 behind an outer header and two segments.
TEST_F(FlowSourceTest, SeesThroughWhatSegmentRoutingWrapsAroundAPacket) {
  const auto configure = [&](const std::string& arguments) {
    return std::system(("ip -n " + leaf.name() + " " + arguments).c_str());
  };
  const std::string wrap = " encap seg6 mode encap segs fd00:2::1,fd00:3::1 dev up1";
  ASSERT_EQ(configure("-6 address add fd00:101:1::1/64 dev up1 nodad"), 0);
  ASSERT_EQ(configure("-6 neighbour replace fd00:101:1::2 lladdr 02:00:00:00:00:01 dev up1"), 0);
  ASSERT_EQ(configure("-6 route add fd00:2::/32 via fd00:101:1::2 dev up1"), 0);
  ASSERT_EQ(configure("route add 10.2.3.2/32" + wrap), 0);
  ASSERT_EQ(configure("-6 route add fd00:10::2/128" + wrap), 0);
  TcBpfSource source({"up*"});
  ASSERT_TRUE(source.probe().front().usable) << source.probe().front().reason;

  Sender four(leaf, AF_INET, 51986);
  for (int i = 0; i < 3; ++i)
    four.send({ip("10.2.3.2")}, roce(kWriteFirst, 0x44, 1000, 8 << 20));
  Sender six(leaf, AF_INET6, 49593);
  for (int i = 0; i < 2; ++i)
    six.send({ip("fd00:10::2")}, roce(kWriteMiddle, 0x66, 1000));

  constexpr std::uint64_t kWrapping = 40 + 8 + 2 * 16;
  const FlowReading reading = must(source.read(boot_now()));
  ASSERT_EQ(reading.flows.size(), 2U);
  const FlowCounter* const a = find(reading, 0x44);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->destination, ip("10.2.3.2"));
  EXPECT_EQ(a->source_port, 51986);
  EXPECT_EQ(a->out_port, "up1");
  EXPECT_EQ(a->packets, 3U);
  EXPECT_EQ(a->bytes.value, 3 * (kEthernet + kWrapping + kIp4Udp + 1000));
  EXPECT_EQ(a->message_length.value, 8U << 20U);
  const FlowCounter* const b = find(reading, 0x66);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->destination, ip("fd00:10::2"));
  EXPECT_EQ(b->source_port, 49593);
  EXPECT_EQ(b->packets, 2U);
  EXPECT_EQ(b->bytes.value, 2 * (kEthernet + kWrapping + kIp6Udp + 1000));
}

TEST_F(FlowSourceTest, SeesEachSubflowWithItsBytesPacketsMessageLengthAndUplink) {
  TcBpfSource source({"up*"});
  ASSERT_TRUE(source.probe().front().usable) << source.probe().front().reason;
  const Time before = boot_now();

  Sender first(leaf, AF_INET, 51986);
  first.send(by_up1, roce(kWriteFirst, 0x12, 4096 + 32, 8 << 20));
  for (int i = 0; i < 9; ++i)
    first.send(by_up1, roce(kWriteMiddle, 0x12, 4096 + 16));
  // The same ports to the same host, another queue pair.
  for (int i = 0; i < 3; ++i)
    first.send(by_up1, roce(kWriteFirst, 0xfedcba, 1000, 4096));
  Sender second(leaf, AF_INET, 49593);
  for (int i = 0; i < 5; ++i)
    second.send(by_up2, roce(kWriteFirst, 0x99, 2000, 1 << 20));

  const FlowReading reading = must(source.read(boot_now()));
  EXPECT_FALSE(reading.gap);
  ASSERT_EQ(reading.flows.size(), 3u);
  const FlowCounter* a = find(reading, 0x12);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->source, ip("10.101.1.1"));
  EXPECT_EQ(a->destination, ip("10.2.1.2"));
  EXPECT_EQ(a->source_port, 51986);
  EXPECT_EQ(a->out_port, "up1");
  EXPECT_EQ(a->packets, 10u);
  EXPECT_EQ(a->bytes.value, 10 * (kEthernet + kIp4Udp) + (4096 + 32) + 9U * (4096 + 16));
  EXPECT_EQ(a->message_length.value, 8u << 20);
  EXPECT_GE(a->first_seen, before);
  EXPECT_LE(a->first_seen, boot_now());
  const FlowCounter* b = find(reading, 0xfedcba);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->packets, 3u);
  EXPECT_EQ(b->bytes.value, 3 * (kEthernet + kIp4Udp + 1000));
  EXPECT_EQ(b->message_length.value, 4096u);
  const FlowCounter* c = find(reading, 0x99);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->out_port, "up2");
  EXPECT_EQ(c->source_port, 49593);
  EXPECT_EQ(c->bytes.value, 5 * (kEthernet + kIp4Udp + 2000));
}

TEST_F(FlowSourceTest, CountsOnAndKeepsFirstSeen) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  const FlowReading first = must(source.read(boot_now()));
  sender.send(by_up1, roce(kWriteMiddle, 5, 700));
  const FlowReading second = must(source.read(boot_now()));
  ASSERT_NE(find(second, 5), nullptr);
  EXPECT_EQ(find(second, 5)->packets, 2u);
  EXPECT_EQ(find(second, 5)->bytes.value, 2 * (kEthernet + kIp4Udp) + 1200);
  EXPECT_EQ(find(second, 5)->first_seen, find(first, 5)->first_seen);
}

TEST_F(FlowSourceTest, TellsAMessagesLengthForTheIntervalInWhichItBegan) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 3 << 20));
  EXPECT_EQ(find(must(source.read(boot_now())), 5)->message_length.value, 3u << 20);
  sender.send(by_up1, roce(kWriteMiddle, 5, 500));
  EXPECT_EQ(find(must(source.read(boot_now())), 5)->message_length.value, 0u);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 2 << 20));
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  EXPECT_EQ(find(must(source.read(boot_now())), 5)->message_length.value, 2u << 20);
}

TEST_F(FlowSourceTest, ReportsAcknowledgementsAsTheSmallPacketsThatTheyAre) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  for (int i = 0; i < 4; ++i)
    sender.send(by_up1, roce(kAcknowledge, 5, 20));
  const FlowReading reading = must(source.read(boot_now()));
  ASSERT_NE(find(reading, 5), nullptr);
  EXPECT_EQ(find(reading, 5)->bytes.value, 4 * (kEthernet + kIp4Udp + 20));
  EXPECT_EQ(find(reading, 5)->message_length.value, 0u);
}

TEST_F(FlowSourceTest, DoesNotTakeTheLengthOfAReadForDataThatGoThisWay) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kReadRequest, 5, 32, 64 << 20));
  const FlowReading reading = must(source.read(boot_now()));
  ASSERT_NE(find(reading, 5), nullptr);
  EXPECT_EQ(find(reading, 5)->message_length.value, 0u);
}

TEST_F(FlowSourceTest, LooksAtNothingButRoce) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.send({ip("10.2.1.2"), kRocePort + 1}, roce(kWriteFirst, 5, 500, 1 << 20));
  sender.send(by_up1, std::vector<std::uint8_t>(11));  // too short for a transport header
  std::vector<std::uint8_t> other_version = roce(kWriteFirst, 6, 500, 1 << 20);
  other_version[1] = 0x01;
  sender.send(by_up1, other_version);
  EXPECT_TRUE(must(source.read(boot_now())).flows.empty());
}

TEST_F(FlowSourceTest, CountsEveryPacketOfABufferThatIsCutLate) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.cut_into(1024);
  std::vector<std::uint8_t> buffer = roce(kWriteFirst, 5, 1024, 1 << 20);
  for (int i = 1; i < 8; ++i) {
    const std::vector<std::uint8_t> next = roce(kWriteMiddle, 5, 1024);
    buffer.insert(buffer.end(), next.begin(), next.end());
  }
  sender.send(by_up1, buffer);
  const FlowReading reading = must(source.read(boot_now()));
  ASSERT_NE(find(reading, 5), nullptr);
  EXPECT_EQ(find(reading, 5)->packets, 8u);
  EXPECT_EQ(find(reading, 5)->bytes.value, 8 * (kEthernet + kIp4Udp + 1024));
}

TEST_F(FlowSourceTest, SeesIpVersion6) {
  // Addresses are usable at once, without waiting for a duplicate to speak up.
  for (const char* port : {"up1"}) {
    const std::string accept = std::string("net/ipv6/conf/") + port + "/accept_dad";
    ASSERT_EQ(why(leaf.set_sysctl(accept, "0")), "");
  }
  ASSERT_EQ(why(spine.set_sysctl("net/ipv6/conf/d1/accept_dad", "0")), "");
  net_leaf.add_address("up1", ip("fd00::1"), 64);
  ASSERT_EQ(why(net_leaf.commit()), "");
  net_spine.add_address("d1", ip("fd00::2"), 64);
  ASSERT_EQ(why(net_spine.commit()), "");

  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET6, 50000);
  const Target target{ip("fd00::2")};
  for (int i = 0; i < 3; ++i)
    sender.send(target, roce(kWriteFirst, 5, 500, 1 << 20));
  const FlowReading reading = must(source.read(boot_now()));
  ASSERT_NE(find(reading, 5), nullptr);
  EXPECT_EQ(find(reading, 5)->source, ip("fd00::1"));
  EXPECT_EQ(find(reading, 5)->destination, ip("fd00::2"));
  EXPECT_EQ(find(reading, 5)->packets, 3u);
  EXPECT_EQ(find(reading, 5)->bytes.value, 3 * (kEthernet + kIp6Udp + 500));
}

TEST_F(FlowSourceTest, ReplacesTheFilterOfAnAgentThatWasKilled) {
  std::optional<TcBpfSource> before(std::in_place, std::vector<std::string>{"up*"});
  TcBpfSource after({"up*"});
  EXPECT_TRUE(after.probe().front().usable) << after.probe().front().reason;
  before.reset();  // must not take away what is not its own any more
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  const FlowReading reading = must(after.read(boot_now()));
  EXPECT_FALSE(reading.gap);
  ASSERT_NE(find(reading, 5), nullptr);
}

TEST_F(FlowSourceTest, ChecksBesideARunningAgentWithoutDisturbingIt) {
  TcBpfSource running({"up*"});
  EXPECT_TRUE(TcBpfSource::check({"up*"}).usable);
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  const FlowReading reading = must(running.read(boot_now()));
  EXPECT_FALSE(reading.gap);
  EXPECT_NE(find(reading, 5), nullptr);
}

TEST_F(FlowSourceTest, IsUnusableWithAReasonWhereNoPortMatches) {
  TcBpfSource source({"nosuch*"});
  EXPECT_FALSE(source.probe().front().usable);
  EXPECT_NE(source.probe().front().reason.find("nosuch*"), std::string::npos);
  EXPECT_EQ(source.read(boot_now()).error().code, Errc::unobservable);
}

TEST_F(FlowSourceTest, IsUnusableWithAReasonWithoutItsCapabilities) {
  SourceCapability able;
  std::thread([&] {
    // The raw call changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    able = TcBpfSource({"up*"}).probe().front();
  }).join();
  EXPECT_FALSE(able.usable);
  EXPECT_NE(able.reason.find("CAP_BPF"), std::string::npos) << able.reason;
}

// What the unit grants, and no more: the kernel tells some things only to CAP_SYS_ADMIN.
TEST_F(FlowSourceTest, NeedsNoMoreThanItsTwoCapabilities) {
  TcBpfSource killed({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  std::thread([&] {
    constexpr std::uint32_t kNetAdmin = 1U << 12;
    constexpr std::uint32_t kBpf = 1U << (39 - 32);
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const __user_cap_data_struct keep[2] = {{kNetAdmin, kNetAdmin, 0}, {kBpf, kBpf, 0}};
    ASSERT_EQ(::syscall(SYS_capset, &header, keep), 0);
    TcBpfSource source({"up*"});
    EXPECT_EQ(source.probe().front().reason, "");
    sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
    const FlowReading reading = must(source.read(boot_now()));
    EXPECT_FALSE(reading.gap);
    EXPECT_NE(find(reading, 5), nullptr);
  }).join();
}

TEST_F(SafetyRule1FlowSource, AForeignFilterStaysAndGoesOnBeingAsked) {
  ASSERT_EQ(tc("qdisc add dev up1 clsact"), 0);
  // Later than ours, so it is asked only if ours hands the packet on; it drops what it sees.
  ASSERT_EQ(tc("filter add dev up1 egress prio 40000 protocol ip bpf da bytecode '1,6 0 0 2'"), 0);
  const std::uint64_t received_before = [&] {
    for (const LinkSeen& link : must(net_spine.links()))
      if (link.name == "d1")
        return link.rx_bytes;
    return std::uint64_t{0};
  }();
  {
    TcBpfSource source({"up*"});
    ASSERT_TRUE(source.probe().front().usable) << source.probe().front().reason;
    Sender sender(leaf, AF_INET, 50000);
    for (int i = 0; i < 3; ++i)
      sender.send(by_up1, roce(kWriteFirst, 5, 4000, 1 << 20));
    EXPECT_NE(find(must(source.read(boot_now())), 5), nullptr);
    EXPECT_NE(tc_shows("filter show dev up1 egress").find("heddle_egress"), std::string::npos);
  }
  for (const LinkSeen& link : must(net_spine.links())) {
    if (link.name == "d1") {
      EXPECT_LT(link.rx_bytes - received_before, 3 * 4000u) << "the foreign filter was not asked";
    }
  }
  const std::string left = tc_shows("filter show dev up1 egress");
  EXPECT_NE(left.find("pref 40000"), std::string::npos) << left;
  EXPECT_EQ(left.find("heddle_egress"), std::string::npos) << left;
}

TEST_F(SafetyRule1FlowSource, AForeignFilterInOurPlaceIsNamedAndLeftAlone) {
  ASSERT_EQ(tc("qdisc add dev up1 clsact"), 0);
  ASSERT_EQ(tc("filter add dev up1 egress prio 18800 handle 1 bpf bytecode '1,6 0 0 0'"), 0);
  {
    TcBpfSource source({"up*"});
    const SourceCapability able = source.probe().front();
    EXPECT_TRUE(able.usable) << "up2 is free";
    EXPECT_NE(able.reason.find("up1"), std::string::npos) << able.reason;
    EXPECT_TRUE(must(source.read(boot_now())).gap) << "what leaves by up1 is not seen";
  }
  EXPECT_NE(tc_shows("filter show dev up1 egress").find("bytecode"), std::string::npos);
}

TEST_F(SafetyRule5FlowSource, AnInterfaceThatIsMadeAgainIsWatchedAgain) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  must(source.read(boot_now()));

  net_leaf.delete_link("up1");
  ASSERT_EQ(why(net_leaf.commit()), "");
  source.links_changed();
  EXPECT_TRUE(source.probe().front().usable) << "up2 is still there";
  cable("1");
  net_leaf.add_route(
      {.destination = Prefix::host(ip("10.2.1.2")), .gateway = ip("10.101.1.2"), .device = "up1"});
  ASSERT_EQ(why(net_leaf.commit()), "");
  source.links_changed();
  sender.send(by_up1, roce(kWriteFirst, 5, 600, 1 << 20));

  const FlowReading reading = must(source.read(boot_now()));
  EXPECT_TRUE(reading.gap) << "the last bytes through the old one are not known";
  ASSERT_EQ(reading.flows.size(), 1u);
  EXPECT_EQ(reading.flows[0].out_port, "up1");
  EXPECT_EQ(reading.flows[0].bytes.value, kEthernet + kIp4Udp + 600);
  EXPECT_FALSE(must(source.read(boot_now())).gap);
}

TEST_F(SafetyRule7FlowSource, AFilterThatSomebodyRemovedIsAGapAndIsPutBack) {
  TcBpfSource source({"up*"});
  must(source.read(boot_now()));
  ASSERT_EQ(tc("qdisc del dev up1 clsact"), 0);
  EXPECT_TRUE(must(source.read(boot_now())).gap);
  Sender sender(leaf, AF_INET, 50000);
  sender.send(by_up1, roce(kWriteFirst, 5, 500, 1 << 20));
  const FlowReading reading = must(source.read(boot_now()));
  EXPECT_FALSE(reading.gap);
  EXPECT_NE(find(reading, 5), nullptr);
}

TEST_F(SafetyRule7FlowSource, MoreSubflowsThanTheTableHoldsAreAGap) {
  TcBpfSource source({"up*"});
  Sender sender(leaf, AF_INET, 50000);
  constexpr std::uint32_t kMany = 20000;
  for (std::uint32_t qpn = 0; qpn < kMany; ++qpn)
    sender.send(by_up1, roce(kWriteMiddle, qpn, 16));
  const FlowReading reading = must(source.read(boot_now()));
  EXPECT_TRUE(reading.gap);
  EXPECT_LT(reading.flows.size(), kMany);
  EXPECT_GT(reading.flows.size(), 10000u);
}

}  // namespace
}  // namespace heddle::lab
