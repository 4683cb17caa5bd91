// Estimates what subflows sent from samples of their packets.
//
// Each packet was picked with chance p = 1/rate, independent of the others, so a sample of s bytes
// stands for s/p bytes (Horvitz and Thompson, "A generalization of sampling without replacement
// from a finite universe", 1952). The variance of the sum is estimated from the same samples by the
// sum of s^2 (1-p)/p^2. The error stated is half the width of the interval that holds the true
// number with 99.7 %: three standard deviations, made wider as the score interval of a Poisson
// count is, because a few samples say little even of their own variance.
//
// Samples that were lost on their way show in the group's sequence numbers. The ones that arrived
// then stand for the lost ones too, and the reading is marked as one with a gap, because nothing
// says whose samples were lost.
//
// Pure: time comes in with each call. One thread; lives as long as its source.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/observe/psample_message.h"
#include "agent/observe/roce_packet.h"
#include "agent/report/flow_reading.h"
#include "common/core/units.h"

namespace heddle {

// A sum over samples: what they stand for, and how far that may be off.
struct Estimate {
  double packets{};
  double bytes{};
  double squares{};   // sum of size x size x rate
  double variance{};  // of bytes, in bytes squared

  void add(double size, double rate) {
    packets += rate;
    bytes += size * rate;
    squares += size * size * rate;
    variance += size * size * rate * (rate - 1);
  }
  // As if each sample had stood for `factor` times as many packets.
  Estimate scaled(double factor) const;
  // Half the width of the interval around `bytes`.
  double error() const;
  Estimate& operator+=(const Estimate& other);
};

class SampledFlows {
 public:
  // Interface indices cut to 16 bits, as samples give them. Samples of packets that leave by `out`
  // say which way a flow took. Packets that came in by `in` count where no packet that leaves is
  // sampled, since a packet that is sampled in both places is still one packet.
  void watch(std::map<std::uint16_t, std::string> out, std::set<std::uint16_t> in);

  void add(const Sample& sample, Time now);
  // The kernel dropped messages on the way to us; how many, the sequence numbers will tell.
  void overrun() { gap_ = true; }

  FlowReading read(Time now);

  std::uint64_t samples() const { return samples_; }  // of any packet, since the beginning

 private:
  // Since the last reading, by where the packets were sampled.
  struct Pending {
    std::uint32_t group{};
    std::string out_port;
    Estimate estimate;
  };
  // Since the flow was first seen, by where it left.
  struct Total {
    std::string out_port;
    double bytes{};
    double packets{};
    double error{};  // of what the last reading added
  };
  struct Flow {
    Time first_seen;
    Time last_seen;
    Bytes message_length;
    std::vector<Pending> pending;
    std::vector<Total> totals;
  };
  // Where the sequence numbers of a group stand. They come from several processors, so neighbours
  // may swap; what counts is how many there should be from one reading to the next.
  struct Group {
    std::uint32_t base{};   // the highest at the last reading
    std::uint32_t ahead{};  // how far beyond it we have come since
    std::uint64_t received{};
    double loss_factor{1};  // of the interval that is read now
  };

  void count(const Sample& sample);
  Flow* flow_of(const RocePacket& packet, Time now);
  void close(Flow& flow, bool sees_leaving);

  std::map<std::uint16_t, std::string> out_;
  std::set<std::uint16_t> in_;
  std::map<std::uint32_t, Group> groups_;
  std::unordered_map<SubflowKey, Flow, SubflowKeyHash> flows_;
  std::uint64_t samples_{};
  bool gap_{};
  Time sees_leaving_until_;  // packets that leave are sampled somewhere
};

}  // namespace heddle
