// Broadcast: the agents that are there, what each holds, and getting each its own part of the plan.
// Messages get lost, so nothing depends on one arriving: a diff that finds another base makes its
// agent ask for a snapshot, a plan that is not acknowledged is sent again as a snapshot, and every
// heartbeat carries version and digest, so that an agent that holds anything else notices.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/access.h"
#include "common/core/messages.h"
#include "common/core/plan.h"
#include "coordinator/broadcast/reign.h"

namespace heddle {

// Where messages leave. The channel stands behind it.
class MessagePort {
 public:
  virtual ~MessagePort() = default;
  // Never blocks. Errc::not_found: nobody is at this route any more.
  virtual Result<void> send(const std::string& route, const Message& message) = 0;
};

struct Notice {
  enum class Level : std::uint8_t { info, warning, error };
  Level level{};
  std::string text;
};
using NoticeHandler = std::function<void(const Notice&)>;

// Who sent a message: where answers go, the name it gives itself, and the name under which its key
// is authorised (empty on a plain transport).
struct Sender {
  std::string route;
  std::string node;
  std::string key_name;
  KeyRole role{KeyRole::unstated};  // of its key
};

struct BroadcastConfig {
  Duration report_interval{std::chrono::seconds(1)};
  Duration lease{std::chrono::seconds(120)};
  // An unacknowledged plan is sent again after this, then after twice as long, and so on up to the
  // heartbeat.
  Duration resend_first{std::chrono::milliseconds(200)};
};

struct AgentState {
  std::string name;
  Role role{};
  Mode mode{};
  bool connected{};
  std::string route;
  std::string software;
  std::string boot_id;
  std::uint64_t instance{};
  std::vector<EnforcerCapability> enforcers;
  std::vector<SourceCapability> sources;
  std::vector<LocalSegment> segments;
  // What it said last about itself.
  PlanVersion installed;
  std::uint32_t installed_pins{};
  std::optional<PinStates> pin_states;
  std::uint64_t digest{};
  std::vector<PinFailure> failed;
  std::string conflict;
  bool disabled{};
  std::optional<Duration> apply_time;
  Time last_heard;
  std::optional<Time> last_report;
  std::uint64_t reports{};
  std::uint64_t reports_lost{};
  std::uint64_t report_number{};
  std::uint64_t links_heard{};  // LinkChange::state of the last; 0: none, or not to be trusted
  // What we sent it last, and whether that was confirmed.
  std::optional<NodePlan> sent;
  bool acknowledged{};
  Time resend_at;
  Duration resend_after{};
  bool switch_pending{};
  Time switch_at;
};

class Broadcast {
 public:
  Broadcast(BroadcastConfig config, Reign& reign, MessagePort& port, NoticeHandler notices);

  // The names of the fabric's nodes: nobody else is welcome as an agent.
  void set_nodes(std::set<std::string> nodes) { nodes_ = std::move(nodes); }

  bool is_node(const std::string& name) const { return nodes_.contains(name); }

  // Agents' messages. Each answers whether the sender is the agent that it says it is.
  // A hello, like any version that an agent shows, may raise the epoch: the caller compares
  // Reign::version() before and after, and publishes its plan again under a version of the new
  // epoch.
  bool hello(const Sender& sender, const Hello& hello, Time now);
  bool admit(const Sender& sender, Time now);  // everything else that an agent says
  void acknowledged(const std::string& node, const Acknowledgement& ack, Time now);
  void snapshot_requested(const std::string& node, const SnapshotRequest& request, Time now);
  void reported(const std::string& node, const Report& report, Time now);
  // Whether it says something newer than what was told before.
  bool links_told(const std::string& node, const LinkChange& change);

  // From now on `plan` is what agents are to hold. Sends each its part, as a diff where its last
  // part is known. Until the first call agents are sent nothing, not even heartbeats: a coordinator
  // that does not yet know what should be installed must not make agents drop what is.
  void publish(const RoutePlan& plan, Time now);
  bool published() const { return published_; }
  // As before the first publish(). The caller has moved to a new epoch.
  void withdraw();
  // Whether this sender may speak as the agent that it says it is.
  bool entitled(const Sender& sender) const {
    return nodes_.contains(sender.node) && foreign_key(sender).empty();
  }
  // Told of every agent that is refused, and why.
  void on_refusal(std::function<void(const Sender&, const std::string& why)> handler) {
    refusals_ = std::move(handler);
  }

  // Every agent is told the interval and the lease that hold from now on.
  void reconfigure(BroadcastConfig config);

  // The off switch. Returns the nodes concerned that were known to be otherwise.
  void set_disabled(const std::set<std::string>& nodes);  // as stored by an earlier run
  void switch_node(const std::string& node, bool enable, const std::string& by, Time now);
  const std::set<std::string>& disabled() const { return disabled_; }

  // Heartbeats, repeats, agents that fell silent.
  void tick(Time now);
  Time next_tick() const { return next_tick_; }

  const std::map<std::string, AgentState>& agents() const { return agents_; }
  const AgentState* find(const std::string& node) const;
  // The part of the published plan; an empty one under the plan's version if it has none.
  NodePlan part_of(const std::string& node) const;
  bool converged(const AgentState& agent) const;
  // Whether pins may be planned for this agent: it programs, can, may, and its lease still holds.
  std::optional<Granularity> steering(const std::string& node, Time now) const;
  // The same, by this way of holding them: "srv6".
  bool holds_by(const std::string& node, std::string_view enforcer, Time now) const;
  // The SRv6 segments that can be counted on: of an agent that is there and not switched off.
  std::span<const LocalSegment> segments(const std::string& node) const;

 private:
  const AgentState* programming(const std::string& node, Time now) const;
  void send(AgentState& agent, const Message& message);
  void send_part(AgentState& agent, bool as_snapshot, Time now);
  void refuse(const Sender& sender, Errc code, std::string reason, Time now);
  static std::string foreign_key(const Sender& sender);
  Welcome welcome() const;
  void disconnect(AgentState& agent, const std::string& why);
  bool alive_elsewhere(AgentState& agent, const Sender& sender, Time now);
  bool believable(const Sender& sender, PlanVersion held, Time now);
  void show(const std::string& node, PlanVersion held);
  Duration silence() const;
  Duration heartbeat() const;

  BroadcastConfig config_;
  Reign& reign_;
  MessagePort& port_;
  NoticeHandler notices_;
  std::function<void(const Sender&, const std::string&)> refusals_;
  std::set<std::string> nodes_;
  std::map<std::string, AgentState> agents_;
  std::map<std::string, Time>
      refused_;  // by route, so that a refusal is not repeated with every message
  std::set<std::string> disabled_;
  RoutePlan plan_;
  bool published_{};
  Time next_tick_{};
  Time heartbeat_at_{};
  std::size_t slice_{};  // of the agents, whose heartbeat was last
};

}  // namespace heddle
