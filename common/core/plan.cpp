#include "common/core/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace heddle {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

// FNV-1a, 64 bits. The byte form: for each pin in order, the unit's number in its variant, its
// fields, the target's number, its fields. A text is its length as one octet and its characters; an
// address its family (0: IPv4, 1: IPv6) and 4 or 16 octets; a port number two octets, high first; a
// list its length as one octet.
class Digest {
 public:
  void octet(std::uint8_t value) { hash_ = (hash_ ^ value) * 1099511628211ULL; }
  void text(std::string_view value) {
    octet(static_cast<std::uint8_t>(value.size()));
    for (const char c : value)
      octet(static_cast<std::uint8_t>(c));
  }
  void address(const IpAddress& value) {
    octet(static_cast<std::uint8_t>(value.family));
    for (std::size_t i = 0; i < value.size(); ++i)
      octet(value.octets[i]);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_{14695981039346656037ULL};
};

void add(Digest& d, const SteeringUnit& unit) {
  d.octet(static_cast<std::uint8_t>(unit.index()));
  std::visit(Overload{[&](const ByDestination& u) { d.address(u.destination); },
                      [&](const ByPortAndDestination& u) {
                        d.text(u.in_port);
                        d.address(u.destination);
                      },
                      [&](const ByQueuePair& u) {
                        d.address(u.source);
                        d.address(u.destination);
                        d.octet(static_cast<std::uint8_t>(u.source_port >> 8));
                        d.octet(static_cast<std::uint8_t>(u.source_port & 0xFF));
                      }},
             unit);
}

void add(Digest& d, const PinTarget& target) {
  d.octet(static_cast<std::uint8_t>(target.index()));
  std::visit(Overload{[&](const SegmentList& t) {
                        d.octet(static_cast<std::uint8_t>(t.segments.size()));
                        for (const IpAddress& segment : t.segments)
                          d.address(segment);
                      },
                      [&](const auto& t) { d.text(t.out_port); }},
             target);
}

// The kernel's rule for interface names: 1 to 15 characters, no '/', no space, not "." or "..".
bool is_port_name(std::string_view name) {
  return !name.empty() && name.size() <= 15 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 127 && c != '/'; });
}

// The kernel holds segment routing headers of up to this many segments comfortably below every path
// MTU here.
constexpr std::size_t kMaxSegments = 8;

const char* fault(const Pin& pin) {
  const bool unit_ok =
      std::visit(Overload{[](const ByDestination& u) { return !u.destination.is_unspecified(); },
                          [](const ByPortAndDestination& u) {
                            return is_port_name(u.in_port) && !u.destination.is_unspecified();
                          },
                          [](const ByQueuePair& u) {
                            return !u.source.is_unspecified() && !u.destination.is_unspecified() &&
                                   u.source.family == u.destination.family;
                          }},
                 pin.unit);
  if (!unit_ok)
    return "its steering unit is malformed";
  const bool target_ok = std::visit(
      Overload{[](const SegmentList& t) {
                 return !t.segments.empty() && t.segments.size() <= kMaxSegments &&
                        std::none_of(t.segments.begin(), t.segments.end(),
                                     [](const IpAddress& s) { return s.is_unspecified(); });
               },
               [](const auto& t) { return is_port_name(t.out_port); }},
      pin.target);
  return target_ok ? nullptr : "its target is malformed";
}

bool same_pin(const Pin& a, const Pin& b) {
  return a.unit == b.unit && a.target == b.target;
}

}  // namespace

std::string to_string(PlanVersion version) {
  return fmt::format("{}.{}", version.epoch, version.generation);
}

IpAddress destination_of(const SteeringUnit& unit) {
  return std::visit([](const auto& u) { return u.destination; }, unit);
}

std::string to_string(const SteeringUnit& unit) {
  return std::visit(
      Overload{[](const ByDestination& u) { return fmt::format("> {}", to_string(u.destination)); },
               [](const ByPortAndDestination& u) {
                 return fmt::format("{} > {}", u.in_port, to_string(u.destination));
               },
               [](const ByQueuePair& u) {
                 return fmt::format("{}:{} > {}", to_string(u.source), u.source_port,
                                    to_string(u.destination));
               }},
      unit);
}

std::string to_string(const PinTarget& target) {
  return std::visit(Overload{[](const SegmentList& t) {
                               std::string text = "segments";
                               for (const IpAddress& s : t.segments)
                                 text += " " + to_string(s);
                               return text;
                             },
                             [](const auto& t) { return "via " + t.out_port; }},
                    target);
}

