// Answers to what the command line asks, as JSON. What is not known is null or "unobservable",
// never zero (safety rule 7). The keys are described in heddle(1).
//
// Pure functions over a view of the coordinator's state; the event loop's thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "common/core/job.h"
#include "common/core/result.h"
#include "coordinator/broadcast/broadcast.h"
#include "coordinator/history/history.h"
#include "coordinator/optimise/planning.h"
#include "coordinator/predict/flow_table.h"
#include "coordinator/predict/link_table.h"
#include "coordinator/predict/prediction.h"

namespace heddle {

// Refers to what it shows; lives for one answer.
struct NetworkView {
  const Topology& topology;
  const FlowTable& flows;
  const LinkTable& links;
  const Broadcast& broadcast;
  std::vector<JobDeclaration> declared;
  std::set<std::string> disabled_jobs;
  // Of the last planning, in which `routing` is where its subflows are supposed to run.
  const Prediction& prediction;
  const PlanningProblem& planning;
  const Routing& routing;
  const std::optional<Efficiency>& efficiency;  // nothing: no job is judged
  const std::vector<bool>& judged;              // by job: whether its efficiency is known
  // The bound of the worst job's efficiency; costs as much as a part of a planning.
  std::function<std::optional<double>()> bound;
  const PlanRecord* record{};  // the present plan; nullptr: none yet
  // When a pin came to be what it is.
  std::function<std::optional<WallTime>(const std::string& node, const SteeringUnit& unit)> since;
  HistoryStatus history;
  PlanVersion version;
  std::string software;
  Time now;
  Duration uptime{};
};

std::string status_json(const NetworkView& view);
std::string agents_json(const NetworkView& view);
std::string flows_json(const NetworkView& view);
std::string jobs_json(const NetworkView& view);
std::string links_json(const NetworkView& view);
std::string declarations_json(std::span<const JobDeclaration> declared);

std::string plan_json(const PlanRecord& record);
std::string plan_diff_json(const RoutePlan& from, const RoutePlan& to);
// `flow`: source and destination address, the source optionally with ":port".
// Errc::invalid_argument, Errc::not_found.
Result<std::string> explain_json(const NetworkView& view, std::span<const std::string> flow);
// "Why is my job slow?": its slowest flow, what holds that up, who shares it, and whether any
// routing could do better. Errc::not_found.
Result<std::string> job_explain_json(const NetworkView& view, const std::string& name);

// What would be, beside what is.
struct Preview {
  std::vector<std::string> down, up, jobs;  // what was assumed
  std::string scheme;
  std::string reason;  // of the decision
  const Prediction& prediction;
  std::optional<Efficiency> efficiency;
  std::vector<bool> judged;
  std::optional<double> bound;
  std::vector<Candidate> candidates;
  std::vector<FlowMove> moves;
};
std::string preview_json(const NetworkView& view, const Preview& preview);

struct SwitchedNode {
  std::string name;
  bool disabled{};
  bool confirmed{};
};
std::string switched_json(std::span<const SwitchedNode> nodes);

// "3.17".
Result<PlanVersion> parse_version(const std::string& text);

}  // namespace heddle
