// The coordinator as pure logic: messages and time come in, messages leave by a port. Every stage
// is a part of its own; this class hands values from one to the next.
//
// clang-format off
//
//   reports --> FlowTable, LinkTable --> predict --> make_problem --> make_candidates --> decide --> make_plan
//                        |                                                                               |
//                        v                                                                               v
//                     History <------------------------- plans, events ------------------------- Broadcast --> agents
//
// clang-format on
// Thread: the event loop's. Lifetime: the process's. It is driven by received(), answered() and
// step(); step() is to be called when next_deadline() has passed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "common/core/job.h"
#include "common/core/optimiser.h"
#include "coordinator/access.h"
#include "coordinator/broadcast/broadcast.h"
#include "coordinator/decide/churn.h"
#include "coordinator/decide/decide.h"
#include "coordinator/decide/rollout.h"
#include "coordinator/history/decision_log.h"
#include "coordinator/history/history.h"
#include "coordinator/optimise/planning.h"
#include "coordinator/predict/cable_table.h"
#include "coordinator/predict/flow_table.h"
#include "coordinator/predict/link_table.h"
#include "coordinator/predict/prediction.h"
#include "coordinator/serve/answers.h"
#include "coordinator/serve/answers_decide.h"
#include "coordinator/state_store.h"

namespace heddle {

struct CoordinatorSettings {
  FlowTableConfig flows;
  DecideConfig decide;
  RolloutConfig rollout;
  std::vector<Prefix> never_touch;  // no pin for a flow from or to these
  Rate drained_below{1e6};          // what a link may carry and still count as empty
  BroadcastConfig broadcast;
  Duration period{std::chrono::seconds(1)};         // between plannings without a cause
  Duration debounce{std::chrono::milliseconds(5)};  // links seldom change alone
  Duration answer_within{std::chrono::seconds(2)};  // for what waits for agents or the history
  std::uint64_t seed{1};
  std::string software;
};

// What the coordinator may use. All outlive it.
struct CoordinatorParts {
  const Topology& topology;
  const Optimiser& optimiser;
  Reign& reign;
  MessagePort& port;
  History& history;
  StateStore& store;
  AuditLog& audit;
  const Clock& clock;
  NoticeHandler log;
};

class Coordinator {
 public:
  // `jobs`: those of the job file; operators add others by command.
  Coordinator(CoordinatorSettings settings, CoordinatorParts parts,
              std::vector<JobDeclaration> jobs, OperatorState operators);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // The plan of an earlier run goes on under the new epoch, so that a restart moves nothing.
  // Without one, agents are sent nothing before their flows have been seen for two report
  // intervals.
  void restore(const PlanRecord& last);
  // The roll-out of an earlier run goes on. To be called before restore().
  void take_up(RolloutState state);

  void received(const Sender& sender, const Envelope& envelope);
  // The configuration and the job file were read again.
  void reconfigure(CoordinatorSettings settings, std::vector<JobDeclaration> jobs);
  void step();
  Time next_deadline() const;

  const PlanRecord* record() const { return record_.get(); }
  const Broadcast& broadcast() const { return broadcast_; }
  Access& access() { return access_; }
  const FlowTable& flows() const { return flows_; }
  std::string describe() const;  // one line for `systemctl status`

 private:
  // coordinator.cpp: events
  void on_hello(const Sender& sender, const Hello& hello);
  void on_report(const std::string& node, const Report& report);
  void on_link_change(const std::string& node, const LinkChange& change);
  void links_changed(const std::vector<std::string>& changes);
  void plan_soon(std::string event);
  void notice(Notice::Level level, std::string text);
  void watch_history();
  bool warm() const;

  // planning.cpp
  void plan(const Situation& cause);
  struct Chosen {
    Candidates candidates;
    Decision decision;
  };
  Chosen choose(PlanningProblem& planning, const Optimiser& optimiser,
                const Situation& situation) const;
  void keep_to_budget(const PlanningProblem& planning, Chosen& chosen) const;
  bool wait_for_quiet(const Situation& situation, const Routing& routing);
  void note_decision(std::string outcome, std::string reason, std::uint64_t moves);
  void look_for_quiet_now();
  void doubt_restored(const Sender& sender, const Hello& hello);
  void judge(Efficiency efficiency);
  void take(PlanAndMoves next, std::string reason);
  void date_pins(PlanRecord& next) const;
  std::optional<WallTime> since(const std::string& node, const SteeringUnit& unit) const;
  void follow_epoch();
  std::uint64_t situation_signature() const;

  // steering.cpp
  std::map<NodeId, Granularity> steering() const;
  std::set<NodeId> unheard() const;
  std::map<SpineId, IpAddress> spine_segments() const;
  Segments segments() const;
  std::set<HostId> host_routes() const;
  void watch_segments();
  void note_failures(const std::string& node);
  PlanningInput planning_input() const;

  // rollout.cpp
  bool may_steer(NodeId node) const;
  bool counts_for(const std::string& rack, NodeId node) const;
  void step_rollout();
  Result<void> adopt(Rollout next, const std::string& said);
  void confirm_turned_back();
  RolloutSight rollout_sight() const;
  void look_at_node(const std::string& name, RolloutSight& sight) const;
  void look_for_strays(const Wave& wave, RolloutSight& sight) const;
  bool leads_as(CableId seen, const Path& path) const;

