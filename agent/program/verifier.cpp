#include "agent/program/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace heddle {
namespace {

// A packet that the pin would steer; none if none can come in now.
std::optional<Lookup> lookup_for(const MainView& view, const SteeringUnit& unit,
                                 const Desire::Held& held) {
  Lookup lookup;
  lookup.destination = destination_of(unit);
  if (std::holds_alternative<ByDestination>(unit)) {
    lookup.source = held.route.source.value_or(IpAddress{});
    return lookup;
  }
  const Link* in = nullptr;
  std::optional<IpAddress> source;
  if (const auto* const by_port = std::get_if<ByPortAndDestination>(&unit)) {
    in = view.link(by_port->in_port);
    source =
        in == nullptr ? std::nullopt : view.neighbour_address(in->index, lookup.destination.family);
  } else if (held.mark) {
    source = held.mark->flow.source;
    lookup.mark = held.mark->mark;
    const auto behind = view.way_to(*source);
    in = behind ? view.link(*behind) : nullptr;
  }
  if (in == nullptr || !in->up || !in->carrier || !source)
    return std::nullopt;
  lookup.in_ifindex = in->index;
  lookup.source = *source;
  return lookup;
}

// Of IPv6's routes over one next hop, the kernel names any: what they lead to is all that it says.
std::string difference(const LookupAnswer& answer, const PinRoute& asked) {
  const bool ipv6 = asked.destination.family == Family::v6;
  if (answer.next_hop_id == asked.next_hop && (ipv6 || answer.table == asked.table))
    return {};
  if (!ipv6)
    return fmt::format("not effective: the kernel looks in table {} instead", answer.table);
  return answer.next_hop_id == 0
             ? "not effective: the kernel takes a route without a next hop object instead"
             : fmt::format("not effective: the kernel takes next hop {} instead",
                           answer.next_hop_id);
}

}  // namespace

bool Verifier::verify(RouteKernel& kernel, const MainView& view, const std::vector<Pin>& pins,
                      const std::vector<Desire::Held>& held, const SteeringTables& installed) {
  std::vector<Lookup> lookups;
  std::vector<PinRoute> asked;
  std::map<PinRoute, std::string> verdicts;
  bool answered = true;
  for (const Desire::Held& h : held) {
    if (!holds(installed, h))
      continue;
    if (const auto known = verdicts_.find(h.route); known != verdicts_.end()) {
      verdicts.insert(verdicts.end(), *known);
      continue;
    }
    // What leads by marks is the same for all flows of a mark.
    if (h.mark && std::ranges::find(asked, h.route) != asked.end())
      continue;
    if (const auto lookup = lookup_for(view, pins[h.pin].unit, h)) {
      lookups.push_back(*lookup);
      asked.push_back(h.route);
    }
  }
  if (!lookups.empty()) {
    const auto answers = kernel.look_up(lookups);
    answered = answers.has_value();
    for (std::size_t i = 0; answers && i < answers->size(); ++i) {
      const LookupAnswer& answer = (*answers)[i];
      std::string& verdict = verdicts[asked[i]];
      if (answer.error != 0) {
        verdict = fmt::format("not effective: the kernel would not forward: {}",
                              std::strerror(answer.error));
      } else {
        verdict = difference(answer, asked[i]);
      }
    }
  }
  verdicts_ = std::move(verdicts);
  return answered;
}

const std::string* Verifier::failure(const PinRoute& route) const {
  const auto found = verdicts_.find(route);
  return found == verdicts_.end() || found->second.empty() ? nullptr : &found->second;
}

bool Verifier::confirmed(const PinRoute& route) const {
  const auto found = verdicts_.find(route);
  return found != verdicts_.end() && found->second.empty();
}

bool Verifier::any_failure() const {
  return std::any_of(verdicts_.begin(), verdicts_.end(),
                     [](const auto& verdict) { return !verdict.second.empty(); });
}

void Verifier::forget_failures() {
  std::erase_if(verdicts_, [](const auto& verdict) { return !verdict.second.empty(); });
}

}  // namespace heddle
