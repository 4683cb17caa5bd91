#include "coordinator/simulate/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "common/core/check.h"
#include "coordinator/simulate/flow_rates.h"

namespace heddle::sim {
namespace {

enum class TimerKind : std::uint8_t { link, compute_over, reroute };

struct Timer {
  std::int64_t at{};
  TimerKind kind{};
  std::uint32_t subject{};  // a link event's or a job's index
  auto operator<=>(const Timer&) const = default;
};

struct GroupState {
  std::uint32_t round{};
  std::uint32_t repeats_done{};
  std::uint32_t unfinished{};  // transfers of the present round
};

struct JobState {
  std::uint32_t iteration{};
  std::uint32_t step{};
  std::uint32_t open_groups{};
  std::int64_t began{};     // the communication of this step
  Duration communicated{};  // in this iteration
  bool communicating{};
  std::vector<GroupState> groups;
};

struct TransferState {
  bool active{};
  std::uint32_t job{};
  std::uint32_t group{};
  double bits{};
  std::int64_t began{};
};

class Run {
 public:
  Run(const Scenario& scenario, const Optimiser& scheme, const TimelineOptions& options)
      : scenario_(scenario),
        options_(options),
        links_(*scenario.topology),
        router_(scenario, scheme),
        rates_(*scenario.topology, router_.index()),
        jobs_(scenario.workload.jobs.size()),
        transfers_(router_.index().flows()) {
    for (const CableId cable : scenario.failed)
      links_.set(*scenario.topology, cable, false);
    rates_.set_links(links_, scenario.background);
    result_.communication.resize(jobs_.size());
    for (std::uint32_t i = 0; i < options.events.size(); ++i)
      timers_.push({options.events[i].at.count(), TimerKind::link, i});
    for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
      const SimJob& job = scenario.workload.jobs[j];
      if (!job.iteration.empty())
        begin_step(j, options.keep_starts ? job.start.count() : 0);
    }
    if (options.period.count() > 0)
      timers_.push({0, TimerKind::reroute, 0});
  }

  Result<Timeline> play() {
    while (advance()) {
      ++result_.events;
      settle();
      if (result_.epochs.size() > options_.most_epochs)
        return too_much(options_.most_epochs, "placements");
      if (result_.completion_ms.size() > options_.most_transfers)
        return too_much(options_.most_transfers, "transfers");
      if (result_.events > options_.most_instants)
        return too_much(options_.most_instants, "events");
    }
    for (std::uint32_t flow = 0; flow < transfers_.size(); ++flow)
      if (transfers_[flow].active && rates_.rate(flow) <= 0.0)
        ++result_.stalled;
    return std::move(result_);
  }

 private:
  tl::unexpected<Error> too_much(std::uint64_t most, std::string_view what) const {
    const auto busiest =
        std::ranges::max_element(result_.communication, {}, &std::vector<Duration>::size);
    const auto job = static_cast<std::size_t>(busiest - result_.communication.begin());
    return fail(Errc::unsupported,
                fmt::format("more than {} {} within {} s of simulated time, with {} iterations of "
                            "{}: make its flows larger, or simulate less time or fewer iterations",
                            most, what, static_cast<double>(now_) / 1e9, busiest->size(),
                            scenario_.workload.jobs[job].name));
  }

  // Goes to the next instant at which something happens and lets it happen. False if nothing will.
  bool advance() {
    std::int64_t next = rates_.next_end();
    if (!timers_.empty())
      next = std::min(next, timers_.top().at);
    const bool only_periodic = next != FlowRates::kNever && running_ == 0;
    if (next == FlowRates::kNever || only_periodic)
      return false;
    if (next > options_.end.count())
      return false;
    now_ = next;
    for (const std::uint32_t flow : rates_.take_ended(now_))
      end_transfer(flow);
    while (!timers_.empty() && timers_.top().at == now_) {
      const Timer timer = timers_.top();
      timers_.pop();
      fire(timer);
    }
    return true;
  }

  void fire(const Timer& timer) {
    switch (timer.kind) {
      case TimerKind::link: {
        const LinkEvent& event = options_.events[timer.subject];
        links_.set(*scenario_.topology, event.cable, event.up);
        links_changed_ = true;
        ++link_changes_;
        break;
      }
      case TimerKind::compute_over:
        begin_communication(timer.subject);
        break;
      case TimerKind::reroute:
        period_over_ = true;
        // Without progress in a whole period and nobody computing, no later run would change
        // anything.
        if (rates_.next_end() != FlowRates::kNever || !timers_.empty())
          timers_.push({now_ + options_.period.count(), TimerKind::reroute, 0});
        break;
    }
  }

  void begin_step(std::uint32_t j, std::int64_t at) {
    if (jobs_[j].step == 0 && jobs_[j].iteration == 0)
      ++running_;
    timers_.push({at + step_of(j).compute.count(), TimerKind::compute_over, j});
  }

