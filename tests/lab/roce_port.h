// A host's RoCEv2 port made of UDP sockets inside its namespace: one that receives on 4791, one per
// source port to send from. Packets go and come in batches. One thread; the sockets close with the
// object.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "tests/lab/netns.h"
#include "tests/lab/queue_pair.h"
#include "tests/lab/rocev2.h"

namespace heddle::lab {

struct IcrcCounters {
  std::uint64_t checked{};
  std::uint64_t wrong{};
};

class RocePort {
 public:
  struct Received {
    Bth bth;
    IpAddress source;
    std::uint16_t source_port{};
    std::uint64_t serial{};      // of a data packet
    std::uint8_t syndrome{};     // of an acknowledgement
    std::uint32_t dma_length{};  // of a message's first packet
  };

  static Result<std::unique_ptr<RocePort>> open(const NetNamespace& space,
                                                const IpAddress& address);
  ~RocePort();
  RocePort(const RocePort&) = delete;
  RocePort& operator=(const RocePort&) = delete;

  int receive_fd() const { return receive_fd_; }
  // Opens the sending socket of a source port unless it is open.
  Result<void> use_source_port(std::uint16_t port);
  void close_source_ports();

  // Data packets for one destination from one source port; what the kernel refuses is lost, as on a
  // wire.
  void send(const IpAddress& destination, std::uint16_t source_port, std::uint32_t dest_qpn,
            std::span<const Segment> segments);
  void send_answer(const IpAddress& destination, std::uint16_t source_port, std::uint32_t dest_qpn,
                   std::uint32_t psn, std::uint8_t syndrome);
  // Takes what has arrived; one batch in sixteen is read in full and its ICRCs are verified.
  void receive(const std::function<void(const Received&)>& each);

  const IcrcCounters& icrc() const { return icrc_; }

 private:
  RocePort(const NetNamespace& space, const IpAddress& address);
  struct Batch;

  const NetNamespace& space_;
  IpAddress address_;
  int receive_fd_{-1};
  std::map<std::uint16_t, int> send_fds_;
  std::uint32_t batches_{0};
  std::unique_ptr<Batch> batch_;
  IcrcCounters icrc_;
};

}  // namespace heddle::lab
