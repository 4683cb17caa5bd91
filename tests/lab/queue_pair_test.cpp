#include "tests/lab/queue_pair.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

// A wire with a millisecond each way. `fate` says what becomes of the nth transmission: how much
// later than usual it arrives, or that it is lost.
struct Wire {
  static constexpr Duration kLost = Duration::max();

  Sender sender{8};
  Receiver receiver;
  Time now{};
  int messages_received{0};
  int messages_acknowledged{0};
  std::vector<Opcode> taken;
  std::function<Duration(std::uint64_t serial)> fate = [](std::uint64_t) { return 0ns; };
  std::function<bool(int n)> answer_lost = [](int) { return false; };

  // Runs until the sender has nothing left, or the given time is over.
  bool run(Duration limit) {
    const Time end = now + limit;
    while (now < end && !sender.idle()) {
      while (auto segment = sender.next(now)) {
        const Duration late = fate(segment->serial);
        if (late != kLost)
          packets_.emplace(now + 1ms + late, *segment);
      }
      Time next = end;
      if (!packets_.empty())
        next = std::min(next, packets_.begin()->first);
      if (!answers_.empty())
        next = std::min(next, answers_.begin()->first);
      if (sender.deadline())
        next = std::min(next, *sender.deadline());
      now = std::max(now, next);
      deliver();
    }
    return sender.idle();
  }

 private:
  void deliver() {
    while (!packets_.empty() && packets_.begin()->first <= now) {
      const Segment segment = packets_.begin()->second;
      packets_.erase(packets_.begin());
      const auto before = receiver.counters().refused + receiver.counters().duplicates;
      const auto answer =
          receiver.on_packet(segment.opcode, segment.psn, segment.ack_request, segment.serial);
      if (receiver.counters().refused + receiver.counters().duplicates == before)
        taken.push_back(segment.opcode);
      messages_received += answer.message_complete;
      if ((answer.ack || answer.nak) && !answer_lost(answers_sent_++))
        answers_.emplace(now + 1ms, answer);
    }
    while (!answers_.empty() && answers_.begin()->first <= now) {
      const auto answer = answers_.begin()->second;
      answers_.erase(answers_.begin());
      if (answer.ack)
        messages_acknowledged += sender.on_ack(*answer.ack, now);
      if (answer.nak)
        messages_acknowledged += sender.on_nak(*answer.nak, now);
    }
    if (sender.deadline() && *sender.deadline() <= now)
      sender.on_deadline(now);
  }

  std::multimap<Time, Segment> packets_;
  std::multimap<Time, Receiver::Answer> answers_;
  int answers_sent_{0};
};

TEST(QueuePair, NamesFirstMiddleAndLastPacketsAndASingleOne) {
  Wire wire;
  wire.sender.post(3 * kPayload);
  wire.sender.post(100);
  ASSERT_TRUE(wire.run(1s));
  EXPECT_EQ(wire.taken, (std::vector{Opcode::write_first, Opcode::write_middle, Opcode::write_last,
                                     Opcode::write_only}));
  EXPECT_EQ(wire.messages_received, 2);
  EXPECT_EQ(wire.messages_acknowledged, 2);
}

TEST(QueuePair, AnnouncesTheWholeMessagesLengthOnItsFirstPacketOnly) {
  Sender sender(8);
  sender.post(2 * kPayload);
  EXPECT_EQ(sender.next({})->dma_length, 2 * kPayload);
  EXPECT_EQ(sender.next({})->dma_length, 0U);
}

TEST(QueuePair, SendsNoMoreThanItsWindowAheadOfTheAcknowledgements) {
  Sender sender(8);
  sender.post(100 * kPayload);
  int sent = 0;
  while (sender.next({}))
    ++sent;
  EXPECT_EQ(sent, 8);
  sender.on_ack(3, {});  // four arrived
  while (sender.next({}))
    ++sent;
  EXPECT_EQ(sent, 12);
}

