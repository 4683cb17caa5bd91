#include "tests/lab/queue_pair.h"

#include <algorithm>

#include "common/core/check.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

// A window that shares a slow link with four others takes 50 ms to drain; shorter patience would
// repeat packets that are only waiting, and the repeats would queue behind them.
constexpr Duration kFirstTimeout = 100ms;  // while the round trip is not known
constexpr Duration kShortestTimeout = 50ms;
constexpr Duration kLongestTimeout = 400ms;

}  // namespace

void Sender::post(std::uint32_t bytes) {
  HEDDLE_CHECK(bytes > 0);
  const std::uint64_t packets = (bytes + kPayload - 1) / kPayload;
  messages_.push_back({.begin = end_, .end = end_ + packets, .bytes = bytes});
  end_ += packets;
}

std::optional<Segment> Sender::next(Time now) {
  if (next_ == end_ || next_ - acknowledged_ >= window_)
    return std::nullopt;
  const auto message = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const Message& each) { return next_ < each.end; });
  const bool first = next_ == message->begin;
  const bool last = next_ + 1 == message->end;
  Segment segment;
  segment.opcode = first && last ? Opcode::write_only
                   : first       ? Opcode::write_first
                   : last        ? Opcode::write_last
                                 : Opcode::write_middle;
  segment.psn = static_cast<std::uint32_t>(next_) & kPsnMask;
  segment.ack_request = last || next_ % kAckEvery == kAckEvery - 1;
  segment.dma_length = first ? message->bytes : 0;
  segment.serial = counters_.transmitted++;
  if (next_ < highest_) {
    ++counters_.retransmitted;
  } else {
    // Only what asks for an answer is timed, and only once sent (Karn).
    if (!sample_ && segment.ack_request)
      sample_ = Sample{next_, now};
    highest_ = next_ + 1;
  }
  ++next_;
  if (!deadline_)
    arm(now);
  return segment;
}

// PSNs are the low 24 bits of a count that never goes back; an answer is about a packet near the
// window.
std::uint64_t Sender::unwrap(std::uint32_t psn) const {
  const std::uint64_t base = acknowledged_ & ~static_cast<std::uint64_t>(kPsnMask);
  std::uint64_t packet = base | psn;
  constexpr std::uint64_t kHalf = (kPsnMask + 1) / 2;
  if (packet + kHalf < acknowledged_)
    packet += kPsnMask + 1;
  if (packet > acknowledged_ + kHalf && packet > kPsnMask)
    packet -= kPsnMask + 1;
  return packet;
}

int Sender::advance(std::uint64_t acknowledged, Time now) {
  if (acknowledged <= acknowledged_ || acknowledged > highest_)
    return 0;
  if (sample_ && acknowledged > sample_->packet) {
    const Duration measured = now - sample_->sent;
    round_trip_ = round_trip_ == Duration::zero() ? measured : (round_trip_ * 7 + measured) / 8;
    sample_.reset();
  }
  acknowledged_ = acknowledged;
  next_ = std::max(next_, acknowledged_);
  backoff_ = 0;
  int complete = 0;
  while (!messages_.empty() && messages_.front().end <= acknowledged_) {
    messages_.pop_front();
    ++complete;
  }
  if (acknowledged_ < next_)
    arm(now);
  else
    deadline_.reset();
  return complete;
}

int Sender::on_ack(std::uint32_t psn, Time now) {
  return advance(unwrap(psn) + 1, now);
}

int Sender::on_nak(std::uint32_t psn, Time now) {
  const std::uint64_t expected = unwrap(psn);
  if (expected < acknowledged_ || expected >= highest_)
    return 0;
  ++counters_.naks;
  const int complete = advance(expected, now);
  next_ = acknowledged_;
  sample_.reset();
  arm(now);
  return complete;
}

void Sender::on_deadline(Time now) {
  ++counters_.timeouts;
  next_ = acknowledged_;
  sample_.reset();
  ++backoff_;
  arm(now);
}

void Sender::arm(Time now) {
  const Duration base =
      round_trip_ == Duration::zero() ? kFirstTimeout : std::max(kShortestTimeout, round_trip_ * 2);
  deadline_ = now + std::min(kLongestTimeout, base * (1 << std::min(backoff_, 4)));
}

Receiver::Answer Receiver::on_packet(Opcode opcode, std::uint32_t psn, bool ack_request,
                                     std::uint64_t serial) {
  ++counters_.arrived;
  if (serial < next_serial_)
    ++counters_.reordered;
  else
    next_serial_ = serial + 1;

  Answer answer;
  const std::uint32_t ahead = (psn - expected_) & kPsnMask;
  if (ahead == 0) {
    expected_ = (expected_ + 1) & kPsnMask;
    nak_sent_ = false;
    answer.message_complete = ends_message(opcode);
    if (ack_request)
      answer.ack = psn;
  } else if (ahead <= kPsnMask / 2) {
    ++counters_.refused;
    if (!nak_sent_)
      answer.nak = expected_;  // one for each gap, or repeats would never end
    nak_sent_ = true;
  } else {
    // Taken before: the sender did not hear so. Tell it where we are.
    ++counters_.duplicates;
    if (ack_request)
      answer.ack = (expected_ - 1) & kPsnMask;
  }
  return answer;
}

}  // namespace heddle::lab
