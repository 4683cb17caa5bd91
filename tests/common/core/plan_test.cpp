#include "common/core/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace heddle {
namespace {

Pin pin(const char* port, const char* destination, const char* uplink, const char* reason = "") {
  return {ByPortAndDestination{port, *IpAddress::parse(destination)}, PortTableRoute{uplink},
          reason};
}

NodePlan plan(PlanVersion version, std::vector<Pin> pins) {
  return {"leaf1", version, std::move(pins)};
}

// p1 moves from up1 to up2, p2 stays, p3 goes, p4 comes.
TEST(PlanDiff, NamesOnlyWhatChanges) {
  const NodePlan from =
      plan({1, 1}, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.2.2", "up2", "old words"),
                    pin("p3", "10.2.3.2", "up3")});
  const NodePlan to =
      plan({1, 2}, {pin("p1", "10.2.1.2", "up2"), pin("p2", "10.2.2.2", "up2", "new words"),
                    pin("p4", "10.2.4.2", "up3")});
  const PlanDiff change = diff(from, to);
  EXPECT_EQ(change.set, (std::vector{to.pins[0], to.pins[2]}));
  EXPECT_EQ(change.removed, (std::vector{from.pins[2].unit}));
  // A reason alone is no change: nothing is sent for it, and the old words stay.
  NodePlan expected = to;
  expected.pins[1].reason = "old words";
  EXPECT_EQ(apply(from, change), expected);
}

TEST(PlanDiff, AppliedGivesTheTargetForRandomPlans) {
  constexpr unsigned kSeed = 20250305;
  RecordProperty("seed", kSeed);
  std::mt19937 random(kSeed);
  const auto draw = [&](PlanVersion version) {
    std::vector<Pin> pins;
    for (int port = 1; port <= 8; ++port) {
      for (int host = 1; host <= 8; ++host) {
        if (random() % 2)
          pins.push_back(pin(fmt::format("p{}", port).c_str(),
                             fmt::format("10.2.{}.2", host).c_str(),
                             fmt::format("up{}", random() % 4).c_str()));
      }
    }
    return plan(version, std::move(pins));
  };
  for (std::uint64_t i = 0; i < 200; ++i) {
    const NodePlan from = draw({1, i}), to = draw({1, i + 1});
    EXPECT_EQ(apply(from, diff(from, to)), to) << "seed " << kSeed << ", round " << i;
  }
}

TEST(PlanDiff, OnAnotherBaseIsAGap) {
  const NodePlan v1 = plan({1, 1}, {}), v2 = plan({1, 2}, {pin("p1", "10.2.1.2", "up1")});
  const NodePlan v3 = plan({1, 3}, {pin("p1", "10.2.1.2", "up2")});
  EXPECT_EQ(apply(v1, diff(v2, v3)).error().code, Errc::gap);
}

TEST(PlanDiff, ForSomebodyElseIsRefused) {
  NodePlan other = plan({1, 2}, {});
  other.node = "leaf2";
  EXPECT_EQ(apply(plan({1, 1}, {}), diff(plan({1, 1}, {}), other)).error().code, Errc::wrong_node);
}

TEST(PlanDiff, ThatDoesNotGiveTheAnnouncedPinsIsRefused) {
  const NodePlan from = plan({1, 1}, {}), to = plan({1, 2}, {pin("p1", "10.2.1.2", "up1")});
  PlanDiff change = diff(from, to);
  change.set[0].target = PortTableRoute{"up4"};
  EXPECT_EQ(apply(from, change).error().code, Errc::invalid_argument);
}

TEST(SafetyRule4, AnOlderPlanNeverReplacesANewerOne) {
  struct Row {
    PlanVersion incoming, seen;
    bool taken;
  };
  for (const Row& row :
       {Row{{1, 5}, {1, 4}, true}, Row{{1, 4}, {1, 4}, true}, Row{{1, 3}, {1, 4}, false},
        Row{{2, 1}, {1, 9}, true}, Row{{1, 9}, {2, 1}, false}}) {
    const auto result = accept_plan(plan(row.incoming, {}), "leaf1", row.seen);
    EXPECT_EQ(result.has_value(), row.taken)
        << to_string(row.incoming) << " on " << to_string(row.seen);
    if (!row.taken) {
      EXPECT_EQ(result.error().code, Errc::stale_plan);
    }
  }
  const NodePlan newer = plan({2, 1}, {});
  EXPECT_EQ(apply(newer, diff(plan({1, 1}, {}), plan({1, 2}, {}))).error().code, Errc::stale_plan);
}

TEST(SafetyRule10, AMalformedPlanIsNotAccepted) {
  const std::string long_name(16, 'x');
  for (const Pin& bad :
       {pin("", "10.2.1.2", "up1"), pin("p/1", "10.2.1.2", "up1"), pin("p1", "0.0.0.0", "up1"),
        pin("p1", "10.2.1.2", ""), pin("p1", "10.2.1.2", long_name.c_str()),
        pin("p 1", "10.2.1.2", "up1"), pin("..", "10.2.1.2", "up1"),
        Pin{ByDestination{*IpAddress::parse("10.2.1.2")}, SegmentList{}, ""}}) {
    EXPECT_FALSE(accept_plan(plan({1, 1}, {bad}), "leaf1", {}))
        << to_string(bad.unit) << " " << to_string(bad.target);
  }
  const Pin a = pin("p1", "10.2.1.2", "up1"), b = pin("p2", "10.2.1.2", "up1");
  EXPECT_TRUE(accept_plan(plan({1, 1}, {a, b}), "leaf1", {}));
  EXPECT_FALSE(accept_plan(plan({1, 1}, {b, a}), "leaf1", {})) << "out of order";
  EXPECT_FALSE(accept_plan(plan({1, 1}, {a, a}), "leaf1", {})) << "twice";
}

// The value is written down: agents and coordinators of different versions must agree on it.
TEST(Digest, IsTheSameOnEveryMachineAndInEveryVersion) {
  EXPECT_EQ(digest({}), 0xcbf29ce484222325ULL);
  // Bytes: 01, 02 "p1", 00 0a 02 01 02, 00, 03 "up1".
  std::uint64_t expected = 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte :
       {0x01, 0x02, 0x70, 0x31, 0x00, 0x0a, 0x02, 0x01, 0x02, 0x00, 0x03, 0x75, 0x70, 0x31})
    expected = (expected ^ byte) * 0x100000001b3ULL;
  EXPECT_EQ(digest({pin("p1", "10.2.1.2", "up1", "any reason")}), expected);
  EXPECT_NE(digest({pin("p1", "10.2.1.2", "up2")}), expected);
}

}  // namespace
}  // namespace heddle
