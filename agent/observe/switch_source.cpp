#include "agent/observe/switch_source.h"

#include <unordered_set>
#include <utility>

#include "agent/observe/pauses.h"

namespace heddle {

std::vector<SourceCapability> SwitchSource::probe() {
  std::vector<SourceCapability> all = packets_.probe();
  for (SourceCapability& one : samples_.probe())
    all.push_back(std::move(one));
  return all;
}

void SwitchSource::links_changed() {
  packets_.links_changed();
  samples_.links_changed();
}

SwitchSource::Growth SwitchSource::growth(const FlowCounter& flow, const LastCounts& last) {
  const auto before = last.find(flow.port_key());
  if (before == last.end() || before->second.first_seen != flow.first_seen ||
      flow.packets < before->second.packets || flow.bytes < before->second.bytes)
    return {.bytes = flow.bytes, .packets = flow.packets, .anew = true};
  return {.bytes = {flow.bytes.value - before->second.bytes.value},
          .packets = flow.packets - before->second.packets,
          .anew = false};
}

void SwitchSource::add(const FlowCounter& flow, const Growth& growth, const std::string& source,
                       FlowReading& joined) {
  const auto [place, is_new] = joined_.try_emplace(flow.port_key(), flow);
  FlowCounter& total = place->second;
  if (!is_new && growth.anew && source == total.seen_by) {
    // It lost its count; the later beginning tells whoever takes differences.
    total.first_seen = flow.first_seen;
    total.bytes = {};
    total.packets = 0;
  } else if (is_new) {
    total.bytes = {};
    total.packets = 0;
  }
  total.bytes += growth.bytes;
  total.packets += growth.packets;
  total.message_length = flow.message_length;
  total.bytes_error = flow.bytes_error;
  total.seen_by = source;
  joined.flows.push_back(total);
}

Result<FlowReading> SwitchSource::read(Time now) {
  Result<FlowReading> reading = join(now);
  if (!reading)
    return reading;
  for (const std::string& port : ports_) {
    const Result<std::vector<NamedCount>> counts = statistics_.statistics(port);
    reading->interfaces.push_back(
        {port, counts ? pause_counters(*counts) : std::vector<CounterValue>{}});
  }
  return reading;
}

Result<FlowReading> SwitchSource::join(Time now) {
  Result<FlowReading> packets = packets_.read(now);
  const Result<FlowReading> samples = samples_.read(now);
  if (!packets && !samples)
    return packets;
  // Most leaves forward nothing in hardware that is sampled, and have nothing to join: a joined
  // counter would begin where the packets' own stands.
  if (!samples && samples.error().code == Errc::unobservable && joined_.empty()) {
    packets_last_.clear();
    return packets;
  }
  // A source that is not there is no gap; one that failed to answer is.
  const auto gap = [](const Result<FlowReading>& reading) {
    return reading ? reading->gap : reading.error().code != Errc::unobservable;
  };
  FlowReading joined{.source = packets ? packets->source : samples->source,
                     .gap = gap(packets) || gap(samples),
                     .flows = {}};
  joined.flows.reserve(joined_.size());

  LastCounts packets_now, samples_now;
  std::unordered_set<SubflowKey, SubflowKeyHash> counted;
  std::unordered_set<PortSubflowKey, SubflowKeyHash> present;
  const auto visit = [&](const FlowReading& reading, const LastCounts& last, LastCounts& next,
                         bool is_samples) {
    for (const FlowCounter& flow : reading.flows) {
      const Growth grown = growth(flow, last);
      PortSubflowKey key = flow.port_key();
      next[key] = {flow.first_seen, flow.bytes, flow.packets};
      if (grown.packets == 0 || (is_samples && counted.contains(key.subflow)))
        continue;
      if (!is_samples)
        counted.insert(key.subflow);
      add(flow, grown, reading.source, joined);
      present.insert(std::move(key));
    }
  };
  if (packets)
    visit(*packets, packets_last_, packets_now, false);
  if (samples)
    visit(*samples, samples_last_, samples_now, true);

  // A silent subflow stays in the reading as long as a source remembers it.
  for (auto entry = joined_.begin(); entry != joined_.end();) {
    const PortSubflowKey& key = entry->first;
    if (present.contains(key)) {
      ++entry;
    } else if (packets_now.contains(key) || samples_now.contains(key)) {
      entry->second.message_length = {};
      entry->second.bytes_error = {};
      joined.flows.push_back(entry->second);
      ++entry;
    } else {
      entry = joined_.erase(entry);
    }
  }
  packets_last_ = std::move(packets_now);
  samples_last_ = std::move(samples_now);
  return joined;
}

}  // namespace heddle
