#include "coordinator/predict/flow_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

// Long enough to smooth a barrier between two steps, short enough to follow a change of path.
constexpr std::uint64_t kRateIntervals = 3;
constexpr std::size_t kOnsets = 8;
// Agents give the time that they first saw a subflow in steps of half a second, and after they have
// forgotten a silent one they may date the same beginning again by a clock that was slewed since.
constexpr Duration kSameBeginning = std::chrono::seconds(1);

Sighting* find(Subflow& flow, const std::string& node) {
  for (Sighting& sighting : flow.sightings)
    if (sighting.node == node)
      return &sighting;
  return nullptr;
}

// Sightings are kept sorted by trust, so the first is the one to believe.
Sighting& insert_by_trust(Subflow& flow, Sighting sighting) {
  const auto place =
      std::upper_bound(flow.sightings.begin(), flow.sightings.end(), sighting,
                       [](const Sighting& a, const Sighting& b) { return a.vantage < b.vantage; });
  return *flow.sightings.insert(place, std::move(sighting));
}

std::uint64_t bytes_at(const Sighting& sighting, std::uint64_t ordinal) {
  if (ordinal > sighting.last_ordinal || ordinal < sighting.first_ordinal)
    return 0;
  return sighting.bytes[ordinal % kIntervals];
}

// A more direct observer takes over from `before`; its first interval began at `since` in our
// clock. What `before` counted in intervals that reach beyond that are the same packets, because
// whoever comes first reports first: those go. At the edge up to one interval of a flow that was
// there already goes with them, as too few is honest of what was seen, and twice is not.
void hand_over(const Sighting& before, Time since, Subflow& flow) {
  const Observer& node = *before.observer;
  Time end = node.last_report;
  for (std::uint64_t i = 0; i < kIntervals && i < node.ordinal && end > since; ++i) {
    const std::uint64_t ordinal = node.ordinal - i;
    flow.bytes.value -= bytes_at(before, ordinal);
    end -= node.length[ordinal % kIntervals];
  }
  if (flow.bytes.value == 0)
    flow.bytes_variance = 0;
  // Bursts are timed by the clock of whoever is believed.
  flow.onsets.clear();
  flow.period.reset();
}

// Whether what it said last still holds.
bool is_heard(const Observer& node, Time now) {
  return now - node.last_report <= 3 * node.length[node.ordinal % kIntervals];
}

// The most direct observer has died, and `next` is believed now: what it counted since the other's
// last report was sent, too. The interval that reaches back before that report is left out, as too
// few is honest, and twice is not.
void take_over(const Sighting& dead, const Sighting& next, Subflow& flow) {
  const Observer& node = *next.observer;
  Time begin = node.last_report;
  for (std::uint64_t i = 0; i < kIntervals && i < node.ordinal; ++i) {
    const std::uint64_t ordinal = node.ordinal - i;
    begin -= node.length[ordinal % kIntervals];
    if (begin < dead.observer->last_report)
      break;
    const std::uint64_t bytes = bytes_at(next, ordinal);
    flow.bytes.value += bytes;
    flow.bytes_variance += static_cast<double>(bytes) * next.variance_per_byte;
  }
  flow.onsets.clear();
  flow.period.reset();
}

// Lets go of observers that are not heard any more, as long as another one is; one that comes back
// comes as a new one.
void forget_dead(Subflow& flow, Time now) {
  const auto heard = std::ranges::find_if(flow.sightings, [now](const Sighting& sighting) {
    return is_heard(*sighting.observer, now);
  });
  if (heard == flow.sightings.begin() || heard == flow.sightings.end())
    return;
  take_over(flow.sightings.front(), *heard, flow);
  flow.sightings.erase(flow.sightings.begin(), heard);
}

}  // namespace

FlowKey key_of(const WireKey& key) {
  return {key.source, key.destination, key.source_port, key.dest_qpn};
}

std::string to_string(const FlowKey& key) {
  return fmt::format("{}:{} > {} qp {:#x}", to_string(key.source), key.source_port,
                     to_string(key.destination), key.dest_qpn);
}

