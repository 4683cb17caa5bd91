// The parts of the demonstration behind demo.h: one object that holds everything that is up, one
// function a step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/lab/cluster.h"
#include "tests/lab/console.h"
#include "tests/lab/demo.h"
#include "tests/lab/pin_watch.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"

namespace heddle::lab {

constexpr Duration kLease = std::chrono::seconds(5);

// Two rings over all hosts; every edge of either goes from one leaf to another.
std::vector<ClusterJob> place_jobs(const FabricSpec& spec, unsigned seed);

class Stage {
 public:
  explicit Stage(const DemoOptions& options);
  Result<DemoResult> play();

 private:
  using PortBytes = std::map<std::string, std::uint64_t>;
  struct Measured {
    std::vector<double> milliseconds;  // of communication in an iteration, by job
    std::vector<std::string> uplinks;  // load of each, a line a leaf
    double idle{};
  };
  // A pin that leads over one cable of a spine: a route, or the mark of a flow.
  struct PinPlace {
    std::string node;
    std::uint32_t table{};
    Prefix destination;
    std::optional<ByQueuePair> flow;
  };
  struct Converged {
    ClusterStatus status;
    Time last_change;  // of any pin, since the event
  };

  Result<void> raise();
  Result<void> start_heddle();
  Result<void> start_traffic();
  Result<void> measure_reference();
  Result<void> measure_ecmp();
  Result<void> steer();
  Result<void> fail_near();
  Result<void> fail_far();
  Result<void> come_back();
  Result<void> lose_coordinator();
  void finish();
  Result<void> hand_over();
  void save_logs() const;

  Result<Measured> measure(int iterations);
  double efficiency(std::size_t job, const Measured& measured) const;
  // Measures, and notes for each job what it reached and what the plan of now promises.
  Result<Measured> hold_to_promise(int iterations, double DemoJob::*reached,
                                   double DemoJob::*promised, const std::string& what);
  void show(const std::string& what, const Measured& measured);
  std::vector<PortBytes> uplink_bytes();
  // Waits until every agent holds a plan newer than `generation` that knows of so many links down,
  // and nothing newer comes.
  Result<Converged> await_plan(std::uint64_t generation, int links_down, Time event,
                               const std::string& what);
  // Until no better plan follows.
  Result<void> await_rest();
  int pins_left();
  Result<void> count_moves(std::uint64_t from, const ClusterStatus& now);
  // The pins that their own nodes have to remove when the cable dies: of other leaves that lead
  // through the spine to the leaf; or of the leaf's own hosts, whose way to the spine it is.
  Result<std::vector<PinPlace>> pins_through(int spine, int leaf);
  bool by_segments() const { return options_.enforcer == LeafMode::segments; }
  // The nodes whose tables hold pins: leaves, or hosts.
  std::vector<std::string> holders() const;
  std::string_view holder() const { return by_segments() ? "host" : "leaf"; }
  // The pins of a host that lead over a spine's segment.
  Result<std::vector<PinPlace>> pins_of_host(const std::string& host, int spine);
  // Those of other leaves' hosts that lead over it to a leaf.
  Result<int> pins_led_on(int spine, int leaf);
  double outage_since(Time event, Duration failure_lasts);
  // What the plan of now promises each job, in the jobs' order; 0 where it could not judge.
  Result<std::vector<double>> promises();
  // Probes lost in here are lost by moves.
  void expect_no_loss(Time from, Time to) { quiet_.emplace_back(from, to); }

  const DemoOptions options_;
  const int queue_pairs_;
  Console console_;
  std::mt19937 random_;
  std::vector<ClusterJob> jobs_;
  DemoResult result_;
  std::optional<Fabric> fabric_;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<PinWatch> watch_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Traffic> traffic_;
  std::uint64_t generation_{};
  int dead_spine_{};
  std::pair<int, int> dead_cable_{};  // leaf, spine
  Time quiet_since_;
  std::vector<std::pair<Time, Time>> quiet_;
};

}  // namespace heddle::lab
