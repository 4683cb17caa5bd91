#include "coordinator/broadcast/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

constexpr Duration kLongestHeartbeat = std::chrono::seconds(1);
constexpr Duration kShortestHeartbeat = std::chrono::milliseconds(20);
// Heartbeats to thousands of agents are spread over their interval, so that a plan never waits for
// all of them.
constexpr std::size_t kSlices = 8;
constexpr Duration kLeastSilence = std::chrono::seconds(1);

std::string describe(std::uint64_t instance, const std::string& boot_id) {
  return fmt::format("instance {:#x} at boot {}", instance, boot_id);
}

}  // namespace

Broadcast::Broadcast(BroadcastConfig config, Reign& reign, MessagePort& port, NoticeHandler notices)
    : config_(config), reign_(reign), port_(port), notices_(std::move(notices)) {}

Duration Broadcast::heartbeat() const {
  return std::clamp(config_.lease / 4, kShortestHeartbeat, kLongestHeartbeat);
}

Duration Broadcast::silence() const {
  return std::max(3 * config_.report_interval, kLeastSilence);
}

const AgentState* Broadcast::find(const std::string& node) const {
  const auto agent = agents_.find(node);
  return agent == agents_.end() ? nullptr : &agent->second;
}

NodePlan Broadcast::part_of(const std::string& node) const {
  if (const auto part = plan_.nodes.find(node); part != plan_.nodes.end())
    return part->second;
  // Nodes without pins hold the reign's beginning, so that plans for others do not concern them.
  return {.node = node, .version = {reign_.version().epoch, 0}, .pins = {}};
}

bool Broadcast::converged(const AgentState& agent) const {
  const NodePlan part = part_of(agent.name);
  if (agent.mode == Mode::observe || agent.disabled)
    return agent.installed_pins == 0;
  return agent.installed == part.version && agent.digest == digest(part.pins);
}

const AgentState* Broadcast::programming(const std::string& node, Time now) const {
  const AgentState* agent = find(node);
  return agent == nullptr || agent->mode != Mode::program || agent->disabled ||
                 disabled_.contains(node) || !agent->conflict.empty() ||
                 now - agent->last_heard > config_.lease
             ? nullptr
             : agent;
}

bool Broadcast::holds_by(const std::string& node, std::string_view enforcer, Time now) const {
  const AgentState* agent = programming(node, now);
  return agent != nullptr && std::ranges::any_of(agent->enforcers, [&](const auto& one) {
           return one.usable && one.name == enforcer;
         });
}

std::span<const LocalSegment> Broadcast::segments(const std::string& node) const {
  const AgentState* agent = find(node);
  if (agent == nullptr || !agent->connected || agent->disabled || disabled_.contains(node))
    return {};
  return agent->segments;
}

std::optional<Granularity> Broadcast::steering(const std::string& node, Time now) const {
  const AgentState* agent = programming(node, now);
  if (agent == nullptr)
    return std::nullopt;
  std::optional<Granularity> finest;
  for (const EnforcerCapability& enforcer : agent->enforcers)
    if (enforcer.usable && (!finest || enforcer.granularity > *finest))
      finest = enforcer.granularity;
  return finest;
}

void Broadcast::send(AgentState& agent, const Message& message) {
  if (!agent.connected)
    return;
  // A full queue loses the message, as a network would; the protocol recovers from that.
  if (const auto sent = port_.send(agent.route, message);
      !sent && (sent.error().code == Errc::not_found || sent.error().code == Errc::permission))
    disconnect(agent, sent.error().message);
}

void Broadcast::send_part(AgentState& agent, bool as_snapshot, Time now) {
  const NodePlan part = part_of(agent.name);
  if (as_snapshot || !agent.sent) {
    send(agent, Snapshot{.plan = part, .digest = digest(part.pins)});
  } else if (agent.sent->version != part.version) {
    send(agent, diff(*agent.sent, part));
  } else {
    return;
  }
  agent.sent = part;
  // An agent that programs nothing has nothing to read back.
  agent.acknowledged = agent.mode == Mode::observe || agent.disabled;
  agent.resend_at = now + agent.resend_after;
}