void FlowTable::add(const std::string& node, const Report& report, Time now) {
  Observer& observer = nodes_[node];
  if (report.number <= observer.number)
    ++observer.life;
  observer.number = report.number;
  // Of an agent that is there and could not see: no silence, and no sighting either.
  if (report.gap && report.flows.empty()) {
    // Nor has a queue pair ended because nobody could look.
    if (!report.queue_pairs.empty())
      open_pairs_.add(node, report.queue_pairs, now);
    host_ports_.add(node, report);
    return;
  }
  if (observer.ordinal == 0 || !is_heard(observer, now))
    observer.looks_since = now - report.length;
  ++observer.ordinal;
  observer.length[observer.ordinal % kIntervals] = report.length;
  observer.last_report = now;
  for (const FlowDelta& delta : report.flows)
    merge(node, observer, delta, report.begin, now);
  open_pairs_.add(node, report.queue_pairs, now);
  host_ports_.add(node, report);
}

void FlowTable::merge(const std::string& node, const Observer& observer, const FlowDelta& delta,
                      Time begin, Time now) {
  const FlowKey key = key_of(delta.key);
  auto found = subflows_.find(key);
  if (found == subflows_.end()) {
    if (subflows_.size() >= config_.max_subflows &&
        delta.message_length < config_.elephant_message) {
      ++untracked_;
      return;
    }
    found = subflows_.emplace(key, fresh(key, now)).first;
  }
  Subflow& flow = found->second;
  if (is_another(node, observer, delta, now, flow)) {
    Subflow next = fresh(key, now);
    next.dating = flow.dating;
    // The same addresses and ports are hashed the same way.
    next.entry = flow.entry;
    next.observed_up = flow.observed_up;
    flow = std::move(next);
  }
  own(node, delta, flow);
  if (delta.unobservable) {
    // It is there and may send as much as it likes: neither silent nor a sighting.
    flow.last_active = now;
    label(node, delta, flow);
    if (Sighting* const known = find(flow, node);
        known != nullptr && known->unseen_until != observer.ordinal) {
      known->unseen = known->unseen_until + 1 == observer.ordinal ? known->unseen + 1 : 1;
      known->unseen_until = observer.ordinal;
    }
    return;
  }

  forget_dead(flow, now);
  Sighting* sighting = find(flow, node);
  if (sighting == nullptr) {
    const bool seen_before = !flow.sightings.empty();
    sighting = &insert_by_trust(flow, {.node = node,
                                       .observer = &observer,
                                       .vantage = vantage(node, flow),
                                       .first_seen = delta.key.first_seen,
                                       .first_ordinal = observer.ordinal,
                                       .last_ordinal = observer.ordinal,
                                       .source = {}});
    sighting->bytes.fill(0);
    if (seen_before && sighting == &flow.sightings.front())
      hand_over(flow.sightings[1], now - observer.length[observer.ordinal % kIntervals], flow);
  }
  sighting->first_seen = delta.key.first_seen;
  sighting->source = delta.source;
  // The intervals in which the observer reported and did not name this flow were silent.
  const std::uint64_t silent_from = sighting->last_ordinal + 1;
  if (observer.ordinal - sighting->last_ordinal >= kIntervals)
    sighting->bytes.fill(0);
  else
    for (std::uint64_t i = silent_from; i <= observer.ordinal; ++i)
      sighting->bytes[i % kIntervals] = 0;
  // In intervals that it could not count in, it sent evenly, for all that is known.
  const bool was_unseen = sighting->unseen > 0 && sighting->unseen_until + 1 == observer.ordinal;
  const std::uint64_t together =
      1 + (was_unseen ? std::min<std::uint64_t>(sighting->unseen, kIntervals - 1) : 0);
  sighting->last_ordinal = observer.ordinal;
  sighting->first_ordinal =
      std::max(sighting->first_ordinal,
               observer.ordinal < kIntervals ? 0 : observer.ordinal - kIntervals + 1);
  const std::uint64_t first = observer.ordinal - (together - 1);
  const bool burst_begins = bytes_at(*sighting, first) == 0 && bytes_at(*sighting, first - 1) == 0;
  for (std::uint64_t i = 0; i < together; ++i)
    sighting->bytes[(first + i) % kIntervals] +=
        delta.bytes.value / together + (i == 0 ? delta.bytes.value % together : 0);
  const auto error = static_cast<double>(delta.bytes_error.value);
  if (delta.bytes.value > 0)
    sighting->variance_per_byte = error * error / static_cast<double>(delta.bytes.value);

  if (delta.bytes.value > 0) {
    flow.last_active = flow.last_sent = now;
    locate(node, delta, now, flow);
  }
  flow.reset = flow.reset || delta.reset;
  flow.message_length = std::max(flow.message_length, delta.message_length);
  label(node, delta, flow);
  if (sighting == &flow.sightings.front()) {
    flow.bytes += delta.bytes;
    // Samples of different intervals err independently of each other.
    flow.bytes_variance += error * error;
    if (delta.bytes.value > 0 && burst_begins) {
      flow.burst_began = now - observer.length[observer.ordinal % kIntervals];
      note_onset(flow, begin);
    }
  }

  const std::optional<Rate> seen = rate(*sighting);
  const bool large_message = delta.message_length >= config_.elephant_message;
  if (large_message || (seen && *seen >= config_.elephant_rate))
    flow.elephant = true;
  // Half the rate is enough to stay one, so that a flow at the threshold does not come and go.
  if (flow.elephant && (large_message || (seen && *seen >= config_.elephant_rate * 0.5)))
    flow.last_evidence = now;
}

