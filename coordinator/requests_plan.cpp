// Plans: show, compare, explain.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"

namespace heddle {

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
    return bad(AnswerCode::usage, "plan show [VERSION], plan diff [A B] or plan explain FLOW");
  if (!record_)
    return bad(AnswerCode::not_found, "there is no plan yet");
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
               ? bad(AnswerCode::not_found,
                     fmt::format("the history has no plan {}", to_string(version)))
               : bad(AnswerCode::refused, fmt::format("plan {} cannot be read from the history: {}",
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

}  // namespace heddle
