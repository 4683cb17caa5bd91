// What operators ask and order by the command line.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "coordinator/coordinator.h"

namespace heddle {

namespace {

enum Exit : std::uint8_t { ok = 0, refused = 1, usage = 2, not_found = 4 };

Reply good(std::string json) {
  return {.id = 0, .exit_code = Exit::ok, .json = std::move(json), .error = {}};
}
Reply bad(Exit code, std::string error) {
  return {.id = 0, .exit_code = code, .json = {}, .error = std::move(error)};
}
Reply bad(const Error& error) {
  return bad(error.code == Errc::not_found          ? Exit::not_found
             : error.code == Errc::invalid_argument ? Exit::usage
                                                    : Exit::refused,
             error.message);
}

// The names that separate well in files and on screens, as in fabric files.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

std::vector<JobDeclaration> Coordinator::declared() const {
  std::vector<JobDeclaration> all = file_jobs_;
  all.insert(all.end(), operators_.jobs.begin(), operators_.jobs.end());
  return all;
}

Result<void> Coordinator::store_operators() {
  return parts_.store.store_operator_state(operators_);
}

void Coordinator::reply(const std::string& route, Reply reply) {
  // An asker who is gone needs no answer.
  (void)parts_.port.send(route, std::move(reply));
}

void Coordinator::on_request(const Sender& sender, const Request& request) {
  Reply answered;
  bool later = false;
  const bool an_agents_key = broadcast_.is_node(sender.key_name);
  if (an_agents_key)
    answered = bad(Exit::refused,
                   fmt::format("the key of node '{}' may not give commands; use an operator's key",
                               sender.key_name));
  else {
    // It may be the key of a node that left the fabric.
    if (!sender.key_name.empty() && commanders_.insert(sender.key_name).second)
      notice(Notice::Level::info,
             fmt::format("the key '{}', of no node of the fabric, gives commands from now on",
                         sender.key_name));
    answered = answer(request, sender, later);
  }
  if (later)
    return;
  answered.id = request.id;
  reply(sender.route, std::move(answered));
}

Reply Coordinator::answer(const Request& request, const Sender& sender, bool& later) {
  const std::string& command = request.command;
  const auto with_view = [&](std::string (*write)(const NetworkView&)) {
    if (!request.arguments.empty())
      return bad(Exit::usage, fmt::format("'{}' takes no argument", command));
    return good(write(view()));
  };
  if (command == "status")
    return with_view(status_json);
  if (command == "agents")
    return with_view(agents_json);
  if (command == "flows")
    return with_view(flows_json);
  if (command == "jobs")
    return with_view(jobs_json);
  if (command == "links")
    return with_view(links_json);
  if (command.starts_with("plan "))
    return plan_request(request, sender, later);
  if (command.starts_with("job "))
    return job_request(request);
  if (command == "disable" || command == "enable")
    return switch_scope(request, sender, command == "enable", later);
  return bad(Exit::usage, fmt::format("this coordinator does not know the command '{}'", command));
}

NetworkView Coordinator::view() const {
  return {.topology = topology_,
          .flows = flows_,
          .links = links_,
          .broadcast = broadcast_,
          .declared = declared(),
          .disabled_jobs = operators_.disabled_jobs,
          .prediction = prediction_,
          .planning = planning_,
          .routing = routing_,
          .efficiency = efficiency_,
          .judged = judged_,
          .bound = {},
          .record = record(),
          .since = [this](const std::string& node,
                          const SteeringUnit& unit) -> std::optional<WallTime> {
            const auto dates = since_.find(node);
            if (dates == since_.end())
              return std::nullopt;
            const auto found = dates->second.find(unit);
            return found == dates->second.end() ? std::nullopt : std::optional(found->second);
          },
          .history = parts_.history.status(),
          .version = parts_.reign.version(),
          .software = settings_.software,
          .now = parts_.clock.now(),
          .uptime = parts_.clock.now() - started_};
}

// Plans
// -----------------------------------------------------------------------------------------------

void Coordinator::with_plan(PlanVersion version, History::Answer<PlanRecord> then) {
  const auto kept = std::ranges::find_if(
      recent_, [&](const auto& record) { return record->plan.version == version; });
  if (kept != recent_.end())
    then(**kept);
  else
    parts_.history.read_plan(version, std::move(then));
}

Reply Coordinator::plan_request(const Request& request, const Sender& sender, bool& later) {
  const std::vector<std::string>& words = request.arguments;
  if (request.command == "plan explain") {
    const Result<std::string> json = explain_json(view(), words);
    return json ? good(*json) : bad(json.error());
  }
  std::vector<PlanVersion> versions;
  for (const std::string& word : words) {
    const Result<PlanVersion> version = parse_version(word);
    if (!version)
      return bad(version.error());
    versions.push_back(*version);
  }
  const bool show = request.command == "plan show" && versions.size() <= 1;
  const bool compare = request.command == "plan diff" && (versions.empty() || versions.size() == 2);
  if (!show && !compare)
    return bad(Exit::usage, "plan show [VERSION], plan diff [A B] or plan explain FLOW");
  if (!record_)
    return bad(Exit::not_found, "there is no plan yet");
  if (show && versions.empty())
    return good(plan_json(*record_));
  if (compare && versions.empty()) {
    const PlanRecord& before = recent_.size() > 1 ? *recent_[recent_.size() - 2] : *recent_.back();
    return good(plan_diff_json(before.plan, record_->plan));
  }

  // From the history, which may be slow: the answer goes out when it is there, or when patience
  // ends.
  later = true;
  const std::uint64_t number = ++readings_;
  reading_[number] = {.route = sender.route,
                      .id = request.id,
                      .deadline = parts_.clock.now() + settings_.answer_within};
  const auto finish = [this, number](Reply answered) {
    const auto reading = reading_.find(number);
    if (reading == reading_.end())
      return;
    answered.id = reading->second.id;
    reply(reading->second.route, std::move(answered));
    reading_.erase(reading);
  };
  const auto missing = [](PlanVersion version, const Error& error) {
    return error.code == Errc::not_found
               ? bad(Exit::not_found, fmt::format("the history has no plan {}", to_string(version)))
               : bad(Exit::refused, fmt::format("plan {} cannot be read from the history: {}",
                                                to_string(version), error.message));
  };
  const std::weak_ptr<bool> alive = alive_;
  with_plan(versions[0], [=, this](Result<PlanRecord> first) {
    if (alive.expired())
      return;
    if (!first)
      return finish(missing(versions[0], first.error()));
    if (versions.size() == 1)
      return finish(good(plan_json(*first)));
    with_plan(versions[1], [=, from = first->plan](Result<PlanRecord> second) {
      if (alive.expired())
        return;
      finish(second ? good(plan_diff_json(from, second->plan))
                    : missing(versions[1], second.error()));
    });
  });
  return {};
}

// Jobs
// ------------------------------------------------------------------------------------------------

Reply Coordinator::job_request(const Request& request) {
  const std::vector<std::string>& words = request.arguments;
  const auto by_name = [&](const JobDeclaration& job) { return job.name == words[0]; };
  if (request.command == "job list" && words.empty())
    return good(declarations_json(declared()));
  if (words.empty())
    return bad(Exit::usage, "job declare NAME HOST..., job list or job remove NAME");
  const bool in_file = std::ranges::any_of(file_jobs_, by_name);
  OperatorState next = operators_;
  if (request.command == "job declare") {
    if (words.size() < 3)
      return bad(Exit::usage, "a job has a name and at least two hosts");
    if (in_file)
      return bad(Exit::refused, fmt::format("job '{}' is declared in the job file", words[0]));
    if (!is_name(words[0]))
      return bad(
          Exit::usage,
          fmt::format("'{}' is no name: 1 to 64 of letters, digits, '.', '_' and '-'", words[0]));
    JobDeclaration job{.name = words[0], .hosts = {words.begin() + 1, words.end()}};
    for (const std::string& host : job.hosts) {
      if (!topology_.find_host(host))
        return bad(Exit::not_found, fmt::format("the fabric has no host '{}'", host));
      if (std::ranges::count(job.hosts, host) > 1)
        return bad(Exit::usage, fmt::format("host '{}' is named twice", host));
    }
    std::erase_if(next.jobs, by_name);
    next.jobs.push_back(std::move(job));
  } else if (request.command == "job remove" && words.size() == 1) {
    if (in_file)
      return bad(Exit::refused, fmt::format("job '{}' is declared in the job file; remove it there "
                                            "and restart the coordinator",
                                            words[0]));
    if (std::erase_if(next.jobs, by_name) == 0)
      return bad(Exit::not_found, fmt::format("no job '{}' is declared", words[0]));
  } else {
    return bad(Exit::usage, "job declare NAME HOST..., job list or job remove NAME");
  }
  std::swap(operators_, next);
  if (const auto stored = store_operators(); !stored) {
    std::swap(operators_, next);
    return bad(stored.error());
  }
  return good(declarations_json(declared()));
}

// The off switch
// --------------------------------------------------------------------------------------

Reply Coordinator::switch_scope(const Request& request, const Sender& sender, bool enable,
                                bool& later) {
  const std::vector<std::string>& words = request.arguments;
  const std::string scope = words.empty() ? "" : words[0];
  const bool all = scope == "--all" && words.size() == 1;
  if (!all && words.size() != 2)
    return bad(Exit::usage,
               fmt::format("{} --all, --node N, --rack R or --job J", request.command));
  Waiting waiting{.route = sender.route,
                  .id = request.id,
                  .deadline = parts_.clock.now() + settings_.answer_within};
  OperatorState next = operators_;
  if (scope == "--job") {
    std::set<std::string> hosts;
    for (const PredictedJob& job : prediction_.jobs)
      if (job.name == words[1])
        hosts.insert(job.hosts.begin(), job.hosts.end());
    for (const JobDeclaration& job : declared())
      if (job.name == words[1])
        hosts.insert(job.hosts.begin(), job.hosts.end());
    if (hosts.empty() && !(enable && operators_.disabled_jobs.contains(words[1])))
      return bad(Exit::not_found, fmt::format("there is no job '{}'", words[1]));
    for (const auto& nic : topology_.nics())
      if (hosts.contains(topology_[nic.host].name))
        for (const AttachmentId id : nic.attachments)
          waiting.nodes.insert(topology_[topology_[id].leaf].name);
    if (enable)
      next.disabled_jobs.erase(words[1]);
    else
      next.disabled_jobs.insert(words[1]);
    waiting.job_disabled = !enable;
  } else {
    // Spines and hosts are switched, too, so that what they may come to program stays off.
    const auto in_scope = [&](const std::string& name, const std::string& rack) {
      return all || (scope == "--node" && name == words[1]) ||
             (scope == "--rack" && rack == words[1]);
    };
    if (!all && scope != "--node" && scope != "--rack")
      return bad(Exit::usage,
                 fmt::format("{} --all, --node N, --rack R or --job J", request.command));
    for (const auto& leaf : topology_.leaves())
      if (in_scope(leaf.name, leaf.rack))
        waiting.nodes.insert(leaf.name);
    for (const auto& host : topology_.hosts())
      if (in_scope(host.name, host.rack))
        waiting.nodes.insert(host.name);
    for (const auto& spine : topology_.spines())
      if (in_scope(spine.name, {}))
        waiting.nodes.insert(spine.name);
    // Without an agent there is nothing to switch, unless it was asked for by name.
    if (scope != "--node")
      std::erase_if(waiting.nodes, [&](const std::string& name) {
        return broadcast_.find(name) == nullptr && !topology_.find_leaf(name);
      });
    if (waiting.nodes.empty())
      return bad(Exit::not_found, scope == "--rack" ? fmt::format("there is no rack '{}'", words[1])
                                  : all             ? std::string("the fabric has no nodes")
                                        : fmt::format("the fabric has no node '{}'", words[1]));
    for (const std::string& name : waiting.nodes)
      if (enable)
        next.disabled_nodes.erase(name);
      else
        next.disabled_nodes.insert(name);
    waiting.enable = enable;
  }

  std::swap(operators_, next);
  // Switching off must work on a broken disk, too; it is said that it will not survive.
  if (const auto stored = store_operators(); !stored)
    notice(Notice::Level::error, fmt::format("{} will not survive a restart: {}", request.command,
                                             stored.error().message));
  std::string scope_text = scope;
  if (words.size() == 2)
    scope_text += " " + words[1];
  notice(Notice::Level::info, fmt::format("{} {} by {}", request.command, scope_text, sender.node));
  if (waiting.enable)
    for (const std::string& name : waiting.nodes)
      broadcast_.switch_node(name, enable, sender.node, parts_.clock.now());
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
    if (!all) {
      answered.exit_code = Exit::refused;
      answered.error = fmt::format(
          "not confirmed by {}; it is ordered, and goes on when they are heard", unconfirmed);
    }
    answered.id = waiting.id;
    reply(waiting.route, std::move(answered));
    return true;
  });
  std::erase_if(reading_, [&](const auto& entry) {
    if (now < entry.second.deadline)
      return false;
    Reply answered = bad(Exit::refused, "the history's disk does not answer");
    answered.id = entry.second.id;
    reply(entry.second.route, std::move(answered));
    return true;
  });
}

}  // namespace heddle
