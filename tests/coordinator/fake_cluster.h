// A whole cluster in one process under a hand-advanced clock: the coordinator, agents that keep the
// protocol as the specification says, a fabric whose flows share its links max-min fairly, and a
// channel that loses, delays and repeats messages by a seed.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "common/core/efficiency.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/small_fabric.h"

namespace heddle::testing {

using namespace std::chrono_literals;

class HandClock final : public Clock {
 public:
  Time now() const override { return Time(1000s + passed); }
  WallTime wall() const override { return WallTime(1700000000s + passed); }
  Duration passed{};
};

// A history in memory that can be broken: then it keeps nothing, says so, and answers nothing.
class MemoryHistory final : public History {
 public:
  void keep(WallTime, const std::string&, const Report&) override { ++reports; }
  void keep(WallTime, const std::string&, const LinkChange&) override {}
  void keep(std::shared_ptr<const PlanRecord> plan) override {
    if (!broken)
      plans.push_back(*plan);
  }
  void keep(const EventRecord& event) override { events.push_back(event); }
  void keep(const DecisionRecord& decision) override {
    if (!broken)
      decisions[decision.wall] = decision;
  }
  void read_plan(PlanVersion version, Answer<PlanRecord> answer) override {
    if (broken)
      return;
    for (const PlanRecord& plan : plans)
      if (plan.plan.version == version)
        return answer(plan);
    answer(fail(Errc::not_found, "no such plan"));
  }
  void read_events(WallTime, WallTime, Answer<std::vector<EventRecord>> answer) override {
    answer(events);
  }
  void read_decisions(WallTime after, std::size_t limit,
                      Answer<std::vector<DecisionRecord>> answer) override {
    if (broken)
      return;
    std::vector<DecisionRecord> found;
    for (auto it = decisions.rbegin(); it != decisions.rend() && it->first > after; ++it)
      if (found.size() < limit)
        found.insert(found.begin(), it->second);
    answer(found);
  }
  HistoryStatus status() const override {
    return {.ok = !broken, .reason = broken ? "No space left on device" : ""};
  }
  std::vector<PlanRecord> plans;
  std::vector<EventRecord> events;
  std::map<WallTime, DecisionRecord> decisions;
  std::uint64_t reports{};
  bool broken{};
};

class MemoryStore final : public StateStore {
 public:
  Result<std::uint64_t> load_epoch() override { return epoch; }
  Result<void> store_epoch(std::uint64_t value) override {
    epoch = value;
    return {};
  }
  Result<OperatorState> load_operator_state() override { return operators; }
  Result<void> store_operator_state(const OperatorState& state) override {
    if (broken)
      return fail(Errc::io, "No space left on device");
    operators = state;
    return {};
  }
  Result<RolloutState> load_rollout() override { return rollout; }
  Result<void> store_rollout(const RolloutState& state) override {
    if (broken)
      return fail(Errc::io, "No space left on device");
    rollout = state;
    ++rollout_writes;
    return {};
  }
  std::uint64_t epoch{};
  OperatorState operators;
  RolloutState rollout;
  std::uint64_t rollout_writes{};
  bool broken{};
};

class MemoryAudit final : public AuditLog {
 public:
  void keep(const AuditRecord& record) override { records.push_back(record); }
  std::vector<AuditRecord> records;
};

// What an agent does by the protocol, without a kernel.
struct FakeAgent {
  std::string node;
  Role role{};
  Mode mode{Mode::observe};
  std::uint64_t instance{1};
  bool welcomed{};
  Time hello_at{};
  std::optional<NodePlan> plan;
  std::vector<Pin> installed;
  PlanVersion highest;
  std::optional<Time> lease_over;
  bool disabled{};
  std::uint64_t report_number{};
  Time report_at{};
  std::uint64_t refusals{};
  std::uint64_t link_requests{};
  std::uint64_t changes{};  // how often what is installed changed
  std::vector<PortStatus> ports;
  std::vector<Withdrawal> withdrawn;
  std::uint64_t links{};       // the state that was told last
  std::string broken_port;     // pins to it cannot be installed
  std::string forbidden_port;  // its own configuration forbids pins of what comes in there
  bool ignores_pins{};         // they are installed, and lead nothing
  bool can_steer{true};
  std::string enforcer{};  // of a host or a spine: "srv6"; empty: none
  std::vector<LocalSegment> segments{};
  bool gone{};                         // says and takes nothing any more
  std::uint32_t stuck_pins{};          // that cannot be taken away
  std::vector<PinFailure> troubles{};  // of pins that are installed all the same

