#include "agent/observe/sampled_flows.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace heddle {
namespace {

constexpr const char* kName = "psample";
constexpr double kDeviations = 3;  // 99.7 % of a normal distribution
// As many as the kernel program of software paths keeps, and as long.
constexpr std::size_t kMostFlows = 16384;
constexpr std::chrono::minutes kIdle{15};
// Processors that sample at once swap neighbours; a number this far back is of a group that was
// made anew.
constexpr std::int32_t kOutOfOrder = 4096;
// For how long one sample of a packet that left shows that those are sampled.
constexpr std::chrono::minutes kLeavingBelieved{1};

// A message that lies about sizes and rates may add up to more than there are numbers.
std::uint64_t whole(double value) {
  constexpr double kMost = 9e18;
  return static_cast<std::uint64_t>(std::min(value, kMost));
}

}  // namespace

// With rates r that become f r, the variance's sum of s^2 fr (fr - 1) is f^2 times what it was plus
// f (f - 1) times the sum of s^2 r.
Estimate Estimate::scaled(double factor) const {
  return {.packets = packets * factor,
          .bytes = bytes * factor,
          .squares = squares * factor,
          .variance = variance * factor * factor + factor * (factor - 1) * squares};
}

double Estimate::error() const {
  if (variance <= 0)
    return 0;
  const double one_sample = variance / bytes;  // what a sample more or less makes
  const double half = kDeviations * one_sample / 2;
  return kDeviations * (half + std::sqrt(variance + half * half));
}

Estimate& Estimate::operator+=(const Estimate& other) {
  packets += other.packets;
  bytes += other.bytes;
  squares += other.squares;
  variance += other.variance;
  return *this;
}

void SampledFlows::watch(std::map<std::uint16_t, std::string> out, std::set<std::uint16_t> in) {
  out_ = std::move(out);
  in_ = std::move(in);
}

void SampledFlows::count(const Sample& sample) {
  ++samples_;
  const auto [place, is_new] = groups_.try_emplace(sample.group);
  Group& group = place->second;
  if (is_new)
    group.base = sample.sequence - 1;
  const auto ahead = static_cast<std::int32_t>(sample.sequence - group.base);
  if (ahead < -kOutOfOrder) {
    group = {.base = sample.sequence - 1, .ahead = 1, .received = 0, .loss_factor = 1};
    gap_ = true;
  } else if (ahead > 0) {
    group.ahead = std::max(group.ahead, static_cast<std::uint32_t>(ahead));
  }
  ++group.received;
}

SampledFlows::Flow* SampledFlows::flow_of(const RocePacket& packet, Time now) {
  const SubflowKey key{packet.source, packet.destination, packet.source_port, packet.dest_qpn};
  auto place = flows_.find(key);
  if (place == flows_.end()) {
    if (flows_.size() >= kMostFlows)
      return nullptr;
    place = flows_.try_emplace(key).first;
    place->second.first_seen = now;
  }
  return &place->second;
}

void SampledFlows::add(const Sample& sample, Time now) {
  count(sample);
  const auto leaves = out_.find(sample.out_port);
  const bool enters = sample.out_port == 0 && in_.contains(sample.in_port);
  if (leaves == out_.end() && !enters)
    return;
  const std::optional<RocePacket> packet = parse_roce(sample.data);
  if (!packet)
    return;
  Flow* const flow = flow_of(*packet, now);
  if (flow == nullptr) {
    gap_ = true;
    return;
  }
  flow->last_seen = now;
  flow->message_length = std::max(flow->message_length, packet->message_length);
  const std::string& out_port = enters ? std::string{} : leaves->second;
  if (!enters)
    sees_leaving_until_ = now + kLeavingBelieved;
  auto pending = std::ranges::find_if(flow->pending, [&](const Pending& one) {
    return one.group == sample.group && one.out_port == out_port;
  });
  if (pending == flow->pending.end())
    pending = flow->pending.insert(pending, {sample.group, out_port, {}});
  pending->estimate.add(static_cast<double>(sample.size.value), sample.rate);
}

// What is pending becomes part of the totals.
void SampledFlows::close(Flow& flow, bool sees_leaving) {
  for (Total& total : flow.totals)
    total.error = 0;
  std::map<std::string, Estimate> sums;
  for (const Pending& pending : flow.pending)
    if (!sees_leaving || !pending.out_port.empty())
      sums[pending.out_port] += pending.estimate.scaled(groups_[pending.group].loss_factor);
  flow.pending.clear();
  for (const auto& [out_port, sum] : sums) {
    auto total = std::ranges::find(flow.totals, out_port, &Total::out_port);
    if (total == flow.totals.end())
      total = flow.totals.insert(total, {.out_port = out_port});
    total->bytes += sum.bytes;
    total->packets += sum.packets;
    total->error = sum.error();
  }
}

FlowReading SampledFlows::read(Time now) {
  for (auto& [id, group] : groups_) {
    const bool lost = group.ahead > group.received && group.received > 0;
    group.loss_factor =
        lost ? static_cast<double>(group.ahead) / static_cast<double>(group.received) : 1;
    gap_ = gap_ || lost;
    group.base += group.ahead;
    group.ahead = 0;
    group.received = 0;
  }
  FlowReading reading{.source = kName, .gap = std::exchange(gap_, false), .flows = {}};
  std::erase_if(flows_, [now](const auto& entry) { return now - entry.second.last_seen > kIdle; });
  for (auto& [key, flow] : flows_) {
    close(flow, now < sees_leaving_until_);
    const Bytes message_length = std::exchange(flow.message_length, Bytes{});
    for (const Total& total : flow.totals) {
      reading.flows.push_back({.source = key.source,
                               .destination = key.destination,
                               .source_port = key.source_port,
                               .dest_qpn = key.dest_qpn,
                               .out_port = total.out_port,
                               .first_seen = flow.first_seen,
                               .bytes = {whole(total.bytes)},
                               .packets = whole(total.packets),
                               .message_length = message_length,
                               .bytes_error = {whole(std::ceil(total.error))}});
    }
  }
  return reading;
}

}  // namespace heddle
