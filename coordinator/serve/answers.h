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
  const std::set<std::string>& disabled_jobs;
  // Of the last planning, in which `routing` is where its subflows are supposed to run.
  const Prediction& prediction;
  const PlanningProblem& planning;
  const Routing& routing;
  const std::optional<Efficiency>& efficiency;
  const std::vector<bool>& judged;  // by job: whether its efficiency is known
  std::optional<double> bound;
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

struct SwitchedNode {
  std::string name;
  bool disabled{};
  bool confirmed{};
};
std::string switched_json(std::span<const SwitchedNode> nodes);

// "3.17".
Result<PlanVersion> parse_version(const std::string& text);

}  // namespace heddle
