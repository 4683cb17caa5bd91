// Draining: the orders, and whether what was ordered is empty.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"
#include "coordinator/serve/answers_decide.h"

namespace heddle {

namespace {

constexpr const char* kUsage = "drain --spine S, --leaf L, --cable C or --rack R; drain status";

}  // namespace

// Once after each change, as every report looks at what is drained. Its silence is counted from the
// order on.
void Coordinator::resolve_drains() {
  std::vector<Drain> next;
  for (const DrainOrder& order : operators_.drains) {
    const auto known = std::ranges::find(drains_, order, &Drain::order);
    next.push_back(known != drains_.end() ? std::move(*known)
                                          : Drain{.order = order,
                                                  .scope = scope_of(topology_, order.target),
                                                  .busy = parts_.clock.now()});
  }
  drains_ = std::move(next);
}

std::set<CableId> Coordinator::draining() const {
  std::set<CableId> cables;
  for (const Drain& drain : drains_)
    if (drain.scope)
      cables.insert(drain.scope->cables.begin(), drain.scope->cables.end());
  return cables;
}

Reply Coordinator::drain_request(const Request& request, const Sender& sender) {
  const std::vector<std::string>& words = request.arguments;
  if (request.command == "drain status" && words.empty())
    return good(drains_shown());
  if (words.size() != 2 || !words[0].starts_with("--"))
    return bad(AnswerCode::usage, kUsage);
  const DrainTarget target{.kind = words[0].substr(2), .name = words[1]};
  const auto known = std::ranges::find(operators_.drains, target, &DrainOrder::target);
  OperatorState next = operators_;
  if (request.command == "drain") {
    if (const Result<DrainScope> scope = scope_of(topology_, target); !scope)
      return bad(scope.error());
    if (known != operators_.drains.end())
      return good(drains_shown());
    next.drains.push_back({.target = target, .since = parts_.clock.wall()});
  } else {
    if (known == operators_.drains.end())
      return bad(AnswerCode::not_found,
                 fmt::format("no {} '{}' is being drained", target.kind, target.name));
    std::erase_if(next.drains, [&](const DrainOrder& order) { return order.target == target; });
  }
  std::swap(operators_, next);
  if (const auto stored = store_operators(); !stored) {
    std::swap(operators_, next);
    return bad(stored.error());
  }
  resolve_drains();
  const std::string said = fmt::format("{} {} {}", request.command, target.kind, target.name);
  notice(Notice::Level::info, fmt::format("{} by {}", said, who(sender)));
  if (broadcast_.published())
    plan({.links_changed = false, .demand_changed = true, .event = said});
  return good(drains_shown());
}

std::string Coordinator::drains_shown() const {
  std::vector<DrainShown> shown;
  for (const Drain& drain : drains_)
    shown.push_back(look_at(drain));
  return drains_json(shown, settings_.drained_below);
}

DrainShown Coordinator::look_at(const Drain& drain) const {
  DrainShown shown{.order = drain.order, .state = {}, .links = {}, .remain = {}};
  const Result<DrainScope>& scope = drain.scope;
  if (!scope) {
    shown.state = "unobservable";
    shown.remain.push_back(scope.error().message);
    return shown;
  }
  bool moving = false;
  for (const NodeId node : topology_.nodes()) {
    const std::string& name = topology_.name_of(node);
    const NodePlan part = broadcast_.part_of(name);
    for (const Pin& pin : part.pins)
      if (leads_into(*scope, node, pin))
        ++shown.pins;
    // What was not read back may still lead there.
    const AgentState* agent = broadcast_.find(name);
    if (agent != nullptr && agent->mode == Mode::program && !broadcast_.converged(*agent)) {
      moving = true;
      shown.remain.push_back(fmt::format("{} has not read back its new pins", name));
    }
  }
  moving = moving || quiet_wait_.has_value();
  bool blind = false;
  double busy = 0;
  for (const LinkId id : scope->links) {
    DrainedLink link{.name = topology_.link_name(id), .up = links_.state().up(id), .rate = {}};
    if (link.up) {
      link.rate = fresh_rate(id);
      blind = blind || !link.rate;
      if (link.rate && *link.rate > settings_.drained_below)
        busy += link.rate->bits_per_second;
    }
    shown.links.push_back(std::move(link));
  }
  shown.state = moving                       ? "moving"
                : shown.pins > 0 || busy > 0 ? "busy"
                : blind                      ? "unobservable"
                                             : "empty";
  if (const Duration silent = parts_.clock.now() - drain.busy;
      shown.state == "empty" && silent < pauses()) {
    shown.state = "busy";
    shown.remain.push_back(
        fmt::format("nothing for {:.1f} s; it is empty after {:.1f} s without traffic",
                    std::chrono::duration<double>(silent).count(),
                    std::chrono::duration<double>(pauses()).count()));
  }
  say_what_remains(*scope, busy, shown);
  return shown;
}

// A job that computes sends nothing, so a link is not empty because it was so in one interval.
// Only the leaf at its end tells what a link carries, and time in which it told nothing was not
// silent.
void Coordinator::note_drained_traffic(const std::string& node, bool was_watched) {
  const auto leaf = drains_.empty() ? std::nullopt : topology_.find_leaf(node);
  if (!leaf)
    return;
  for (Drain& drain : drains_)
    if (drain.scope)
      for (const LinkId id : drain.scope->links)
        if (topology_.leaf_end(id).leaf == *leaf && links_.state().up(id))
          if (const auto rate = links_.rate(id);
              !was_watched || !rate || *rate > settings_.drained_below)
            drain.busy = parts_.clock.now();
}

// How long nothing must be seen before there is nothing: longer than any job pauses, as far as that
// is known.
Duration Coordinator::pauses() const {
  Duration longest = 10 * settings_.broadcast.report_interval;
  for (const PredictedJob& job : prediction_.jobs)
    if (job.period)
      longest = std::max(longest, *job.period * 3 / 2);
  return longest;
}

// Over one of its cables, or by a spine that leads on through one.
bool Coordinator::leads_into(const DrainScope& scope, NodeId node, const Pin& pin) const {
  const auto drained = [&](LeafId leaf, SpineId spine) {
    return std::ranges::any_of(topology_.cables_between(leaf, spine),
                               [&](CableId id) { return scope.cables.contains(id); });
  };
  std::optional<SpineId> spine;
  if (const auto cable = pinned_cable(topology_, node, pin)) {
    if (scope.cables.contains(*cable))
      return true;
    // A spine's own pin names the cable; it does not lead beside it.
    if (std::holds_alternative<SpineId>(node))
      return false;
    spine = topology_[*cable].spine;
  } else if (const auto* list = std::get_if<SegmentList>(&pin.target)) {
    spine = spine_of(spine_segments_, *list);
    if (const auto* host = std::get_if<HostId>(&node); host != nullptr && spine)
      for (const NicId nic : topology_[*host].nics)
        for (const AttachmentId id : topology_[nic].attachments)
          if (drained(topology_[id].leaf, *spine))
            return true;
  }
  const auto nic = topology_.find_nic(destination_of(pin.unit));
  return spine && nic && std::ranges::any_of(topology_[*nic].attachments, [&](AttachmentId id) {
           return drained(topology_[id].leaf, *spine);
         });
}

// Nothing if the leaf at its end has not reported of late (safety rule 7).
std::optional<Rate> Coordinator::fresh_rate(LinkId link) const {
  return reports(topology_[topology_.leaf_end(link).leaf].name) ? links_.rate(link) : std::nullopt;
}

// Of late.
bool Coordinator::reports(const std::string& node) const {
  const AgentState* agent = broadcast_.find(node);
  return agent != nullptr && agent->connected && agent->last_report &&
         parts_.clock.now() - *agent->last_report <= 3 * settings_.broadcast.report_interval;
}

void Coordinator::say_what_remains(const DrainScope& scope, double busy, DrainShown& shown) const {
  std::map<std::string, std::size_t> by_cause;
  for (std::size_t s = 0; s < routing_.size(); ++s) {
    const Path& path = routing_[s];
    if (!path.routable())
      continue;
    const LeafId from = topology_[path.from].leaf;
    const LeafId to = topology_[path.to].leaf;
    const bool own = scope.leaves.contains(from) || scope.leaves.contains(to);
    if (!own && !(path.crosses_core() && (scope.cables.contains(path.up) ||
                                          (path.down.valid() && scope.cables.contains(path.down)))))
      continue;
    const Unit& unit = planning_.units[planning_.problem.unit_of_subflow[s]];
    if (own)
      ++by_cause["to or from its own hosts, which have no other way: end or move their jobs"];
    else if (!unit.pinnable)
      ++by_cause[fmt::format(
          "of {}, which heddle does not steer there (its rack is not enabled, it "
          "is disabled, or its job is)",
          topology_[from].name)];
    else
      ++by_cause["that have no other live way"];
  }
  std::size_t elephants = 0;
  for (const auto& [cause, count] : by_cause) {
    shown.remain.push_back(fmt::format("{} elephant{} {}", count, count == 1 ? "" : "s", cause));
    elephants += count;
  }
  if (busy > 0 && elephants == 0 && shown.state == "busy")
    shown.remain.push_back(
        fmt::format("{:.1f} Mbit/s of small flows that ECMP hashes there: take the links out of "
                    "routing to move them",
                    busy / 1e6));
  if (shown.state == "unobservable")
    shown.remain.push_back("links whose leaf does not report: what they carry is not known");
}

}  // namespace heddle