void Broadcast::refuse(const Sender& sender, Errc code, std::string reason, Time now) {
  const auto last = refused_.find(sender.route);
  if (last != refused_.end() && now - last->second < kLeastSilence)
    return;
  notices_({Notice::Level::warning, fmt::format("refused {}: {}", sender.node, reason)});
  if (refusals_)
    refusals_(sender, reason);
  refused_[sender.route] = now;
  // Somebody who is gone needs no answer.
  (void)port_.send(sender.route, Refusal{.code = code, .reason = std::move(reason)});
}

Welcome Broadcast::welcome() const {
  return {.version = reign_.version(),
          .report_interval = config_.report_interval,
          .lease = config_.lease,
          .columns_of_one = true};
}

void Broadcast::reconfigure(BroadcastConfig config) {
  config_ = config;
  for (auto& [name, agent] : agents_)
    send(agent, welcome());
}

// Why the sender's key does not make it the agent that it says it is; empty if it does.
std::string Broadcast::foreign_key(const Sender& sender) {
  if (sender.key_name.empty())
    return {};
  if (sender.role == KeyRole::viewer_key || sender.role == KeyRole::operator_key)
    return fmt::format("the key '{}' is of the role '{}' and speaks for no node", sender.key_name,
                       to_string(sender.role));
  if (sender.key_name != sender.node)
    return fmt::format("the key of '{}' does not speak for '{}'", sender.key_name, sender.node);
  return {};
}

void Broadcast::disconnect(AgentState& agent, const std::string& why) {
  agent.connected = false;
  agent.links_heard = 0;
  notices_({Notice::Level::warning, fmt::format("lost agent {}: {}", agent.name, why)});
}

bool Broadcast::alive_elsewhere(AgentState& agent, const Sender& sender, Time now) {
  if (!agent.connected || agent.route == sender.route)
    return false;
  // An agent that was restarted left a closed connection behind: sending there says so at once. One
  // that is still there is asked for nothing by a heartbeat.
  const NodePlan part = part_of(agent.name);
  if (published_)
    send(agent,
         Heartbeat{.version = part.version, .digest = digest(part.pins), .lease = config_.lease});
  return agent.connected && now - agent.last_heard < silence();
}

bool Broadcast::believable(const Sender& sender, PlanVersion held, Time now) {
  if (reign_.plausible(held))
    return true;
  refuse(
      sender, Errc::invalid_argument,
      fmt::format("it shows plan {}, far above this coordinator's epoch {}: what it keeps on its "
                  "disk is damaged; remove its state and restart it",
                  to_string(held), reign_.version().epoch),
      now);
  return false;
}

void Broadcast::show(const std::string& node, PlanVersion held) {
  if (const auto challenge = reign_.challenge(node, held, part_of(node).version))
    notices_({Notice::Level::error, *challenge});
}

bool Broadcast::hello(const Sender& sender, const Hello& hello, Time now) {
  if (std::string why = foreign_key(sender); !why.empty()) {
    refuse(sender, Errc::permission, std::move(why), now);
    return false;
  }
  if (!nodes_.contains(sender.node)) {
    refuse(sender, Errc::not_found,
           fmt::format("the fabric has no node '{}'; add it to the fabric file", sender.node), now);
    return false;
  }
  if (!believable(sender, std::max(hello.installed, hello.highest_seen), now))
    return false;
  AgentState& agent = agents_[sender.node];
  const bool known = !agent.name.empty();
  agent.name = sender.node;
  if (known && agent.instance != hello.instance && alive_elsewhere(agent, sender, now)) {
    refuse(sender, Errc::duplicate,
           fmt::format("two agents are named {}: {} is connected, {} is refused", sender.node,
                       describe(agent.instance, agent.boot_id),
                       describe(hello.instance, hello.boot_id)),
           now);
    return false;
  }
  if (!agent.connected || agent.instance != hello.instance)
    notices_({Notice::Level::info,
              fmt::format("agent {} connected: {}, {}", sender.node,
                          hello.mode == Mode::program ? "programs" : "observes", hello.software)});
  const std::uint64_t epoch = reign_.version().epoch;
  show(sender.node, std::max(hello.installed, hello.highest_seen));

  refused_.erase(sender.route);
  agent.connected = true;
  agent.route = sender.route;
  if (agent.instance != hello.instance) {
    agent.links_heard = 0;
    agent.reports = agent.reports_lost = agent.report_number = 0;
    agent.failed.clear();
    agent.conflict.clear();
    agent.installed_pins = 0;
    agent.pin_states.reset();
    agent.apply_time.reset();
  }
  agent.role = hello.role;
  agent.mode = hello.mode;
  agent.software = hello.software;
  agent.boot_id = hello.boot_id;
  agent.instance = hello.instance;
  agent.enforcers = hello.enforcers;
  agent.sources = hello.sources;
  agent.segments = hello.segments;
  agent.installed = hello.installed;
  agent.digest = hello.digest;
  agent.last_heard = now;
  agent.disabled = hello.disabled;
  agent.resend_after = config_.resend_first;
  agent.sent.reset();
  agent.acknowledged = false;
  if (disabled_.contains(sender.node) != hello.disabled && !agent.switch_pending) {
    // Switched off on the machine itself while we were away: that stands. Switched off by us, and
    // the agent does not know (any more): it is told again.
    if (hello.disabled)
      disabled_.insert(sender.node);
    else
      agent.switch_pending = true;
  }
  agent.switch_at = now;

  send(agent, welcome());
  // In a new epoch the plan is about to be published again.
  if (published_ && epoch == reign_.version().epoch) {
    const NodePlan part = part_of(sender.node);
    const bool holds = agent.installed == part.version && agent.digest == digest(part.pins);
    if (holds) {
      agent.sent = part;
      agent.acknowledged = true;
    } else {
      send_part(agent, true, now);
    }
  }
  next_tick_ = std::min(next_tick_, now);
  return true;
}

