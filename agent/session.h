// The agent's side of the protocol, and the decision what its pins may be: pure logic, a state
// machine. Messages and time come in; messages for the coordinator and wishes for the programming
// stage go out.
//
// Its rules: a pin needs a plan, a lease and a switch that is on. Only the coordinator of the
// highest epoch that was ever seen here gives plans and leases (safety rule 4), and only after it
// has said welcome on this connection. When the lease is over, every pin goes (safety rule 2), and
// comes back only when the coordinator has confirmed the plan again. Messages may be lost, so hello
// is repeated until it is answered, and a heartbeat that does not match asks for a snapshot.
//
// One thread; lives as long as the agent. Logs what an operator should know.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_store.h"
#include "common/core/messages.h"
#include "common/core/plan.h"
#include "common/core/units.h"

namespace heddle {

inline constexpr Duration kHelloAgain = std::chrono::seconds{2};
inline constexpr Duration kHelloAfterRefusal = std::chrono::seconds{30};
inline constexpr Duration kSnapshotAgain = std::chrono::milliseconds{500};

struct SessionConfig {
  std::string node;
  Role role{};
  Mode mode{};
  std::string software;
  std::string boot_id;
  std::uint64_t instance{};  // drawn anew at each start
  Duration report_interval{};
  Duration longest_lease{};
};

// What hello says besides: asked for when it is said, because it changes.
struct NodeFacts {
  Acknowledgement installed;
  std::vector<EnforcerCapability> enforcers;
  std::vector<SourceCapability> sources;
  std::vector<PortStatus> ports;
  std::vector<LocalSegment> segments{};
};

// What the pins shall be from now on: those of a plan, or none, and why.
struct Wish {
  std::optional<NodePlan> plan;
  std::string why_nothing;
  bool operator==(const Wish&) const = default;
};

class Session {
 public:
  using FactSource = std::function<NodeFacts()>;

  Session(SessionConfig config, AgentStore& store, FactSource facts);

  // Reads what was remembered. A lease of this boot that still runs lets the plan before the
  // restart stand.
  void start(Time now);

  void connected(Time now);
  void lost(Time now, const std::string& reason);
  void received(Time now, const Envelope& envelope);
  // What hello said of this node's abilities is no longer so: it is said again where it was heard.
  void abilities_changed(Time now);
  // The longest lease that is granted from the coordinator's next word on.
  void set_longest_lease(Duration lease) { config_.longest_lease = lease; }
  // Somebody on this machine may have turned the off switch.
  void switch_turned(Time now);
  void tick(Time now);
  std::optional<Time> next_deadline() const;

  // To the coordinator, if it listens; else they are dropped.
  void acknowledge(Acknowledgement acknowledgement);
  void send_report(Report report);
  // Later reports say that this is how things are, so that its loss shows.
  void send_link_change(LinkChange change);

  std::vector<Envelope> take_outbox();
  std::optional<Wish> take_wish();

  // The coordinator waits for an acknowledgement although the tables may not change.
  bool owes_acknowledgement() const { return owes_acknowledgement_; }
  // The coordinator asked how the links are since this was called last.
  bool take_link_request() { return std::exchange(links_asked_, false); }
  // Welcomed on this connection and not refused since.
  bool welcomed() const { return welcomed_; }
  bool disabled() const { return disabled_; }
  Duration report_interval() const { return report_interval_; }
  // What the coordinator said of itself.
  bool columns_of_one() const { return columns_of_one_; }
  PlanVersion highest_seen() const { return highest_seen_; }
  std::optional<Time> lease_deadline() const { return lease_; }
  // "connected", "refused: ...", "no coordinator: ...": for people.
  std::string describe() const;

 private:
  void on(Time now, const Welcome& welcome);
  void on(Time now, const Refusal& refusal);
  void on(Time now, const PlanDiff& diff);
  void on(Time now, const Snapshot& snapshot);
  void on(Time now, const Heartbeat& heartbeat);
  void on(Time now, const Switch& change);
  void on(Time now, const LinkRequest& request);
  template <class Other>
  void on(Time now, const Other&);

  void say_hello(Time now);
  void send(Message message);
  void ask_for_snapshot(Time now, std::string reason);
  // Whether a coordinator of that epoch may rule here; notes a new one.
  bool of_current_epoch(std::uint64_t epoch, const char* what);
  // Whether a plan or a heartbeat of that version may have any effect here.
  bool listens_to(PlanVersion version, const char* what);
  void take_over(Time now, NodePlan plan);
  void renew_lease(Time now, Duration lease);
  void note_version(PlanVersion version);
  void read_switch();
  void decide(Time now);
  void want_nothing(std::string why);
  void want_plan();

  SessionConfig config_;
  AgentStore& store_;
  FactSource facts_;

  bool connected_{};
  bool welcomed_{};
  bool columns_of_one_{};
  std::optional<Refusal> refusal_;
  std::string lost_reason_{"not connected yet"};
  std::optional<Time> hello_due_;
  std::optional<Time> snapshot_asked_;
  std::optional<std::uint64_t> epoch_warned_of_;  // so that each heartbeat does not warn again
  std::uint64_t sequence_{};

  PlanVersion highest_seen_;
  std::optional<NodePlan> plan_;
  // The lease ran out since the plan was last confirmed, so a newer one may exist.
  bool plan_in_doubt_{};
  std::optional<Time> lease_;
  bool lease_over_{};  // and that has been seen to
  Duration granted_lease_{};
  Duration report_interval_{};
  bool disabled_{};
  std::string disabled_by_;
  // By whom: the switch was turned off but could not be kept.
  std::optional<std::string> off_until_restart_;
  bool owes_acknowledgement_{};
  std::uint64_t links_{};  // the state that was told last; 0: none
  bool links_asked_{};

  // What was wished for last: a plan, or nothing and why.
  bool wants_plan_{};
  std::string why_nothing_;
  bool plan_changed_{};  // since it was wished for
  std::optional<Wish> new_wish_;
  std::vector<Envelope> outbox_;
};

}  // namespace heddle
