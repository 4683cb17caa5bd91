// What became of the numbered packets of one probe flow: which were lost, overtaken or doubled, and
// for how long nothing came through. Pure bookkeeping; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/core/units.h"

namespace heddle::lab {

struct ProbeCounts {
  std::uint64_t sent{};
  std::uint64_t lost{};
  std::uint64_t reordered{};
  std::uint64_t duplicates{};
  ProbeCounts& operator+=(const ProbeCounts& other);
};

// Nothing came through in between; an upper bound, by at most twice the probes' interval.
struct Outage {
  Time begin;
  Time end;
  Duration length() const { return end - begin; }
};

class ProbeLog {
 public:
  // The number of the packet that is being sent.
  std::uint64_t on_sent(Time now);
  void on_received(std::uint64_t number);

  std::uint64_t sent() const { return packets_.size(); }
  // Of the packets sent in [from, to). What is still on its way counts as lost, so ask a while
  // later.
  ProbeCounts between(Time from, Time to) const;
  // Among the packets sent in [from, to): from the last that arrived before the first lost one, to
  // the first that arrived after the last lost one, by their times of sending. Nothing if none was
  // lost.
  std::optional<Outage> outage(Time from, Time to) const;

 private:
  struct Packet {
    Time sent;
    bool received{};
    bool reordered{};
    std::uint16_t duplicates{};
  };
  std::vector<Packet> packets_;
  std::uint64_t next_{0};  // one past the highest number received
};

}  // namespace heddle::lab
