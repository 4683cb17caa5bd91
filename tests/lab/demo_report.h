// What a demonstration found: the numbers, whether they are good enough, and their two forms, a
// table for people and JSON for programs. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::lab {

struct DemoJob {
  std::string name;
  // Communication time of an iteration, milliseconds.
  double unshaped_ms{};
  double ecmp_median_ms{};
  double heddle_ms{};
  // Efficiency: the unshaped time divided by the measured one.
  double ecmp_median{};
  std::vector<double> ecmp_draws;
  double heddle{};
  double promised{};  // by the plan; 0 if it could not judge
  double after_failure{};
  double after_failure_promised{};  // by the plan without the dead spine
  double returned{};                // after all cables came back
  double returned_promised{};
};

// What one host tells of its own traffic, failures included.
struct DemoHost {
  std::string name;
  std::uint64_t transmitted{};
  std::uint64_t retransmitted{};
  std::uint64_t lost{};
  std::uint64_t reordered{};
  std::uint64_t icrc_checked{};
  std::uint64_t icrc_wrong{};
};

struct DemoResult {
  std::vector<DemoJob> jobs;
  std::vector<DemoHost> hosts;
  int moves{};
  std::uint64_t packets_lost{};  // by moves; a failure's own losses are not theirs
  std::uint64_t packets_reordered{};
  std::uint64_t probes_sent{};
  double near_traffic_back_ms{};
  double near_replanned_ms{};
  double far_traffic_back_ms{};
  double far_pin_removed_ms{};
  double far_replanned_ms{};
  // Where pins stay that lead into the dead cable: for so long nobody could plan for them; else 0.
  double far_held_ms{};
  double lease_ms{};              // from the coordinator's end to the last pin's
  double lease_limit_ms{};        // the lease that was configured
  bool full_rate_possible{true};  // no leaf has more flows than spines: a plan can promise 1
  int queue_pairs{1};             // of each flow
  double after_failure_bound{};   // of the worst job's efficiency, with a spine less
  double wire_share{1};           // of what links carry that is not wrapping
  int pins_left{};                // read back from the leaves after the lease
  double idle_percent{};          // of the machine, in the busiest measured phase
  double seconds{};
  std::vector<std::string> complaints;  // of the laboratory itself
};

constexpr double kLeastIdlePercent = 10;

// Whether the machine had time enough for the numbers to mean something.
bool is_valid(const DemoResult& result);
// What was not as good as it has to be; empty: all was.
std::vector<std::string> shortcomings(const DemoResult& result);
std::string to_json(const DemoResult& result);
std::string to_table(const DemoResult& result, bool colour);

// What is left of a link's rate where octets are put around each packet of so many.
double share_of_wire(int packet, int around);

// The most that every flow can have where `flows` of them leave each leaf, as many enter it, and
// each is split evenly over so many queue pairs, which take one of `spines` each: min(1,
// q/ceil(qD/m)).
double splitting_bound(int queue_pairs, int flows, int spines);

double median(std::vector<double> values);

}  // namespace heddle::lab