Subflow FlowTable::fresh(const FlowKey& key, Time now) const {
  Subflow flow;
  flow.key = key;
  flow.source = topology_.find_nic(key.source).value_or(NicId{});
  flow.destination = topology_.find_nic(key.destination).value_or(NicId{});
  if (flow.source.valid())
    flow.entry = topology_[flow.source].attachments.front();
  flow.appeared = flow.last_active = flow.last_evidence = now;
  return flow;
}

// Whether the observer that dates the subflow tells by this that it is not the one it was.
bool FlowTable::is_another(const std::string& node, const Observer& observer,
                           const FlowDelta& delta, Time now, Subflow& flow) const {
  Dating& dating = flow.dating;
  if (dating.observer != &observer) {
    const Vantage here = vantage(node, flow);
    if (dating.observer == nullptr || here < dating.vantage || !is_heard(*dating.observer, now))
      dating = {.observer = &observer,
                .life = observer.life,
                .vantage = here,
                .first_seen = delta.key.first_seen};
    return false;
  }
  // An agent that began anew dates everything anew, but processes stay what they are.
  const bool other_process = flow.sender.node == node && flow.sender.pid != 0 && delta.pid != 0 &&
                             flow.sender.pid != delta.pid;
  const Duration apart = delta.key.first_seen > dating.first_seen
                             ? delta.key.first_seen - dating.first_seen
                             : dating.first_seen - delta.key.first_seen;
  const bool dated_anew = dating.life == observer.life && apart > kSameBeginning;
  dating.life = observer.life;
  dating.first_seen = delta.key.first_seen;
  return other_process || dated_anew;
}

void FlowTable::own(const std::string& node, const FlowDelta& delta, Subflow& flow) {
  if (delta.local_qpn == 0)
    return;
  flow.sender = {.node = node,
                 .qpn = delta.local_qpn,
                 .pid = delta.pid,
                 .peer = delta.peer,
                 .source = delta.source};
}

// Who labelled it before is believed also when it takes the label back: the queue pair may be
// another process's now.
void FlowTable::label(const std::string& node, const FlowDelta& delta, Subflow& flow) {
  if (delta.label.empty() && flow.label_node != node)
    return;
  flow.label = delta.label;
  flow.label_origin = delta.label_origin;
  flow.label_node = delta.label.empty() ? std::string{} : node;
}

Vantage FlowTable::vantage(const std::string& node, const Subflow& flow) const {
  const auto at_leaf = [&](NicId nic) {
    return std::ranges::any_of(topology_[nic].attachments, [&](AttachmentId id) {
      return topology_[topology_[id].leaf].name == node;
    });
  };
  if (flow.source.valid()) {
    if (topology_[topology_[flow.source].host].name == node)
      return Vantage::source_host;
    if (at_leaf(flow.source))
      return Vantage::source_leaf;
  }
  if (flow.destination.valid()) {
    if (at_leaf(flow.destination))
      return Vantage::destination_leaf;
    if (topology_[topology_[flow.destination].host].name == node)
      return Vantage::destination_host;
  }
  return Vantage::elsewhere;
}

