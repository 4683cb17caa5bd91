#include "agent/program/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

bool contains(const std::vector<PinRoute>& sorted, const PinRoute& route) {
  return std::binary_search(sorted.begin(), sorted.end(), route);
}

class Summary {
 public:
  explicit Summary(const SummaryInput& input) : in_(input) {}

  Acknowledgement write() && {
    for (const auto& [pin, error] : in_.desired.not_held)
      failed_[in_.plan.pins[pin].unit] = error;
    there_.reserve(in_.desired.held.size());
    for (const Desire::Held& held : in_.desired.held)
      judge(held);
    if (in_.refusal) {
      for (const Pin& pin : in_.plan.pins)
        failed_[pin.unit] = *in_.refusal;
    }
    for (const PinRoute& route : in_.installed.routes) {
      // What marks lead to steers nothing by itself.
      if (!route.destination.is_unspecified() && !contains(in_.desired.tables.routes, route))
        name_leftover(route);
    }
    for (const MarkedFlow& marked : in_.installed.marks) {
      if (!std::ranges::binary_search(in_.desired.tables.marks, marked))
        name_leftover(marked.flow, FlowMark{}, reason({}, "still there when read back"));
    }
    if (!std::ranges::is_sorted(there_, {}, &Pin::unit))  // leftovers among them
      std::ranges::sort(there_, {}, &Pin::unit);
    Acknowledgement result;
    result.version = in_.plan.version;
    result.installed = static_cast<std::uint32_t>(there_.size());
    states_.hardware = in_.offloaded != nullptr;
    result.states = states_;
    result.digest = digest(there_);
    for (auto& [unit, error] : failed_)
      result.failed.push_back(
          {.unit = unit, .code = error.code, .reason = std::move(error.message)});
    return result;
  }

 private:
  void judge(const Desire::Held& held) {
    const Pin& pin = in_.plan.pins[held.pin];
    if (!holds(in_.installed, held)) {
      failed_[pin.unit] = {Errc::kernel, reason(held.route, "not there when read back")};
      return;
    }
    const std::string* wrong = in_.verifier.failure(held.route);
    if (wrong == nullptr)
      wrong = in_.egress.failure(pin.unit);
    ++states_.installed;
    if (in_.offloaded != nullptr && contains(*in_.offloaded, held.route))
      ++states_.offloaded;
    if (contains(in_.refused_by_hardware, held.route)) {
      failed_[pin.unit] = {Errc::unsupported, "the hardware refused the route"};
    } else if (in_.offloaded != nullptr && !contains(*in_.offloaded, held.route)) {
      failed_[pin.unit] = {Errc::unsupported,
                           "not offloaded: the kernel has the route, the ASIC does not show it"};
    } else if (wrong != nullptr) {
      failed_[pin.unit] = {Errc::kernel, *wrong};
    } else {
      if (proven(held, pin.unit))
        ++states_.effective;
      there_.push_back(pin);
    }
  }

  // Of IPv6 and of marks the kernel's answer is no proof: it leaves out what it was not asked
  // about.
  bool proven(const Desire::Held& held, const SteeringUnit& unit) const {
    const bool by_lookup = !held.mark && held.route.destination.family == Family::v4 &&
                           in_.verifier.confirmed(held.route);
    return by_lookup || in_.egress.proven(unit);
  }

  void name_leftover(const PinRoute& route) {
    std::string why = reason(route, "still there when read back");
    std::string port = port_of(route.table);
    if (port == kOwnPackets)
      return name_leftover(ByDestination{.destination = route.destination}, HostRoute{},
                           std::move(why));
    name_leftover(
        ByPortAndDestination{.in_port = std::move(port), .destination = route.destination},
        PortTableRoute{}, std::move(why));
  }

  // A target without its uplink: no plan has such a pin, so no plan has such a digest.
  void name_leftover(const SteeringUnit& unit, PinTarget target, std::string why) {
    ++states_.installed;
    there_.push_back({.unit = unit, .target = std::move(target), .reason = {}});
    why = "could not be removed: " + why;
    const auto [at, is_new] = failed_.try_emplace(unit, Error{Errc::kernel, why});
    if (!is_new && in_.refusal)  // otherwise it says already why the route did not change
      at->second.message += "; the route that was there " + why;
  }

  std::string port_of(std::uint32_t table) const {
    for (const TableRule& rule : in_.installed.rules) {
      if (rule.table == table)
        return rule.in_port;
    }
    return fmt::format("table {}", table);  // without a rule it steers nothing, but it is there
  }

  std::string reason(const PinRoute& route, const char* otherwise) const {
    auto known = in_.failures.find({route.table, route.destination});
    if (known == in_.failures.end())
      known = in_.failures.find({0, IpAddress{}});
    return known == in_.failures.end() ? otherwise : known->second;
  }

  const SummaryInput& in_;
  std::map<SteeringUnit, Error> failed_;
  std::vector<Pin> there_;
  PinStates states_;
};

}  // namespace

void note_failure(ChangeFailures& failures, const Action& action, const ActionFailure& failure) {
  std::string reason =
      fmt::format("the kernel refuses {}: {}", to_string(action),
                  failure.message.empty() ? std::strerror(failure.error) : failure.message.c_str());
  if (const auto* a = std::get_if<AddRoute>(&action)) {
    failures[{a->route.table, a->route.destination}] = std::move(reason);
  } else if (const auto* m = std::get_if<MoveRoute>(&action)) {
    failures[{m->route.table, m->route.destination}] = std::move(reason);
  } else if (const auto* r = std::get_if<RemoveRoute>(&action)) {
    failures[{r->route.table, r->route.destination}] = std::move(reason);
  } else if (std::holds_alternative<AddNextHop>(action) ||
             std::holds_alternative<AddRule>(action) ||
             std::holds_alternative<ChangeMarks>(action)) {
    failures.try_emplace({0, IpAddress{}}, std::move(reason));
  }
}

Acknowledgement summarise(const SummaryInput& input) {
  return Summary(input).write();
}

}  // namespace heddle
