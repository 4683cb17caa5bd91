// The agent without its adapters: observe, report, talk, program, put together by ports. Time comes
// from a clock that is handed in, and everything else as an event, so that tests run whole clusters
// in one process.
//
//   kernel events --> Programmer --> acknowledgements --+
//                        ^  |                           v
//                  wishes|  +--> withdrawals --> LinkChange --> Session <--> ClientChannel
//                        |                              ^        |   ^
//                        +------------------------------|--------+   |
//   FlowSource --> Reporter --> Report -----------------+       AgentStore
//
// One thread. After each event ask next_deadline() again and call step(), which does all that is
// due.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_store.h"
#include "agent/config.h"
#include "agent/observe/cable_source.h"
#include "agent/observe/flow_source.h"
#include "agent/program/programmer.h"
#include "agent/report/reporter.h"
#include "agent/session.h"
#include "common/core/clock.h"
#include "common/core/messages.h"
#include "common/transport/channel.h"

namespace heddle {

// What the agent may use. None is owned; all outlive it.
struct AgentParts {
  RouteKernel& kernel;
  PortSource& ports;
  OwnershipStore& ownership;
  FlowSource& flows;
  AgentStore& store;
  ClientChannel& channel;
  const Clock& clock;
  CableSource* cables{};  // nullptr: nothing is known of what stands at the other ends
};

struct AgentIdentity {
  std::string software;
  std::string boot_id;
  std::uint64_t instance{};
};

class Agent {
 public:
  Agent(const AgentConfig& config, AgentIdentity identity, AgentParts parts);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Fails only if the kernel's state cannot be read at all.
  Result<void> start();

  void connection_changed(bool connected, const std::string& reason);
  void received(Payload payload);
  void kernel_changed(const KernelEvent& event);
  void switch_turned();
  // The configuration was read again; takes from it what may change while the agent runs.
  void reconfigure(const AgentConfig& next);

  Time next_deadline() const;
  void step();

  const Session& session() const { return session_; }
  const Programmer& programmer() const { return programmer_; }
  // One line for `systemctl status`.
  std::string describe() const;

 private:
  NodeFacts facts();
  std::vector<EnforcerCapability> enforcers() const;
  std::vector<SourceCapability> sources() const;
  std::vector<PortStatus> own_ports();
  void report(Time now);
  void verify(const FlowReading& reading);
  void tell_link_changes();
  void tell_people_of_repairs();
  void look_at_switch();
  void tell_abilities(Time now, const std::vector<SourceCapability>& sources);
  void send_outbox();

  AgentConfig config_;
  AgentParts parts_;
  Programmer programmer_;
  Session session_;
  Reporter reporter_;
  Time report_due_;
  std::uint64_t undecodable_{};

  // What hello said last.
  std::vector<EnforcerCapability> told_enforcers_;
  std::vector<SourceCapability> told_sources_;
  std::vector<LocalSegment> told_segments_;
  std::string logged_lack_;  // of segments

  // What the log said last.
  std::string told_conflict_;
  std::uint64_t told_repairs_{};

  std::uint64_t full_reads_{};  // after which the off switch has been looked at
  bool links_changed_{};
  bool look_at_cables_{};  // with each report
  bool cables_changed_{};
  bool was_welcomed_{};
  // What the last LinkChange said, without the counters.
  std::vector<PortStatus> told_ports_;
  std::vector<Withdrawal> told_withdrawn_;
  std::optional<std::vector<LldpNeighbour>> neighbours_;
};

}  // namespace heddle
