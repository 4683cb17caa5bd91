#include "tests/lab/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/core/check.h"

namespace heddle::lab {
namespace {

constexpr double kShareOfPromise = 0.95;
constexpr double kLeastEfficiency = 0.95;
constexpr double kNearBackMs = 50;
constexpr double kReplannedMs = 500;
constexpr double kPinRemovedMs = 100;
// The last word that renewed the lease can be a heartbeat old when the coordinator ends, never
// newer.
constexpr double kLeaseSlackMs = 1500;
constexpr double kSecondsInAll = 120;

std::string paint(bool colour, const char* code, const std::string& text) {
  return colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

}  // namespace

double median(std::vector<double> values) {
  HEDDLE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double splitting_bound(int queue_pairs, int flows, int spines) {
  const int most = (queue_pairs * flows + spines - 1) / spines;  // queue pairs on one uplink
  return std::min(1.0, static_cast<double>(queue_pairs) / most);
}

double share_of_wire(int packet, int around) {
  return static_cast<double>(packet) / (packet + around);
}

bool is_valid(const DemoResult& result) {
  return result.idle_percent >= kLeastIdlePercent;
}

std::vector<std::string> shortcomings(const DemoResult& result) {
  std::vector<std::string> found = result.complaints;
  const auto at_most = [&](double value, double limit, const char* what) {
    if (value > limit)
      found.push_back(fmt::format("{}: {:.1f} ms, at most {:.0f} ms allowed", what, value, limit));
  };
  // Plans and bounds reckon with links as they are; wrapping takes its part of what they carry.
  const double share = kShareOfPromise * result.wire_share;
  const double least = kLeastEfficiency * result.wire_share;
  for (const DemoJob& job : result.jobs) {
    const auto kept = [&](const char* when, double promised, double measured) {
      if (promised <= 0)
        found.push_back(fmt::format("{}, {}: the plan promised nothing", job.name, when));
      if (measured < share * promised)
        found.push_back(fmt::format("{}, {}: {:.3f} measured where the plan promised {:.3f}",
                                    job.name, when, measured, promised));
    };
    kept("first plan", job.promised, job.heddle);
    kept("whole again", job.returned_promised, job.returned);
    kept("a spine less", job.after_failure_promised, job.after_failure);
    if (job.after_failure < share * result.after_failure_bound)
      found.push_back(fmt::format("{}, a spine less: {:.3f} measured where the bound is {:.3f}",
                                  job.name, job.after_failure, result.after_failure_bound));
    // A fabric that cannot carry every flow at full rate is held to what its plan promised alone.
    if (result.full_rate_possible && job.promised < 0.999)
      found.push_back(
          fmt::format("{}: the plan promised {:.3f} where 1 is possible", job.name, job.promised));
    if (result.full_rate_possible && job.heddle < least)
      found.push_back(fmt::format("{}: efficiency {:.3f}, at least {:.2f} wanted", job.name,
                                  job.heddle, least));
    if (result.full_rate_possible && job.heddle <= job.ecmp_median)
      found.push_back(fmt::format("{}: efficiency {:.3f}, no better than ECMP's {:.3f}", job.name,
                                  job.heddle, job.ecmp_median));
  }
  if (result.moves == 0)
    found.push_back("no flow was moved");
  if (result.probes_sent == 0)
    found.push_back("no probe was sent, so nothing is known of losses");
  if (result.packets_lost > 0)
    found.push_back(fmt::format("moves lost {} packets", result.packets_lost));
  at_most(result.near_traffic_back_ms, kNearBackMs, "near failure, traffic back");
  at_most(result.near_replanned_ms, kReplannedMs, "near failure, new plan installed");
  at_most(result.far_pin_removed_ms, kPinRemovedMs, "far failure, pins removed");
  at_most(result.far_replanned_ms, kReplannedMs, "far failure, new plan installed");
  if (result.far_held_ms > 0 && result.far_traffic_back_ms > result.far_held_ms)
    found.push_back(fmt::format("far failure: traffic back after {:.1f} ms, only by a new plan",
                                result.far_traffic_back_ms));
  at_most(result.lease_ms, result.lease_limit_ms + kLeaseSlackMs, "pins gone after the lease");
  // Pins that fall with the connection instead of the lease would make every restart a disturbance.
  if (result.lease_ms < result.lease_limit_ms - kLeaseSlackMs)
    found.push_back(fmt::format("pins gone {:.1f} ms after the coordinator's end, before the lease",
                                result.lease_ms));
  if (result.near_replanned_ms <= 0 || result.far_replanned_ms <= 0)
    found.push_back("no pin changed after a failure");
  if (result.seconds > kSecondsInAll)
    found.push_back(
        fmt::format("{:.0f} s in all, at most {:.0f} s allowed", result.seconds, kSecondsInAll));
  if (result.pins_left > 0)
    found.push_back(fmt::format("{} pins are left after the lease", result.pins_left));
  return found;
}

std::string to_json(const DemoResult& result) {
  using Json = nlohmann::ordered_json;
  Json jobs = Json::array();
  for (const DemoJob& job : result.jobs)
    jobs.push_back({{"name", job.name},
                    {"efficiency",
                     {{"ecmp_median", job.ecmp_median},
                      {"ecmp_draws", job.ecmp_draws},
                      {"heddle", job.heddle},
                      {"promised", job.promised},
                      {"after_failure", job.after_failure},
                      {"after_failure_promised", job.after_failure_promised},
                      {"returned", job.returned},
                      {"returned_promised", job.returned_promised}}},
                    {"iteration_ms",
                     {{"unshaped", job.unshaped_ms},
                      {"ecmp_median", job.ecmp_median_ms},
                      {"heddle", job.heddle_ms}}}});
  Json hosts = Json::array();
  for (const DemoHost& host : result.hosts)
    hosts.push_back({{"name", host.name},
                     {"transmitted", host.transmitted},
                     {"retransmitted", host.retransmitted},
                     {"lost", host.lost},
                     {"reordered", host.reordered},
                     {"icrc_checked", host.icrc_checked},
                     {"icrc_wrong", host.icrc_wrong}});
  const Json json{{"jobs", std::move(jobs)},
                  {"queue_pairs", result.queue_pairs},
                  {"after_failure_bound", result.after_failure_bound},
                  {"wire_share", result.wire_share},
                  {"moves",
                   {{"count", result.moves},
                    {"packets_lost", result.packets_lost},
                    {"packets_reordered", result.packets_reordered},
                    {"probes_sent", result.probes_sent}}},
                  {"failure",
                   {{"near",
                     {{"traffic_back_ms", result.near_traffic_back_ms},
                      {"replanned_ms", result.near_replanned_ms}}},
                    {"far",
                     {{"pin_removed_ms", result.far_pin_removed_ms},
                      {"replanned_ms", result.far_replanned_ms},
                      {"held_ms", result.far_held_ms},
                      {"traffic_back_ms", result.far_traffic_back_ms}}}}},
                  {"lease_ms", result.lease_ms},
                  {"idle_percent", result.idle_percent},
                  {"valid", is_valid(result)},
                  {"passed", is_valid(result) && shortcomings(result).empty()},
                  {"shortcomings", shortcomings(result)},
                  {"hosts", std::move(hosts)},
                  {"seconds", result.seconds}};
  return json.dump(2) + "\n";
}

std::string to_table(const DemoResult& result, bool colour) {
  std::string text = fmt::format("  {:<10}{:>10}{:>10}{:>10}{:>11}{:>10}{:>8}{:>12}{:>12}{:>12}\n",
                                 "job", "ECMP", "heddle", "promised", "a spine", "promised",
                                 "bound", "unshaped", "ECMP", "heddle");
  text += fmt::format("  {:<10}{:>10}{:>10}{:>10}{:>11}{:>10}{:>8}{:>12}{:>12}{:>12}\n", "",
                      "median", "", "", "less", "", "", "ms", "ms", "ms");
  for (const DemoJob& job : result.jobs) {
    text += fmt::format("  {:<10}", job.name);
    text += paint(colour, "31", fmt::format("{:>10.3f}", job.ecmp_median));
    text += paint(colour, "32;1", fmt::format("{:>10.3f}", job.heddle));
    text +=
        fmt::format("{:>10.3f}{:>11.3f}{:>10.3f}{:>8.3f}{:>12.1f}{:>12.1f}{:>12.1f}\n",
                    job.promised, job.after_failure, job.after_failure_promised,
                    result.after_failure_bound, job.unshaped_ms, job.ecmp_median_ms, job.heddle_ms);
  }
  if (result.wire_share < 1)
    text += fmt::format(
        "  wrapping       leaves {:.3f} of what links carry: what is promised is judged by so "
        "much less\n",
        result.wire_share);
  text +=
      fmt::format("  moves          {} flows; probes lost {} of {}, reordered {}\n", result.moves,
                  result.packets_lost, result.probes_sent, result.packets_reordered);
  text +=
      fmt::format("  near failure   traffic back in {:.0f} ms, new plan installed in {:.0f} ms\n",
                  result.near_traffic_back_ms, result.near_replanned_ms);
  text += fmt::format(
      "  far failure    pins removed {:.1f} ms after `main` withdrew, new plan installed in {:.0f} "
      "ms\n",
      result.far_pin_removed_ms, result.far_replanned_ms);
  text += fmt::format("  lease          all pins gone {:.1f} s after the coordinator's end\n",
                      result.lease_ms / 1000);
  text += fmt::format("  machine        {:.0f} % idle in the busiest phase; {:.0f} s in all\n",
                      result.idle_percent, result.seconds);
  return text;
}

}  // namespace heddle::lab
