// A spine whose agent chooses among parallel cables to a leaf: port tables by the cable that
// packets come in by.
#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

// up1 comes from one leaf; up2 and up3 are parallel cables to another.
ProgramConfig of_spine() {
  return {.mode = Mode::program, .uplinks = {"up*"}, .host_ports = {"up*"}, .ranges = {}};
}

class SpineTest : public testing::TestWithParam<Family> {
 public:
  SpineTest() { tested_family = GetParam(); }
  ~SpineTest() override { tested_family = Family::v4; }
};
std::string name_of_family(const testing::TestParamInfo<Family>& info) {
  return info.param == Family::v4 ? "IPv4" : "IPv6";
}
INSTANTIATE_TEST_SUITE_P(, SpineTest, testing::Values(Family::v4, Family::v6), name_of_family);

// How many packets left by a cable: each far end counts what it gets.
std::uint64_t octets(Leaf& spine, int cable) {
  for (const LinkSeen& link : must(spine.at_beyond.links())) {
    if (link.name == "s" + std::to_string(cable))
      return link.rx_bytes;
  }
  return 0;
}

TEST_P(SpineTest, LeadsWhatComesByOneCableDownTheOneThatIsPinnedAndMovesIt) {
  Leaf spine;
  const TemporaryDirectory state;
  Agent agent(spine, state.path(), 4 << 20, {}, of_spine());
  ASSERT_TRUE(agent.programmer->capability().usable) << agent.programmer->capability().reason;
  spine.at_beyond.add_route(
      {.destination = net("10.2.0.0/16"), .gateway = ip(Leaf::network(1) + ".1"), .device = "s1"});
  must(spine.at_beyond.commit());
  const SocketAddress from(Leaf::network(1) + ".2", Leaf::kSourcePort);
  const int sender = must(spine.beyond.socket(from.family(), SOCK_DGRAM, 0));
  ASSERT_EQ(::bind(sender, from.get(), sizeof from.storage), 0);
  constexpr std::size_t kPackets = 200;
  constexpr std::size_t kPayload = 500;
  std::uint64_t generation = 0;
  for (const int cable : {2, 3, 2}) {
    ASSERT_TRUE(agent.installs(plan(++generation, {pin("up1", "10.2.1.2", Leaf::uplink(cable))})));
    const int other = 5 - cable;
    const std::uint64_t before = octets(spine, cable);
    const std::uint64_t before_other = octets(spine, other);
    const std::vector<char> payload(kPayload);
    for (std::size_t i = 0; i < kPackets; ++i) {
      // Different ports, which a hash would spread.
      const SocketAddress to("10.2.1.2", static_cast<std::uint16_t>(4000 + i));
      ASSERT_EQ(::sendto(sender, payload.data(), payload.size(), 0, to.get(), sizeof to.storage),
                static_cast<ssize_t>(payload.size()));
    }
    EXPECT_TRUE(
        agent.run_until([&] { return octets(spine, cable) - before >= kPackets * kPayload; }));
    EXPECT_LT(octets(spine, other) - before_other, 10 * kPayload);
  }
  ::close(sender);
}

TEST_P(SpineTest, FallsBackToTheBundleWhenThePinnedCableLosesItsCarrier) {
  Leaf spine;
  const TemporaryDirectory state;
  Agent agent(spine, state.path(), 4 << 20, {}, of_spine());
  ASSERT_TRUE(agent.installs(plan(1, {pin("up1", "10.2.1.2", "up2")})));
  spine.set_far_end(2, false);
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 0; }));
  EXPECT_EQ(spine.pinned_to("up1", "10.2.1.2"), "");
}

TEST_P(SpineTest, SendsNothingBackWhereItCameFrom) {
  Leaf spine;
  const TemporaryDirectory state;
  Agent agent(spine, state.path(), 4 << 20, {}, of_spine());
  agent.programmer->want(plan(1, {pin("up1", "10.2.1.2", "up1")}));
  ASSERT_TRUE(agent.run_until([&] { return !agent.state().failed.empty(); }));
  EXPECT_EQ(agent.state().failed[0].reason, "what comes in by up1 must not go back by it");
  EXPECT_TRUE(spine.pinned_routes().empty());
}

}  // namespace
}  // namespace heddle::lab
