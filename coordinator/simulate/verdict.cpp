#include "coordinator/simulate/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace heddle::sim {
namespace {

constexpr double kAtBound = 100.0 - 1e-6;
constexpr std::size_t kMostNamed = 5;

using Jobs = std::vector<std::uint32_t>;
// Epochs are alike if the same jobs communicate over the same links.
using Situation = std::pair<std::uint32_t, Jobs>;

// By situation: the worst and the best of what a scheme made of them.
struct Range {
  const Efficiency* worst{};
  const Efficiency* best{};
};

std::map<Situation, Range> by_situation(const Row& row) {
  std::map<Situation, Range> ranges;
  for (const Epoch& epoch : row.epochs) {
    if (row.scheme == "ilp" && !epoch.proven)
      continue;
    const auto [it, fresh] = ranges.try_emplace({epoch.link_changes, epoch.jobs},
                                                Range{&epoch.efficiency, &epoch.efficiency});
    if (fresh)
      continue;
    if (compare(epoch.efficiency, *it->second.worst) < 0)
      it->second.worst = &epoch.efficiency;
    if (compare(epoch.efficiency, *it->second.best) > 0)
      it->second.best = &epoch.efficiency;
  }
  return ranges;
}

bool comparable(const Row& row) {
  return row.scheme != "ilp" || row.all.proven;
}

class Judge {
 public:
  std::vector<Verdict> run(const std::vector<Row>& rows) {
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin;
      while (end < rows.size() && rows[end].at == rows[begin].at)
        ++end;
      judge_cell({rows.begin() + static_cast<std::ptrdiff_t>(begin),
                  rows.begin() + static_cast<std::ptrdiff_t>(end)});
      begin = end;
    }
    return std::move(verdicts_);
  }

 private:
  Verdict& verdict(const std::string& scheme) {
    const auto it = std::ranges::find(verdicts_, scheme, &Verdict::scheme);
    if (it != verdicts_.end())
      return *it;
    verdicts_.push_back({.scheme = scheme});
    return verdicts_.back();
  }

  void judge_cell(std::span<const Row> cell) {
    std::vector<std::map<Situation, Range>> epochs;
    for (const Row& row : cell)
      epochs.push_back(by_situation(row));
    for (std::size_t i = 0; i < cell.size(); ++i) {
      count(cell[i]);
      if (!comparable(cell[i]))
        continue;
      Verdict& mine = verdict(cell[i].scheme);
      bool below = false;
      std::map<Situation, bool> epochs_below;
      for (std::size_t k = 0; k < cell.size(); ++k) {
        if (k == i || !comparable(cell[k]))
          continue;
        if (compare(cell[i].all.efficiency, cell[k].all.efficiency) < 0) {
          below = true;
          name(mine, fmt::format("below {}: {}", cell[k].scheme, describe(cell[i].at)));
        }
        for (const auto& [situation, range] : epochs[i])
          if (const auto other = epochs[k].find(situation);
              other != epochs[k].end() && compare(*range.worst, *other->second.best) < 0 &&
              !epochs_below[situation]) {
            epochs_below[situation] = true;
            name(mine, fmt::format("below {}: {}, jobs {} communicating", cell[k].scheme,
                                   describe(cell[i].at), fmt::join(situation.second, " ")));
          }
      }
      mine.cells_below += below ? 1 : 0;
      mine.epochs_below += static_cast<std::uint64_t>(
          std::ranges::count_if(epochs_below, [](const auto& entry) { return entry.second; }));
    }
  }

  void count(const Row& row) {
    Verdict& mine = verdict(row.scheme);
    ++mine.cells;
    const double percent = row.percent_of_bound();
    mine.cells_at_bound += percent >= kAtBound ? 1 : 0;
    mine.least_percent = std::min(mine.least_percent, percent);
    for (const Epoch& epoch : row.epochs) {
      const double of_bound = percent_of_bound(epoch);
      ++mine.epochs;
      mine.epochs_at_bound += of_bound >= kAtBound ? 1 : 0;
      mine.least_percent = std::min(mine.least_percent, of_bound);
    }
  }

  static void name(Verdict& verdict, std::string text) {
    if (verdict.below.size() < kMostNamed)
      verdict.below.push_back(std::move(text));
  }

  std::vector<Verdict> verdicts_;
};

}  // namespace

std::string describe(const Coordinates& at) {
  std::string text =
      fmt::format("{}, {} job{}", at.workload, at.concurrent, at.concurrent == 1 ? "" : "s");
  if (at.spines_down > 0)
    text += fmt::format(", {} spine{} down", at.spines_down, at.spines_down == 1 ? "" : "s");
  if (at.links_down > 0)
    text += fmt::format(", {:g} % of links down", 100.0 * at.links_down);
  if (at.oversubscription != 1.0)
    text += fmt::format(", oversubscription {:g}", at.oversubscription);
  if (at.qps != 1)
    text += fmt::format(", {} queue pairs", at.qps);
  return text + fmt::format(", seed {}", at.seed);
}

std::vector<Gain> gains(const std::vector<Row>& rows) {
  std::vector<Gain> result;
  for (const Row& row : rows) {
    if (row.at.qps == 1)
      continue;
    Coordinates one_path = row.at;
    one_path.qps = 1;
    const auto base = std::ranges::find_if(
        rows, [&](const Row& other) { return other.scheme == row.scheme && other.at == one_path; });
    if (base == rows.end() || base->all.efficiency.worst <= 0.0)
      continue;
    const double gain = row.all.efficiency.worst / base->all.efficiency.worst;
    auto it = std::ranges::find_if(
        result, [&](const Gain& g) { return g.scheme == row.scheme && g.qps == row.at.qps; });
    if (it == result.end())
      it =
          result.insert(it, {.scheme = row.scheme, .qps = row.at.qps, .least = gain, .most = gain});
    ++it->cells;
    it->mean += gain;
    it->least = std::min(it->least, gain);
    it->most = std::max(it->most, gain);
  }
  for (Gain& gain : result)
    gain.mean /= static_cast<double>(gain.cells);
  return result;
}

std::vector<Verdict> judge(const std::vector<Row>& rows) {
  return Judge().run(rows);
}

}  // namespace heddle::sim
