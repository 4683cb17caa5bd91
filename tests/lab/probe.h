// What became of the numbered packets of one probe flow: which were lost, overtaken or doubled, and
// for how long nothing came through. Pure bookkeeping; one thread.
#pragma once

#include <cstdint>
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

class ProbeLog {
 public:
  // The number of the packet that is being sent.
  std::uint64_t on_sent(Time now);
  void on_received(std::uint64_t number);

  std::uint64_t sent() const { return packets_.size(); }
  // Of the packets sent in [from, to). What is still on its way counts as lost, so ask a while
  // later.
  ProbeCounts between(Time from, Time to) const;
  // From `event` to the sending of the first packet that arrived after the last one lost, among
  // those sent before `until`; zero if none sent after the event was lost. Nothing arrived again:
  // the whole span.
  Duration outage(Time event, Time until) const;

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
