// What all agents see of one subflow, merged into one row. A host and the leaves on the way report
// the same packets; the row keeps them apart by vantage and believes the one nearest to the sender,
// so that a flow seen four times is still one flow.
//
// Numbers are used again: when the most direct observer dates a subflow anew, it is another one,
// and its row begins afresh. Dates of different observers are not compared.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/core/flow.h"
#include "common/core/messages.h"
#include "common/core/topology.h"
#include "coordinator/predict/flow_key.h"
#include "coordinator/predict/host_ports.h"
#include "coordinator/predict/open_pairs.h"

namespace heddle {

// Where an observer stands on the way of the flow. In this order of trust: what was lost further on
// was still sent.
enum class Vantage : std::uint8_t {
  source_host,
  source_leaf,
  destination_leaf,
  destination_host,
  elsewhere
};

struct FlowTableConfig {
  Rate elephant_rate{100e6};                  // an elephant by what it sends
  Bytes elephant_message{1 << 20};            // or by the messages that it begins
  Duration memory{std::chrono::seconds(30)};  // silence after which a flow is forgotten
  std::size_t max_subflows{131072};           // new mice beyond it are not tracked, but counted
};

// The last intervals of one observer's reports, by ordinal. A power of two that holds several
// iterations.
inline constexpr std::size_t kIntervals = 32;

// The intervals that one node reported.
struct Observer {
  std::uint64_t ordinal{};  // of its latest report; counts what arrived
  std::uint64_t number{};   // that its agent gave that report
  std::uint64_t life{};     // how often its agent began to number from the start
  std::array<Duration, kIntervals> length{};
  Time last_report;
  // Since when it has told of flows without a pause: what it did not tell of before may have sent.
  Time looks_since;
};

struct Sighting {
  std::string node;
  const Observer* observer{};  // the node's; lives as long as the table
  Vantage vantage{};
  WallTime first_seen;
  std::uint64_t first_ordinal{};  // of the node's reports
  std::uint64_t last_ordinal{};
  std::array<std::uint64_t, kIntervals> bytes{};
  // The intervals, one behind the other, in which it was there and could not be counted; the last
  // of them.
  std::uint64_t unseen{};
  std::uint64_t unseen_until{};
  double variance_per_byte{};  // of what it estimated last
  std::string source;          // of the node: "ebpf+rdma"

  // The last interval in which it was counted, or would have been.
  std::uint64_t counted_until() const {
    return observer->ordinal - (unseen_until == observer->ordinal ? unseen : 0);
  }
};

// The queue pair that sends a subflow, as its own machine knows it.
struct SenderPair {
  std::string node;  // empty: not known
  std::uint32_t qpn{};
  std::uint32_t pid{};  // 0: not known
  PeerOrigin peer{};    // how that machine knows where the packets go
  std::string source;   // its flow source
};

// Since when there is a subflow, by the most direct observer.
struct Dating {
  const Observer* observer{};  // lives as long as the table
  std::uint64_t life{};        // of that observer's agent
  Vantage vantage{};
  WallTime first_seen;  // by its clock
};

struct Subflow {
  FlowKey key;
  Dating dating;
  NicId source;  // not valid: no NIC of the fabric has this address
  NicId destination;
  AttachmentId entry;  // where it enters the fabric: the first, or the one of the leaf that sees it
  CableId observed_up;  // the uplink that the source leaf sent it through last; not valid: not seen
  Time observed_at;     // when that was seen
  // Since it appeared, by the most trusted observer there was at each time.
  Bytes bytes;
  Bytes message_length;  // the longest seen; 0: none
  bool elephant{};
  bool reset{};              // a delta was a lower bound
  double bytes_variance{};   // in bytes squared: the errors' squares of what was estimated
  std::string label;         // what its process works for; empty: not known
  std::string label_origin;  // where that was read: "cgroup"
  std::string label_node;    // and on which node
  SenderPair sender;
  Time appeared;
  Time last_active;
  Time last_sent;                  // when bytes of it were seen last
  Time last_evidence;              // of being an elephant
  Time burst_began;                // in our clock: the last burst that the first sighting saw begin
  std::optional<Duration> period;  // between the beginnings of bursts
  // Who counts its bytes; none where its queue pair is there and nobody sees what it sends.
  std::vector<Sighting> sightings;
  std::vector<Time> onsets;  // in the clock of the most trusted observer

  // Whether the most trusted observer could count it in its latest interval.
  bool counted() const {
    return !sightings.empty() &&
           sightings.front().counted_until() == sightings.front().observer->ordinal;
  }
  // Whether it saw nothing of it then, and looked.
  bool silent() const {
    return counted() && (sightings.front().last_ordinal != sightings.front().observer->ordinal ||
                         sightings.front().bytes[sightings.front().last_ordinal % kIntervals] == 0);
  }
};

class FlowTable {
 public:
  FlowTable(const Topology& topology, FlowTableConfig config)
      : topology_(topology), config_(config) {}

  // `now` is when the report arrived.
  void add(const std::string& node, const Report& report, Time now);
  // Forgets what has been silent, and demotes elephants that are none any more.
  void age(Time now);

  const std::map<FlowKey, Subflow>& subflows() const { return subflows_; }
  // Over the last intervals of the most trusted observer; nothing if no observer reported lately,
  // because not seen is not zero (safety rule 7).
  std::optional<Rate> rate(const Subflow& flow, Time now) const;
  // What was sent in the remembered intervals, and how long they were together.
  struct Volume {
    Bytes bytes;
    Duration length{};
  };
  std::optional<Volume> volume(const Subflow& flow) const;

  // What counts from now on; what is an elephant already stays one as long as it did before.
  void reconfigure(FlowTableConfig config) { config_ = config; }

  // Since when the node has told of flows without a pause; nothing if it does not by now.
  std::optional<Time> looks_since(const std::string& node, Time now) const;

  std::uint64_t untracked() const { return untracked_; }
  // Both ends of the queue pairs whose peers their own machines do not know.
  JoinedPairs joined_pairs() const;
  const HostPorts& host_ports() const { return host_ports_; }
  const FlowTableConfig& config() const { return config_; }

 private:
  Vantage vantage(const std::string& node, const Subflow& flow) const;
  Subflow fresh(const FlowKey& key, Time now) const;
  bool is_another(const std::string& node, const Observer& observer, const FlowDelta& delta,
                  Time now, Subflow& flow) const;
  void merge(const std::string& node, const Observer& observer, const FlowDelta& delta, Time begin,
             Time now);
  static void own(const std::string& node, const FlowDelta& delta, Subflow& flow);
  static void label(const std::string& node, const FlowDelta& delta, Subflow& flow);
  void locate(const std::string& node, const FlowDelta& delta, Time now, Subflow& flow) const;
  void note_onset(Subflow& flow, Time begin) const;
  std::optional<Rate> rate(const Sighting& sighting) const;
  Duration memory(const Subflow& flow) const;

  const Topology& topology_;
  FlowTableConfig config_;
  std::map<std::string, Observer> nodes_;  // never shrinks: sightings point into it
  std::map<FlowKey, Subflow> subflows_;
  OpenPairs open_pairs_;
  HostPorts host_ports_;
  std::uint64_t untracked_{};
};

}  // namespace heddle