const std::string* out_port_of(const PinTarget& target) {
  if (const auto* route = std::get_if<PortTableRoute>(&target))
    return &route->out_port;
  if (const auto* route = std::get_if<HostRoute>(&target))
    return &route->out_port;
  if (const auto* mark = std::get_if<FlowMark>(&target))
    return &mark->out_port;
  return nullptr;
}

const Pin* find_pin(const std::vector<Pin>& pins, const SteeringUnit& unit) {
  const auto pin = std::ranges::lower_bound(pins, unit, {}, &Pin::unit);
  return pin != pins.end() && pin->unit == unit ? &*pin : nullptr;
}

const Pin* find_pin(const RoutePlan& plan, const std::string& node, const SteeringUnit& unit) {
  const auto part = plan.nodes.find(node);
  return part == plan.nodes.end() ? nullptr : find_pin(part->second.pins, unit);
}

std::uint64_t digest(const std::vector<Pin>& pins) {
  Digest d;
  for (const Pin& pin : pins) {
    add(d, pin.unit);
    add(d, pin.target);
  }
  return d.value();
}

Result<void> validate(const NodePlan& plan) {
  for (std::size_t i = 0; i < plan.pins.size(); ++i) {
    const Pin& pin = plan.pins[i];
    if (const char* what = fault(pin))
      return fail(Errc::invalid_argument, fmt::format("pin {} of {}: {}", i, plan.node, what));
    if (i > 0 && plan.pins[i - 1].unit >= pin.unit) {
      return fail(Errc::invalid_argument,
                  fmt::format("pin {} of {}: '{}' is out of order or there twice", i, plan.node,
                              to_string(pin.unit)));
    }
  }
  return {};
}

// Both sides are sorted by unit, so one merge finds everything: linear in the pins.
PlanDiff diff(const NodePlan& from, const NodePlan& to) {
  PlanDiff change{.node = to.node,
                  .base = from.version,
                  .version = to.version,
                  .set = {},
                  .removed = {},
                  .digest = digest(to.pins)};
  auto old_pin = from.pins.begin();
  for (const Pin& pin : to.pins) {
    for (; old_pin != from.pins.end() && old_pin->unit < pin.unit; ++old_pin)
      change.removed.push_back(old_pin->unit);
    const bool known = old_pin != from.pins.end() && old_pin->unit == pin.unit;
    if (!known || !same_pin(*old_pin, pin))
      change.set.push_back(pin);
    if (known)
      ++old_pin;
  }
  for (; old_pin != from.pins.end(); ++old_pin)
    change.removed.push_back(old_pin->unit);
  return change;
}

Result<NodePlan> apply(const NodePlan& current, const PlanDiff& change) {
  if (change.node != current.node)
    return fail(Errc::wrong_node,
                fmt::format("a plan for '{}' came to '{}'", change.node, current.node));
  if (change.version < current.version) {
    return fail(Errc::stale_plan, fmt::format("got {}, have {}", to_string(change.version),
                                              to_string(current.version)));
  }
  if (change.base != current.version) {
    return fail(Errc::gap, fmt::format("the diff starts from {}, here is {}",
                                       to_string(change.base), to_string(current.version)));
  }
  std::map<SteeringUnit, Pin> pins;
  for (const Pin& pin : current.pins)
    pins.emplace(pin.unit, pin);
  for (const SteeringUnit& unit : change.removed)
    pins.erase(unit);
  for (const Pin& pin : change.set)
    pins.insert_or_assign(pin.unit, pin);

  NodePlan next{.node = current.node, .version = change.version, .pins = {}};
  next.pins.reserve(pins.size());
  for (auto& [unit, pin] : pins)
    next.pins.push_back(std::move(pin));
  if (auto valid = validate(next); !valid)
    return tl::unexpected(valid.error());
  if (digest(next.pins) != change.digest) {
    return fail(
        Errc::invalid_argument,
        fmt::format("the diff to {} does not give the announced pins", to_string(change.version)));
  }
  return next;
}

Result<NodePlan> accept_plan(NodePlan incoming, const std::string& node, PlanVersion highest_seen) {
  if (incoming.node != node)
    return fail(Errc::wrong_node, fmt::format("a plan for '{}' came to '{}'", incoming.node, node));
  // A peer that reconnects can be handed an old plan; installing it would silently undo a newer
  // decision.
  if (incoming.version < highest_seen) {
    return fail(Errc::stale_plan, fmt::format("got {}, have seen {}", to_string(incoming.version),
                                              to_string(highest_seen)));
  }
  if (auto valid = validate(incoming); !valid)
    return tl::unexpected(valid.error());
  return incoming;
}

}  // namespace heddle
