// Everything that coordinator, agents and command line say to each other, as values. common/wire
// gives them their form on the wire (schemas/heddle.capnp, which is the protocol's specification).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/core/flow.h"
#include "common/core/plan.h"
#include "common/core/units.h"

namespace heddle {

enum class Role : std::uint8_t { host, leaf, spine, cli };
// An agent in `observe` never programs anything, whatever it is sent.
enum class Mode : std::uint8_t { observe, program };

// How much a counter of a port grew in one interval.
struct PortCount {
  std::string name;  // "tx_bytes"; see schemas/heddle.capnp
  std::uint64_t value{};
  bool reset{};  // it went back, or its device was re-added: a lower bound
  bool operator==(const PortCount&) const = default;
};

struct PortStatus {
  std::string name;
  bool carrier{};
  std::uint64_t tx_bytes{};  // since boot; the coordinator takes differences
  std::uint64_t rx_bytes{};
  Rate speed{};  // negotiated; 0: not known
  // In a leaf's reports, of congestion. A counter that is not listed could not be observed.
  std::vector<PortCount> counts{};
  bool operator==(const PortStatus&) const = default;
};

struct EnforcerCapability {
  std::string name;  // "port-tables"
  Granularity granularity{};
  bool usable{};
  std::string reason;  // why not, and what to do about it; empty if usable
  bool operator==(const EnforcerCapability&) const = default;
};

struct SourceCapability {
  std::string name;  // "ebpf"
  bool usable{};
  std::string reason;
  bool operator==(const SourceCapability&) const = default;
};

// An SRv6 segment that a node has installed and read back.
struct LocalSegment {
  SegmentBehaviour behaviour{};
  IpAddress address;
  auto operator<=>(const LocalSegment&) const = default;
};

// First word of an agent on every connection. `instance` is drawn at each start, so that two agents
// with one name are told from one that reconnects (safety rule 9).
struct Hello {
  Role role{};
  Mode mode{};
  bool disabled{};
  std::string software;
  std::string boot_id;
  std::uint64_t instance{};
  PlanVersion installed;     // what was read back
  PlanVersion highest_seen;  // no coordinator may begin below it (safety rule 4)
  std::uint64_t digest{};    // of the installed pins
  std::vector<EnforcerCapability> enforcers;
  std::vector<SourceCapability> sources;
  std::vector<PortStatus> ports;
  std::vector<LocalSegment> segments{};  // of its own; what other nodes' segment lists may name
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  PlanVersion version;
  Duration report_interval{};
  Duration lease{};
  bool columns_of_one{};  // what a sender of reports may write; see schemas/heddle.capnp
  bool operator==(const Welcome&) const = default;
};

// The receiver is told why and goes on observing; it programs nothing new.
struct Refusal {
  Errc code{};
  std::string reason;
  bool operator==(const Refusal&) const = default;
};

// How it came to be known where a subflow's packets go.
enum class PeerOrigin : std::uint8_t {
  wire,      // its packets were seen
  kernel,    // the kernel was watched as it connected the queue pair
  cm,        // rdma_cm's table of connections
  inferred,  // by the coordinator, from both ends' queue pair numbers
};

// What one subflow did in one interval.
struct FlowDelta {
  WireKey key;
  Bytes bytes;
  std::uint64_t packets{};
  Bytes message_length;  // the longest RETH length that began in the interval; 0: none seen
  std::string out_port;  // where it left this node; empty on a host
  std::string source;    // the flow source that saw it: "ebpf"
  bool reset{};  // the counter went back or the entry was new after a loss: the delta is a lower
                 // bound
  Bytes bytes_error{};         // of an estimate from samples; 0: counted
  std::string label{};         // what it works for: "slurm:1234.0", "k8s:UID"; empty: not known
  std::string label_origin{};  // where that was read: "cgroup"
  // The sender's own attributes, joined to the subflow; 0: not known.
  std::uint32_t local_qpn{};
  std::uint32_t pid{};
  PeerOrigin peer{};
  // The queue pair is there, but what it sends cannot be seen from here: bytes and packets mean
  // nothing.
  bool unobservable{};
  bool operator==(const FlowDelta&) const = default;
};

// A queue pair whose peer is not known on its own machine; the other end may know it by its number.
struct OpenQueuePair {
  IpAddress address;
  std::uint32_t qpn{};
  std::uint32_t remote_qpn{};
  std::uint32_t pid{};         // 0: not known
  std::string label{};         // what its process works for: "slurm:1234.0"; empty: not known
  std::string label_origin{};  // where that was read: "cgroup"
  auto operator<=>(const OpenQueuePair&) const = default;  // NOLINT(modernize-use-nullptr)
};

// What an RDMA port counted in one interval. A counter that is not listed could not be observed.
struct RdmaPortCounts {
  std::string device;  // "mlx5_0"
  std::uint32_t port{};
  std::string netdev;    // empty: not known
  std::uint64_t guid{};  // the device's, which keeps it known across renaming
  // Not to be seen any more while RDMA devices belong to one network namespace each: it may work on
  // in another one.
  bool hidden{};
  std::vector<PortCount> counts;
  Duration length{};  // in which they grew; 0: the report's
  bool operator==(const RdmaPortCounts&) const = default;
};

struct Report {
  std::uint64_t number{};  // gaps show lost reports
  Time begin;              // sender's boot time
  Duration length{};
  bool gap{};  // something between the last report and this one could not be seen
  std::vector<FlowDelta> flows;
  std::vector<PortStatus> ports;
  std::vector<RdmaPortCounts> rdma_ports{};
  std::vector<OpenQueuePair> queue_pairs{};
  std::uint64_t links{};  // the state of the LinkChange that holds now; 0: not given
  bool operator==(const Report&) const = default;
};

// A destination that `main` no longer offers through a port which carries or could carry a pin.
struct Withdrawal {
  Prefix destination;
  std::string out_port;
  auto operator<=>(const Withdrawal&) const = default;
};

// What LLDP says is at the other end of a port, in the neighbour's own words.
struct LldpNeighbour {
  std::string port;
  std::string node;       // empty: it did not tell
  std::string node_port;  // its port id: the interface's name, or a MAC address, or a number
  std::string node_port_description{};  // often the interface's name where the id is none
  auto operator<=>(const LldpNeighbour&) const = default;
};

// Sent at once, not at the next report: what changed about links and routes. Whole state each time,
// so that nothing depends on an earlier one having arrived.
struct LinkChange {
  std::vector<PortStatus> ports;
  std::vector<Withdrawal> withdrawn;
  std::optional<std::vector<LldpNeighbour>> neighbours{};  // nothing: not known
  std::uint64_t state{};  // the sender's number for it, one more for each; 0: not given
  bool operator==(const LinkChange&) const = default;
};

struct PinFailure {
  SteeringUnit unit;
  Errc code{};
  std::string reason;
  bool operator==(const PinFailure&) const = default;
};

// How far a node's pins have come. Where the kernel does not forward itself, a pin is only as good
// as what the hardware shows.
struct PinStates {
  std::uint32_t installed{};  // read back from the kernel
  bool hardware{};            // an ASIC forwards
  std::uint32_t offloaded{};  // of those, what the ASIC shows as its own
  // Of those, what was proven: by the kernel's own lookup, or by packets seen leaving.
  std::uint32_t effective{};
  bool operator==(const PinStates&) const = default;
};

// What was read back from the kernel, never what was merely sent to it.
struct Acknowledgement {
  PlanVersion version;
  std::uint64_t digest{};  // of the pins that are installed
  std::uint32_t installed{};
  std::vector<PinFailure> failed;  // includes pins that rule 12 or rule 6 took away
  bool disabled{};
  std::string conflict;  // foreign state in our ranges, named; empty if none
  Duration apply_time{};
  std::optional<PinStates> states{};  // nothing: not told
  bool operator==(const Acknowledgement&) const = default;
};

struct Snapshot {
  NodePlan plan;
  std::uint64_t digest{};
  bool operator==(const Snapshot&) const = default;
};

// Asks for the whole plan of the sender's node.
struct SnapshotRequest {
  PlanVersion have;
  std::string reason;
  bool operator==(const SnapshotRequest&) const = default;
};

struct Heartbeat {
  PlanVersion version;
  std::uint64_t digest{};  // of this node's pins
  Duration lease{};
  bool operator==(const Heartbeat&) const = default;
};

// Asks for a LinkChange. Answered by one.
struct LinkRequest {
  std::uint64_t have{};  // the state heard last; 0: none
  bool operator==(const LinkRequest&) const = default;
};

// The off switch, and back. Answered by an Acknowledgement.
struct Switch {
  bool enable{};
  std::string by;
  bool operator==(const Switch&) const = default;
};

// From the command line; the reply is JSON, which the command line prints or makes into a table.
struct Request {
  std::uint64_t id{};
  std::string command;
  std::vector<std::string> arguments;
  bool operator==(const Request&) const = default;
};
struct Reply {
  std::uint64_t id{};
  std::uint8_t exit_code{};
  std::string json;
  std::string error;
  bool operator==(const Reply&) const = default;
};

using Message =
    std::variant<Hello, Welcome, Refusal, Report, LinkChange, Acknowledgement, PlanDiff, Snapshot,
                 SnapshotRequest, Heartbeat, Switch, Request, Reply, LinkRequest>;

struct Envelope {
  std::string node;  // the sender's name; "coordinator" for the coordinator
  std::uint64_t sequence{};
  Message message;
  bool operator==(const Envelope&) const = default;
};

}  // namespace heddle
