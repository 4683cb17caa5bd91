// What the tests of the programming stage put in the place of kernel, disk and clock: what a real
// kernel cannot be made to show on demand (reads that fail, dumps that are inconsistent, a disk
// that is full, hardware that refuses, time that passes). Everything else is tested on a real one
// (tests/lab/program_*).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/program/programmer.h"
#include "common/core/check.h"

namespace heddle {

inline Prefix prefix_of(const PinRoute& route) {
  return route.destination.is_unspecified() ? Prefix{.address = route.destination, .length = 0}
                                            : Prefix::host(route.destination);
}

// As a kernel would carry a transaction out that it takes.
inline void change_marks(KernelState& state, const ChangeMarks& change) {
  std::optional<KernelMarkTable>& table = state.mark_table;
  if (change.drop_former)
    state.former_mark_table.reset();
  if (change.drop_table)
    table.reset();
  if (change.make_table)
    table =
        KernelMarkTable{.is_signed = true, .whole = true, .foreign = {}, .ports = {}, .flows = {}};
  if (!table)
    return;
  for (const std::string& port : change.ports_off)
    std::erase(table->ports, port);
  table->ports.insert(table->ports.end(), change.ports_on.begin(), change.ports_on.end());
  const auto forget = [&](const ByQueuePair& flow) {
    std::erase_if(table->flows, [&](const MarkedFlow& m) { return m.flow == flow; });
  };
  std::ranges::for_each(change.off, forget);
  for (const MarkedFlow& marked : change.moved)
    forget(marked.flow);
  for (const auto* list : {&change.moved, &change.on})
    table->flows.insert(table->flows.end(), list->begin(), list->end());
}

class HandClock final : public Clock {
 public:
  Time now() const override { return time; }
  WallTime wall() const override { return {}; }
  Time time{std::chrono::seconds{1000}};
};

class FakeStore final : public OwnershipStore {
 public:
  Result<Ownership> load() override {
    if (damaged)
      return fail(Errc::parse, "the record is damaged");
    return kept;
  }
  Result<void> save(const Ownership& ownership) override {
    if (full)
      return fail(Errc::io, "No space left on device");
    kept = ownership;
    return {};
  }
  Ownership kept;
  bool full{};
  bool damaged{};
};

inline IpAddress gateway(std::uint32_t n) {
  return IpAddress::v4(10, 101, static_cast<std::uint8_t>(n), 2);
}
inline IpAddress destination(std::uint8_t n) {
  return IpAddress::v4(10, 2, n, 2);
}

// Links up1 and up2 (1, 2) behind the group that 10.2.0.0/16 uses, and p1 (9).
class FakeKernel final : public RouteKernel {
 public:
  FakeKernel() {
    for (std::uint32_t n : {1U, 2U, 9U}) {
      state.links.push_back({.index = n,
                             .name = n == 9 ? "p1" : "up" + std::to_string(n),
                             .up = true,
                             .carrier = true,
                             .master_kind = {}});
      if (n == 9)
        continue;
      state.next_hops.push_back({.id = n,
                                 .protocol = 186,
                                 .hop = Hop{.ifindex = n, .gateway = gateway(n)},
                                 .members = {}});
      state.neighbours.push_back(
          {.ifindex = n, .address = gateway(n), .state = Resolution::resolved});
    }
    state.next_hops.push_back({.id = 10, .protocol = 186, .hop = {}, .members = {1, 2}});
    KernelRoute far;
    far.table = 254;
    far.destination = *Prefix::parse("10.2.0.0/16");
    far.next_hop_id = 10;
    state.routes.push_back(far);
  }