TEST(QueuePair, GoesBackToTheLostPacketAtTheFirstNegativeAcknowledgement) {
  Wire wire;
  wire.fate = [](std::uint64_t serial) { return serial == 2 ? Wire::kLost : 0ns; };
  wire.sender.post(16 * kPayload);
  ASSERT_TRUE(wire.run(1s));
  EXPECT_EQ(wire.messages_received, 1);
  EXPECT_EQ(wire.sender.counters().naks, 1U);
  EXPECT_EQ(wire.sender.counters().timeouts, 0U);
  EXPECT_EQ(wire.sender.counters().retransmitted, 6U);  // 2 to 7: the rest of the window
  EXPECT_EQ(wire.receiver.missing(wire.sender.counters().transmitted), 1U);
}

TEST(QueuePair, RecoversByTimeWhenAWholeWindowIsLost) {
  Wire wire;
  wire.fate = [](std::uint64_t serial) { return serial < 8 ? Wire::kLost : 0ns; };
  wire.sender.post(16 * kPayload);
  ASSERT_TRUE(wire.run(1s));
  EXPECT_EQ(wire.messages_received, 1);
  EXPECT_EQ(wire.sender.counters().timeouts, 1U);
  EXPECT_EQ(wire.receiver.missing(wire.sender.counters().transmitted), 8U);
}

TEST(QueuePair, WaitsLongerAfterEachTimeoutThatBringsNothing) {
  Wire wire;
  wire.fate = [](std::uint64_t) { return Wire::kLost; };
  wire.sender.post(kPayload);
  EXPECT_FALSE(wire.run(710ms));  // 100, then 200, then 400 ms; the next would be at 1,100
  EXPECT_EQ(wire.sender.counters().timeouts, 3U);
}

TEST(QueuePair, LostAcknowledgementsAreMadeUpForByLaterOnes) {
  Wire wire;
  wire.answer_lost = [](int n) { return n == 0; };
  wire.sender.post(16 * kPayload);
  ASSERT_TRUE(wire.run(1s));
  EXPECT_EQ(wire.sender.counters().retransmitted, 0U);
  EXPECT_EQ(wire.messages_received, 1);
}

TEST(QueuePair, CountsAPacketThatWasOvertakenAsReorderedAndNotAsMissing) {
  Wire wire;
  wire.fate = [](std::uint64_t serial) { return serial == 1 ? Duration(50us) : 0ns; };
  wire.sender.post(4 * kPayload);
  ASSERT_TRUE(wire.run(1s));
  EXPECT_EQ(wire.receiver.counters().reordered, 1U);
  // The repeats that the reordering caused may still be on their way when the last acknowledgement
  // comes.
  EXPECT_EQ(wire.messages_received, 1);
  EXPECT_GE(wire.receiver.counters().refused, 2U);
}

TEST(QueuePair, DeliversEveryMessageOnceUnderRandomLossAndReordering) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Wire wire;
    wire.fate = [&](std::uint64_t) {
      const auto dice = random() % 100;
      if (dice < 5)
        return Wire::kLost;
      return dice < 10 ? Duration(3ms) : Duration(0ns);
    };
    wire.answer_lost = [&](int) { return random() % 100 < 5; };
    for (int i = 0; i < 50; ++i)
      wire.sender.post((1 + random() % 12) * kPayload);
    ASSERT_TRUE(wire.run(120s));
    EXPECT_EQ(wire.messages_received, 50);
    EXPECT_EQ(wire.messages_acknowledged, 50);
  }
}

// 24-bit numbers wrap after 64 GiB; the count behind them does not.
TEST(QueuePair, GoesOnWhenPacketNumbersWrap) {
  Sender sender(8);
  Receiver receiver;
  Time now{};
  constexpr std::uint64_t kPackets = (1U << 24) + 100;
  std::uint64_t posted = 0;
  int complete = 0;
  while (posted < kPackets) {
    sender.post(1 << 30);
    posted += (1 << 30) / kPayload;
  }
  while (!sender.idle()) {
    const auto segment = sender.next(now);
    ASSERT_TRUE(segment);
    const auto answer =
        receiver.on_packet(segment->opcode, segment->psn, segment->ack_request, segment->serial);
    ASSERT_FALSE(answer.nak);
    complete += answer.message_complete;
    if (answer.ack)
      sender.on_ack(*answer.ack, now);
  }
  EXPECT_EQ(complete, static_cast<int>(posted * kPayload >> 30));
  EXPECT_EQ(sender.counters().retransmitted, 0U);
}

}  // namespace
}  // namespace heddle::lab
