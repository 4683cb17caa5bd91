// The flow source for switches: samples of the packets that a switch forwards, which the kernel's
// generic netlink family "psample" hands out, whether the tc action "sample" or a switch's hardware
// took them. What passes a switch in hardware is seen by no other source there.
//
// Whoever runs the switch says what is sampled, for example
//   tc qdisc add dev up1 clsact
//   tc filter add dev up1 egress matchall action sample rate 1000 group 7
// This source only listens, to every group. Samples of packets that leave by a watched uplink also
// say which uplink a flow took.
//
// Needs CAP_NET_ADMIN. One thread, the event loop's: watch fd() for reading and call ready(). Lives
// as long as the agent, in the network namespace of the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "agent/observe/flow_source.h"
#include "agent/observe/sampled_flows.h"

namespace heddle {

// Takes samples out of a netlink socket. A lost datagram is noted and harmless.
class SampleReceiver {
 public:
  // Sees each datagram before it is understood: for recordings.
  using Tap = std::function<void(std::span<const std::byte>)>;

  // Messages of another type, or from another sender than `sender` (0: the kernel), are passed
  // over: any process may send to a netlink port.
  SampleReceiver(SampledFlows& flows, std::uint32_t sender);

  void record_to(Tap tap) { tap_ = std::move(tap); }
  // Everything that waits, without blocking, up to a bound that keeps one call short.
  void drain(int fd, std::uint16_t type, Time now);

 private:
  SampledFlows& flows_;
  std::uint32_t sender_;
  std::vector<std::byte> buffer_;
  Tap tap_;
};

class PsampleSource final : public FlowSource {
 public:
  // Shell patterns of interface names. `leaving`: where flows are counted as they leave, as an
  // uplink; `entering`: where they come in, which counts if no packet that leaves is sampled.
  PsampleSource(std::vector<std::string> leaving, std::vector<std::string> entering);
  ~PsampleSource() override;
  PsampleSource(const PsampleSource&) = delete;
  PsampleSource& operator=(const PsampleSource&) = delete;

  int fd() const { return fd_; }  // -1: there is no generic netlink at all
  void ready(Time now);
  void record_to(SampleReceiver::Tap tap) { receiver_.record_to(std::move(tap)); }

  std::vector<SourceCapability> probe() override;
  void links_changed() override;
  Result<FlowReading> read(Time now) override;

 private:
  // Follows the family, which comes and goes with its module, and listens to its samples.
  Result<void> subscribe();
  SourceCapability capability();

  std::vector<std::string> leaving_;
  std::vector<std::string> entering_;
  SampledFlows flows_;
  SampleReceiver receiver_;
  int fd_{-1};
  std::uint16_t type_{};   // of the family's messages; 0: not subscribed
  std::uint32_t group_{};  // that is listened to
};

}  // namespace heddle
