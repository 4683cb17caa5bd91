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
    const NextHop& n = a.next_hop;
    if (n.action)
      return fmt::format("next hop {} for a segment of this node on", n.id);
    return fmt::format(
        "next hop {} via {} on interface {}{} on", n.id, to_string(n.gateway), n.ifindex,
        n.segments.empty()
            ? ""
            : fmt::format(" with {}", to_string(PinTarget{SegmentList{n.segments}})));
  }
  std::string operator()(const RemoveNextHop& a) const {
    return fmt::format("next hop {} off", a.id);
  }
  std::string operator()(const AddRoute& a) const { return route(a.route, "on"); }
  std::string operator()(const MoveRoute& a) const { return route(a.route, "moved"); }
  std::string operator()(const RemoveRoute& a) const { return route(a.route, "off"); }
  std::string operator()(const AddRule& a) const { return rule(a.rule, "on"); }
  std::string operator()(const RemoveRule& a) const { return rule(a.rule, "off"); }
  std::string operator()(const ChangeMarks& a) const {
    std::string text = "marks of flows in one transaction:";
    if (a.drop_table)
      text += " the table dropped,";
    if (a.drop_former)
      text += " the table of an earlier version dropped,";
    if (a.make_table)
      text += " the table made,";
    if (!a.ports_on.empty() || !a.ports_off.empty())
      text += fmt::format(" {} ports on, {} off,", a.ports_on.size(), a.ports_off.size());
    return text +
           fmt::format(" {} flows on, {} moved, {} off", a.on.size(), a.moved.size(), a.off.size());
  }

 private:
  static std::string route(const PinRoute& r, const char* verb) {
    return fmt::format("route {} in table {} to next hop {} {}",
                       r.destination == IpAddress{} ? "default" : to_string(r.destination), r.table,
                       r.next_hop, verb);
  }
  static std::string rule(const TableRule& r, const char* verb) {
    const char* const family = r.family == Family::v6 ? "IPv6 " : "";
    if (r.in_port.empty())
      return fmt::format("{}rule fwmark {} lookup {} {}", family, r.table, r.table, verb);
    return fmt::format("{}rule iif {} lookup {} {}", family, r.in_port, r.table, verb);
  }
};

ChangeMarks change_marks(const SteeringTables& desired, const SteeringTables& installed) {
  ChangeMarks change;
  // Marks that an earlier version's table holds are to be in the new one in the same moment.
  const bool keep = installed.mark_table == MarkTable::whole &&
                    desired.mark_table == MarkTable::whole && !installed.former_mark_table;
  change.drop_table = !keep && installed.mark_table != MarkTable::none;
  change.drop_former = installed.former_mark_table;
  change.make_table = !keep && desired.mark_table != MarkTable::none;
  merge(
      desired.mark_ports, installed.mark_ports, [](const std::string& port) { return port; },
      [&](const std::string& port) { change.ports_on.push_back(port); },
      [&](const std::string& port) { change.ports_off.push_back(port); },
      [&](const std::string& port, const std::string&) {
        if (!keep)
          change.ports_on.push_back(port);
      });
  merge(
      desired.marks, installed.marks, [](const MarkedFlow& m) { return m.flow; },
      [&](const MarkedFlow& m) { change.on.push_back(m); },
      [&](const MarkedFlow& m) { change.off.push_back(m.flow); },
      [&](const MarkedFlow& want, const MarkedFlow& have) {
        if (!keep)
          change.on.push_back(want);
        else if (want.mark != have.mark)
          change.moved.push_back(want);
      });
  return change;
}

}  // namespace

std::string to_string(const Action& action) {
  return std::visit(Describe{}, action);
}

Reconciliation reconcile(const SteeringTables& desired, const SteeringTables& installed) {
  std::vector<Action> routes_off, hops_off_first, hops_on, routes_on, rules_on, marks;
  std::vector<Action> rules_off, mark_routes_off, hops_off;

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
      [&](const PinRoute& r) {
        // What marks lead to stays until they are gone.
        (r.destination.is_unspecified() ? mark_routes_off : routes_off)
            .emplace_back(RemoveRoute{r});
      },
      [&](const PinRoute& want, const PinRoute& have) {
        if (lost(have.next_hop)) {
          routes_on.emplace_back(AddRoute{want});
        } else if (want.next_hop != have.next_hop || want.source != have.source) {
          routes_on.emplace_back(MoveRoute{want});
        }
      });

  merge(
      desired.rules, installed.rules,
      [](const TableRule& r) { return std::tie(r.in_port, r.table, r.family); },
      [&](const TableRule& r) { rules_on.emplace_back(AddRule{r}); },
      [&](const TableRule& r) { rules_off.emplace_back(RemoveRule{r}); },
      [](const TableRule&, const TableRule&) {});

  if (ChangeMarks change = change_marks(desired, installed); !change.empty())
    marks.emplace_back(std::move(change));

  Reconciliation result;
  for (auto* list : {&routes_off, &hops_off_first, &hops_on, &routes_on, &rules_on, &marks})
    std::move(list->begin(), list->end(), std::back_inserter(result.make));
  for (auto* list : {&rules_off, &mark_routes_off, &hops_off})
    std::move(list->begin(), list->end(), std::back_inserter(result.sweep));
  return result;
}

}  // namespace heddle