  bool refuses(const Pin& pin) const {
    const auto* unit = std::get_if<ByPortAndDestination>(&pin.unit);
    return unit != nullptr && unit->in_port == forbidden_port;
  }
  bool fails(const Pin& pin) const {
    const auto* route = std::get_if<PortTableRoute>(&pin.target);
    return (route != nullptr && route->out_port == broken_port) || refuses(pin);
  }
  const Pin* find(const SteeringUnit& unit) const {
    const auto pin = std::ranges::find(installed, unit, &Pin::unit);
    return pin == installed.end() ? nullptr : &*pin;
  }
  void install() {
    std::vector<Pin> next;
    if (mode == Mode::program && !disabled && plan)
      next = plan->pins;
    std::erase_if(next, [&](const Pin& pin) { return fails(pin); });
    if (digest(next) != digest(installed))
      ++changes;
    installed = std::move(next);
  }
  Acknowledgement acknowledgement() const {
    Acknowledgement ack;
    ack.version = plan ? plan->version : PlanVersion{};
    ack.digest = digest(installed);
    ack.installed = static_cast<std::uint32_t>(installed.size()) + stuck_pins;
    if (plan)
      for (const Pin& pin : plan->pins)
        if (fails(pin))
          ack.failed.push_back(
              refuses(pin) ? PinFailure{pin.unit, Errc::permission, "never to be touched"}
                           : PinFailure{pin.unit, Errc::kernel, "the neighbour does not answer"});
    ack.failed.insert(ack.failed.end(), troubles.begin(), troubles.end());
    ack.disabled = disabled;
    ack.apply_time = 1ms;
    ack.states = PinStates{.installed = ack.installed,
                           .hardware = false,
                           .offloaded = 0,
                           .effective = static_cast<std::uint32_t>(installed.size())};
    return ack;
  }
  Hello hello() const {
    Hello said;
    said.role = role;
    said.mode = mode;
    said.disabled = disabled;
    said.software = "0.1.0";
    said.boot_id = "boot";
    said.instance = instance;
    said.installed = plan ? plan->version : PlanVersion{};
    said.highest_seen = highest;
    said.digest = digest(installed);
    said.ports = ports;
    if (role == Role::leaf)
      said.enforcers = {{"port-tables", Granularity::port_and_destination, can_steer, ""}};
    else if (!enforcer.empty())
      said.enforcers = {
          {enforcer,
           role == Role::host ? Granularity::destination : Granularity::port_and_destination,
           can_steer, ""}};
    said.segments = segments;
    return said;
  }
};

struct FlowSpec {
  int from_leaf, from, to_leaf, to;
};

class FakeCluster final : public MessagePort {
 public:
  FakeCluster(int leaves, int spines, int hosts, std::uint64_t seed)
      : FakeCluster(small_fabric(leaves, spines, hosts), seed) {}
  FakeCluster(Topology fabric, std::uint64_t seed)
      : topology(std::move(fabric)), links(topology), random_(seed) {
    settings.flows = {.elephant_rate = Rate{1e6}, .elephant_message = {1 << 20}, .memory = 10s};
    settings.broadcast = {.report_interval = 200ms, .lease = 5s, .resend_first = 200ms};
    settings.period = 250ms;
    settings.rollout.required = false;
    settings.decide.dwell = 0ms;  // tests that are about it set it
    settings.software = "0.1.0";
    for (const auto& leaf : topology.leaves())
      add(leaf.name, Role::leaf, Mode::program);
    for (const auto& host : topology.hosts())
      add(host.name, Role::host, Mode::observe);
    for (auto& [name, agent] : agents)
      if (const auto leaf = topology.find_leaf(name)) {
        for (const CableId id : topology[*leaf].cables)
          agent.ports.push_back({topology[id].leaf_port, true, 0, 0});
        for (const AttachmentId id : topology[*leaf].attachments)
          agent.ports.push_back({topology[id].leaf_port, true, 0, 0});
      }
  }

