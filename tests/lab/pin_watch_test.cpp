#include "tests/lab/pin_watch.h"

#include "tests/lab/marks_seen.h"
#include "tests/lab/program_lab.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using Kind = TableEvent::Kind;

// The demonstration measures by this when an agent has taken a mark away or moved it.
TEST(PinWatch, TellsOfMarksThatComeMoveAndGo) {
  Leaf leaf;
  const TemporaryDirectory state;
  Agent agent(leaf, state.path(), 4 << 20, {}, programming(Enforcer::flow_marks));
  const auto watch = must(PinWatch::start({{.name = "leaf1", .space = &leaf.leaf}}));
  const auto flow = [](std::uint16_t port) {
    return ByQueuePair{
        .source = ip("10.1.1.2"), .destination = ip("10.2.1.2"), .source_port = port};
  };
  const auto pin = [](std::uint16_t port, const char* uplink) {
    return mark("10.1.1.2", "10.2.1.2", port, uplink);
  };
  const auto tells = [&](Time since, Kind kind, std::uint16_t port) {
    return watch
        ->await(
            since,
            [&](const std::vector<TableEvent>& events) {
              return std::ranges::any_of(events, [&](const TableEvent& event) {
                return event.kind == kind && event.node == "leaf1" && event.flow == flow(port) &&
                       event.protocol == RoutingRanges{}.protocol;
              });
            },
            std::chrono::seconds{5})
        .has_value();
  };
  const auto marks = [&] {
    std::vector<ByQueuePair> flows;
    for (const MarkedFlow& marked : must(marked_flows(leaf.leaf)))
      flows.push_back(marked.flow);
    std::ranges::sort(flows);
    return flows;
  };
  EXPECT_TRUE(marks().empty());
  const Time come = boot_now();
  ASSERT_TRUE(agent.installs(plan(1, {pin(1, "up1"), pin(2, "up2")})));
  EXPECT_TRUE(tells(come, Kind::mark_set, 1));
  EXPECT_EQ(marks(), (std::vector{flow(1), flow(2)}));
  const Time moved = boot_now();
  ASSERT_TRUE(agent.installs(plan(2, {pin(1, "up2"), pin(2, "up2")})));
  EXPECT_TRUE(tells(moved, Kind::mark_set, 1));
  EXPECT_EQ(marks(), (std::vector{flow(1), flow(2)}));
  const Time gone = boot_now();
  ASSERT_TRUE(agent.installs(plan(3, {pin(1, "up2")})));
  EXPECT_TRUE(tells(gone, Kind::mark_removed, 2));
  EXPECT_EQ(marks(), (std::vector{flow(1)}));
}

}  // namespace
}  // namespace heddle::lab
