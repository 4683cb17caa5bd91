// What is measured of jobs and hosts, for the gates of a roll-out to compare: from what agents
// report, never from what a plan promises.
//
// Thread: the event loop's. ErrorWatch lives as long as the coordinator; the rest is pure.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/messages.h"
#include "coordinator/predict/prediction.h"

namespace heddle {

// A subflow that never paused, or comes back with a known period: when it does not, it has stopped.
struct SteadyFlow {
  FlowKey key;
  Duration period{};      // zero: it never paused
  std::string seen_by{};  // who tells of it
  bool operator==(const SteadyFlow&) const = default;
};

// Of a job, over the intervals since some moment. Nothing: cannot be told (safety rule 7).
struct JobMeasure {
  // What its slowest flow got, as a share of what its NICs would give it on an infinitely fast
  // core: while it sent, and over everything, pauses included, where that covers many iterations.
  std::optional<double> in_bursts{};
  std::optional<double> mean{};
  // The last whole iteration, from one beginning of its bursts to the next, and how long the one
  // under way has lasted.
  std::optional<Duration> iteration{};
  std::optional<Duration> running{};
  // The median of the last few whole ones: what the time before a wave is judged by, as a single
  // one may have been cut short or held up by chance.
  std::optional<Duration> usual_iteration{};
  Duration slack{};                  // by which the two may be wrong: the reports' interval
  bool sent{};                       // whether anything of it was seen since then
  bool ceased{};                     // it was, and too long ago not to have stopped
  std::vector<std::string> hosts{};  // of its flows, sorted
  std::set<std::string> seen_by{};   // the nodes whose reports tell what it sends
  std::vector<SteadyFlow> steady{};  // by key
  bool operator==(const JobMeasure&) const = default;
};

// What became of a job's steady flows.
struct Remains {
  std::size_t going{};                // that still send
  std::vector<SteadyFlow> stopped{};  // that nothing is seen of, and nothing new in their place
  std::size_t uncounted{};  // that nothing is seen of, as nobody can count what they send just now
  bool operator==(const Remains&) const = default;
};

// A second, on one host.
struct ErrorRates {
  std::optional<double> retransmissions{};  // acknowledgements that did not come, and refusals
  std::optional<double> out_of_sequence{};
  // How many counters each is the sum of. Fewer than before make it a lower bound: one that cannot
  // be read any more may count as much as it likes.
  std::uint32_t retransmission_counters{};
  std::uint32_t sequence_counters{};
  bool operator==(const ErrorRates&) const = default;
};

struct Measures {
  std::map<std::string, JobMeasure> jobs{};
  std::map<std::string, ErrorRates> hosts{};  // those of the jobs
  // Who told of a job before, and is not heard now, or not for long enough again: what they do not
  // tell has not stopped.
  std::set<std::string> unheard{};
  std::map<std::string, Remains> remains{};  // of the jobs of before
  bool operator==(const Measures&) const = default;
};

// From when to when it is looked.
struct Watch {
  Time since;
  Time now;
  // Of what nothing was seen for so long, or for two of its own periods, that has stopped. Nothing
  // since the beginning says the same, and is for the gates to wait out.
  Duration patience{};
};

// `needed`: by flow of the prediction, the rate that lets its job reach efficiency 1, in bits per
// second.
std::map<std::string, JobMeasure> measure_jobs(const FlowTable& table, const Prediction& prediction,
                                               std::span<const double> needed, const Watch& watch);

// Measures::remains. `before`: the jobs as they were before the wave.
std::map<std::string, Remains> remains_of(const FlowTable& table, const Prediction& prediction,
                                          const std::map<std::string, JobMeasure>& before,
                                          const Watch& watch);

// Measures::unheard, as far as what nodes tell of flows goes.
std::set<std::string> unheard_of(const FlowTable& table,
                                 const std::map<std::string, JobMeasure>& before,
                                 const Watch& watch);

// The RDMA error counters of late, by node.
class ErrorWatch {
 public:
  // `now` is when the report arrived.
  void add(const std::string& node, const Report& report, Time now);
  // Over the reports that cover nothing before `since`. Nothing where none of them is of late: who
  // has fallen silent may have errors.
  ErrorRates rates(const std::string& node, Time since, Time now) const;

 private:
  struct Sum {
    std::uint64_t value{};
    std::uint32_t counters{};  // none: it is not known
  };
  struct Sample {
    Time begin;
    Duration length{};
    Sum retransmissions;
    Sum out_of_sequence;
  };
  std::map<std::string, std::deque<Sample>> samples_;
};

}  // namespace heddle
