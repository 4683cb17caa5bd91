#include "agent/program/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace heddle {

bool Verifier::verify(RouteKernel& kernel, const MainView& view, const std::vector<Pin>& pins,
                      const std::vector<Desire::Held>& held, const PortTables& installed) {
  std::vector<Lookup> lookups;
  std::vector<PinRoute> asked;
  std::map<PinRoute, std::string> verdicts;
  bool answered = true;
  for (const Desire::Held& h : held) {
    if (!std::binary_search(installed.routes.begin(), installed.routes.end(), h.route))
      continue;
    if (const auto known = verdicts_.find(h.route); known != verdicts_.end()) {
      verdicts.insert(verdicts.end(), *known);
      continue;
    }
    const auto& unit = std::get<ByPortAndDestination>(pins[h.pin].unit);
    const Link* const in = view.link(unit.in_port);
    if (in == nullptr || !in->up || !in->carrier)
      continue;
    if (const auto source = view.neighbour_address(in->index)) {
      lookups.push_back(
          {.in_ifindex = in->index, .source = *source, .destination = unit.destination});
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
      } else if (answer.table != asked[i].table || answer.next_hop_id != asked[i].next_hop) {
        verdict = fmt::format("not effective: the kernel looks in table {} instead", answer.table);
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

bool Verifier::any_failure() const {
  return std::any_of(verdicts_.begin(), verdicts_.end(),
                     [](const auto& verdict) { return !verdict.second.empty(); });
}

void Verifier::forget_failures() {
  std::erase_if(verdicts_, [](const auto& verdict) { return !verdict.second.empty(); });
}

}  // namespace heddle