  void use(const RoutingRanges& used) override { ranges = used; }
  Result<void> probe() override {
    ++probes;
    return unable ? Result<void>(tl::unexpected(*unable)) : Result<void>{};
  }
  Result<void> subscribe() override { return {}; }
  Result<KernelState> read() override {
    ++reads;
    if (clock != nullptr)
      clock->time += read_time;
    if (reading_fails)
      return fail(Errc::timeout, "the kernel is silent");
    return state;
  }
  Result<KernelState> read_ours() override {
    if (reading_fails)
      return fail(Errc::timeout, "the kernel is silent");
    return state;
  }
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override {
    std::vector<ActionFailure> failures;
    attempts += actions.empty() ? 0 : 1;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if ((removals_fail && std::holds_alternative<RemoveRoute>(actions[i])) ||
          (marks_fail && std::holds_alternative<ChangeMarks>(actions[i]))) {
        failures.push_back({.action = i, .error = EBUSY, .message = "not now"});
        continue;
      }
      done.push_back(actions[i]);
      take(actions[i]);
    }
    return failures;
  }
  // By ingress port, as a kernel would go from rules to routes; by mark everything is well.
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    std::vector<LookupAnswer> answers;
    for (const Lookup& lookup : lookups)
      answers.push_back(lookup.mark != 0 ? LookupAnswer{} : answer(lookup));
    return answers;
  }
  void resolve(std::uint32_t, const IpAddress&) override { ++resolutions; }

  std::size_t pinned() const {
    return static_cast<std::size_t>(std::count_if(state.routes.begin(), state.routes.end(),
                                                  [](const auto& r) { return r.table != 254; }));
  }

  KernelState state;
  std::vector<Action> done;
  bool reading_fails{};
  bool hardware_refuses{};
  bool hardware_takes{};
  bool removals_fail{};
  bool marks_fail{};
  int reads{};
  int attempts{};
  int resolutions{};
  int probes{};
  std::optional<Error> unable;
  std::set<IpAddress> taken;  // addresses of interfaces, whose packets no rule of ours sees
  HandClock* clock{};         // moved by
  Duration read_time{};
  RoutingRanges ranges;

 private:
  LookupAnswer answer(const Lookup& lookup) const {
    std::string port = kOwnPackets;
    for (const Link& link : state.links) {
      if (link.index == lookup.in_ifindex)
        port = link.name;
    }
    for (const KernelRule& rule : state.rules) {
      for (const KernelRoute& route : state.routes) {
        if (rule.in_port == port && rule.family == lookup.destination.family &&
            route.table == rule.table && route.destination == Prefix::host(lookup.destination) &&
            !taken.contains(lookup.destination))
          return {.error = 0, .table = rule.table, .next_hop_id = route.next_hop_id};
      }
    }
    return {.error = 0, .table = 255, .next_hop_id = 0};
  }
  void take(const Action& action) {
    if (const auto* hop = std::get_if<AddNextHop>(&action)) {
      const NextHop& n = hop->next_hop;
      state.next_hops.push_back({.id = n.id,
                                 .protocol = ranges.protocol,
                                 .hop = Hop{.ifindex = n.ifindex, .gateway = {}},
                                 .members = {},
                                 .segments = n.segments,
                                 .action = n.action});
      if (!n.action)
        state.next_hops.back().hop->gateway = n.gateway;
    } else if (const auto* gone = std::get_if<RemoveNextHop>(&action)) {
      std::erase_if(state.next_hops, [&](const auto& n) { return n.id == gone->id; });
    } else if (const auto* add = std::get_if<AddRoute>(&action)) {
      add_route(add->route);
    } else if (const auto* move = std::get_if<MoveRoute>(&action)) {
      remove_route(move->route);
      add_route(move->route);
    } else if (const auto* removal = std::get_if<RemoveRoute>(&action)) {
      remove_route(removal->route);
    } else if (const auto* rule = std::get_if<AddRule>(&action)) {
      state.rules.push_back({.priority = ranges.rule_priority,
                             .protocol = ranges.protocol,
                             .table = rule->rule.table,
                             .in_port = rule->rule.in_port,
                             .mark = rule->rule.in_port.empty() ? rule->rule.table : 0,
                             .plain = true,
                             .family = rule->rule.family});
    } else if (const auto* off = std::get_if<RemoveRule>(&action)) {
      std::erase_if(state.rules, [&](const auto& r) {
        return r.in_port == off->rule.in_port && r.table == off->rule.table &&
               r.family == off->rule.family;
      });
    } else if (const auto* marks = std::get_if<ChangeMarks>(&action)) {
      change_marks(state, *marks);
    }
  }
  void add_route(const PinRoute& route) {
    KernelRoute added;
    added.table = route.table;
    added.destination = prefix_of(route);
    added.protocol = ranges.protocol;
    added.metric = usual_metric(route.destination.family);
    added.next_hop_id = route.next_hop;
    added.local_address = route.source;
    added.offload_failed = hardware_refuses;
    added.offloaded = hardware_takes;
    state.routes.push_back(added);
  }
  void remove_route(const PinRoute& route) {
    std::erase_if(state.routes, [&](const auto& r) {
      return r.table == route.table && r.destination == prefix_of(route);
    });
  }
};

class ProgrammerOverAFake : public testing::Test {
 protected:
  void start(Mode mode = Mode::program, const RoutingRanges& ranges = {},
             Enforcer enforcer = Enforcer::port_tables) {
    kernel.ranges = ranges;
    programmer.emplace(kernel, store, clock,
                       ProgramConfig{.mode = mode,
                                     .uplinks = {"up*"},
                                     .host_ports = {"p*"},
                                     .ranges = ranges,
                                     .enforcer = enforcer});
    ASSERT_TRUE(programmer->start());
    settle();
  }
  // Steps while something is due now; the last acknowledgement.
  std::optional<Acknowledgement> settle() {
    std::optional<Acknowledgement> last;
    for (int steps = 0; programmer->next_deadline() <= clock.time; ++steps) {
      if (auto news = programmer->step())
        last = news;
      // Something that is always due would keep the processor busy for ever.
      HEDDLE_CHECK(steps < 100);
    }
    return last;
  }
  static NodePlan plan(std::uint64_t generation,
                       std::vector<std::pair<std::uint8_t, const char*>> pins) {
    NodePlan result{.node = "leaf1", .version = {.epoch = 1, .generation = generation}, .pins = {}};
    for (const auto& [d, out] : pins)
      result.pins.push_back({.unit = ByPortAndDestination{"p1", destination(d)},
                             .target = PortTableRoute{out},
                             .reason = {}});
    return result;
  }

  FakeKernel kernel;
  FakeStore store;
  HandClock clock;
  std::optional<Programmer> programmer;
};

}  // namespace heddle
