#include "coordinator/decide/measure.h"

#include <algorithm>
#include <array>

namespace heddle {

namespace {

constexpr std::uint64_t kMeanIntervals = 16;  // over which the pauses between iterations even out
constexpr int kLeastIterations = 10;          // in a mean, so that a part of one does not count
constexpr std::uint64_t kBurstIntervals = 4;  // few, so that a change is seen at once
constexpr std::size_t kSamples = 64;
constexpr int kErrorsLate = 3;  // readings that may fail before errors are not known any more

struct Rates {
  std::optional<double> in_bursts;
  std::optional<double> mean;
};

// What the most trusted observer of a subflow saw since a moment.
Rates rates_of(const Subflow& flow, Time since) {
  Rates rates;
  if (flow.sightings.empty())
    return rates;
  const Sighting& sighting = flow.sightings.front();
  const Observer& node = *sighting.observer;
  const auto at = [&](std::uint64_t ordinal) -> std::uint64_t {
    return ordinal < sighting.first_ordinal || ordinal > sighting.last_ordinal
               ? 0
               : sighting.bytes[ordinal % kIntervals];
  };
  std::uint64_t all = 0;
  std::uint64_t inner = 0;
  Duration all_time{};
  Duration inner_time{};
  std::uint64_t seen = 0;
  std::uint64_t inner_seen = 0;
  Time begin = node.last_report;
  for (std::uint64_t ordinal = node.ordinal;
       ordinal > 0 && node.ordinal - ordinal < kIntervals - 1 && ordinal >= sighting.first_ordinal;
       --ordinal) {
    const Duration length = node.length[ordinal % kIntervals];
    begin -= length;
    if (begin < since)
      break;
    if (ordinal > sighting.counted_until())
      continue;
    if (seen < kMeanIntervals) {
      all += at(ordinal);
      all_time += length;
      ++seen;
    }
    // An interval at either end of a burst holds a part of the pause.
    if (inner_seen < kBurstIntervals && ordinal < sighting.counted_until() && at(ordinal) > 0 &&
        at(ordinal - 1) > 0 && at(ordinal + 1) > 0) {
      inner += at(ordinal);
      inner_time += length;
      ++inner_seen;
    }
  }
  const auto rate = [](std::uint64_t bytes, Duration time) {
    return static_cast<double>(bytes) * 8.0 / std::chrono::duration<double>(time).count();
  };
  if (seen == kMeanIntervals && all_time > Duration::zero() &&
      (!flow.period || *flow.period * kLeastIterations <= all_time))
    rates.mean = rate(all, all_time);
  if (inner_time > Duration::zero())
    rates.in_bursts = rate(inner, inner_time);
  return rates;
}

// A job's flows begin together; one whose beginning was missed must not count for all.
void note_iterations(const Subflow& flow, Time since, Time now, JobMeasure& job) {
  if (flow.sightings.empty() || flow.onsets.empty())
    return;
  const Observer& node = *flow.sightings.front().observer;
  const bool began = flow.burst_began >= since;
  if (!began && (!flow.silent() || node.last_report < since))
    return;
  job.slack = std::max(job.slack, node.length[node.ordinal % kIntervals]);
  const auto least = [](std::optional<Duration>& known, Duration value) {
    known = known ? std::min(*known, value) : value;
  };
  // What nothing has followed since then has lasted for at least as long as that was reported.
  least(job.running, began ? now - flow.burst_began : node.last_report - since);
  if (!began || flow.onsets.size() < 2)
    return;
  const Duration last = flow.onsets.back() - flow.onsets[flow.onsets.size() - 2];
  if (flow.burst_began - last >= since)
    least(job.iteration, last);
  std::vector<Duration> whole;
  for (std::size_t i = flow.onsets.size() - 1;
       i > 0 && flow.burst_began - (flow.onsets.back() - flow.onsets[i - 1]) >= since; --i)
    whole.push_back(flow.onsets[i] - flow.onsets[i - 1]);
  if (whole.empty())
    return;
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2);
  std::ranges::nth_element(whole, middle);
  least(job.usual_iteration, *middle);
}

// Whether the flow was seen to send in an interval that began after the moment.
bool sent_since(const Subflow& flow, Time since) {
  if (flow.sightings.empty())
    return false;
  const Observer& node = *flow.sightings.front().observer;
  return flow.last_sent - node.length[node.ordinal % kIntervals] >= since;
}

// Likewise, and not so long ago that it must have stopped since: a pause between two iterations is
// no stop.
bool sends(const Subflow& flow, const Watch& watch) {
  if (!sent_since(flow, watch.since))
    return false;
  const Observer& node = *flow.sightings.front().observer;
  const Duration patience = std::max(watch.patience, 2 * flow.period.value_or(Duration::zero()));
  return watch.now - flow.last_sent <= patience + node.length[node.ordinal % kIntervals];
}

// Whether it is to be expected again: it never paused since the moment, or it pauses as ever.
bool is_steady(const Subflow& flow, Time since, Time now) {
  if (!sent_since(flow, since))
    return false;
  return flow.period ? now - flow.last_sent <= 2 * *flow.period
                     : flow.burst_began < since && !flow.silent();
}

void lower(std::optional<double>& least, std::optional<double> value, bool first) {
  if (first || (least && (!value || *value < *least)))
    least = value;
}

}  // namespace

