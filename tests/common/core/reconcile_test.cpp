#include "common/core/reconcile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace heddle {
namespace {

IpAddress address(std::uint8_t n) {
  return IpAddress::v4(10, 2, n, 2);
}
NextHop hop(std::uint32_t id) {
  return {.id = id, .ifindex = id + 10, .gateway = address(static_cast<std::uint8_t>(id))};
}
PinRoute route(std::uint32_t table, std::uint8_t destination, std::uint32_t next_hop) {
  return {.table = table, .destination = address(destination), .next_hop = next_hop};
}

// What the kernel does with an action, as far as it matters here: a next hop takes its routes
// along, and a route needs its next hop.
class ModelKernel {
 public:
  explicit ModelKernel(const SteeringTables& tables) : rules_(tables.rules) {
    for (const NextHop& n : tables.next_hops)
      hops_[n.id] = n;
    for (const PinRoute& r : tables.routes)
      routes_[{r.table, r.destination}] = r.next_hop;
  }

  // False if the kernel would refuse.
  bool take(const Action& action) {
    if (const auto* a = std::get_if<AddNextHop>(&action))
      return hops_.emplace(a->next_hop.id, a->next_hop).second;
    if (const auto* a = std::get_if<RemoveNextHop>(&action)) {
      std::erase_if(routes_, [&](const auto& r) { return r.second == a->id; });
      return hops_.erase(a->id) == 1;
    }
    if (const auto* a = std::get_if<AddRoute>(&action)) {
      return hops_.contains(a->route.next_hop) &&
             routes_.emplace(std::pair(a->route.table, a->route.destination), a->route.next_hop)
                 .second;
    }
    if (const auto* a = std::get_if<MoveRoute>(&action)) {
      const auto at = routes_.find({a->route.table, a->route.destination});
      if (at == routes_.end() || !hops_.contains(a->route.next_hop))
        return false;
      at->second = a->route.next_hop;
      return true;
    }
    if (const auto* a = std::get_if<RemoveRoute>(&action))
      return routes_.erase({a->route.table, a->route.destination}) == 1;
    if (const auto* a = std::get_if<AddRule>(&action)) {
      if (std::find(rules_.begin(), rules_.end(), a->rule) != rules_.end())
        return false;
      rules_.push_back(a->rule);
      return true;
    }
    const auto at = std::find(rules_.begin(), rules_.end(), std::get<RemoveRule>(action).rule);
    if (at == rules_.end())
      return false;
    rules_.erase(at);
    return true;
  }

  SteeringTables tables() const {
    SteeringTables result{.rules = rules_};
    for (const auto& [id, n] : hops_)
      result.next_hops.push_back(n);
    for (const auto& [key, next] : routes_)
      result.routes.push_back({.table = key.first, .destination = key.second, .next_hop = next});
    std::sort(result.rules.begin(), result.rules.end());
    return result;
  }