bool Broadcast::admit(const Sender& sender, Time now) {
  if (std::string why = foreign_key(sender); !why.empty()) {
    refuse(sender, Errc::permission, std::move(why), now);
    return false;
  }
  const auto found = agents_.find(sender.node);
  // Its hello was lost, or refused. It says it again, and until then it is not heard.
  if (found == agents_.end() || found->second.route != sender.route)
    return false;
  AgentState& agent = found->second;
  agent.last_heard = now;
  if (!agent.connected) {
    agent.connected = true;
    agent.resend_after = config_.resend_first;
    notices_({Notice::Level::info, fmt::format("agent {} is back", agent.name)});
    if (published_)
      send_part(agent, true, now);
    next_tick_ = std::min(next_tick_, now);
  }
  return true;
}

void Broadcast::acknowledged(const std::string& node, const Acknowledgement& ack, Time now) {
  AgentState& agent = agents_.at(node);
  if (!believable({.route = agent.route, .node = node, .key_name = {}}, ack.version, now))
    return;
  show(node, ack.version);
  agent.installed = ack.version;
  agent.digest = ack.digest;
  agent.installed_pins = ack.installed;
  agent.pin_states = ack.states;
  agent.apply_time = ack.apply_time;
  for (const PinFailure& failure : ack.failed) {
    const bool known = std::ranges::any_of(agent.failed, [&](const PinFailure& before) {
      return before.unit == failure.unit && before.code == failure.code;
    });
    if (!known)
      notices_({Notice::Level::warning, fmt::format("{} could not install {}: {}", node,
                                                    to_string(failure.unit), failure.reason)});
  }
  agent.failed = ack.failed;
  if (ack.conflict != agent.conflict && !ack.conflict.empty())
    notices_({Notice::Level::error, fmt::format("{} programs nothing: {}", node, ack.conflict)});
  agent.conflict = ack.conflict;
  if (agent.disabled != ack.disabled || agent.switch_pending) {
    const bool wanted = disabled_.contains(node);
    if (ack.disabled == wanted) {
      agent.switch_pending = false;
    } else if (!agent.switch_pending) {
      // Switched off on the machine itself: that stands. Switched on there, or a word that was
      // late: off is the safe side, and stays until it is undone where it was ordered.
      if (ack.disabled)
        disabled_.insert(node);
      else
        agent.switch_pending = true;
    }
    if (agent.disabled != ack.disabled)
      notices_({Notice::Level::info,
                fmt::format("{} is {}", node, ack.disabled ? "disabled" : "enabled")});
    agent.disabled = ack.disabled;
  }
  const NodePlan part = part_of(node);
  if (!published_ || ack.version != part.version)
    return;
  agent.acknowledged = true;
  agent.resend_after = config_.resend_first;
  const bool complete = ack.failed.empty() && !ack.disabled && ack.conflict.empty() &&
                        agent.mode == Mode::program && ack.installed == part.pins.size();
  if (complete && ack.installed > 0 && ack.digest != digest(part.pins))
    notices_({Notice::Level::error, reign_.contest(node, ack.version)});
  next_tick_ = std::min(next_tick_, now + heartbeat());
}

