// What operators ask and order by the command line: who may, and which function answers.
#include "coordinator/requests.h"

#include <fmt/format.h>

#include "coordinator/coordinator.h"
#include "coordinator/optimise/diagnosis.h"

namespace heddle {

void Coordinator::reply(const std::string& route, Reply reply) {
  access_.settled(route, reply);
  // An asker who is gone needs no answer.
  (void)parts_.port.send(route, std::move(reply));
}

void Coordinator::on_request(const Sender& sender, const Request& request) {
  const bool is_node = broadcast_.is_node(sender.key_name);
  if (const auto refusal = access_.refuse(sender, is_node, request)) {
    // Each word is kept in the history: whoever may do nothing must not fill its disk.
    if (refusal->is_news)
      notice(Notice::Level::warning,
             fmt::format("refused '{}': {}", request.command, refusal->why));
    Reply refused = bad(AnswerCode::refused, refusal->why);
    refused.id = request.id;
    reply(sender.route, std::move(refused));
    return;
  }
  // By the layout of earlier versions it may be the key of a node that left the fabric.
  if (sender.role == KeyRole::unstated && !sender.key_name.empty() &&
      commanders_.insert(sender.key_name).second)
    notice(Notice::Level::info,
           fmt::format("the key '{}', of no node of the fabric, gives commands from now on",
                       sender.key_name));
  access_.ordered(sender, is_node, request);
  bool later = false;
  Reply answered = answer(request, sender, later);
  if (later) {
    access_.waits(sender.route, request.id);
    return;
  }
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
  if (command == "plan log")
    return log_request(request, sender, later);
  if (command.starts_with("rollout "))
    return rollout_request(request, sender);
  if (command == "drain" || command == "undrain" || command == "drain status")
    return drain_request(request, sender);
  if (command == "jobs explain") {
    if (request.arguments.size() != 1)
      return bad(AnswerCode::usage, "jobs explain JOB");
    const Result<std::string> json = job_explain_json(view(), request.arguments.front());
    return json ? good(*json) : bad(json.error());
  }
  if (command == "plan preview")
    return preview_request(request);
  if (command.starts_with("plan "))
    return plan_request(request, sender, later);
  if (command.starts_with("job "))
    return job_request(request);
  if (command == "fabric check")
    return cable_request(request);
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
          .disabled_jobs = disabled_jobs(),
          .prediction = prediction_,
          .planning = planning_,
          .routing = routing_,
          .efficiency = efficiency_,
          .judged = judged_,
          .bound = [this] { return bound_of_worst(planning_, judged_); },
          .record = record(),
          .since = [this](const std::string& node,
                          const SteeringUnit& unit) { return since(node, unit); },
          .history = parts_.history.status(),
          .version = parts_.reign.version(),
          .software = settings_.software,
          .now = parts_.clock.now(),
          .uptime = parts_.clock.now() - started_};
}

}  // namespace heddle
