#include "coordinator/history/decision_log.h"

#include <gtest/gtest.h>

#include "coordinator/history/record_codec.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

DecisionRecord decision(const std::string& outcome, const std::string& reason) {
  DecisionRecord record;
  record.outcome = outcome;
  record.reason = reason;
  record.version = {3, 17};
  return record;
}

TEST(DecisionLog, FoldsWhatIsDecidedAgainAndTellsTheHistoryOnceAMinute) {
  DecisionLog log;
  const WallTime begin{1700000000s};
  EXPECT_EQ(log.note(decision("held", "nothing better"), begin).size(), 1U);
  for (int s = 1; s < 60; ++s)
    EXPECT_TRUE(
        log.note(decision("held", "nothing better"), begin + std::chrono::seconds(s)).empty());
  const auto again = log.note(decision("held", "nothing better"), begin + 60s);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].wall, begin);
  EXPECT_EQ(again[0].times, 61U);
  const auto other = log.note(decision("moved", "leaf1-spine2 down"), begin + 61s);
  ASSERT_EQ(other.size(), 2U);
  EXPECT_EQ(other[0].until, begin + 60s);
  EXPECT_EQ(other[1].outcome, "moved");
  EXPECT_EQ(log.recent().size(), 2U);
}

TEST(DecisionLog, GivesNoTwoDecisionsOneTimeThoughTheClockIsSetBack) {
  DecisionLog log;
  log.note(decision("held", "a"), WallTime(1700000000s));
  log.note(decision("held", "b"), WallTime(1600000000s));
  log.note(decision("held", "c"), WallTime(1600000000s));
  EXPECT_LT(log.recent()[0].wall, log.recent()[1].wall);
  EXPECT_LT(log.recent()[1].wall, log.recent()[2].wall);
}

TEST(DecisionLog, ARecordSurvivesItsBytesAndNoTruncatedOneIsTaken) {
  DecisionRecord record = decision("moved", "leaf1-spine2 down: repair at 75.0 %");
  record.wall = WallTime(1700000000s);
  record.until = record.wall + 3s;
  record.times = 4;
  record.judged = true;
  record.worst = 0.75;
  record.mean = 0.875;
  record.moves = 9;
  const std::string whole = encode_decision(record);
  ASSERT_EQ(decode_decision(whole), record);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_decision(whole.substr(0, size))) << size;
}

}  // namespace
}  // namespace heddle
