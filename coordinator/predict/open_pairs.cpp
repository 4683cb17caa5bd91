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

JoinedPairs OpenPairs::join(std::span<const KnownEnd> known) const {
  using Numbers = std::pair<std::uint32_t, std::uint32_t>;
  std::multimap<Numbers, const OpenQueuePair*> open_ends;
  for (const auto& [name, node] : nodes_)
    for (const OpenQueuePair& pair : node.pairs)
      open_ends.emplace(Numbers{pair.qpn, pair.remote_qpn}, &pair);
  std::multimap<Numbers, const KnownEnd*> known_ends;
  for (const KnownEnd& end : known)
    known_ends.emplace(Numbers{end.qpn, end.remote_qpn}, &end);

  JoinedPairs result;
  for (const auto& [name, node] : nodes_) {
    for (const OpenQueuePair& pair : node.pairs) {
      const Numbers there{pair.remote_qpn, pair.qpn};
      std::vector<IpAddress> others;
      // An end that names this address is the one; the numbers alone may be those of several.
      for (auto [end, last] = known_ends.equal_range(there); end != last; ++end)
        if (end->second->peer == pair.address)
          others.push_back(end->second->address);
      if (others.empty())
        for (auto [end, last] = open_ends.equal_range(there); end != last; ++end)
          if (end->second != &pair && end->second->address.family == pair.address.family)
            others.push_back(end->second->address);
      InferredFlow flow{
          .key = {.source = pair.address,
                  .destination = {},
                  .source_port = udp_source_port(flow_label(pair.qpn, pair.remote_qpn)),
                  .dest_qpn = pair.remote_qpn},
          .node = name,
          .pair = pair,
          .ambiguous = others.size() > 1};
      if (others.empty())
        result.alone.push_back(flow);
      for (const IpAddress& other : others) {
        flow.key.destination = other;
        result.flows.emplace(flow.key, flow);
      }
    }
  }
  return result;
}

}  // namespace heddle
