#include "coordinator/decide/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace heddle {

namespace {

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Collects what one gate sees: whatever is bad is named, else the worst of what is good.
class Findings {
 public:
  explicit Findings(std::string name) { gate_.name = std::move(name); }

  void bad(const std::string& what) { add(bad_, what); }
  void blind(const std::string& what) {
    ++blind_count_;
    // Thousands of hosts without counters are not named one by one.
    if (blind_count_ <= kNamed)
      add(blind_, what);
  }
  // `change`: how much worse it has become; the worst is told.
  void good(double change, std::string what) {
    ++good_count_;
    if (good_.empty() || change > worst_) {
      worst_ = change;
      good_ = std::move(what);
    }
  }

  Gate finish(const char* nothing) && {
    if (!bad_.empty()) {
      gate_.verdict = Verdict::bad;
      gate_.seen = std::move(bad_);
      return std::move(gate_);
    }
    gate_.seen = good_count_ > 1 ? fmt::format("{} (the worst of {})", good_, good_count_) : good_;
    if (blind_count_ > 0) {
      gate_.verdict = Verdict::unobservable;
      add(gate_.seen,
          "not seen: " + blind_ +
              (blind_count_ > kNamed ? fmt::format(" and {} more", blind_count_ - kNamed) : ""));
    } else if (good_count_ == 0) {
      gate_.verdict = Verdict::unobservable;
      gate_.seen = nothing;
    }
    return std::move(gate_);
  }

 private:
  static constexpr std::size_t kNamed = 4;
  static void add(std::string& list, const std::string& what) {
    list += (list.empty() ? "" : "; ") + what;
  }

  Gate gate_;
  std::string bad_;
  std::string blind_;
  std::string good_;
  double worst_{};
  std::size_t good_count_{};
  std::size_t blind_count_{};
};

constexpr const char* kNoJob = "no job ran before the wave and runs now";

// Whether any of its flows goes on, under whatever name: a job that is cut in two by flows that
// stopped may be known as two.
bool goes_on(const std::string& name, const Measures& now) {
  const auto is = now.jobs.find(name);
  if (is != now.jobs.end() && is->second.sent && !is->second.ceased)
    return true;
  const auto found = now.remains.find(name);
  return found != now.remains.end() && found->second.going > 0;
}

// A job as it is now.
struct Present {
  std::string name;  // for people
  const JobMeasure* is;
};

// What carries on the jobs of before, under whatever names: one that is declared during a soak, or
// cut in two, is called otherwise after it.
class Successors {
 public:
  Successors(const Measures& before, const Measures& now) : now_(now) {
    std::map<FlowKey, const std::string*> owners;
    for (const auto& [name, was] : before.jobs)
      for (const SteadyFlow& flow : was.steady)
        owners.emplace(flow.key, &name);
    for (const auto& [name, is] : now.jobs) {
      std::map<std::string, std::size_t> carried;
      for (const SteadyFlow& flow : is.steady)
        if (const auto owner = owners.find(flow.key); owner != owners.end())
          ++carried[*owner->second];
      // A share is of what the whole job needs: that of a part of it, or of two that have become
      // one, tells nothing of what it was.
      for (const auto& [job, flows] : carried)
        if (job != name && carried.size() == 1 && flows == before.jobs.at(job).steady.size())
          renamed_.insert_or_assign(job, Present{fmt::format("{} as {}", job, name), &is});
        else if (job != name)
          scattered_.insert(job);
    }
  }

  std::optional<Present> of(const std::string& job) const {
    if (const auto found = renamed_.find(job); found != renamed_.end())
      return found->second;
    if (const auto same = now_.jobs.find(job); same != now_.jobs.end())
      return Present{job, &same->second};
    return std::nullopt;
  }
  // Whether some of it goes on where it cannot be judged by itself.
  bool hidden(const std::string& job) const {
    return scattered_.contains(job) || (!of(job) && goes_on(job, now_));
  }

