// What would be planned, beside what is: who gains, who loses, what would move.
#include <algorithm>
#include <map>
#include <set>

#include "coordinator/serve/answers.h"
#include "coordinator/serve/json.h"

namespace heddle {

namespace {

// Differences below this are rounding.
constexpr double kSame = 1e-9;

Json summary(const std::optional<Efficiency>& efficiency, std::optional<double> bound) {
  const bool known = efficiency && !efficiency->by_job.empty();
  return {{"worst", known ? Json(efficiency->worst) : Json()},
          {"mean", known ? Json(efficiency->mean) : Json()},
          {"bound", bound ? Json(*bound) : Json()}};
}

// By job: its efficiency, or nothing where that is not known.
std::map<std::string, std::optional<double>> by_name(const Prediction& prediction,
                                                     const std::optional<Efficiency>& efficiency,
                                                     const std::vector<bool>& judged) {
  std::map<std::string, std::optional<double>> jobs;
  for (std::size_t j = 0; j < prediction.jobs.size(); ++j)
    if (std::optional<double>& job = jobs[prediction.jobs[j].name];
        efficiency && j < judged.size() && judged[j])
      job = efficiency->by_job[j];
  return jobs;
}

const char* change_of(bool is_new, std::optional<double> now, std::optional<double> then) {
  if (is_new)
    return "new";
  if (!now || !then)
    return "unknown";
  if (*then > *now + kSame)
    return "gains";
  return *then < *now - kSame ? "loses" : "same";
}

}  // namespace

std::string preview_json(const NetworkView& view, const Preview& preview) {
  const auto now = by_name(view.prediction, view.efficiency, view.judged);
  const auto then = by_name(preview.prediction, preview.efficiency, preview.judged);
  Json jobs = Json::array();
  for (const auto& [name, efficiency] : then) {
    const auto before = now.find(name);
    std::optional<double> known;
    if (before != now.end())
      known = before->second;
    jobs.push_back({{"name", name},
                    {"now", known ? Json(*known) : Json()},
                    {"then", efficiency ? Json(*efficiency) : Json()},
                    {"change", change_of(before == now.end(), known, efficiency)}});
  }
  Json candidates = Json::array();
  for (const Candidate& candidate : preview.candidates)
    candidates.push_back({{"scheme", candidate.scheme},
                          {"worst", candidate.efficiency.worst},
                          {"mean", candidate.efficiency.mean},
                          {"moves", candidate.moves}});
  Json moves = Json::array();
  for (const FlowMove& move : preview.moves)
    moves.push_back(
        {{"flow", move.flow}, {"from", move.from}, {"to", move.to}, {"reason", move.reason}});
  return dump({{"assumed", {{"down", preview.down}, {"up", preview.up}, {"jobs", preview.jobs}}},
               {"scheme", preview.scheme},
               {"reason", preview.reason},
               {"now", summary(view.efficiency, view.bound())},
               {"then", summary(preview.efficiency, preview.bound)},
               {"jobs", std::move(jobs)},
               {"candidates", std::move(candidates)},
               {"moves", std::move(moves)}});
}

}  // namespace heddle
