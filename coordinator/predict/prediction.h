// The demand of the next horizon: which elephants will want the network, and whose they are.
// Training is periodic, so a flow that is silent between two steps or in a compute pause is
// demanded as long as the flow table remembers it.
//
// Pure values; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/core/flow.h"
#include "common/core/job.h"
#include "common/core/topology.h"
#include "coordinator/predict/flow_table.h"

namespace heddle {

struct PredictedJob {
  std::string name;
  bool declared{};
  std::vector<std::string> hosts{};  // those of its flows, sorted
  bool weights_known{};              // bytes of a period; else every weight is 1
  std::optional<Duration> period{};
  bool operator==(const PredictedJob&) const = default;
};

struct PredictedFlow {
  std::vector<FlowKey> subflows;  // as many as the demand says, in order of their keys
  std::vector<CableId> observed;  // by subflow: the uplink it runs through; not valid: not seen
  AttachmentId entry;             // of the source NIC
  bool operator==(const PredictedFlow&) const = default;
};

// `flows` and `jobs` are parallel to those of the demand.
struct Prediction {
  Demand demand;
  std::vector<PredictedFlow> flows;
  std::vector<PredictedJob> jobs;
  std::uint32_t
      outside{};  // elephants to or from an address that the fabric does not have: not placed
};

// Elephants become flows: the subflows of one pair of NICs in one job are one flow. A job is what
// was declared, if both hosts take part in it (the first such, in the order given); the rest fall
// into connected components over hosts.
// `before`: the last prediction, whose weights stay as long as they are near enough.
Prediction predict(const Topology& topology, const FlowTable& table,
                   std::span<const JobDeclaration> declared, const Prediction* before = nullptr);

// The same value as long as the same pairs of NICs in the same jobs use as many subflows each: when
// it changes, so has the demand, and weights that wander do not count.
std::uint64_t demand_signature(const Prediction& prediction);

}  // namespace heddle