std::map<std::string, JobMeasure> measure_jobs(const FlowTable& table, const Prediction& prediction,
                                               std::span<const double> needed, const Watch& watch) {
  const Time since = watch.since;
  const Time now = watch.now;
  std::map<std::string, JobMeasure> jobs;
  for (std::size_t i = 0; i < prediction.flows.size(); ++i) {
    const std::uint32_t number = prediction.demand.flows[i].job.value;
    const auto [place, first_of_job] = jobs.try_emplace(prediction.jobs[number].name);
    JobMeasure& job = place->second;
    if (first_of_job) {
      job.hosts = prediction.jobs[number].hosts;
      job.ceased = true;
    }
    Rates flow;
    bool first = true;
    for (const FlowKey& key : prediction.flows[i].subflows) {
      const auto found = table.subflows().find(key);
      const Rates seen = found == table.subflows().end() ? Rates{} : rates_of(found->second, since);
      lower(flow.in_bursts, seen.in_bursts, first);
      lower(flow.mean, seen.mean, first);
      first = false;
      if (found == table.subflows().end())
        continue;
      note_iterations(found->second, since, now, job);
      job.sent = job.sent || sent_since(found->second, since);
      job.ceased = job.ceased && !sends(found->second, watch);
      if (!found->second.sightings.empty())
        job.seen_by.insert(found->second.sightings.front().node);
      if (is_steady(found->second, since, now))
        job.steady.push_back({.key = key,
                              .period = found->second.period.value_or(Duration::zero()),
                              .seen_by = found->second.sightings.front().node});
    }
    const double scale =
        needed[i] > 0 ? static_cast<double>(prediction.flows[i].subflows.size()) / needed[i] : 0;
    const auto share = [&](std::optional<double> rate) {
      return rate && scale > 0 ? std::optional(*rate * scale) : std::nullopt;
    };
    lower(job.in_bursts, share(flow.in_bursts), first_of_job);
    lower(job.mean, share(flow.mean), first_of_job);
  }
  for (auto& [name, job] : jobs) {
    std::ranges::sort(job.steady, {}, &SteadyFlow::key);
    job.ceased = job.ceased && job.sent;
  }
  return jobs;
}

