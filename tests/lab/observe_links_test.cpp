// A whole agent on a real kernel, with the coordinator's end of its channel in the test: what it
// tells, and how soon, when cables and traffic change.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/netlink/netlink_kernel.h"
#include "agent/observe/tc_bpf_source.h"
#include "common/runtime/event_loop.h"
#include "common/runtime/system_clock.h"
#include "tests/agent/fake_node.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

IpAddress ip(const std::string& text) {
  return must(IpAddress::parse(text));
}

// A leaf with two uplinks and one host port, and the other ends of its cables.
class LeafWithCables {
 public:
  LeafWithCables() {
    for (const char* number : {"1", "2"})
      cable(number);
    leaf_net.add_veth("p1", far_net, "h1", 4200);
    leaf_net.set_up("p1");
    leaf_net.add_address("p1", ip("10.1.1.1"), 30);
    must(leaf_net.commit());
    far_net.set_up("h1");
    must(far_net.commit());
  }
  void cable(const std::string& number) {
    leaf_net.add_veth("up" + number, far_net, "d" + number, 4200);
    leaf_net.set_up("up" + number);
    leaf_net.add_address("up" + number, ip("10.101." + number + ".1"), 30);
    must(leaf_net.commit());
    far_net.set_up("d" + number);
    far_net.add_address("d" + number, ip("10.101." + number + ".2"), 30);
    must(far_net.commit());
  }

  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace far = must(NetNamespace::create(unique_namespace_name("far")));
  Netlink leaf_net = must(Netlink::open(leaf));
  Netlink far_net = must(Netlink::open(far));
};

class RealAgentTest : public ::testing::Test {
 protected:
  RealAgentTest() {
    kernel->on_event([this](const KernelEvent& event) { agent.kernel_changed(event); });
    must(agent.start());
    notifications = must(loop->on_readable(kernel->fd(), [this] {
      kernel->ready();
      step();
    }));
    agent.connection_changed(true, "");
    const std::vector<std::byte> welcome = encode(
        {.node = "coordinator",
         .sequence = 1,
         .message = Welcome{
             .version = {1, 1}, .report_interval = milliseconds(100), .lease = seconds(30)}});
    agent.received(welcome);
    step();
    channel.sent.clear();
  }

  void step() {
    agent.step();
    timer = loop->at(agent.next_deadline(), [this] { step(); });
  }
  // Runs the agent until a message of the kind fulfils a condition; false if none does in time.
  template <class T>
  bool await(const std::function<bool(const T&)>& condition) {
    const auto end = std::chrono::steady_clock::now() + seconds(5);
    while (std::chrono::steady_clock::now() < end) {
      for (const T& message : channel.take<T>()) {
        if (condition(message))
          return true;
      }
      must(loop->run_once(milliseconds(100)));
    }
    return false;
  }
  static bool carrier(const LinkChange& change, const std::string& port) {
    for (const PortStatus& status : change.ports) {
      if (status.name == port)
        return status.carrier;
    }
    return false;
  }

  LeafWithCables node;
  InNamespace inside{node.leaf};
  AgentConfig config = FakeNode::configuration();
  SystemClock clock;
  MemoryStore store;
  FakeRecord record;
  FakeChannel channel;
  std::unique_ptr<EventLoop> loop = must(EventLoop::create());
  std::unique_ptr<NetlinkKernel> kernel = must(NetlinkKernel::open({.ranges = config.routing}));
  TcBpfSource flows{config.watched_ports()};
  Agent agent{config,
              {.software = "test", .boot_id = "boot", .instance = 1},
              {.kernel = *kernel,
               .ports = *kernel,
               .ownership = record,
               .flows = flows,
               .store = store,
               .channel = channel,
               .clock = clock}};
  EventSource notifications;
  EventSource timer;
};
using SafetyRule5LinkChange = RealAgentTest;

TEST_F(RealAgentTest, TellsALostCarrierWithinMilliseconds) {
  node.far_net.set_up("d1", false);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(why(node.far_net.commit()), "");
  ASSERT_TRUE(await<LinkChange>(
      [](const LinkChange& change) { return !carrier(change, "up1") && carrier(change, "up2"); }));
  const auto took = std::chrono::steady_clock::now() - begin;
  RecordProperty("told_after_us", static_cast<int>(took / std::chrono::microseconds(1)));
  EXPECT_LT(took, milliseconds(100));

  node.far_net.set_up("d1");
  ASSERT_EQ(why(node.far_net.commit()), "");
  EXPECT_TRUE(await<LinkChange>([](const LinkChange& change) { return carrier(change, "up1"); }));
}

TEST_F(RealAgentTest, ReportsCarrierAndCountersOfItsOwnPortsOnly) {
  EXPECT_TRUE(await<Report>([](const Report& report) {
    std::vector<std::string> names;
    for (const PortStatus& port : report.ports)
      names.push_back(port.name);
    std::ranges::sort(names);
    return names == std::vector<std::string>{"p1", "up1", "up2"};
  }));
}

TEST_F(SafetyRule5LinkChange, AnInterfaceThatIsMadeAgainIsToldAndWatchedAgain) {
  node.leaf_net.delete_link("up1");
  ASSERT_EQ(why(node.leaf_net.commit()), "");
  ASSERT_TRUE(await<LinkChange>([](const LinkChange& change) { return change.ports.size() == 2; }));
  node.cable("1");
  ASSERT_TRUE(await<LinkChange>([](const LinkChange& change) { return carrier(change, "up1"); }));

  const int sender = must(node.leaf.socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4791);
  to.sin_addr.s_addr = ::inet_addr("10.101.1.2");
  std::array<std::uint8_t, 64> packet{0x07, 0, 0, 0, 0, 0, 0, 5};
  ASSERT_EQ(::sendto(sender, packet.data(), packet.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
            static_cast<ssize_t>(packet.size()));
  ::close(sender);
  EXPECT_TRUE(await<Report>([](const Report& report) {
    return report.flows.size() == 1 && report.flows[0].out_port == "up1" &&
           report.flows[0].key.dest_qpn == 5;
  }));
}

}  // namespace
}  // namespace heddle::lab
