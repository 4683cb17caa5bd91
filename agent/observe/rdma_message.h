// The messages of RDMA netlink (family NLDEV): requests as bytes, answers as values. Nothing in an
// answer is believed: what is cut off or lies about its size yields nothing, and attributes that
// are unknown are passed over (safety rule 10). Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/observe/rdma_values.h"

namespace heddle {

// Kinds of requests, by the kernel's numbers.
enum class RdmaCommand : std::uint16_t {
  device = 1,
  port = 5,
  system = 6,
  queue_pairs = 10,
  cm_ids = 11,
  stat_set = 16,
  stat = 17,
  stat_delete = 18,
  stat_status = 24,
  monitor = 28,
};

// The type of a netlink message that carries it.
std::uint16_t rdma_message_type(RdmaCommand command);

// A whole netlink message with its header, still without a sequence number.
using RdmaRequest = std::vector<std::byte>;

RdmaRequest dump_request(RdmaCommand command, std::optional<std::uint32_t> device);
RdmaRequest system_request();
// Which optional counters a port has. An older kernel does not know the command.
RdmaRequest status_request(std::uint32_t device, std::uint32_t port);
// Gives a queue pair a counter of its own; the answer names it. Needs CAP_NET_ADMIN, as do the next
// two.
RdmaRequest bind_request(std::uint32_t device, std::uint32_t port, std::uint32_t qpn);
RdmaRequest unbind_request(std::uint32_t device, std::uint32_t port, std::uint32_t qpn,
                           std::uint32_t counter);
// Switches on exactly these optional counters of a port, and all others off.
RdmaRequest optional_request(std::uint32_t device, std::uint32_t port,
                             std::span<const std::uint32_t> numbers);

// What messages hold, in order. `error` is errno as the kernel answered, 0 for an
// acknowledgement.
struct RdmaAnswer {
  std::vector<RdmaDevice> devices;
  std::vector<RdmaPort> ports;
  std::optional<RdmaSystem> system;
  std::vector<QueuePair> queue_pairs;
  std::vector<CmId> cm_ids;
  std::vector<QpCounter> counters;
  std::vector<OptionalCounter> optional_counters;
  std::optional<std::uint32_t> bound_counter;
  bool changed{};      // a device came, went or changed
  bool interrupted{};  // the tables changed while they were dumped
  bool done{};         // the dump has ended
  bool damaged{};      // something in here was not a message
  std::optional<int> error;
};

// Adds to `answer` what the messages hold.
void parse_rdma(std::span<const std::byte> messages, RdmaAnswer& answer);

}  // namespace heddle
