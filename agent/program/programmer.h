// Makes the kernel's steering tables agree with this node's plan, and says what it read back
// (stages "program" and "verify"). One thread, the event loop's; lives as long as the agent.
//
// Everything comes in as an event: a plan, a kernel notification, time. step() does what is due.
// The order of safety: what `main` no longer offers goes first (rule 12), foreign state in our
// ranges stops everything (rule 1), and what cannot be proven by reading back is not acknowledged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/program/egress_watch.h"
#include "agent/program/enforcer.h"
#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"
#include "common/core/clock.h"
#include "common/core/messages.h"
#include "common/core/plan.h"
#include "common/core/result.h"

namespace heddle {

struct ProgramConfig {
  // observe: watches `main` and changes nothing, except that pins of an earlier life are removed.
  Mode mode{Mode::observe};
  std::vector<std::string> uplinks;     // glob patterns of interface names
  std::vector<std::string> host_ports;  // likewise
  std::vector<Prefix> never_touch{};    // no pin of a flow from or to these is held
  RoutingRanges ranges;
  Enforcer enforcer{};
  std::vector<LocalSegment> segments{};           // of this node, for other nodes' pins
  Duration full_check{std::chrono::seconds{30}};  // everything is read again at least this often
};

struct ProgramCounters {
  std::uint64_t events_lost{};  // times the kernel dropped notifications
  std::uint64_t full_reads{};
  std::uint64_t changes{};         // actions that the kernel took
  std::uint64_t repairs{};         // times our state was found changed, by others or by the kernel
  std::uint64_t pins_withdrawn{};  // by rule 12
};

class Programmer {
 public:
  Programmer(RouteKernel& kernel, OwnershipStore& store, const Clock& clock, ProgramConfig config);
  ~Programmer();

  // Subscribes, probes, reads everything. Fails only where nothing can be read; a kernel that
  // cannot be programmed is told by capability(). Until the first want() the pins of an earlier
  // life are held as if they were a plan: kept while `main` offers them, never added to.
  Result<void> start();
  // For people: what start() found of an earlier life and step() takes away, as this one has other
  // ranges or only observes; empty if nothing.
  const std::string& leftovers() const;

  // The node's whole plan; the caller has checked version and node (accept_plan).
  void want(NodePlan plan);
  // All pins off: no valid plan, lease over, disabled. Acknowledged with no version and no pins.
  void want_nothing(std::string why);
  const std::string& why_nothing() const;  // for people; empty while there is a plan
  void kernel_changed(const KernelEvent& event);
  // What was counted of subflows where they left this node, at the end of a period of observing.
  void observed(std::span<const Departure> departures);

  // When step() has something to do; in the past if it has it now. After every event ask again.
  std::optional<Time> next_deadline() const;
  // Does what is due. An Acknowledgement if a plan was handled or what is installed changed.
  std::optional<Acknowledgement> step();

  // What was last read back.
  Acknowledgement state() const;
  // What `main` does not offer through uplinks that have carrier: whole state, sorted.
  const std::vector<Withdrawal>& withdrawn() const;
  EnforcerCapability capability() const;
  // Of the configured ones those that were read back and are in effect, sorted.
  const std::vector<LocalSegment>& segments() const;
  // Why it is not all of them; empty if it is.
  const std::string& segments_lack() const;
  ProgramCounters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
