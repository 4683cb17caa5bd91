#include "coordinator/predict/open_pairs.h"

#include "common/core/udp_source_port.h"

namespace heddle {

void OpenPairs::add(const std::string& node, const std::vector<OpenQueuePair>& pairs, Time now) {
  if (pairs.empty())
    nodes_.erase(node);
  else
    nodes_[node] = {.pairs = pairs, .last = now};
}

void OpenPairs::forget(Time before) {
  std::erase_if(nodes_, [before](const auto& entry) { return entry.second.last < before; });
}

std::multimap<FlowKey, InferredFlow> OpenPairs::join() const {
  using Numbers = std::pair<std::uint32_t, std::uint32_t>;
  std::multimap<Numbers, const OpenQueuePair*> by_numbers;
  for (const auto& [name, node] : nodes_)
    for (const OpenQueuePair& pair : node.pairs)
      by_numbers.emplace(Numbers{pair.qpn, pair.remote_qpn}, &pair);

  std::multimap<FlowKey, InferredFlow> result;
  for (const auto& [name, node] : nodes_) {
    for (const OpenQueuePair& pair : node.pairs) {
      std::vector<const OpenQueuePair*> others;
      const auto [begin, end] = by_numbers.equal_range({pair.remote_qpn, pair.qpn});
      for (auto other = begin; other != end; ++other)
        if (other->second != &pair && other->second->address.family == pair.address.family)
          others.push_back(other->second);
      for (const OpenQueuePair* other : others) {
        const FlowKey key{.source = pair.address,
                          .destination = other->address,
                          .source_port = udp_source_port(flow_label(pair.qpn, pair.remote_qpn)),
                          .dest_qpn = pair.remote_qpn};
        result.emplace(key, InferredFlow{.key = key,
                                         .node = name,
                                         .qpn = pair.qpn,
                                         .pid = pair.pid,
                                         .ambiguous = others.size() > 1});
      }
    }
  }
  return result;
}

}  // namespace heddle
