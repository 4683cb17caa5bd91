// What if: the next plan under assumptions about links and jobs. Copies are planned; nothing of the
// live state changes. It costs what a planning costs (milliseconds on a fabric of 64 leaves) and
// runs in the loop as one does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "coordinator/coordinator.h"
#include "coordinator/import/fabric_file.h"
#include "coordinator/optimise/diagnosis.h"
#include "coordinator/optimise/whatif.h"
#include "coordinator/requests.h"

namespace heddle {

namespace {

// Schemes whose answer may take seconds, for which the agents would wait.
bool is_slow(std::string_view scheme) {
  return scheme == "annealing";
}

struct Wishes {
  std::vector<std::string> down, up;
  std::vector<JobDeclaration> jobs;
  std::string scheme;
};

Result<Wishes> parse_wishes(const Topology& topology, const std::vector<std::string>& words) {
  Wishes wishes;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size())
      return fail(Errc::invalid_argument, fmt::format("{} needs a value", words[i]));
    const std::string& value = words[i + 1];
    if (words[i] == "--down") {
      wishes.down.push_back(value);
    } else if (words[i] == "--up") {
      wishes.up.push_back(value);
    } else if (words[i] == "--scheme") {
      const auto names = optimiser_names();
      if (std::ranges::find(names, value) == names.end())
        return fail(Errc::invalid_argument, fmt::format("there is no scheme '{}'; there are {}",
                                                        value, fmt::join(names, ", ")));
      if (is_slow(value))
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' takes seconds, for which every agent would wait; 'heddle "
                                "simulate' compares it",
                                value));
      wishes.scheme = value;
    } else if (words[i] == "--jobs") {
      // The command line sends the file's text: the file is on its machine, not on ours.
      auto jobs = parse_jobs(value, topology);
      if (!jobs)
        return fail(Errc::invalid_argument, describe("the job file", jobs.error()));
      wishes.jobs.insert(wishes.jobs.end(), jobs->begin(), jobs->end());
    } else {
      return fail(Errc::invalid_argument,
                  "plan preview [--down NAME] [--up NAME] [--jobs FILE] [--scheme NAME]");
    }
  }
  return wishes;
}

}  // namespace

Reply Coordinator::preview_request(const Request& request) {
  const Result<Wishes> wishes = parse_wishes(topology_, request.arguments);
  if (!wishes)
    return bad(wishes.error());

  // Jobs: those of the file in the place of those that have their names.
  std::vector<JobDeclaration> jobs = declared();
  std::erase_if(jobs, [&](const JobDeclaration& job) {
    return std::ranges::find(wishes->jobs, job.name, &JobDeclaration::name) != wishes->jobs.end();
  });
  jobs.insert(jobs.end(), wishes->jobs.begin(), wishes->jobs.end());
  Prediction prediction = predict(topology_, flows_, jobs, &prediction_);
  std::vector<std::string> expected;
  for (const JobDeclaration& job : wishes->jobs)
    if (std::ranges::find(prediction.jobs, job.name, &PredictedJob::name) ==
        prediction.jobs.end()) {
      expect_job(topology_, job, prediction);
      expected.push_back(job.name);
    }

  PlanningInput input = planning_input();
  LinkState links = links_.state();
  input.links = &links;
  input.prediction = &prediction;
  Situation situation{.links_changed = false, .demand_changed = !wishes->jobs.empty(), .event = {}};
  for (const auto& [names, up] : {std::pair(&wishes->down, false), std::pair(&wishes->up, true)})
    for (const std::string& name : *names) {
      const auto named = links_named(topology_, name);
      if (!named)
        return bad(named.error());
      if (up)
        assume_up(topology_, *named, links, input.forbidden);
      else
        assume_down(*named, links);
      situation.event +=
          fmt::format("{}{} {}", situation.event.empty() ? "" : ", ", name, up ? "up" : "down");
      situation.links_changed = true;
    }

  PlanningProblem planning = make_problem(input);
  const std::unique_ptr<Optimiser> other =
      wishes->scheme.empty() ? nullptr : make_optimiser(wishes->scheme);
  const Optimiser& optimiser = other ? *other : parts_.optimiser;
  Chosen chosen = choose(planning, optimiser, situation);
  Routing routing = planning.problem.current;
  std::optional<Efficiency> efficiency;
  std::vector<bool> judged;
  if (!chosen.candidates.list.empty()) {
    const Candidate& candidate = chosen.candidates.list[chosen.decision.chosen.value_or(0)];
    routing = candidate.routing;
    judged = judged_jobs(planning, routing);
    efficiency = of_judged(candidate.efficiency, judged);
  }
  PlanAndMoves made = make_plan(input, planning, routing, parts_.reign.version(), true);
  return good(preview_json(view(), {.down = wishes->down,
                                    .up = wishes->up,
                                    .jobs = std::move(expected),
                                    .scheme = std::string(optimiser.name()),
                                    .reason = std::move(chosen.decision.reason),
                                    .prediction = prediction,
                                    .efficiency = std::move(efficiency),
                                    .judged = judged,
                                    .bound = bound_of_worst(planning, judged),
                                    .candidates = std::move(chosen.candidates.list),
                                    .moves = std::move(made.moves)}));
}

}  // namespace heddle
