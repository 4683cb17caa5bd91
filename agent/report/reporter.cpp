#include "agent/report/reporter.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

// What tells one subflow from the next that has its numbers needs no nanoseconds, which would be a
// fifth of a report: the low octets of a time in these steps are zero, and take no room on the
// wire.
constexpr Duration kFirstSeenStep{1 << 29};
// Subflows that are remembered although readings with gaps do not name them.
constexpr std::size_t kMostHidden = 65'536;

}  // namespace

Report Reporter::report(Time now, WallTime wall, const Result<FlowReading>& reading,
                        std::vector<PortStatus> ports) {
  Report report;
  report.number = next_number_++;
  report.begin = begin_;
  report.length = now - begin_;
  report.ports = std::move(ports);
  if (!reading) {
    // Counters go on growing in the source, so the time that was not read joins the next interval.
    report.gap = true;
    return report;
  }
  begin_ = now;
  report.gap = reading->gap;
  ++round_;

  report.flows.reserve(reading->flows.size());
  for (const FlowCounter& flow : reading->flows) {
    const auto [entry, is_new] = previous_.try_emplace(flow.port_key());
    Previous& before = entry->second;
    const bool other = is_new || flow.first_seen != before.first_seen;
    const bool went_back = !other && (flow.bytes < before.bytes || flow.packets < before.packets);
    if (other) {
      before.first_seen = flow.first_seen;
      if (is_new) {
        before.beginning = &beginnings_[flow.key()];
        ++before.beginning->ports;
      }
      Beginning& beginning = *before.beginning;
      // Through a further port it is still the same; on the same port it is another.
      const bool further = is_new && beginning.ports > 1;
      if (!further && beginning.first_seen != flow.first_seen) {
        const WallTime first_seen = wall - (now - flow.first_seen);
        beginning.first_seen = flow.first_seen;
        beginning.wall = first_seen - first_seen.time_since_epoch() % kFirstSeenStep;
      }
    }
    if (flow.unobservable) {
      before.bytes = flow.bytes;
      before.packets = flow.packets;
    } else if (other || went_back) {
      before.bytes = {};
      before.packets = 0;
    }
    before.round = round_;
    if (flow.unobservable || flow.packets != before.packets || flow.bytes != before.bytes) {
      report.flows.push_back({
          .key = {flow.source, flow.destination, flow.source_port, flow.dest_qpn,
                  before.beginning->wall},
          .bytes = {flow.bytes.value - before.bytes.value},
          .packets = flow.packets - before.packets,
          .message_length = flow.message_length,
          .out_port = name_ports_ ? flow.out_port : std::string{},
          .source = flow.seen_by.empty() ? reading->source : flow.seen_by,
          // What the source forgot before it began again, or missed before it began at all, is not
          // in here.
          .reset = went_back || (other && (!is_new || reading->gap)),
          .bytes_error = flow.bytes_error,
          .label = flow.label,
          .label_origin = flow.label_origin,
          .local_qpn = flow.local_qpn,
          .pid = flow.pid,
          .peer = flow.peer,
          .unobservable = flow.unobservable,
      });
    }
    before.bytes = flow.bytes;
    before.packets = flow.packets;
  }
  report.rdma_ports = ports_.since_last(reading->rdma_ports, reading->rdma_looked);
  interfaces_.since_last(reading->interfaces, report.ports);
  report.queue_pairs.reserve(reading->queue_pairs.size());
  for (const OpenPair& open : reading->queue_pairs)
    report.queue_pairs.push_back(open.pair);
  forget_unread(reading->gap);
  return report;
}

void Reporter::forget_unread(bool gap) {
  // What a gap has hidden counts on: taken for new when it is seen again, all that it ever sent
  // would be of one interval.
  const auto hidden = std::ranges::count_if(
      previous_, [this](const auto& entry) { return entry.second.round != round_; });
  if (gap && static_cast<std::size_t>(hidden) <= kMostHidden)
    return;
  std::erase_if(previous_, [this](const auto& entry) {
    const bool unread = entry.second.round != round_;
    if (unread && --entry.second.beginning->ports == 0)
      beginnings_.erase(entry.first.subflow);
    return unread;
  });
}

}  // namespace heddle
