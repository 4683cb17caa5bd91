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

Duration ProbeLog::outage(Time event, Time until) const {
  bool lost = false;
  bool back = true;
  Time since{};
  for (const Packet& packet : packets_) {
    if (packet.sent < event || packet.sent >= until)
      continue;
    if (!packet.received) {
      lost = true;
      back = false;
    } else if (!back) {
      back = true;
      since = packet.sent;
    }
  }
  if (!lost)
    return Duration::zero();
  return (back ? since : until) - event;
}

}  // namespace heddle::lab
