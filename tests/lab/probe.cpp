#include "tests/lab/probe.h"

#include <algorithm>

namespace heddle::lab {

ProbeCounts& ProbeCounts::operator+=(const ProbeCounts& other) {
  sent += other.sent;
  lost += other.lost;
  reordered += other.reordered;
  duplicates += other.duplicates;
  return *this;
}

std::uint64_t ProbeLog::on_sent(Time now) {
  packets_.push_back({.sent = now, .received = false, .reordered = false, .duplicates = 0});
  return packets_.size() - 1;
}

void ProbeLog::on_received(std::uint64_t number) {
  if (number >= packets_.size())
    return;
  Packet& packet = packets_[number];
  if (packet.received) {
    ++packet.duplicates;
    return;
  }
  packet.received = true;
  packet.reordered = number < next_;
  next_ = std::max(next_, number + 1);
}

ProbeCounts ProbeLog::between(Time from, Time to) const {
  ProbeCounts counts;
  for (const Packet& packet : packets_) {
    if (packet.sent < from || packet.sent >= to)
      continue;
    ++counts.sent;
    counts.lost += !packet.received;
    counts.reordered += packet.reordered;
    counts.duplicates += packet.duplicates;
  }
  return counts;
}

std::optional<Outage> ProbeLog::outage(Time from, Time to) const {
  std::optional<Outage> outage;
  Time last_arrived = from;
  bool back = true;
  for (const Packet& packet : packets_) {
    if (packet.sent < from || packet.sent >= to)
      continue;
    if (!packet.received) {
      if (!outage)
        outage = Outage{last_arrived, to};
      back = false;
      outage->end = to;  // until something arrives again
    } else {
      last_arrived = packet.sent;
      if (outage && !back) {
        back = true;
        outage->end = packet.sent;
      }
    }
  }
  return outage;
}

}  // namespace heddle::lab
