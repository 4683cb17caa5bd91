// What a flow source counted so far, as values. Sources count from the first packet they saw; the
// reporter takes the differences. Plain values of the agent's one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/report/subflow_key.h"
#include "common/core/address.h"
#include "common/core/messages.h"
#include "common/core/units.h"

namespace heddle {

// One subflow where it leaves this node. Counters grow from `first_seen`; a source that lost its
// count starts again with a later `first_seen`.
struct FlowCounter {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port{};
  std::uint32_t dest_qpn{};
  std::string out_port;
  Time first_seen;
  Bytes bytes;  // on the wire, link-layer headers included, as interface counters count them
  std::uint64_t packets{};
  Bytes message_length;  // the longest that was announced since the last reading; 0: none
  // Of what the bytes have grown by since the last reading, where they are estimated from samples:
  // half the width of the interval that holds the true number with 99.7 %. 0: counted.
  Bytes bytes_error{};
  // Attributes that the machine of the sender joins to its subflows; 0: not known.
  std::uint32_t local_qpn{};
  std::uint32_t pid{};
  std::string label{};         // what the process works for: "slurm:1234.0"; empty: not known
  std::string label_origin{};  // where that was read: "cgroup"
  PeerOrigin peer{};
  // Its queue pair is there, but nothing saw what it has sent since the last reading: bytes and
  // packets are only what the next reading that sees something goes on from.
  bool unobservable{};
  std::string seen_by{};  // which of several sources; empty: the reading's

  SubflowKey key() const { return {source, destination, source_port, dest_qpn}; }
  PortSubflowKey port_key() const { return {key(), out_port}; }
};

// What one counter of an RDMA port says.
struct CounterValue {
  std::string name;  // as reports name it: "tx_bytes"
  std::uint64_t value{};
  // 32 bits that begin again at zero; another counter that goes back was reset.
  bool wraps{};
  bool operator==(const CounterValue&) const = default;
};

struct RdmaPortReading {
  std::string device;
  std::uint32_t port{};
  std::string netdev;
  std::uint64_t guid{};
  bool hidden{};
  std::vector<CounterValue> counters;  // those that can be observed now
  std::uint32_t
      index{};  // the kernel's of the device: another one after it was removed and re-added
  bool operator==(const RdmaPortReading&) const = default;
};

// What the driver of a network interface counts of congestion.
struct InterfaceReading {
  std::string name;
  std::vector<CounterValue> counters;  // those that can be observed now
  bool operator==(const InterfaceReading&) const = default;
};

// A connected queue pair whose peer is not known here.
struct OpenPair {
  OpenQueuePair pair;
  Time first_seen;
  bool operator==(const OpenPair&) const = default;
};

struct FlowReading {
  std::string source;  // the flow source's name
  // Since the last reading some packets passed that could not be counted: flows may be missing from
  // this one, and counters may be too low.
  bool gap{};
  std::vector<FlowCounter> flows;  // in no particular order
  std::vector<RdmaPortReading> rdma_ports{};
  Time rdma_looked{};  // when those were read, which may have been for an earlier reading already
  std::vector<OpenPair> queue_pairs{};
  std::vector<InterfaceReading> interfaces{};  // of a leaf
};

}  // namespace heddle
