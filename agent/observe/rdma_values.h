// What the kernel tells of RDMA by netlink and sysfs, as values. Plain; no form of message or file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/report/flow_reading.h"
#include "common/core/address.h"
#include "common/core/units.h"

namespace heddle {

// The kernel's numbers; others exist and are kept as they are.
enum class QpType : std::uint8_t { smi, gsi, rc, uc, ud };
enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, err };

struct RdmaDevice {
  std::uint32_t index{};  // the kernel's, never used again before a reboot
  std::string name;       // may change
  std::uint64_t node_guid{};
  std::uint32_t ports{};
  std::string protocol;  // "roce", "ib", "iw"; empty on kernels that do not tell
  bool software{};       // Soft-RoCE: its packets pass the kernel's own hooks
  auto operator<=>(const RdmaDevice&) const = default;
};

struct RdmaPort {
  std::uint32_t device{};
  std::uint32_t port{};  // from 1
  bool active{};
  std::uint32_t ifindex{};  // 0: it has none, or it is in another network namespace
  std::string netdev;
  auto operator<=>(const RdmaPort&) const = default;
};

struct QueuePair {
  std::uint32_t device{};
  std::uint32_t port{};  // 0: not set yet
  std::uint32_t qpn{};
  std::optional<std::uint32_t> remote_qpn;  // RC and UC only, and not before they are connected
  QpType type{};
  QpState state{};
  std::uint32_t pid{};  // 0: the kernel's own, or its process has ended
  auto operator<=>(const QueuePair&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct SocketAddress {
  IpAddress address;
  std::uint16_t port{};
  auto operator<=>(const SocketAddress&) const = default;
};

// A connection or a listener of rdma_cm.
struct CmId {
  std::uint32_t device{};
  std::uint32_t port{};
  std::uint32_t qpn{};  // 0: none yet
  bool listens{};
  std::uint32_t pid{};
  std::optional<SocketAddress> source;
  std::optional<SocketAddress> destination;
  auto operator<=>(const CmId&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct NamedCount {
  std::string name;  // the driver's
  std::uint64_t value{};
  auto operator<=>(const NamedCount&) const = default;
};

// A counter and the queue pairs that are bound to it. Several share one in automatic mode, or where
// somebody bound them so.
struct QpCounter {
  std::uint32_t device{};
  std::uint32_t port{};
  std::uint32_t id{};
  bool automatic{};
  std::vector<std::uint32_t> qpns;
  std::vector<NamedCount> values;
  auto operator<=>(const QpCounter&) const = default;
};

struct RdmaSystem {
  // Devices are visible in every network namespace; otherwise each belongs to one and is hidden
  // from the others.
  bool shared{true};
  bool monitor{};  // the kernel announces devices that come, go and change
  auto operator<=>(const RdmaSystem&) const = default;
};

// A counter that the driver has but counts only where it is switched on.
struct OptionalCounter {
  std::string name;
  std::uint32_t number{};
  bool on{};
  auto operator<=>(const OptionalCounter&) const = default;
};

// A queue pair on its way to being connected, as the kernel was seen to do it.
struct QpConnection {
  std::uint32_t device{};
  std::uint32_t qpn{};
  std::uint32_t remote_qpn{};
  IpAddress destination;
  std::uint32_t flow_label{};  // 0: derived from the queue pairs' numbers
  std::uint32_t port{};
  std::uint32_t gid_index{};  // of the port's table of addresses: the sender's own
  Time when;
  auto operator<=>(const QpConnection&) const = default;
};

// An entry of a port's table of addresses. Only those of RoCEv2 are of use here.
struct RdmaAddress {
  std::uint32_t device{};
  std::uint32_t port{};
  std::uint32_t gid_index{};
  IpAddress address;
  auto operator<=>(const RdmaAddress&) const = default;
};

struct PortCounters {
  std::uint32_t device{};
  std::uint32_t port{};
  std::vector<CounterValue> counters;  // those that can be observed, under the names of reports
  bool operator==(const PortCounters&) const = default;
};

// Everything that one look gathered.
struct RdmaLook {
  RdmaSystem system;
  std::vector<RdmaDevice> devices;
  std::vector<RdmaPort> ports;
  std::vector<QueuePair> queue_pairs;
  std::vector<CmId> cm_ids;
  std::vector<QpCounter> counters;
  std::vector<RdmaAddress> addresses;
  std::vector<PortCounters> port_counters;
  // A dump was cut off, or devices changed while it was made: what is missing may still be there.
  bool incomplete{};
  // The devices whose counters were not all read: what has one there is not known.
  std::vector<std::uint32_t> uncounted{};
};

}  // namespace heddle
