// What the looks at this machine's RDMA amount to: which connected queue pairs there are, since
// when, and where their packets go. Keeps the identity of queue pairs and devices from look to
// look: devices by index and GUID, because names change; queue pairs besides by their process and
// their peer, because numbers are used again.
//
// Where a queue pair's peer comes from, the most direct first: the kernel as it connected the pair;
// rdma_cm's connections; otherwise nobody here knows.
//
// Pure. One thread; lives as long as its source.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/observe/rdma_values.h"

namespace heddle {

// A connected queue pair and where it stands on the wire.
struct KnownQueuePair {
  std::uint32_t device{};
  std::uint32_t qpn{};
  std::uint32_t remote_qpn{};
  std::uint32_t pid{};
  std::string netdev;
  bool software{};
  std::vector<IpAddress> addresses;  // its own, or those that may be; the likeliest first
  std::optional<IpAddress> peer;
  PeerOrigin origin{};          // of the peer
  std::uint16_t source_port{};  // UDP
  Time first_seen;
  std::optional<Bytes> bytes;  // what its counter says, if it has one of its own
  std::uint64_t packets{};
  // It may have sent since the look before, and how much is not known: its counter was not read,
  // and these are what it said last; or it is read for the first time and has counted before.
  bool unseen{};
};

struct RdmaView {
  std::vector<KnownQueuePair> queue_pairs;  // by device and number
  std::vector<RdmaPortReading> ports;       // by device and port
  bool gap{};                               // queue pairs may be missing
  Time looked;                              // when all this was so
};

class RdmaInventory {
 public:
  // Connections that the kernel was seen to make since the last look, in their order.
  void connected(std::span<const QpConnection> connections);
  RdmaView update(const RdmaLook& look, Time now);

 private:
  using DeviceKey = std::pair<std::uint64_t, std::uint32_t>;  // GUID, index
  using PairKey = std::pair<DeviceKey, std::uint32_t>;        // and queue pair number

  struct Incarnation {
    std::uint32_t pid{};
    std::uint32_t remote_qpn{};
    Time first_seen;
    std::optional<QpConnection> connection;
    std::uint64_t look{};  // the last one that found it
    // It was seen without any counter: the one that it is given later begins with zero.
    bool bare{};
    std::optional<std::uint32_t> counter{};  // that counts for it alone, and what that said last
    std::optional<Bytes> bytes{};
    std::uint64_t packets{};
  };
  struct PairHash {
    std::size_t operator()(const PairKey& key) const noexcept {
      constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;
      return (key.first.first * kMix ^ key.first.second) * kMix ^ key.second;
    }
  };

  Incarnation& incarnation(const PairKey& key, const QueuePair& pair, Time now);
  // `counter`: the one that counts for it, alone or not; none if none was read.
  static void count(Incarnation& incarnation, const QpCounter* counter, bool all_read,
                    KnownQueuePair& known);
  void note_devices(const RdmaLook& look, std::vector<RdmaPortReading>& ports);

  std::unordered_map<PairKey, Incarnation, PairHash> pairs_;
  std::uint64_t looks_{};
  // By device index, in the upper half, and queue pair number: an index is not used again before a
  // reboot.
  std::unordered_map<std::uint64_t, QpConnection> connections_;
  std::map<std::pair<DeviceKey, std::uint32_t>, RdmaPortReading> seen_ports_;
};

}  // namespace heddle