  FakeAgent& add_spine(const std::string& name) {
    add(name, Role::spine, Mode::program);
    return agents.at(name);
  }

  // A ring in which every flow goes to the next leaf.
  void ring(int leaves, int hosts) {
    for (int i = 0; i < leaves * hosts; ++i) {
      const int j = (i + 1) % (leaves * hosts);
      flows.push_back({i % leaves + 1, i / leaves + 1, j % leaves + 1, j / leaves + 1});
    }
  }

  void start(std::vector<JobDeclaration> jobs = {}) {
    auto begun = Reign::begin(store);
    HEDDLE_CHECK(begun.has_value());
    reign.emplace(*begun);
    coordinator.emplace(
        settings,
        CoordinatorParts{.topology = topology,
                         .optimiser = *optimiser,
                         .reign = *reign,
                         .port = *this,
                         .history = history,
                         .store = store,
                         .audit = audit,
                         .clock = clock,
                         .log = [this](const Notice& notice) { log.push_back(notice.text); }},
        std::move(jobs), store.operators);
    coordinator->take_up(store.rollout);
    reconnect();
  }
  void stop() {
    coordinator.reset();
    in_flight_.clear();
    for (auto& [name, agent] : agents)
      agent.welcomed = false;
  }
  // A new connection: every agent says hello.
  void reconnect() {
    ++connection_;
    for (auto& [name, agent] : agents) {
      agent.welcomed = false;
      agent.hello_at = clock.now();
    }
  }

  void advance(Duration time) {
    for (const Duration end = clock.passed + time; clock.passed < end; clock.passed += 1ms)
      turn();
  }
  // Whether it came true within the time; how long it took is `took`.
  bool await(Duration patience, const std::function<bool()>& condition) {
    const Duration begin = clock.passed;
    while (!condition()) {
      if (clock.passed - begin >= patience)
        return false;
      turn();
      clock.passed += 1ms;
    }
    took = clock.passed - begin;
    return true;
  }

