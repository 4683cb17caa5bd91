#include "coordinator/history/record_codec.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

PlanRecord record() {
  PlanRecord plan;
  plan.wall = WallTime(std::chrono::seconds(1700000000));
  plan.reason = "leaf1-spine2 down: repair at 75.0 % for the worst job";
  plan.worst = 0.75;
  plan.mean = 0.875;
  plan.by_job = {{"a", 0.75}, {"b", 1.0}};
  plan.moves = {{"10.1.1.2 10.2.1.2", "spine2", "spine1", "leaf1-spine2 is down"}};
  plan.plan.version = {3, 17};
  plan.plan.nodes["leaf1"] = {"leaf1",
                              {3, 17},
                              {{ByPortAndDestination{"p1", IpAddress::v4(10, 2, 1, 2)},
                                PortTableRoute{"up1"}, "leaf1-spine2 is down"}}};
  plan.plan.nodes["leaf2"] = {"leaf2", {3, 11}, {}};
  plan.since["leaf1"] = {WallTime(std::chrono::seconds(1690000000))};
  return plan;
}

TEST(RecordCodec, GivesBackThePlanThatItWasGiven) {
  const PlanRecord before = record();
  const Result<PlanRecord> after = decode_plan(encode_plan(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->wall, before.wall);
  EXPECT_EQ(after->reason, before.reason);
  EXPECT_EQ(after->worst, before.worst);
  EXPECT_EQ(after->mean, before.mean);
  EXPECT_EQ(after->by_job, before.by_job);
  EXPECT_EQ(after->moves, before.moves);
  EXPECT_EQ(after->plan.version, before.plan.version);
  EXPECT_EQ(after->plan.nodes, before.plan.nodes);
  EXPECT_EQ(after->since, before.since);
}

// As it was written before pins had dates: without the table of them at the end.
TEST(RecordCodec, ReadsAPlanWithoutDates) {
  PlanRecord before = record();
  before.since.clear();
  std::string bytes = encode_plan(before);
  bytes.front() = 1;
  bytes.resize(bytes.size() - 8);
  const Result<PlanRecord> after = decode_plan(bytes);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->plan.nodes, before.plan.nodes);
  EXPECT_TRUE(after->since.empty());
}

TEST(RecordCodec, RefusesEveryTruncatedRecord) {
  const std::string whole = encode_plan(record());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_plan(whole.substr(0, size))) << size << " of " << whole.size() << " bytes";
  EXPECT_FALSE(decode_plan(whole + "x"));
}

// What a damaged byte leads to is an error or another record; never a crash, never much memory.
TEST(RecordCodec, SurvivesEveryDamagedByte) {
  const std::string whole = encode_plan(record());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    refused += decode_plan(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
}

TEST(RecordCodec, SortsKeysByTimeAndPlansByVersion) {
  const WallTime early(std::chrono::seconds(1)), late(std::chrono::seconds(300));
  EXPECT_LT(report_key(early, "z"), report_key(late, "a"));
  EXPECT_EQ(wall_of_key(report_key(late, "a")), late);
  EXPECT_LT(plan_key({1, 300}), plan_key({2, 1}));
  EXPECT_LT(plan_key({2, 2}), plan_key({2, 256}));
}

}  // namespace
}  // namespace heddle
