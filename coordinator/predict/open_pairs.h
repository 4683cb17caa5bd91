// Joins both ends of queue pairs whose peers their own machines do not know: the other end has the
// same two numbers the other way round. That is ambiguous where several pairs have the same
// numbers, and inferred in any case, until somebody sees packets with the key that follows from it.
// One whose other end nobody reports is there all the same, with a peer that is not known.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "coordinator/predict/flow_key.h"

namespace heddle {

struct InferredFlow {
  FlowKey key;
  std::string node;  // of the sender
  OpenQueuePair pair;
  bool ambiguous{};  // one of several that it may be
};

// Of a queue pair whose own machine knows its peer.
struct KnownEnd {
  IpAddress address;
  IpAddress peer;
  std::uint32_t qpn{};
  std::uint32_t remote_qpn{};
};

struct JoinedPairs {
  // Each direction is a flow of its own. By key.
  std::multimap<FlowKey, InferredFlow> flows;
  // Those whose other end nobody reports: the destinations of their keys mean nothing.
  std::vector<InferredFlow> alone;
};

class OpenPairs {
 public:
  // Takes the place of what this node reported before.
  void add(const std::string& node, const std::vector<OpenQueuePair>& pairs, Time now);
  void forget(Time before);
  // `known`: other ends that are not open.
  JoinedPairs join(std::span<const KnownEnd> known) const;
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    std::vector<OpenQueuePair> pairs;
    Time last;
  };
  std::map<std::string, Node> nodes_;
};

}  // namespace heddle
