// Joins both ends of queue pairs whose peers their own machines do not know: the other end has the
// same two numbers the other way round. That is ambiguous where several pairs have the same
// numbers, and inferred in any case, until somebody sees packets with the key that follows from it.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"
#include "coordinator/predict/flow_key.h"

namespace heddle {

struct InferredFlow {
  FlowKey key;
  std::string node;  // of the sender
  std::uint32_t qpn{};
  std::uint32_t pid{};
  bool ambiguous{};  // one of several that it may be
};

class OpenPairs {
 public:
  // Takes the place of what this node reported before.
  void add(const std::string& node, const std::vector<OpenQueuePair>& pairs, Time now);
  void forget(Time before);
  // Each direction is a flow of its own. By key.
  std::multimap<FlowKey, InferredFlow> join() const;
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    std::vector<OpenQueuePair> pairs;
    Time last;
  };
  std::map<std::string, Node> nodes_;
};

}  // namespace heddle
