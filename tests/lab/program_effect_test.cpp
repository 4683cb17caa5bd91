// What the kernel says of a pin and what its packets do: counted where they leave, they have the
// last word.
#include <fmt/format.h>
#include <sys/socket.h>

#include <cstdio>

#include "tests/lab/agent_on_leaf.h"
#include "tests/lab/each_way.h"
#include "tests/lab/others.h"
#include "tests/lab/rocev2.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// RoCE packets of the host behind p1, to whatever destination.
class Sender {
 public:
  explicit Sender(Leaf& leaf) {
    // By the leaf, which is their first hop.
    const std::string to = to_string(net("10.2.0.0/16"));
    shown(leaf.beyond, fmt::format("ip route add {} via {} dev h1", to, to_string(ip("10.1.1.1"))));
    const SocketAddress own(Leaf::behind("p1"), Leaf::kSourcePort);
    const SocketAddress far("10.2.1.2", kRocePort);
    fd_ = must(leaf.beyond.socket(own.family(), SOCK_DGRAM, 0));
    EXPECT_EQ(::bind(fd_, own.get(), sizeof own.storage), 0);
    EXPECT_EQ(::connect(fd_, far.get(), sizeof far.storage), 0);
  }
  ~Sender() { ::close(fd_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  void send() const {
    const auto head = encode(Bth{.opcode = Opcode::write_middle, .dest_qpn = 200});
    std::array<std::byte, 256> packet{};
    std::ranges::copy(head, packet.begin());
    // What nobody takes is answered by ICMP, which the next call tells.
    (void)::send(fd_, packet.data(), packet.size(), 0);
  }

 private:
  int fd_{-1};
};

class SafetyRule6Effect : public EachEnforcer {
 protected:
  static NodePlan two_pins() {
    NodePlan both = plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.3.1.2", "up2")});
    both.version = {.epoch = 3, .generation = 5};
    return both;
  }
  // Of IPv6 and of marks only packets prove a pin, and nobody sends by p2.
  static std::uint32_t proven_without_packets() {
    return GetParam().enforcer == Enforcer::port_tables && GetParam().family == Family::v4 ? 2 : 0;
  }
};
INSTANTIATE_TEST_SUITE_P(, SafetyRule6Effect, every_enforcer(), name_of_case);

TEST_P(SafetyRule6Effect, APinPastWhichPacketsLeaveIsNamedAlthoughTheKernelCallsItGood) {
  Node n(GetParam().enforcer, true);
  const Sender sender(n.leaf);
  n.say(Welcome{.version = {.epoch = 3, .generation = 5},
                .report_interval = milliseconds{100},
                .lease = seconds{30}});
  n.say(snapshot_of(two_pins()));
  ASSERT_TRUE(n.run_until([&] { return n.installed() == 2; }));
  EXPECT_EQ(n.state().states->effective, proven_without_packets());
  // While it waits, it sends.
  const auto sending_until = [&](const std::function<bool()>& reached) {
    return n.run_until([&] {
      sender.send();
      return reached();
    });
  };
  const std::uint32_t proven = std::max(1U, proven_without_packets());
  ASSERT_TRUE(sending_until([&] { return n.state().states->effective == proven; }));

  // By what the kernel is not asked about: it goes on saying that the pin's route would be taken.
  const std::string family = tested_family == Family::v6 ? "-6" : "-4";
  const std::string rule =
      fmt::format("pref 100 ipproto udp sport {} lookup 77 protocol 99", Leaf::kSourcePort);
  n.leaf.at_leaf.add_route(
      {.destination = net("10.2.0.0/16"), .nexthop_id = 3, .table = 77, .protocol = kOther});
  n.leaf.commit();
  shown(n.leaf.leaf, fmt::format("ip {} rule add {}", family, rule));
  const Time begin = n.clock.now();
  ASSERT_TRUE(sending_until([&] { return !n.state().failed.empty(); }));
  std::printf("[ measured ] seen leaving elsewhere %.0f ms after the rule, at reports of 100 ms\n",
              lab::milliseconds(n.clock.now() - begin));
  const Acknowledgement wrong = n.state();
  ASSERT_EQ(wrong.failed.size(), 1U);
  EXPECT_EQ(wrong.failed[0].reason, "not effective: seen leaving by up3");
  EXPECT_EQ(wrong.failed[0].unit, pin("p1", "10.2.1.2", "up1").unit);
  EXPECT_EQ(wrong.installed, 1U);
  EXPECT_EQ(wrong.states->installed, 2U);
  EXPECT_EQ(wrong.states->effective, proven - 1);
  EXPECT_EQ(n.leaf.pinned_to("p1", "10.2.1.2"), "up1") << "it stays";

  shown(n.leaf.leaf, fmt::format("ip {} rule del {}", family, rule));
  ASSERT_TRUE(sending_until([&] { return n.state().failed.empty(); }));
  EXPECT_EQ(n.installed(), 2U);
  EXPECT_EQ(n.state().states->effective, proven);
}

}  // namespace
}  // namespace heddle::lab