void Broadcast::snapshot_requested(const std::string& node, const SnapshotRequest& request,
                                   Time now) {
  AgentState& agent = agents_.at(node);
  if (!believable({.route = agent.route, .node = node, .key_name = {}}, request.have, now))
    return;
  show(node, request.have);
  if (published_)
    send_part(agent, true, now);
}

void Broadcast::reported(const std::string& node, const Report& report, Time now) {
  AgentState& agent = agents_.at(node);
  if (agent.reports > 0 && report.number > agent.report_number + 1)
    agent.reports_lost += report.number - agent.report_number - 1;
  agent.report_number = report.number;
  ++agent.reports;
  agent.last_report = now;
  // Sent before the report, so it was lost or is late.
  if (report.links != 0 && report.links != agent.links_heard)
    send(agent, LinkRequest{.have = agent.links_heard});
}

bool Broadcast::links_told(const std::string& node, const LinkChange& change) {
  AgentState& agent = agents_.at(node);
  // The difference, as the numbers of an instance may begin anywhere.
  if (change.state != 0 && agent.links_heard != 0 &&
      static_cast<std::int64_t>(change.state - agent.links_heard) < 0)
    return false;
  agent.links_heard = change.state;
  return true;
}

void Broadcast::publish(const RoutePlan& plan, Time now) {
  plan_ = plan;
  published_ = true;
  for (auto& [name, agent] : agents_) {
    agent.resend_after = config_.resend_first;
    send_part(agent, false, now);
  }
  next_tick_ = std::min(next_tick_, now + config_.resend_first);
}

void Broadcast::withdraw() {
  plan_ = {};
  published_ = false;
  for (auto& [name, agent] : agents_) {
    agent.sent.reset();
    agent.acknowledged = false;
  }
}

void Broadcast::set_disabled(const std::set<std::string>& nodes) {
  disabled_ = nodes;
}

void Broadcast::switch_node(const std::string& node, bool enable, const std::string& by, Time now) {
  if (enable)
    disabled_.erase(node);
  else
    disabled_.insert(node);
  const auto found = agents_.find(node);
  if (found == agents_.end())
    return;
  AgentState& agent = found->second;
  agent.switch_pending = true;
  agent.switch_at = now + config_.resend_first;
  send(agent, Switch{.enable = enable, .by = by});
  next_tick_ = std::min(next_tick_, agent.switch_at);
}

void Broadcast::tick(Time now) {
  const bool beat = now >= heartbeat_at_;
  if (beat) {
    heartbeat_at_ = now + heartbeat() / kSlices;
    slice_ = (slice_ + 1) % kSlices;
  }
  next_tick_ = heartbeat_at_;
  for (auto& [name, agent] : agents_) {
    if (!agent.connected)
      continue;
    if (now - agent.last_heard >= silence()) {
      disconnect(agent, "it fell silent");
      continue;
    }
    if (agent.switch_pending) {
      if (now >= agent.switch_at) {
        send(agent, Switch{.enable = !disabled_.contains(name), .by = "coordinator"});
        agent.switch_at = now + heartbeat();
      }
      next_tick_ = std::min(next_tick_, agent.switch_at);
    }
    if (!published_)
      continue;
    if (!agent.acknowledged) {
      if (now >= agent.resend_at) {
        agent.resend_after = std::min(agent.resend_after * 2, heartbeat());
        send_part(agent, true, now);
      }
      next_tick_ = std::min(next_tick_, agent.resend_at);
    }
    if (beat && std::hash<std::string>()(name) % kSlices == slice_) {
      const NodePlan part = part_of(name);
      send(agent,
           Heartbeat{.version = part.version, .digest = digest(part.pins), .lease = config_.lease});
    }
  }
  std::erase_if(refused_, [&](const auto& entry) { return now - entry.second > silence(); });
}

}  // namespace heddle