 private:
  const Measures& now_;
  std::map<std::string, Present> renamed_;
  std::set<std::string> scattered_;
};

constexpr const char* kScattered = ", as its flows are of other jobs now";

void judge_efficiency(const GateConfig& config, const JobMeasure& was, const Present& now,
                      Findings& findings) {
  // Like with like: pauses in both, or in neither.
  const std::optional<double> then = was.in_bursts ? was.in_bursts : was.mean;
  const std::optional<double> present = was.in_bursts ? now.is->in_bursts : now.is->mean;
  if (!then || !present || *then <= 0)
    return findings.blind(now.name);
  const double loss = 1.0 - *present / *then;
  std::string what = fmt::format("{}: {:.3f} before, {:.3f} now", now.name, std::min(*then, 1.0),
                                 std::min(*present, 1.0));
  if (loss > config.efficiency_loss)
    findings.bad(fmt::format("{} ({:.0f} % less, {:.0f} % allowed)", what, loss * 100,
                             config.efficiency_loss * 100));
  else
    findings.good(loss, std::move(what));
}

void judge_iterations(const GateConfig& config, const JobMeasure& was, const Present& now,
                      Findings& findings) {
  const JobMeasure& is = *now.is;
  if (!was.iteration || (!is.iteration && !is.running))
    return findings.blind(now.name);
  // One that is overdue counts before it has ended.
  const bool overdue = is.running && (!is.iteration || *is.running > *is.iteration);
  const double then = milliseconds(*was.iteration);
  const double present = milliseconds(overdue ? *is.running : *is.iteration);
  const double slack = milliseconds(std::max(was.slack, is.slack));
  std::string what = fmt::format("{}: {:.0f} ms before, {:.0f} ms now", now.name, then, present);
  const double growth = (present - slack) / then - 1.0;
  if (growth > config.iteration_growth)
    findings.bad(fmt::format("{}{} ({:.0f} % and {:.0f} ms allowed)", what,
                             overdue ? " and not at its end" : "", config.iteration_growth * 100,
                             slack));
  else if (!is.iteration)
    findings.blind(fmt::format("{}, as no iteration has ended yet", now.name));
  else
    findings.good(growth, std::move(what));
}

using JudgeJob = void (*)(const GateConfig&, const JobMeasure&, const Present&, Findings&);

// One whose flows go on nowhere is the other gate's: it has stopped, or ended and made room.
Gate judge_jobs(std::string name, JudgeJob judge, const GateConfig& config, const Measures& before,
                const Successors& successors) {
  Findings findings(std::move(name));
  for (const auto& [job, was] : before.jobs) {
    if (const std::optional<Present> now = successors.of(job))
      judge(config, was, *now, findings);
    if (successors.hidden(job))
      findings.blind(job + kScattered);
  }
  return std::move(findings).finish(kNoJob);
}

Gate judge_errors(std::string name, const GateConfig& config, const Measures& before,
                  const Measures& now, std::optional<double> ErrorRates::*rate,
                  std::uint32_t ErrorRates::*counters) {
  Findings findings(std::move(name));
  for (const auto& [host, was] : before.hosts) {
    const auto is = now.hosts.find(host);
    const std::optional<double> then = was.*rate;
    const std::optional<double> present = is == now.hosts.end() ? std::nullopt : is->second.*rate;
    if (!then || !present) {
      findings.blind(host);
      continue;
    }
    std::string what = fmt::format("{}: {:.1f} /s before, {:.1f} /s now", host, *then, *present);
    if (*present > *then + config.errors_per_s)
      findings.bad(fmt::format("{} ({:.1f} /s more allowed)", what, config.errors_per_s));
    else if (is->second.*counters < was.*counters)
      findings.blind(fmt::format("{}, of which {} of {} counters can be read", host,
                                 is->second.*counters, was.*counters));
    else
      findings.good(*present - *then, std::move(what));
  }
  return std::move(findings).finish("no host of a job reports");
}

// Hosts of jobs that are new or not what they were: a job of before may have ended and made room
// for one of these, or be known by its name now.
std::set<std::string> taken_over(const Measures& before, const Measures& now) {
  std::set<std::string> hosts;
  for (const auto& [name, is] : now.jobs) {
    const auto was = before.jobs.find(name);
    if (is.sent && (was == before.jobs.end() || was->second.hosts != is.hosts))
      hosts.insert(is.hosts.begin(), is.hosts.end());
  }
  return hosts;
}

constexpr const char* kUnheard = ", as who told of it is not heard, or was not for a while";
constexpr const char* kUncounted = ", as nobody can count just now what its queue pairs send";

// A job that goes on, of which some flows may have stopped. One of which only what is new sends is
// another run of it, with as many flows as it likes.
void judge_parts(const std::string& job, const JobMeasure& was, const Measures& now,
                 Duration watched, Duration patience, Findings& findings) {
  constexpr std::size_t kNamed = 3;
  const auto found = now.remains.find(job);
  const bool some = found != now.remains.end() && !found->second.stopped.empty() &&
                    (found->second.going > 0 || found->second.stopped.size() == was.steady.size());
  if (!some && found != now.remains.end() && found->second.uncounted > 0)
    return findings.blind(fmt::format("{} of {} flows of {}{}", found->second.uncounted,
                                      was.steady.size(), job, kUncounted));
  if (!some)
    return findings.good(0, job + " runs");
  std::vector<const SteadyFlow*> silent;
  std::size_t unheard = 0;
  for (const SteadyFlow& flow : found->second.stopped)
    if (now.unheard.contains(flow.seen_by))
      ++unheard;
    else
      silent.push_back(&flow);
  if (silent.empty())
    return findings.blind(
        fmt::format("{} of {} flows of {}{}", unheard, was.steady.size(), job, kUnheard));
  if (watched < patience)
    return findings.blind(fmt::format("{} of {} flows of {}, in the first {:.0f} of {:.0f} s",
                                      silent.size(), was.steady.size(), job,
                                      milliseconds(watched) / 1000, milliseconds(patience) / 1000));
  std::string names;
  for (std::size_t i = 0; i < std::min(silent.size(), kNamed); ++i)
    names += (i == 0 ? "" : ", ") + to_string(silent[i]->key);
  if (silent.size() > kNamed)
    names += fmt::format(" and {} more", silent.size() - kNamed);
  findings.bad(fmt::format("{}: {} of {} flows sent before, and nothing now: {}", job,
                           silent.size(), was.steady.size(), names));
}

}  // namespace

