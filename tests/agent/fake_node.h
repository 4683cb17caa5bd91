// A leaf without a kernel: two uplinks with ECMP over nexthop objects, one host port, and tables
// that do what they are told. It stands behind the agent's ports, so that an agent runs in a test
// under a clock that the test advances.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "common/core/clock.h"
#include "common/transport/channel.h"
#include "common/wire/codec.h"
#include "tests/agent/fakes.h"

namespace heddle {

class HandClock final : public Clock {
 public:
  Time now() const override { return time; }
  WallTime wall() const override {
    return WallTime{std::chrono::hours(400'000) + time.time_since_epoch()};
  }
  Time time{std::chrono::seconds(1000)};
};

class FakeKernel : public RouteKernel, public PortSource {
 public:
  static constexpr std::uint32_t kHostPort = 1, kUp1 = 2, kUp2 = 3, kMain = 254;

  FakeKernel() {
    const IpAddress gateways[] = {IpAddress::v4(10, 101, 1, 2), IpAddress::v4(10, 101, 2, 2)};
    add_link(kHostPort, "p1");
    add_link(kUp1, "up1");
    add_link(kUp2, "up2");
    connect(kHostPort, {IpAddress::v4(10, 1, 1, 0), 30}, IpAddress::v4(10, 1, 1, 1));
    for (std::uint32_t n = 0; n < 2; ++n) {
      KernelNextHop next_hop{.id = 1 + n, .protocol = 186, .hop = {}, .members = {}};
      next_hop.hop = Hop{.ifindex = kUp1 + n, .gateway = gateways[n]};
      state.next_hops.push_back(next_hop);
      state.neighbours.push_back(
          {.ifindex = kUp1 + n, .address = gateways[n], .state = Resolution::resolved});
    }
    state.next_hops.push_back({.id = 10, .protocol = 186, .hop = {}, .members = {1, 2}});
    KernelRoute far;
    far.table = kMain;
    far.destination = {IpAddress::v4(10, 2, 0, 0), 16};
    far.protocol = 186;
    far.next_hop_id = 10;
    state.routes.push_back(far);
  }

  Result<void> probe() override { return {}; }
  Result<void> subscribe() override { return {}; }
  Result<KernelState> read() override { return state; }
  Result<KernelState> read_ours() override { return state; }
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override {
    for (const Action& action : actions) {
      ++changes;
      std::visit([this](const auto& one) { take(one); }, action);
    }
    return std::vector<ActionFailure>{};
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    std::vector<LookupAnswer> answers;
    for (const Lookup& lookup : lookups) {
      LookupAnswer answer;
      for (const KernelRoute* route : pins()) {
        if (route->destination.address == lookup.destination)
          answer = {.error = 0, .table = route->table, .next_hop_id = route->next_hop_id};
      }
      answers.push_back(answer);
    }
    return answers;
  }
  void resolve(std::uint32_t, const IpAddress&) override {}
  Result<std::vector<PortStatus>> ports() override {
    std::vector<PortStatus> ports;
    for (const Link& link : state.links)
      ports.push_back(
          {.name = link.name, .carrier = link.carrier, .tx_bytes = ++counter, .rx_bytes = 0});
    return ports;
  }

  std::vector<const KernelRoute*> pins() const {
    std::vector<const KernelRoute*> found;
    for (const KernelRoute& route : state.routes) {
      if (route.table != kMain)
        found.push_back(&route);
    }
    return found;
  }
  // What the kernel tells when a cable loses its carrier.
  LinkEvent lose_carrier(std::uint32_t index) {
    Link& link = *std::ranges::find(state.links, index, &Link::index);
    link.carrier = false;
    std::erase_if(state.next_hops,
                  [index](const KernelNextHop& n) { return n.hop && n.hop->ifindex == index; });
    return {.link = link, .removed = false};
  }

  KernelState state;
  std::size_t changes{};
  std::uint64_t counter{};
  RoutingRanges ranges;

 private:
  void add_link(std::uint32_t index, const std::string& name) {
    Link link;
    link.index = index;
    link.name = name;
    link.up = link.carrier = true;
    state.links.push_back(link);
    state.settings.push_back({.ifindex = index});
  }
  void connect(std::uint32_t index, const Prefix& network, const IpAddress& own) {
    KernelRoute route;
    route.table = kMain;
    route.destination = network;
    route.protocol = 2;
    route.hops.push_back({.ifindex = index, .gateway = {}});
    route.local_address = own;
    state.routes.push_back(route);
  }

  void take(const AddNextHop& add) {
    KernelNextHop next_hop{
        .id = add.next_hop.id, .protocol = ranges.protocol, .hop = {}, .members = {}};
    next_hop.hop = Hop{.ifindex = add.next_hop.ifindex, .gateway = add.next_hop.gateway};
    state.next_hops.push_back(next_hop);
  }
  void take(const RemoveNextHop& remove) {
    std::erase_if(state.next_hops, [&](const KernelNextHop& n) { return n.id == remove.id; });
  }
  void take(const AddRoute& add) {
    KernelRoute route;
    route.table = add.route.table;
    route.destination = Prefix::host(add.route.destination);
    route.protocol = ranges.protocol;
    route.next_hop_id = add.route.next_hop;
    state.routes.push_back(route);
  }
  void take(const MoveRoute& move) {
    take(RemoveRoute{move.route});
    take(AddRoute{move.route});
  }
  void take(const RemoveRoute& remove) {
    std::erase_if(state.routes, [&](const KernelRoute& r) {
      return r.table == remove.route.table &&
             r.destination == Prefix::host(remove.route.destination);
    });
  }
  void take(const ChangeMarks&) {}  // no test of whole agents marks flows
  void take(const AddRule& add) {
    state.rules.push_back({.priority = ranges.rule_priority,
                           .protocol = ranges.protocol,
                           .table = add.rule.table,
                           .in_port = add.rule.in_port,
                           .plain = true});
  }
  void take(const RemoveRule& remove) {
    std::erase_if(state.rules,
                  [&](const KernelRule& r) { return r.in_port == remove.rule.in_port; });
  }
};

class FakeRecord : public OwnershipStore {
 public:
  Result<Ownership> load() override { return record; }
  Result<void> save(const Ownership& ownership) override {
    record = ownership;
    return {};
  }
  Ownership record;
};

class FakeFlows final : public FlowSource {
 public:
  std::vector<SourceCapability> probe() override { return {capability}; }
  void links_changed() override { ++link_changes; }
  Result<FlowReading> read(Time) override {
    ++readings;
    return reading;
  }
  Result<FlowReading> reading{FlowReading{.source = "ebpf", .gap = false, .flows = {}}};
  SourceCapability capability{.name = "ebpf", .usable = true, .reason = {}};
  int link_changes{};
  int readings{};
};

class FakeCables final : public CableSource {
 public:
  SourceCapability probe(WallTime) override { return {"lldp", known.has_value(), ""}; }
  std::optional<std::vector<LldpNeighbour>> neighbours(WallTime) override { return known; }
  std::optional<std::vector<LldpNeighbour>> known{std::vector<LldpNeighbour>{}};
};

// The coordinator's end, as a list of what came.
class FakeChannel final : public ClientChannel {
 public:
  void on_message(Handler) override {}
  void on_connection(std::function<void(bool, const std::string&)>) override {}
  Result<void> send(Payload payload) override {
    Result<Envelope> envelope = decode(payload);
    if (!envelope)
      return tl::unexpected(envelope.error());
    sent.push_back(*std::move(envelope));
    return {};
  }
  template <class T>
  std::vector<T> take() {
    std::vector<T> found;
    for (const Envelope& envelope : sent) {
      if (const T* message = std::get_if<T>(&envelope.message))
        found.push_back(*message);
    }
    sent.clear();
    return found;
  }
  std::vector<Envelope> sent;
};

// An agent on such a leaf.
struct FakeNode {
  FakeNode() : FakeNode(configuration()) {}
  explicit FakeNode(const AgentConfig& config)
      : agent(config, {.software = "test", .boot_id = "boot", .instance = 7},
              {.kernel = kernel,
               .ports = kernel,
               .ownership = record,
               .flows = flows,
               .store = store,
               .channel = channel,
               .clock = clock,
               .cables = &cables}) {}

  static AgentConfig configuration() {
    AgentConfig config;
    config.node = "leaf1";
    config.role = Role::leaf;
    config.mode = Mode::program;
    config.uplinks = {"up*"};
    config.host_ports = {"p*"};
    return config;
  }

  // Lets everything happen that is due until `until`, at its time.
  void run_until(Time until) {
    agent.step();
    while (agent.next_deadline() <= until) {
      clock.time = std::max(clock.time, agent.next_deadline());
      agent.step();
    }
    clock.time = until;
  }
  void run_for(Duration time) { run_until(clock.time + time); }
  void say(Message message) {
    const std::vector<std::byte> bytes =
        encode({.node = "coordinator", .sequence = 1, .message = std::move(message)});
    agent.received(bytes);
    run_for(Duration{0});
  }
  void join(Duration report_interval = std::chrono::seconds(1)) {
    agent.connection_changed(true, "");
    say(Welcome{
        .version = {3, 0}, .report_interval = report_interval, .lease = std::chrono::seconds(30)});
  }

  HandClock clock;
  FakeKernel kernel;
  FakeRecord record;
  FakeFlows flows;
  FakeCables cables;
  MemoryStore store;
  FakeChannel channel;
  Agent agent;
};

}  // namespace heddle
