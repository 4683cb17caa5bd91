#include "tests/lab/probe.h"

#include <gtest/gtest.h>

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

Time at(int milliseconds) {
  return Time(std::chrono::milliseconds(milliseconds));
}

// Packets sent at 0, 10, ... 90 ms.
ProbeLog ten_sent() {
  ProbeLog log;
  for (int i = 0; i < 10; ++i)
    log.on_sent(at(10 * i));
  return log;
}

TEST(ProbeLog, CountsWhatNeverCameInTheSpanAskedFor) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 2, 5, 6, 7, 8, 9})
    log.on_received(number);
  EXPECT_EQ(log.between(at(0), at(100)).lost, 2U);
  EXPECT_EQ(log.between(at(0), at(30)).lost, 0U);
  EXPECT_EQ(log.between(at(40), at(60)).sent, 2U);
  EXPECT_EQ(log.between(at(40), at(60)).lost, 1U);
}

TEST(ProbeLog, CountsOvertakenPacketsAsReorderedAndRepeatedOnesAsDuplicates) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 4, 2, 3, 5, 6, 7, 8, 9, 9})
    log.on_received(number);
  const ProbeCounts counts = log.between(at(0), at(100));
  EXPECT_EQ(counts.lost, 0U);
  EXPECT_EQ(counts.reordered, 2U);
  EXPECT_EQ(counts.duplicates, 1U);
}

// 2, 3 and 5 are lost: nothing is sure between the arrivals of 1, sent at 10 ms, and of 6, sent at
// 60 ms.
TEST(ProbeLog, AnOutageLastsFromArrivalToArrivalAroundEverythingLost) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 4, 6, 7, 8, 9})
    log.on_received(number);
  const auto outage = log.outage(at(0), at(100));
  ASSERT_TRUE(outage);
  EXPECT_EQ(outage->begin, at(10));
  EXPECT_EQ(outage->end, at(60));
  EXPECT_EQ(outage->length(), 50ms);
}

TEST(ProbeLog, ThereIsNoOutageWhereNothingIsLost) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 4, 6, 7, 8, 9})
    log.on_received(number);
  EXPECT_FALSE(log.outage(at(55), at(100)));
}

TEST(ProbeLog, AnOutageThatDoesNotEndFillsTheSpan) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 2})
    log.on_received(number);
  const auto outage = log.outage(at(0), at(100));
  ASSERT_TRUE(outage);
  EXPECT_EQ(outage->length(), 80ms);  // from 2, sent at 20 ms
}

TEST(ProbeLog, IgnoresNumbersThatWereNeverSent) {
  ProbeLog log = ten_sent();
  log.on_received(10);
  EXPECT_EQ(log.between(at(0), at(1000)).lost, 10U);
}

}  // namespace
}  // namespace heddle::lab