Duration presence_patience(const Measures& before, Duration least) {
  if (before.jobs.empty())
    return Duration::zero();
  Duration longest = least;
  for (const auto& [name, was] : before.jobs) {
    longest = std::max(longest, 2 * was.iteration.value_or(Duration::zero()));
    for (const SteadyFlow& flow : was.steady)
      longest = std::max(longest, 2 * flow.period);
  }
  return longest;
}

Gate judge_presence(const Measures& before, const Measures& now, Duration watched,
                    Duration patience) {
  Findings findings("jobs");
  std::size_t run = 0;
  const std::set<std::string> taken = taken_over(before, now);
  for (const auto& [name, was] : before.jobs) {
    if (goes_on(name, now)) {
      judge_parts(name, was, now, watched, patience, findings);
      ++run;
      continue;
    }
    if (!was.hosts.empty() && std::ranges::includes(taken, was.hosts))
      continue;
    const bool unheard = !was.seen_by.empty() && std::ranges::includes(now.unheard, was.seen_by);
    if (unheard)
      findings.blind(name + kUnheard);
    else if (const auto left = now.remains.find(name);
             left != now.remains.end() && left->second.uncounted > 0)
      findings.blind(name + kUncounted);
    else if (watched < patience)
      findings.blind(fmt::format("{}, in the first {:.0f} of {:.0f} s", name,
                                 milliseconds(watched) / 1000, milliseconds(patience) / 1000));
    else
      findings.bad(fmt::format(
          "{}: sent before, and nothing now; if it has ended, 'heddle rollout resume' tries again",
          name));
  }
  Gate gate = std::move(findings).finish(kNoJob);
  if (gate.verdict == Verdict::good && run > 1)
    gate.seen = fmt::format("all {} run", run);
  return gate;
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "good";
    case Verdict::bad:
      return "bad";
    case Verdict::unobservable:
      break;
  }
  return "unobservable";
}

std::vector<Gate> judge_traffic(const GateConfig& config, const Measures& before,
                                const Measures& now) {
  const Successors successors(before, now);
  return {judge_jobs("efficiency", judge_efficiency, config, before, successors),
          judge_jobs("iteration-time", judge_iterations, config, before, successors),
          judge_errors("retransmissions", config, before, now, &ErrorRates::retransmissions,
                       &ErrorRates::retransmission_counters),
          judge_errors("out-of-sequence", config, before, now, &ErrorRates::out_of_sequence,
                       &ErrorRates::sequence_counters)};
}

}  // namespace heddle