  const Step& step_of(std::uint32_t j) const {
    return scenario_.workload.jobs[j].iteration[jobs_[j].step];
  }

  void begin_communication(std::uint32_t j) {
    JobState& job = jobs_[j];
    const Step& step = step_of(j);
    job.began = now_;
    job.communicating = true;
    jobs_changed_ = true;
    job.open_groups = static_cast<std::uint32_t>(step.groups.size());
    job.groups.assign(step.groups.size(), {});
    for (std::uint32_t g = 0; g < step.groups.size(); ++g)
      begin_round(j, g);
    if (step.groups.empty())
      end_communication(j);
  }

  void begin_round(std::uint32_t j, std::uint32_t g) {
    const Round& round = step_of(j).groups[g].rounds[jobs_[j].groups[g].round];
    jobs_[j].groups[g].unfinished = static_cast<std::uint32_t>(round.transfers.size());
    for (const Transfer& transfer : round.transfers) {
      const std::uint32_t flow = router_.index().flow(j, transfer.flow);
      HEDDLE_CHECK(!transfers_[flow].active);
      transfers_[flow] = {
          .active = true, .job = j, .group = g, .bits = transfer.bytes * 8.0, .began = now_};
      rates_.begin(flow, transfers_[flow].bits, now_);
    }
  }

  void end_transfer(std::uint32_t flow) {
    TransferState& transfer = transfers_[flow];
    transfer.active = false;
    const auto nanoseconds = static_cast<double>(now_ - transfer.began);
    result_.completion_ms.push_back(nanoseconds / 1e6);
    if (nanoseconds > 0)
      result_.throughput_gbps.push_back(transfer.bits / nanoseconds);
    if (--jobs_[transfer.job].groups[transfer.group].unfinished == 0)
      end_round(transfer.job, transfer.group);
  }

  void end_round(std::uint32_t j, std::uint32_t g) {
    GroupState& state = jobs_[j].groups[g];
    const Group& group = step_of(j).groups[g];
    if (++state.repeats_done == group.rounds[state.round].repeat) {
      state.repeats_done = 0;
      ++state.round;
    }
    if (state.round < group.rounds.size())
      begin_round(j, g);
    else if (--jobs_[j].open_groups == 0)
      end_communication(j);
  }

  void end_communication(std::uint32_t j) {
    JobState& job = jobs_[j];
    job.communicating = false;
    jobs_changed_ = true;
    job.communicated += Duration(now_ - job.began);
    if (++job.step < scenario_.workload.jobs[j].iteration.size()) {
      begin_step(j, now_);
      return;
    }
    result_.communication[j].push_back(job.communicated);
    job.communicated = {};
    job.step = 0;
    if (++job.iteration < options_.iterations || options_.iterations == 0)
      begin_step(j, now_);
    else
      --running_;
  }

  // After everything of one instant has happened: new routes if something calls for them, then new
  // rates if the flows that send, their paths or the links are not those of before.
  void settle() {
    const bool periodic = options_.period.count() > 0;
    std::vector<std::uint32_t> active;
    if (jobs_changed_ || links_changed_ || period_over_)
      for (std::uint32_t j = 0; j < jobs_.size(); ++j)
        if (jobs_[j].communicating)
          active.push_back(j);
    if (links_changed_)
      rates_.set_links(links_, scenario_.background);
    // A link's change is acted on at once by every scheme: routing protocols do that, too.
    const bool due = periodic ? period_over_ || links_changed_ : jobs_changed_ || links_changed_;
    if (due && !active.empty()) {
      result_.epochs.push_back(router_.route(active, links_, Duration(now_)));
      result_.epochs.back().link_changes = link_changes_;
      rates_.set_paths(router_.paths());
    } else if (periodic && jobs_changed_ && !active.empty()) {
      router_.hash_missing(active, links_);
      rates_.set_paths(router_.paths());
    }
    jobs_changed_ = links_changed_ = period_over_ = false;
    rates_.update(now_);
  }

  const Scenario& scenario_;
  const TimelineOptions& options_;
  LinkState links_;
  Router router_;
  FlowRates rates_;
  std::vector<JobState> jobs_;
  std::vector<TransferState> transfers_;  // by flow of the whole workload
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::int64_t now_{};
  std::uint32_t running_{};  // jobs with iterations left
  bool jobs_changed_{};
  bool links_changed_{};
  std::uint32_t link_changes_{};  // so far
  bool period_over_{};
  Timeline result_;
};

}  // namespace

Result<Timeline> simulate(const Scenario& scenario, const Optimiser& scheme,
                          const TimelineOptions& options) {
  return Run(scenario, scheme, options).play();
}

}  // namespace heddle::sim
