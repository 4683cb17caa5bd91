#include "agent/observe/flow_merger.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace heddle {
namespace {

constexpr const char* kName = "rdma";

bool has_address(const KnownQueuePair& pair, const IpAddress& address) {
  return std::ranges::find(pair.addresses, address) != pair.addresses.end();
}

// Which of the queue pairs that send to this number sends this flow: not told apart by their
// numbers where two peers have given out the same one.
const KnownQueuePair* sender_of(const FlowCounter& flow,
                                const std::vector<const KnownQueuePair*>& candidates) {
  const KnownQueuePair* best = nullptr;
  int best_score = 0;
  bool tied = false;
  for (const KnownQueuePair* pair : candidates) {
    if (pair->peer && *pair->peer != flow.destination)
      continue;
    if (!pair->addresses.empty() && !has_address(*pair, flow.source))
      continue;
    const int score = 1 + (pair->peer ? 4 : 0) + (pair->source_port == flow.source_port ? 2 : 0) +
                      (pair->netdev == flow.out_port ? 1 : 0);
    if (score >= best_score) {
      tied = score == best_score;
      best = pair;
      best_score = score;
    }
  }
  return tied ? nullptr : best;
}

}  // namespace

Result<FlowReading> FlowMerger::merge(Result<FlowReading> wire, const RdmaView& rdma,
                                      bool rdma_usable, Time now) {
  if (!wire && !rdma_usable)
    return wire;
  // A reading that failed and may succeed next time is a gap; one that cannot be made is none: what
  // it would have seen is marked row by row.
  if (!wire && wire.error().code != Errc::unobservable)
    return wire;
  const bool sees_packets = wire.has_value();
  FlowReading merged;
  if (wire)
    merged = *std::move(wire);
  else
    merged.source = kName;
  merged.gap = merged.gap || rdma.gap;

  std::unordered_map<std::uint32_t, std::vector<const KnownQueuePair*>> by_remote;
  if (!merged.flows.empty()) {  // as where hardware sends everything
    for (const KnownQueuePair& pair : rdma.queue_pairs)
      by_remote[pair.remote_qpn].push_back(&pair);
  }
  std::vector<const KnownQueuePair*> joined;
  for (FlowCounter& flow : merged.flows) {
    const auto candidates = by_remote.find(flow.dest_qpn);
    if (candidates == by_remote.end())
      continue;
    const KnownQueuePair* pair = sender_of(flow, candidates->second);
    if (pair == nullptr)
      continue;
    own(flow, *pair);
    flow.seen_by = merged.source + "+" + kName;
    joined.push_back(pair);
  }
  std::ranges::sort(joined);
  // What was on the wire a moment ago and is forgotten there keeps nothing here either.
  std::erase_if(owners_, [](const auto& entry) { return !entry.second.seen; });
  for (auto& [key, owner] : owners_)
    owner.seen = false;

  // Looking takes rests, in which queue pairs go on sending and their counters were not read.
  const bool rests = looked_ == rdma.looked;
  for (const KnownQueuePair& pair : rdma.queue_pairs) {
    if (std::ranges::binary_search(joined, &pair))
      continue;
    // The kernel's own packets are all seen: this one has sent nothing.
    if (pair.software && sees_packets)
      continue;
    if (pair.addresses.empty())
      continue;  // not on Ethernet
    if (!pair.peer) {
      merged.queue_pairs.push_back({.pair = {.address = pair.addresses.front(),
                                             .qpn = pair.qpn,
                                             .remote_qpn = pair.remote_qpn,
                                             .pid = pair.pid},
                                    .first_seen = std::min(pair.first_seen, now)});
      continue;
    }
    merged.flows.push_back({.source = pair.addresses.front(),
                            .destination = *pair.peer,
                            .source_port = pair.source_port,
                            .dest_qpn = pair.remote_qpn,
                            .out_port = pair.netdev,
                            .first_seen = std::min(pair.first_seen, now),
                            .bytes = pair.bytes.value_or(Bytes{}),
                            .packets = pair.packets,
                            .message_length = {},
                            .local_qpn = pair.qpn,
                            .pid = pair.pid,
                            .peer = pair.origin,
                            .unobservable = !pair.bytes || pair.unseen || rests,
                            .seen_by = kName});
  }
  merged.rdma_ports = rdma.ports;
  merged.rdma_looked = rdma.looked;
  looked_ = rdma.looked;
  return merged;
}

void FlowMerger::own(FlowCounter& flow, const KnownQueuePair& pair) {
  flow.local_qpn = pair.qpn;
  flow.pid = pair.pid;
  const auto [entry, is_new] = owners_.try_emplace(flow.port_key());
  Owner& owner = entry->second;
  const bool counted_anew = owner.wire_first_seen != flow.first_seen;
  const bool other = !is_new && (owner.device != pair.device || owner.qpn != pair.qpn ||
                                 owner.since != pair.first_seen);
  if (counted_anew) {
    owner.again = false;
    owner.bytes_before = {};
    owner.packets_before = 0;
  } else if (other) {
    // Another process took the numbers over while the packets' counter went on: what was counted
    // before is not its own.
    owner.again = true;
    owner.bytes_before = owner.bytes_now;
    owner.packets_before = owner.packets_now;
  }
  owner.device = pair.device;
  owner.qpn = pair.qpn;
  owner.since = pair.first_seen;
  owner.wire_first_seen = flow.first_seen;
  owner.seen = true;
  owner.bytes_now = flow.bytes;
  owner.packets_now = flow.packets;
  if (owner.again) {
    flow.first_seen = owner.since;
    flow.bytes.value -= std::min(owner.bytes_before.value, flow.bytes.value);
    flow.packets -= std::min(owner.packets_before, flow.packets);
  }
}

}  // namespace heddle