  // Every programming agent holds exactly its part of the plan.
  bool converged() const {
    if (!coordinator || coordinator->record() == nullptr)
      return false;
    return std::ranges::all_of(agents, [&](const auto& entry) {
      const FakeAgent& agent = entry.second;
      if (agent.mode != Mode::program || agent.disabled || agent.gone)
        return true;
      const NodePlan part = coordinator->broadcast().part_of(agent.node);
      return agent.plan && agent.plan->version == part.version &&
             digest(agent.installed) == digest(part.pins);
    });
  }
  std::size_t installed_pins() const {
    std::size_t pins = 0;
    for (const auto& [name, agent] : agents)
      pins += agent.installed.size();
    return pins;
  }
  std::uint64_t changes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, agent] : agents)
      sum += agent.changes;
    return sum;
  }
  // What the flows get where they run now: the pins that are installed, else a hash.
  Efficiency measured() const {
    Demand demand;
    demand.jobs.push_back({.name = "all"});
    Routing routing;
    for (const FlowSpec& flow : flows) {
      demand.flows.push_back({.job = {0},
                              .phase = 0,
                              .source = *topology.find_nic(address(flow.from_leaf, flow.from)),
                              .destination = *topology.find_nic(address(flow.to_leaf, flow.to))});
      routing.push_back(path_of(flow));
    }
    return evaluate(topology, links, demand, routing);
  }

  // The cable dies: its leaf loses carrier at once. Its spine is then no way to that leaf for the
  // others, whose routing withdraws it after a while.
  void cut(int leaf, int spine, bool alive = false) {
    const CableId id = cable(leaf, spine);
    links.set(topology, id, alive);
    FakeAgent& near = agents.at(fmt::format("leaf{}", leaf));
    for (PortStatus& port : near.ports)
      if (port.name == fmt::format("up{}", spine))
        port.carrier = alive;
    tell_links(near);
    for (auto& [name, agent] : agents) {
      if (agent.role != Role::leaf || &agent == &near)
        continue;
      const Withdrawal gone{*Prefix::parse(fmt::format("10.{}.0.0/16", leaf)),
                            fmt::format("up{}", spine)};
      if (alive)
        std::erase(agent.withdrawn, gone);
      else
        agent.withdrawn.push_back(gone);
      tell_links(agent);
    }
  }

  // The reply to a command, or nothing if none came in five seconds.
  std::optional<Reply> ask(const std::string& command, std::vector<std::string> arguments = {},
                           const std::string& key = {}, KeyRole role = KeyRole::unstated) {
    reply.reset();
    coordinator->received({.route = "cli", .node = "cli", .key_name = key, .role = role},
                          {.node = "cli",
                           .sequence = 1,
                           .message = Request{++request_, command, std::move(arguments)}});
    await(5s, [&] { return reply.has_value(); });
    return reply;
  }

  CableId cable(int leaf, int spine) const {
    return *topology.cable_at(*topology.find_leaf(fmt::format("leaf{}", leaf)),
                              fmt::format("up{}", spine));
  }
  bool logged(const std::string& text) const {
    return std::ranges::any_of(
        log, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  // MessagePort: from the coordinator.
  Result<void> send(const std::string& route, const Message& message) override {
    if (route == "cli") {
      if (const auto* answer = std::get_if<Reply>(&message))
        reply = *answer;
      return {};
    }
    if (const std::string node = node_of(route); route == route_of(node)) {
      if (agents.at(node).gone)
        return fail(Errc::not_found, "the connection is closed");
      carry(down_[node], [this, node, message] { deliver(agents.at(node), message); });
    }
    return {};
  }

  Topology topology;
  LinkState links;
  HandClock clock;
  MemoryHistory history;
  MemoryStore store;
  MemoryAudit audit;
  std::unique_ptr<Optimiser> optimiser{make_optimiser("heddle")};
  CoordinatorSettings settings;
  std::optional<Reign> reign;
  std::optional<Coordinator> coordinator;
  std::map<std::string, FakeAgent> agents;
  std::vector<FlowSpec> flows;
  std::vector<std::string> log;
  std::optional<Reply> reply;
  Duration took{};
  double loss{};
  double noise{};      // by which every reported rate may be wrong
  double slowed{1.0};  // all that flows get, for a reason that nobody tells the coordinator
  // What a flow sends, in bits per second, where that is not all it gets.
  std::function<double(const FlowSpec&)> pace;
  Duration longest_delay{2ms};
  bool reorders{};                                                // messages overtake each other
  std::function<bool(Time)> sending = [](Time) { return true; };  // or a compute pause

 private:
  void add(const std::string& node, Role role, Mode mode) {
    FakeAgent& agent = agents[node];
    agent.node = node;
    agent.role = role;
    agent.mode = mode;
    // Agents do not report in step.
    agent.report_at = clock.now() + std::chrono::milliseconds(agents.size() * 7 % 200);
  }
  std::string route_of(const std::string& node) const {
    return fmt::format("{}@{}", node, connection_);
  }
  static std::string node_of(const std::string& route) { return route.substr(0, route.find('@')); }

  // `last`: when the message before it arrives, which a connection lets it not overtake.
  void carry(Time& last, std::function<void()> arrival) {
    if (std::uniform_real_distribution<>(0, 1)(random_) < loss)
      return;
    const auto delay =
        std::uniform_int_distribution<std::int64_t>(0, longest_delay.count())(random_);
    Time at = clock.now() + Duration(delay);
    if (!reorders)
      at = std::max(at, last);
    last = at;
    in_flight_.emplace(at, std::move(arrival));
  }
  void say(const FakeAgent& agent, Message message) {
    const Sender sender{.route = route_of(agent.node), .node = agent.node, .key_name = agent.node};
    carry(up_[agent.node], [this, sender, message = std::move(message)] {
      if (coordinator)
        coordinator->received(sender, {.node = sender.node, .sequence = 0, .message = message});
    });
  }
  void tell_links(FakeAgent& agent) {
    say(agent, LinkChange{.ports = agent.ports,
                          .withdrawn = agent.withdrawn,
                          .neighbours = {},
                          .state = ++agent.links});
  }

  void turn() {
    const Time now = clock.now();
    while (!in_flight_.empty() && in_flight_.begin()->first <= now) {
      const std::function<void()> arrival = std::move(in_flight_.begin()->second);
      in_flight_.erase(in_flight_.begin());
      arrival();
    }
    for (auto& [name, agent] : agents) {
      if (agent.gone)
        continue;
      if (!agent.welcomed && now >= agent.hello_at) {
        agent.hello_at = now + 2s;
        say(agent, agent.hello());
      }
      if (agent.lease_over && now >= *agent.lease_over) {
        agent.lease_over.reset();
        agent.plan.reset();
        agent.install();
      }
      if (now >= agent.report_at) {
        agent.report_at += settings.broadcast.report_interval;
        report(agent);
      }
    }
    if (coordinator && now >= coordinator->next_deadline())
      coordinator->step();
  }

  // What is down or has an agent that holds no pin for it is left to a hash.
  Path path_of(const FlowSpec& flow) const {
    const NicId from = *topology.find_nic(address(flow.from_leaf, flow.from));
    const NicId to = *topology.find_nic(address(flow.to_leaf, flow.to));
    const IpAddress& destination = topology[to].address;
    const HostId source = topology[from].host;
    const Pin* at_host = agents.at(topology[source].name).find(ByDestination{destination});
    AttachmentId entry = topology[from].attachments.front();
    if (at_host != nullptr)
      if (const auto* route = std::get_if<HostRoute>(&at_host->target))
        entry = *topology.attachment_at(source, route->out_port);
    const LeafId leaf = topology[entry].leaf;
    AttachmentId exit = topology[to].attachments.front();
    for (const AttachmentId id : topology[to].attachments)
      if (topology[id].leaf == leaf)
        exit = id;
    if (topology[exit].leaf == leaf)
      return {.from = entry, .up = {}, .down = {}, .to = exit};
    const auto led = [&](CableId up) {
      Path path = path_through(topology, entry, up, exit);
      const std::string& spine = topology[topology[up].spine].name;
      if (const auto agent = agents.find(spine); agent != agents.end() && path.routable())
        if (const Pin* pin =
                agent->second.find(ByPortAndDestination{topology[up].spine_port, destination}))
          path.down = *topology.cable_at(topology[up].spine,
                                         std::get<PortTableRoute>(pin->target).out_port);
      return path;
    };
    if (at_host != nullptr)
      if (const auto* list = std::get_if<SegmentList>(&at_host->target))
        return segment_path(entry, list->segments.front(), exit);
    const FakeAgent& agent = agents.at(topology[leaf].name);
    if (const Pin* pin = agent.find(ByPortAndDestination{topology[entry].leaf_port, destination});
        pin != nullptr && !agent.ignores_pins)
      return led(*topology.cable_at(leaf, std::get<PortTableRoute>(pin->target).out_port));
    // A hash that puts several on one uplink, among those that lead there.
    const auto& cables = topology[leaf].cables;
    for (std::size_t i = 0; i < cables.size(); ++i) {
      const CableId up =
          cables[(static_cast<std::size_t>(flow.from * flow.to_leaf) + i) % cables.size()];
      const auto down = topology.cables_between(topology[exit].leaf, topology[up].spine);
      if (links.up(topology.uplink(up)) &&
          std::ranges::any_of(down, [&](CableId id) { return links.up(topology.downlink(id)); }))
        return led(up);
    }
    return {};
  }

  // Lost where the segment's node is gone: nobody else answers to it.
  Path segment_path(AttachmentId entry, const IpAddress& segment, AttachmentId exit) const {
    for (const auto& [name, agent] : agents)
      if (const auto spine = topology.find_spine(name); spine && !agent.gone)
        for (const LocalSegment& one : agent.segments)
          if (one.address == segment) {
            const auto cables = topology.cables_between(topology[entry].leaf, *spine);
            Path path = path_through(topology, entry, cables.front(), exit);
            path.spread = cables.size() > 1;
            return path;
          }
    return {};
  }

  static PortStatus& port(FakeAgent& agent, const std::string& name) {
    return *std::ranges::find(agent.ports, name, &PortStatus::name);
  }

  void report(FakeAgent& agent) {
    const Duration interval = settings.broadcast.report_interval;
    std::vector<FlowDelta> seen;
    if (sending(clock.now())) {
      const Efficiency now = measured();
      for (std::size_t i = 0; i < flows.size(); ++i) {
        const FlowSpec& flow = flows[i];
        const bool at_host = agent.node == fmt::format("h{}-{}", flow.from_leaf, flow.from);
        const Path path = path_of(flow);
        const auto at = [&](AttachmentId id) {
          return id.valid() && agent.node == topology[topology[id].leaf].name;
        };
        const bool at_leaf = at(path.from);
        const bool at_end = at(path.to);
        if (!at_host && !at_leaf && !at_end)
          continue;
        const double error =
            noise > 0 ? std::uniform_real_distribution<>(1 - noise, 1 + noise)(random_) : 1;
        const double got = pace ? pace(flow) : now.subflow_rates[i].bits_per_second;
        const double rate = got * slowed * error;
        const auto bytes =
            static_cast<std::uint64_t>(rate / 8 * std::chrono::duration<double>(interval).count());
        if (at_leaf && path.up.valid())
          port(agent, topology[path.up].leaf_port).tx_bytes += bytes;
        if (at_end && path.down.valid())
          port(agent, topology[path.down].leaf_port).rx_bytes += bytes;
        if (at_leaf)
          port(agent, topology[path.from].leaf_port).rx_bytes += bytes;
        if (at_end && path.to.valid())
          port(agent, topology[path.to].leaf_port).tx_bytes += bytes;
        if (at_host || at_leaf)
          seen.push_back(
              delta(wire_key(address(flow.from_leaf, flow.from), address(flow.to_leaf, flow.to)),
                    bytes, at_leaf && path.up.valid() ? topology[path.up].leaf_port : ""));
      }
    }
    Report said = report_of(++agent.report_number, clock.now() - interval, interval,
                            std::move(seen), agent.ports);
    said.links = agent.links;
    say(agent, std::move(said));
  }

  void deliver(FakeAgent& agent, const Message& message) {
    const Time now = clock.now();
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      if (welcome->version.epoch < agent.highest.epoch)
        return;
      agent.welcomed = true;
      agent.lease_over = now + welcome->lease;
      say(agent, agent.acknowledgement());
      tell_links(agent);
      return;
    }
    if (std::holds_alternative<Refusal>(message)) {
      ++agent.refusals;
      return;
    }
    if (!agent.welcomed)
      return;
    if (const auto* snapshot = std::get_if<Snapshot>(&message)) {
      take(agent, accept_plan(snapshot->plan, agent.node, agent.highest));
    } else if (const auto* change = std::get_if<PlanDiff>(&message)) {
      if (change->version < agent.highest)
        return;
      const Result<NodePlan> next =
          agent.plan ? apply(*agent.plan, *change) : Result<NodePlan>(fail(Errc::gap, "no plan"));
      if (!next)
        say(agent, SnapshotRequest{agent.plan ? agent.plan->version : PlanVersion{}, "gap"});
      else
        take(agent, next);
    } else if (const auto* beat = std::get_if<Heartbeat>(&message)) {
      if (beat->version.epoch < agent.highest.epoch)
        return;
      agent.lease_over = now + beat->lease;
      if (!agent.plan || agent.plan->version != beat->version ||
          digest(agent.plan->pins) != beat->digest)
        say(agent, SnapshotRequest{agent.plan ? agent.plan->version : PlanVersion{}, "mismatch"});
    } else if (std::holds_alternative<LinkRequest>(message)) {
      ++agent.link_requests;
      tell_links(agent);
    } else if (const auto* turned = std::get_if<Switch>(&message)) {
      agent.disabled = !turned->enable;
      agent.install();
      say(agent, agent.acknowledgement());
    }
  }
  void take(FakeAgent& agent, const Result<NodePlan>& next) {
    if (!next)
      return;
    // Safety rule 4, wherever it came from.
    HEDDLE_CHECK(next->version >= agent.highest);
    agent.highest = next->version;
    agent.plan = *next;
    agent.install();
    say(agent, agent.acknowledgement());
  }

  std::mt19937_64 random_;
  std::multimap<Time, std::function<void()>> in_flight_;
  std::map<std::string, Time> up_, down_;  // by node: when its last message arrives
  std::uint64_t connection_{};
  std::uint64_t request_{};
};

}  // namespace heddle::testing
