// A leaf switch's flow source, and how often flow control paused its ports: the packets that its
// kernel forwards, counted one by one, and the samples of those that its hardware forwards. A
// subflow that both see is one: while its packets are counted, its samples are passed over, and
// where the hardware takes it over (offload) the samples go on where the counting stopped. Pauses
// are what drivers count; where one counts none they are unobservable, and left out.
//
// Logic over ports. One thread; lives as long as the agent.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/observe/driver_statistics.h"
#include "agent/observe/flow_source.h"

namespace heddle {

class SwitchSource final : public FlowSource {
 public:
  // All outlive it.
  SwitchSource(FlowSource& packets, FlowSource& samples, const DriverStatistics& statistics)
      : packets_(packets), samples_(samples), statistics_(statistics) {}

  // The names of the ports whose pauses count.
  void watch(std::vector<std::string> ports) { ports_ = std::move(ports); }

  std::vector<SourceCapability> probe() override;
  void links_changed() override;
  // Fails only if neither source can be read.
  Result<FlowReading> read(Time now) override;

 private:
  // What one source had counted at the last reading.
  struct Last {
    Time first_seen;
    Bytes bytes;
    std::uint64_t packets{};
  };
  using LastCounts = std::unordered_map<PortSubflowKey, Last, SubflowKeyHash>;

  // What a counter grew by; `anew` if it began again, so that all it says is new.
  struct Growth {
    Bytes bytes;
    std::uint64_t packets{};
    bool anew{};
  };
  Result<FlowReading> join(Time now);
  static Growth growth(const FlowCounter& flow, const LastCounts& last);
  void add(const FlowCounter& flow, const Growth& growth, const std::string& source,
           FlowReading& joined);

  FlowSource& packets_;
  FlowSource& samples_;
  const DriverStatistics& statistics_;
  std::vector<std::string> ports_;
  LastCounts packets_last_, samples_last_;
  // What was handed on, which goes on growing whichever source it came from.
  std::unordered_map<PortSubflowKey, FlowCounter, SubflowKeyHash> joined_;
};

}  // namespace heddle