void FlowTable::locate(const std::string& node, const FlowDelta& delta, Time now,
                       Subflow& flow) const {
  if (delta.out_port.empty() || !flow.source.valid())
    return;
  const std::optional<LeafId> leaf = topology_.find_leaf(node);
  if (!leaf)
    return;
  for (const AttachmentId id : topology_[flow.source].attachments) {
    if (topology_[id].leaf != *leaf)
      continue;
    if (const std::optional<CableId> cable = topology_.cable_at(*leaf, delta.out_port)) {
      flow.entry = id;
      flow.observed_up = *cable;
      flow.observed_at = now;
    }
    return;
  }
}

void FlowTable::note_onset(Subflow& flow, Time begin) const {
  if (!flow.onsets.empty() && begin <= flow.onsets.back())
    flow.onsets.clear();  // another observer's clock, or a machine that booted again
  flow.onsets.push_back(begin);
  if (flow.onsets.size() > kOnsets)
    flow.onsets.erase(flow.onsets.begin());
  flow.period.reset();
  if (flow.onsets.size() < 4)
    return;
  std::vector<Duration> gaps;
  for (std::size_t i = 1; i < flow.onsets.size(); ++i)
    gaps.push_back(flow.onsets[i] - flow.onsets[i - 1]);
  std::ranges::sort(gaps);
  const Duration median = gaps[gaps.size() / 2];
  // Bursts at uneven distances are not an iteration.
  if (gaps.back() - gaps.front() <= median / 4)
    flow.period = median;
}

JoinedPairs FlowTable::joined_pairs() const {
  if (open_pairs_.empty())
    return {};
  std::vector<KnownEnd> known;
  for (const auto& [key, flow] : subflows_)
    if (flow.sender.qpn != 0)
      known.push_back({.address = key.source,
                       .peer = key.destination,
                       .qpn = flow.sender.qpn,
                       .remote_qpn = key.dest_qpn});
  return open_pairs_.join(known);
}

Duration FlowTable::memory(const Subflow& flow) const {
  return flow.period ? std::max(config_.memory, *flow.period * 3) : config_.memory;
}

void FlowTable::age(Time now) {
  open_pairs_.forget(now - config_.memory);
  for (auto it = subflows_.begin(); it != subflows_.end();) {
    Subflow& flow = it->second;
    if (flow.elephant && now - flow.last_evidence > memory(flow))
      flow.elephant = false;
    if (now - flow.last_active > memory(flow))
      it = subflows_.erase(it);
    else
      ++it;
  }
}

std::optional<Rate> FlowTable::rate(const Sighting& sighting) const {
  const Observer& node = *sighting.observer;
  const std::uint64_t last = sighting.counted_until();
  std::uint64_t bytes = 0;
  Duration length{};
  for (std::uint64_t i = 0; i < kRateIntervals && i < last; ++i) {
    if (last - i < sighting.first_ordinal)
      break;  // before it was first seen: a flow that began just now is not a slow one
    bytes += bytes_at(sighting, last - i);
    length += node.length[(last - i) % kIntervals];
  }
  if (length <= Duration::zero())
    return std::nullopt;
  return Rate{static_cast<double>(bytes) * 8.0 / std::chrono::duration<double>(length).count()};
}

std::optional<Time> FlowTable::looks_since(const std::string& node, Time now) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || known->second.ordinal == 0 || !is_heard(known->second, now))
    return std::nullopt;
  return known->second.looks_since;
}

std::optional<Rate> FlowTable::rate(const Subflow& flow, Time now) const {
  for (const Sighting& sighting : flow.sightings)
    if (is_heard(*sighting.observer, now))
      return rate(sighting);
  return std::nullopt;
}

std::optional<FlowTable::Volume> FlowTable::volume(const Subflow& flow) const {
  if (flow.sightings.empty())
    return std::nullopt;
  const Sighting& sighting = flow.sightings.front();
  const Observer& node = *sighting.observer;
  const std::uint64_t last = sighting.counted_until();
  const std::uint64_t oldest = last < kIntervals ? 1 : last - kIntervals + 1;
  Volume volume;
  for (std::uint64_t i = std::max(oldest, sighting.first_ordinal); i <= last; ++i) {
    volume.bytes += Bytes{bytes_at(sighting, i)};
    volume.length += node.length[i % kIntervals];
  }
  return volume;
}

}  // namespace heddle
