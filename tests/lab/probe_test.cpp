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

// The event is at 15 ms; 2, 3 and 5 are lost; the first after the last of them is sent at 60 ms.
TEST(ProbeLog, AnOutageLastsUntilNothingIsLostAnyMore) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 4, 6, 7, 8, 9})
    log.on_received(number);
  EXPECT_EQ(log.outage(at(15), at(100)), 45ms);
  EXPECT_EQ(log.outage(at(55), at(100)), 0ms);
}

TEST(ProbeLog, AnOutageThatDoesNotEndFillsTheSpan) {
  ProbeLog log = ten_sent();
  for (const std::uint64_t number : {0, 1, 2})
    log.on_received(number);
  EXPECT_EQ(log.outage(at(25), at(100)), 75ms);
}

TEST(ProbeLog, IgnoresNumbersThatWereNeverSent) {
  ProbeLog log = ten_sent();
  log.on_received(10);
  EXPECT_EQ(log.between(at(0), at(1000)).lost, 10U);
}

}  // namespace
}  // namespace heddle::lab
