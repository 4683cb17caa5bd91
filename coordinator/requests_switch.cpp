// The off switch, and every answer that waits.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"

namespace heddle {

namespace {

bool meet(const std::set<std::string>& some, std::span<const std::string> hosts) {
  return std::ranges::any_of(hosts, [&](const std::string& host) { return some.contains(host); });
}

}  // namespace

// Of the jobs that run or are declared, those that are switched off, and the names of those that
// are by name.
std::set<std::string> Coordinator::disabled_jobs() const {
  std::set<std::string> names;
  for (const auto& [name, hosts] : operators_.disabled_jobs) {
    if (hosts.empty())
      names.insert(name);
    for (const PredictedJob& job : prediction_.jobs)
      if (meet(hosts, job.hosts))
        names.insert(job.name);
    for (const JobDeclaration& job : declared())
      if (meet(hosts, job.hosts))
        names.insert(job.name);
  }
  return names;
}

// Which nodes a scope names. A host belongs to the racks of all its leaves, and a rack that is
// switched on again takes no host along that a leaf of another rack keeps off.
std::set<std::string> Coordinator::nodes_in(const std::string& scope, const std::string& name,
                                            bool enable) const {
  const auto kept_off = [&](const Topology::Attachment& attachment) {
    const Topology::Leaf& leaf = topology_[attachment.leaf];
    return leaf.rack != name && operators_.disabled_nodes.contains(leaf.name);
  };
  std::set<std::string> nodes;
  for (const NodeId node : topology_.nodes()) {
    bool in_scope = scope == "--all" || (scope == "--node" && topology_.name_of(node) == name) ||
                    (scope == "--rack" && topology_.racks_of(node).contains(name));
    if (const auto* host = std::get_if<HostId>(&node);
        host != nullptr && enable && scope == "--rack")
      for (const NicId nic : topology_[*host].nics)
        for (const AttachmentId id : topology_[nic].attachments)
          in_scope = in_scope && !kept_off(topology_[id]);
    if (in_scope)
      nodes.insert(topology_.name_of(node));
  }
  return nodes;
}

Reply Coordinator::switch_scope(const Request& request, const Sender& sender, bool enable,
                                bool& later) {
  const std::vector<std::string>& words = request.arguments;
  const std::string scope = words.empty() ? "" : words[0];
  const bool all = scope == "--all" && words.size() == 1;
  if (!all && words.size() != 2)
    return bad(AnswerCode::usage,
               fmt::format("{} --all, --node N, --rack R or --job J", request.command));
  Waiting waiting{.route = sender.route,
                  .id = request.id,
                  .deadline = parts_.clock.now() + settings_.answer_within};
  OperatorState next = operators_;
  std::set<std::string> switched;
  if (scope == "--job") {
    std::set<std::string> hosts;
    std::set<std::string> recognised;
    for (const PredictedJob& job : prediction_.jobs)
      if (job.name == words[1]) {
        hosts.insert(job.hosts.begin(), job.hosts.end());
        if (!job.declared)
          recognised.insert(job.hosts.begin(), job.hosts.end());
      }
    for (const JobDeclaration& job : declared())
      if (job.name == words[1])
        hosts.insert(job.hosts.begin(), job.hosts.end());
    if (hosts.empty() && !(enable && operators_.disabled_jobs.contains(words[1])))
      return bad(AnswerCode::not_found, fmt::format("there is no job '{}'", words[1]));
    for (const auto& nic : topology_.nics())
      if (const std::string& host = topology_[nic.host].name; hosts.contains(host)) {
        if (const AgentState* agent = broadcast_.find(host);
            agent != nullptr && agent->mode == Mode::program)
          waiting.nodes.insert(host);
        for (const AttachmentId id : nic.attachments)
          waiting.nodes.insert(topology_[topology_[id].leaf].name);
      }
    if (enable)
      std::erase_if(next.disabled_jobs, [&](const auto& entry) {
        return entry.first == words[1] ||
               std::ranges::any_of(entry.second,
                                   [&](const std::string& host) { return hosts.contains(host); });
      });
    else
      next.disabled_jobs[words[1]].merge(recognised);
    waiting.job_disabled = !enable;
  } else {
    if (!all && scope != "--node" && scope != "--rack")
      return bad(AnswerCode::usage,
                 fmt::format("{} --all, --node N, --rack R or --job J", request.command));
    // Spines and hosts are switched, too, so that what they may come to program stays off: also
    // those that were never heard of.
    switched = nodes_in(scope, all ? "" : words[1], enable);
    if (switched.empty())
      return bad(AnswerCode::not_found,
                 scope == "--rack" ? fmt::format("there is no rack '{}'", words[1])
                 : all             ? std::string("the fabric has no nodes")
                                   : fmt::format("the fabric has no node '{}'", words[1]));
    for (const std::string& name : switched) {
      if (enable)
        next.disabled_nodes.erase(name);
      else
        next.disabled_nodes.insert(name);
      // Without an agent there is nothing to confirm, unless it was asked for by name.
      if (scope == "--node" || topology_.find_leaf(name) || broadcast_.find(name) != nullptr ||
          !broadcast_.part_of(name).pins.empty())
        waiting.nodes.insert(name);
    }
    waiting.enable = enable;
  }

  std::swap(operators_, next);
  // Switching off must work on a broken disk, too; it is said that it will not survive.
  if (const auto stored = store_operators(); !stored)
    waiting.not_kept = fmt::format(
        "it is ordered, and would be forgotten by a restart of the coordinator, as it cannot be "
        "kept: {}; that is tried again",
        stored.error().message);
  std::string scope_text = scope;
  if (words.size() == 2)
    scope_text += " " + words[1];
  const std::string& by = who(sender);
  notice(Notice::Level::info, fmt::format("{} {} by {}", request.command, scope_text, by));
  for (const std::string& name : switched)
    broadcast_.switch_node(name, enable, by, parts_.clock.now());
  if (broadcast_.published())
    plan({.links_changed = false,
          .demand_changed = true,
          .event = fmt::format("{} {}", request.command, scope_text)});
  later = true;
  waiting_.push_back(std::move(waiting));
  check_waiting();
  return {};
}

void Coordinator::check_waiting() {
  const Time now = parts_.clock.now();
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    std::vector<SwitchedNode> nodes;
    std::string unconfirmed;
    bool all = true;
    bool reachable_pending = false;
    for (const std::string& name : waiting.nodes) {
      const AgentState* agent = broadcast_.find(name);
      const bool heard = agent != nullptr && agent->connected;
      // Off is what holds nothing of ours any more, not what promised to.
      const bool confirmed =
          heard && (waiting.enable ? agent->disabled != *waiting.enable && !agent->switch_pending &&
                                         (*waiting.enable || agent->installed_pins == 0)
                                   : broadcast_.converged(*agent));
      nodes.push_back({.name = name,
                       .disabled = waiting.enable ? !*waiting.enable : waiting.job_disabled,
                       .confirmed = confirmed});
      all = all && confirmed;
      if (!confirmed)
        unconfirmed += (unconfirmed.empty() ? "" : ", ") + name;
      reachable_pending = reachable_pending || (heard && !confirmed);
    }
    if (!all && reachable_pending && now < waiting.deadline)
      return false;
    Reply answered = good(switched_json(nodes));
    if (!all || !waiting.not_kept.empty())
      answered.exit_code = AnswerCode::refused;
    if (!all)
      answered.error = fmt::format(
          "not confirmed by {}; it is ordered, and goes on when they are heard", unconfirmed);
    if (!waiting.not_kept.empty())
      answered.error += (all ? "" : "; ") + waiting.not_kept;
    answered.id = waiting.id;
    reply(waiting.route, std::move(answered));
    return true;
  });
  std::erase_if(reading_, [&](const auto& entry) {
    if (now < entry.second.deadline)
      return false;
    Reply answered = bad(AnswerCode::refused, "the history's disk does not answer");
    answered.id = entry.second.id;
    reply(entry.second.route, std::move(answered));
    return true;
  });
}

}  // namespace heddle