  // requests_rollout.cpp, requests_drain.cpp
  Reply rollout_request(const Request& request, const Sender& sender);
  std::string rollout_shown() const;
  Reply log_request(const Request& request, const Sender& sender, bool& later);
  Reply drain_request(const Request& request, const Sender& sender);
  // An order as the fabric has it, and when its links last carried much.
  struct Drain {
    DrainOrder order;
    Result<DrainScope> scope;
    Time busy;
  };
  void resolve_drains();
  std::set<CableId> draining() const;
  std::string drains_shown() const;
  DrainShown look_at(const Drain& drain) const;
  bool leads_into(const DrainScope& scope, NodeId node, const Pin& pin) const;
  bool reports(const std::string& node) const;
  std::optional<Rate> fresh_rate(LinkId link) const;
  void note_drained_traffic(const std::string& node, bool was_watched);
  Duration pauses() const;
  void say_what_remains(const DrainScope& scope, double busy, DrainShown& shown) const;

  // requests*.cpp
  void on_request(const Sender& sender, const Request& request);
  Reply answer(const Request& request, const Sender& sender, bool& later);
  Reply switch_scope(const Request& request, const Sender& sender, bool enable, bool& later);
  std::set<std::string> nodes_in(const std::string& scope, const std::string& name,
                                 bool enable) const;
  std::set<std::string> disabled_jobs() const;
  Reply plan_request(const Request& request, const Sender& sender, bool& later);
  Reply preview_request(const Request& request);
  Reply job_request(const Request& request);
  Reply cable_request(const Request& request);
  void with_plan(PlanVersion version, History::Answer<PlanRecord> then);
  void check_waiting();
  void reply(const std::string& route, Reply reply);
  std::vector<JobDeclaration> declared() const;
  NetworkView view() const;
  Result<void> store_operators();
  Result<void> store_rollout(const RolloutState& state);
  Result<void> note_kept(bool& kept, std::string_view what, Result<void> stored);
  void store_again();

  CoordinatorSettings settings_;
  CoordinatorParts parts_;
  const Topology& topology_;
  std::vector<JobDeclaration> file_jobs_;
  OperatorState operators_;
  bool operators_kept_{true};  // on the disk, as they are here
  bool rollout_kept_{true};    // likewise

  FlowTable flows_;
  LinkTable links_;
  CableTable cables_;
  Broadcast broadcast_;
  Time started_;
  Time watched_since_;  // from when flows are to show themselves before the first plan
  std::optional<PlanRecord> restored_;  // as the history had it
  std::uint64_t first_epoch_;           // of this start
  PlanVersion begun_;                   // whose epoch broadcast_ was last told of

  // The last planning.
  Prediction prediction_;
  PlanningInput input_;
  PlanningProblem planning_;
  Routing routing_;
  std::optional<Efficiency> efficiency_;  // worst and mean of the judged jobs; nothing: of none
  std::vector<bool> judged_;              // by job
  std::uint64_t signature_{};
  std::set<std::string> notes_;  // so that each is logged once
  // Pins that an agent could not install, and until when they are not tried again.
  struct Failing {
    std::optional<CableId>
        cable;  // that a leaf's pin leads to; other nodes' pins are given up whole
    Time until;
  };
  std::map<PinKey, Failing> failing_;
  std::map<SpineId, IpAddress> spine_segments_;  // as they were looked at last
  Dwell dwell_;
  // A plan that waits until the flows that it moves are silent, or until patience ends.
  struct QuietWait {
    Situation situation;
    std::vector<FlowKey> flows;
    Time until;
    Time look_at;
    std::string words;  // for people
  };
  std::optional<QuietWait> quiet_wait_;
  DecisionLog decisions_;
  // Pins that an agent refuses as its own configuration forbids them.
  std::set<PinKey> refused_;

  Rollout rollout_;
  ErrorWatch errors_;
  std::vector<Drain> drains_;          // parallel to those of operators_
  std::set<std::string> turned_back_;  // racks that are to read back that no pin is left
  std::shared_ptr<const PlanRecord> record_;
  std::deque<std::shared_ptr<const PlanRecord>> recent_;

  Time next_period_;
  std::optional<Time> link_plan_at_;
  std::string link_event_;
  std::optional<bool> history_ok_;

  Access access_;
  std::set<std::string> commanders_;  // keys that gave a command, so that each is named once

  // Answers that wait for agents or for the history.
  struct Waiting {
    std::string route;
    std::uint64_t id{};
    Time deadline;
    std::set<std::string> nodes{};
    std::optional<bool>
        enable{};  // nodes are to be switched so; nothing: they are to hold the plan
    bool job_disabled{};
    std::string not_kept{};  // why the order will not survive a restart
  };
  std::vector<Waiting> waiting_;
  struct Reading {
    std::string route;
    std::uint64_t id{};
    Time deadline;
  };
  std::map<std::uint64_t, Reading> reading_;
  std::uint64_t readings_{};
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // late answers find nobody
};

}  // namespace heddle
