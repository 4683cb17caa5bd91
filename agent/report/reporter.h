// Turns readings, which count from the beginning, into reports, which say what happened in one
// interval. What could not be seen is marked as such and never reported as zero (safety rule 7): a
// failed reading makes a report with `gap` set, and the next good one covers the time of both.
//
// Pure: time comes in with each call. One thread; lives as long as the agent.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/report/flow_reading.h"
#include "agent/report/port_deltas.h"
#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

class Reporter {
 public:
  // `start`: when the source began to count. With `name_ports`, each delta says where its flow left
  // the node: a leaf's choice of uplink. A host has no such choice to report.
  Reporter(Time start, bool name_ports) : begin_(start), name_ports_(name_ports) {}

  // A subflow that is absent sent nothing, unless `gap` is set.
  Report report(Time now, WallTime wall, const Result<FlowReading>& reading,
                std::vector<PortStatus> ports);

 private:
  // Of a subflow, whichever ports it leaves through: one that moves to another port is no other.
  struct Beginning {
    Time first_seen;
    // Fixed when the subflow is met, so that setting the clock does not turn it into another
    // subflow.
    WallTime wall;
    std::size_t ports{};  // that have it
  };
  struct Previous {
    Time first_seen;
    Beginning* beginning{};
    Bytes bytes;
    std::uint64_t packets{};
    std::uint64_t round{};
  };

  void forget_unread(bool gap);

  std::unordered_map<PortSubflowKey, Previous, SubflowKeyHash> previous_;
  std::unordered_map<SubflowKey, Beginning, SubflowKeyHash> beginnings_;
  PortDeltas ports_;
  InterfaceDeltas interfaces_;
  std::uint64_t next_number_{1};
  std::uint64_t round_{};
  Time begin_;
  bool name_ports_;
};

}  // namespace heddle
