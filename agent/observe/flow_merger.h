// Joins what several sources see of one host's traffic into one reading. A subflow is known by its
// wire key; the queue pair that sends it joins it as attributes. One subflow seen twice is one: of
// its bytes the more direct source is believed, in this order: the packets themselves, the queue
// pair's own counter where it was read again; else they are unobservable. A connected queue pair
// that no packet was seen of is a subflow of its own where its peer is known, and otherwise left to
// the coordinator, which may know the other end.
//
// Pure. One thread; lives as long as its source.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/rdma_inventory.h"
#include "agent/report/flow_reading.h"
#include "common/core/result.h"

namespace heddle {

class FlowMerger {
 public:
  // `wire`: a reading of packets as they leave this host; an error where none can be seen.
  // Errc::unobservable if there is neither a packet nor a device to see.
  Result<FlowReading> merge(Result<FlowReading> wire, const RdmaView& rdma, bool rdma_usable,
                            Time now);

 private:
  // Of a subflow on the wire: which queue pair it was last, and what was counted before that.
  struct Owner {
    std::uint32_t device{};
    std::uint32_t qpn{};
    Time since;    // the queue pair's beginning
    bool again{};  // another queue pair had this key before
    Bytes bytes_before;
    std::uint64_t packets_before{};
    Bytes bytes_now;
    std::uint64_t packets_now{};
    Time wire_first_seen;
    bool seen{};  // in this reading
  };

  void own(FlowCounter& flow, const KnownQueuePair& pair);

  std::map<PortSubflowKey, Owner> owners_;
  std::optional<Time> looked_;  // of the view before
};

}  // namespace heddle