 private:
  std::map<std::uint32_t, NextHop> hops_;
  std::map<std::pair<std::uint32_t, IpAddress>, std::uint32_t> routes_;
  std::vector<TableRule> rules_;
};

TEST(Reconcile, DoesNothingWhenTheKernelAgrees) {
  const SteeringTables tables{
      .next_hops = {hop(1)}, .routes = {route(5, 1, 1)}, .rules = {{"p1", 5}}};
  EXPECT_TRUE(reconcile(tables, tables).empty());
}

TEST(Reconcile, MovesARouteByOneReplaceAndRemovesTheOldNextHopLast) {
  const SteeringTables installed{
      .next_hops = {hop(1)}, .routes = {route(5, 1, 1)}, .rules = {{"p1", 5}}};
  const SteeringTables desired{
      .next_hops = {hop(2)}, .routes = {route(5, 1, 2)}, .rules = {{"p1", 5}}};
  const Reconciliation todo = reconcile(desired, installed);
  EXPECT_EQ(todo.make, (std::vector<Action>{AddNextHop{hop(2)}, MoveRoute{route(5, 1, 2)}}));
  EXPECT_EQ(todo.sweep, (std::vector<Action>{RemoveNextHop{1}}));
}

TEST(Reconcile, TakesUnwantedRoutesOffBeforeAnythingElse) {
  const SteeringTables installed{
      .next_hops = {hop(1)}, .routes = {route(5, 1, 1)}, .rules = {{"p1", 5}}};
  const SteeringTables desired{
      .next_hops = {hop(2)}, .routes = {route(6, 1, 2)}, .rules = {{"p2", 6}}};
  const Reconciliation todo = reconcile(desired, installed);
  EXPECT_EQ(todo.make, (std::vector<Action>{RemoveRoute{route(5, 1, 1)}, AddNextHop{hop(2)},
                                            AddRoute{route(6, 1, 2)}, AddRule{{"p2", 6}}}));
  EXPECT_EQ(todo.sweep, (std::vector<Action>{RemoveRule{{"p1", 5}}, RemoveNextHop{1}}));
}

TEST(Reconcile, RemovesTheSecondOfTwoEqualRules) {
  const SteeringTables installed{.rules = {{"p1", 5}, {"p1", 5}}};
  const SteeringTables desired{.rules = {{"p1", 5}}};
  const Reconciliation todo = reconcile(desired, installed);
  EXPECT_TRUE(todo.make.empty());
  EXPECT_EQ(todo.sweep, (std::vector<Action>{RemoveRule{{"p1", 5}}}));
}

TEST(Reconcile, RebuildsWhatLeansOnANextHopThatSomebodyReplaced) {
  NextHop other = hop(1);
  other.gateway = address(99);
  const SteeringTables installed{.next_hops = {other}, .routes = {route(5, 1, 1)}};
  const SteeringTables desired{.next_hops = {hop(1)}, .routes = {route(5, 1, 1)}};
  EXPECT_EQ(reconcile(desired, installed).make,
            (std::vector<Action>{RemoveNextHop{1}, AddNextHop{hop(1)}, AddRoute{route(5, 1, 1)}}));
}

// From any tables to any tables: no action is refused, the end is what was desired, a second look
// finds nothing to do, and a destination that is pinned before and after never lacks its route in
// between.
TEST(Reconcile, ReachesAnyTablesFromAnyTablesWithoutAGap) {
  constexpr std::uint32_t kSeed = 20240517;
  std::mt19937 random(kSeed);
  const auto draw = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const auto tables = [&] {
    SteeringTables t;
    for (std::uint32_t id = 1; id <= 4; ++id)
      if (draw(4) != 0)
        t.next_hops.push_back(hop(id));
    for (std::uint32_t table = 1; table <= 3; ++table) {
      if (draw(3) != 0)
        t.rules.push_back({"p" + std::to_string(table), table});
      for (std::uint8_t d = 1; d <= 6 && !t.next_hops.empty(); ++d)
        if (draw(2) != 0)
          t.routes.push_back(route(table, d, t.next_hops[draw(t.next_hops.size())].id));
    }
    return t;
  };
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    const SteeringTables from = tables();
    const SteeringTables to = tables();
    ModelKernel kernel(from);
    const auto step = [&](const std::vector<Action>& actions) {
      for (const Action& action : actions) {
        ASSERT_TRUE(kernel.take(action)) << to_string(action);
        const SteeringTables now = kernel.tables();
        for (const PinRoute& before : from.routes) {
          const auto same = [&](const PinRoute& r) {
            return r.table == before.table && r.destination == before.destination;
          };
          if (std::any_of(to.routes.begin(), to.routes.end(), same)) {
            ASSERT_TRUE(std::any_of(now.routes.begin(), now.routes.end(), same))
                << to_string(action);
          }
        }
      }
    };
    const Reconciliation todo = reconcile(to, from);
    step(todo.make);
    step(todo.sweep);
    ASSERT_EQ(kernel.tables(), to);
    ASSERT_TRUE(reconcile(to, kernel.tables()).empty());
  }
}

TEST(Reconcile, NamesEachActionForPeople) {
  EXPECT_EQ(to_string(Action{MoveRoute{route(5, 1, 2)}}),
            "route 10.2.1.2 in table 5 to next hop 2 moved");
  EXPECT_EQ(to_string(Action{RemoveRule{{"p1", 5}}}), "rule iif p1 lookup 5 off");
}

}  // namespace
}  // namespace heddle
