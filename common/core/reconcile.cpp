#include "common/core/reconcile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace heddle {
namespace {

// Walks two sorted lists once; `key` orders them, `both` sees what has the same key in both.
template <class T, class Key, class Missing, class Surplus, class Both>
void merge(const std::vector<T>& desired, const std::vector<T>& installed, Key key, Missing missing,
           Surplus surplus, Both both) {
  auto want = desired.begin();
  auto have = installed.begin();
  while (want != desired.end() || have != installed.end()) {
    if (have == installed.end() || (want != desired.end() && key(*want) < key(*have))) {
      missing(*want++);
    } else if (want == desired.end() || key(*have) < key(*want)) {
      surplus(*have++);
    } else {
      both(*want++, *have++);
    }
  }
}

struct Describe {
  std::string operator()(const AddNextHop& a) const {
    return fmt::format("next hop {} via {} on interface {} on", a.next_hop.id,
                       to_string(a.next_hop.gateway), a.next_hop.ifindex);
  }
  std::string operator()(const RemoveNextHop& a) const {
    return fmt::format("next hop {} off", a.id);
  }
  std::string operator()(const AddRoute& a) const { return route(a.route, "on"); }
  std::string operator()(const MoveRoute& a) const { return route(a.route, "moved"); }
  std::string operator()(const RemoveRoute& a) const { return route(a.route, "off"); }
  std::string operator()(const AddRule& a) const { return rule(a.rule, "on"); }
  std::string operator()(const RemoveRule& a) const { return rule(a.rule, "off"); }

 private:
  static std::string route(const PinRoute& r, const char* verb) {
    return fmt::format("route {} in table {} to next hop {} {}", to_string(r.destination), r.table,
                       r.next_hop, verb);
  }
  static std::string rule(const PortRule& r, const char* verb) {
    return fmt::format("rule iif {} lookup {} {}", r.in_port, r.table, verb);
  }
};

}  // namespace

std::string to_string(const Action& action) {
  return std::visit(Describe{}, action);
}

Reconciliation reconcile(const PortTables& desired, const PortTables& installed) {
  std::vector<Action> routes_off, hops_off_first, hops_on, routes_on, rules_on, rules_off, hops_off;

  // An id whose object somebody replaced by another: it has to go before ours can take its place,
  // and the kernel takes the routes over it along.
  std::vector<std::uint32_t> replaced;
  merge(
      desired.next_hops, installed.next_hops, [](const NextHop& n) { return n.id; },
      [&](const NextHop& n) { hops_on.emplace_back(AddNextHop{n}); },
      [&](const NextHop& n) { hops_off.emplace_back(RemoveNextHop{n.id}); },
      [&](const NextHop& want, const NextHop& have) {
        if (want == have)
          return;
        hops_off_first.emplace_back(RemoveNextHop{have.id});
        hops_on.emplace_back(AddNextHop{want});
        replaced.push_back(have.id);
      });
  const auto lost = [&](std::uint32_t id) {
    return std::binary_search(replaced.begin(), replaced.end(), id);
  };

  merge(
      desired.routes, installed.routes,
      [](const PinRoute& r) { return std::tie(r.table, r.destination); },
      [&](const PinRoute& r) { routes_on.emplace_back(AddRoute{r}); },
      [&](const PinRoute& r) { routes_off.emplace_back(RemoveRoute{r}); },
      [&](const PinRoute& want, const PinRoute& have) {
        if (lost(have.next_hop)) {
          routes_on.emplace_back(AddRoute{want});
        } else if (want.next_hop != have.next_hop) {
          routes_on.emplace_back(MoveRoute{want});
        }
      });

  merge(
      desired.rules, installed.rules,
      [](const PortRule& r) { return std::tie(r.in_port, r.table); },
      [&](const PortRule& r) { rules_on.emplace_back(AddRule{r}); },
      [&](const PortRule& r) { rules_off.emplace_back(RemoveRule{r}); },
      [](const PortRule&, const PortRule&) {});

  Reconciliation result;
  for (auto* list : {&routes_off, &hops_off_first, &hops_on, &routes_on, &rules_on})
    std::move(list->begin(), list->end(), std::back_inserter(result.make));
  for (auto* list : {&rules_off, &hops_off})
    std::move(list->begin(), list->end(), std::back_inserter(result.sweep));
  return result;
}

}  // namespace heddle
