// The laboratory's reliable transport, in the manner of an RDMA reliable connection: a window of
// packets, cumulative acknowledgements on request, one negative acknowledgement per gap, go-back-N.
// Pure state machines: packets and times come in, packets go out; so tests lose and reorder what
// they like. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/core/units.h"
#include "tests/lab/rocev2.h"

namespace heddle::lab {

constexpr std::uint32_t kPayload = 4096;

struct Segment {
  Opcode opcode{};
  std::uint32_t psn{};
  bool ack_request{};
  std::uint32_t dma_length{};  // of the message, on its first packet; 0 on the others
  std::uint64_t serial{};      // counts transmissions, repeated ones too: 0, 1, 2, ...
};

struct SenderCounters {
  std::uint64_t transmitted{};  // packets, repeated ones included
  std::uint64_t retransmitted{};
  std::uint64_t timeouts{};
  std::uint64_t naks{};
};

class Sender {
 public:
  // window: packets sent and not acknowledged. At least one in kAckEvery asks to be acknowledged.
  explicit Sender(int window) : window_(static_cast<std::uint64_t>(window)) {}

  // Queues a message; its length is rounded up to whole packets.
  void post(std::uint32_t bytes);
  // The next packet, or nothing while the window is full or nothing waits.
  std::optional<Segment> next(Time now);
  // Everything up to psn arrived. The number of messages that are complete by it.
  int on_ack(std::uint32_t psn, Time now);
  // The receiver expects psn and will take nothing else.
  int on_nak(std::uint32_t psn, Time now);
  // When silence means loss; nothing while nothing is on its way.
  std::optional<Time> deadline() const { return deadline_; }
  void on_deadline(Time now);

  bool idle() const { return acknowledged_ == end_; }
  const SenderCounters& counters() const { return counters_; }

  static constexpr std::uint64_t kAckEvery = 4;

 private:
  struct Message {
    std::uint64_t begin{};
    std::uint64_t end{};
    std::uint32_t bytes{};
  };
  struct Sample {  // at most one packet's round trip is being timed
    std::uint64_t packet{};
    Time sent;
  };
  std::uint64_t unwrap(std::uint32_t psn) const;
  int advance(std::uint64_t acknowledged, Time now);
  void arm(Time now);

  std::uint64_t window_;
  std::deque<Message> messages_;
  std::uint64_t acknowledged_{0};  // packets below this have arrived
  std::uint64_t next_{0};
  std::uint64_t highest_{0};  // packets below this were sent once at least
  std::uint64_t end_{0};
  std::optional<Time> deadline_;
  std::optional<Sample> sample_;
  Duration round_trip_{};
  int backoff_{0};
  SenderCounters counters_;
};

struct ReceiverCounters {
  std::uint64_t arrived{};
  std::uint64_t reordered{};   // transmissions overtaken by later ones
  std::uint64_t duplicates{};  // packets that had been taken already
  std::uint64_t refused{};     // beyond the one expected
};

class Receiver {
 public:
  struct Answer {
    std::optional<std::uint32_t> ack;  // acknowledge up to here
    std::optional<std::uint32_t> nak;  // this one is expected
    bool message_complete{};
  };
  Answer on_packet(Opcode opcode, std::uint32_t psn, bool ack_request, std::uint64_t serial);
  const ReceiverCounters& counters() const { return counters_; }
  // Transmissions that never came, of the first `transmitted`; those still on their way count.
  std::uint64_t missing(std::uint64_t transmitted) const { return transmitted - counters_.arrived; }

 private:
  std::uint32_t expected_{0};
  bool nak_sent_{false};
  std::uint64_t next_serial_{0};
  ReceiverCounters counters_;
};

}  // namespace heddle::lab
