// What operators ask and order by the command line: who may, and which function answers.
#include "coordinator/requests.h"

#include <fmt/format.h>

#include "coordinator/coordinator.h"

namespace heddle {

void Coordinator::reply(const std::string& route, Reply reply) {
  // An asker who is gone needs no answer.
  (void)parts_.port.send(route, std::move(reply));
}

void Coordinator::on_request(const Sender& sender, const Request& request) {
  Reply answered;
  bool later = false;
  const bool an_agents_key = broadcast_.is_node(sender.key_name);
  if (an_agents_key)
    answered = bad(AnswerCode::refused,
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
      return bad(AnswerCode::usage, fmt::format("'{}' takes no argument", command));
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
  return bad(AnswerCode::usage,
             fmt::format("this coordinator does not know the command '{}'", command));
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

}  // namespace heddle