std::map<std::string, Remains> remains_of(const FlowTable& table, const Prediction& prediction,
                                          const std::map<std::string, JobMeasure>& before,
                                          const Watch& watch) {
  const auto known_as = [&](const FlowKey& key) {
    const auto found = table.subflows().find(key);
    return found == table.subflows().end() ? nullptr : &found->second;
  };
  std::set<FlowKey> known;
  for (const auto& [name, job] : before)
    for (const SteadyFlow& flow : job.steady)
      known.insert(flow.key);
  // A job may connect anew, or to others: what a sender has begun stands for what it has ended.
  std::map<IpAddress, std::uint64_t> begun;
  for (const PredictedFlow& flow : prediction.flows)
    for (const FlowKey& key : flow.subflows)
      if (const Subflow* const is = known_as(key);
          is != nullptr && !known.contains(key) && sends(*is, watch))
        ++begun[key.source];
  std::map<std::string, Remains> remains;
  for (const auto& [name, job] : before)
    for (const SteadyFlow& flow : job.steady)
      if (const Subflow* const is = known_as(flow.key); is != nullptr && sends(*is, watch))
        ++remains[name].going;
      else if (is != nullptr && !is->counted())
        ++remains[name].uncounted;
      else if (std::uint64_t& instead = begun[flow.key.source]; instead > 0)
        --instead;
      else
        remains[name].stopped.push_back(flow);
  return remains;
}

std::set<std::string> unheard_of(const FlowTable& table,
                                 const std::map<std::string, JobMeasure>& before,
                                 const Watch& watch) {
  // Before the beginning nobody need have looked; after it, nobody saw what it sent in a pause.
  const Time from = std::max(watch.since, watch.now - watch.patience);
  std::set<std::string> unheard;
  for (const auto& [name, job] : before)
    for (const std::string& node : job.seen_by)
      if (const auto looks = table.looks_since(node, watch.now); !looks || *looks > from)
        unheard.insert(node);
  return unheard;
}

void ErrorWatch::add(const std::string& node, const Report& report, Time now) {
  if (report.rdma_ports.empty())
    return;
  // Counters that are read seldom grew for longer.
  Duration length = report.length;
  for (const RdmaPortCounts& port : report.rdma_ports)
    length = std::max(length, port.length);
  Sample sample{
      .begin = now - length, .length = length, .retransmissions = {}, .out_of_sequence = {}};
  const auto count = [](Sum& sum, std::uint64_t value) {
    sum.value += value;
    ++sum.counters;
  };
  for (const RdmaPortCounts& port : report.rdma_ports)
    for (const PortCount& one : port.counts) {
      if (one.name == "timeouts" || one.name == "sequence_errors")
        count(sample.retransmissions, one.value);
      if (one.name == "out_of_sequence")
        count(sample.out_of_sequence, one.value);
    }
  std::deque<Sample>& samples = samples_[node];
  samples.push_back(sample);
  if (samples.size() > kSamples)
    samples.pop_front();
}

ErrorRates ErrorWatch::rates(const std::string& node, Time since, Time now) const {
  ErrorRates rates;
  const auto known = samples_.find(node);
  if (known == samples_.end())
    return rates;
  const auto sum = [&](Sum Sample::*of, std::optional<double>& rate, std::uint32_t& counters) {
    double count = 0;
    double seconds = 0;
    const Sample* newest = nullptr;
    for (const Sample& sample : known->second)
      if (sample.begin >= since && (sample.*of).counters > 0) {
        count += static_cast<double>((sample.*of).value);
        seconds += std::chrono::duration<double>(sample.length).count();
        newest = &sample;
      }
    // Counters that are read seldom are waited for the longer.
    if (seconds <= 0 || now - newest->begin > (kErrorsLate + 1) * newest->length)
      return;
    rate = count / seconds;
    counters = (newest->*of).counters;
  };
  sum(&Sample::retransmissions, rates.retransmissions, rates.retransmission_counters);
  sum(&Sample::out_of_sequence, rates.out_of_sequence, rates.sequence_counters);
  return rates;
}

}  // namespace heddle
