#include "tests/lab/demo_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/lab/demo_stages.h"

namespace heddle::lab {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// As good as it has to be, by a little.
DemoResult good() {
  DemoResult result;
  for (const char* name : {"ring-a", "ring-b"})
    result.jobs.push_back({.name = name,
                           .unshaped_ms = 290,
                           .ecmp_median_ms = 580,
                           .heddle_ms = 300,
                           .ecmp_median = 0.5,
                           .ecmp_draws = {0.5, 0.4, 0.6},
                           .heddle = 0.96,
                           .promised = 1,
                           .after_failure = 0.48,
                           .after_failure_promised = 0.5,
                           .returned = 0.96,
                           .returned_promised = 1});
  result.after_failure_bound = 0.5;
  result.moves = 12;
  result.probes_sent = 1000;
  result.near_traffic_back_ms = 49;
  result.near_replanned_ms = 499;
  result.far_pin_removed_ms = 99;
  result.far_replanned_ms = 499;
  result.lease_ms = 5900;
  result.lease_limit_ms = 5000;
  result.idle_percent = 11;
  return result;
}

TEST(DemoReport, FindsNoFaultWithWhatKeepsEveryLimit) {
  EXPECT_THAT(shortcomings(good()), IsEmpty());
  EXPECT_TRUE(is_valid(good()));
}

TEST(DemoReport, NamesEachLimitThatIsNotKept) {
  const auto broken = [](auto&& change) {
    DemoResult result = good();
    change(result);
    return shortcomings(result);
  };
  EXPECT_THAT(broken([](DemoResult& r) { r.jobs[1].heddle = 0.94; }),
              Contains(HasSubstr("ring-b: efficiency 0.940")));
  EXPECT_THAT(broken([](DemoResult& r) { r.jobs[0].promised = 0; }),
              Contains(HasSubstr("promised nothing")));
  EXPECT_THAT(broken([](DemoResult& r) {
                r.jobs[0].promised = 0.5;
                r.jobs[0].heddle = 0.49;
              }),
              Contains(HasSubstr("promised 0.500 where 1 is possible")));
  EXPECT_THAT(broken([](DemoResult& r) { r.jobs[1].returned = 0.94; }),
              Contains(HasSubstr("whole again: 0.940")));
  EXPECT_THAT(broken([](DemoResult& r) { r.jobs[1].after_failure = 0.47; }),
              Contains(HasSubstr("a spine less: 0.470 measured where the plan promised 0.500")));
  // A plan that promises less than can be had does not pass by keeping that.
  EXPECT_THAT(broken([](DemoResult& r) { r.after_failure_bound = 0.75; }),
              Contains(HasSubstr("a spine less: 0.480 measured where the bound is 0.750")));
  EXPECT_THAT(broken([](DemoResult& r) { r.moves = 0; }), Contains("no flow was moved"));
  EXPECT_THAT(broken([](DemoResult& r) { r.probes_sent = 0; }),
              Contains(HasSubstr("no probe was sent")));
  EXPECT_THAT(broken([](DemoResult& r) { r.near_replanned_ms = 0; }),
              Contains(HasSubstr("no pin changed")));
  EXPECT_THAT(broken([](DemoResult& r) { r.lease_ms = 100; }),
              Contains(HasSubstr("before the lease")));
  EXPECT_THAT(broken([](DemoResult& r) { r.seconds = 121; }), Contains(HasSubstr("121 s in all")));
  EXPECT_THAT(broken([](DemoResult& r) { r.packets_lost = 1; }),
              Contains(HasSubstr("lost 1 packets")));
  EXPECT_THAT(broken([](DemoResult& r) { r.near_traffic_back_ms = 51; }),
              Contains(HasSubstr("near failure, traffic back")));
  EXPECT_THAT(broken([](DemoResult& r) { r.near_replanned_ms = 501; }),
              Contains(HasSubstr("near failure, new plan")));
  EXPECT_THAT(broken([](DemoResult& r) { r.far_pin_removed_ms = 101; }),
              Contains(HasSubstr("pins removed")));
  EXPECT_THAT(broken([](DemoResult& r) { r.far_replanned_ms = 501; }),
              Contains(HasSubstr("far failure, new plan")));
  EXPECT_THAT(broken([](DemoResult& r) {
                r.far_held_ms = 150;
                r.far_traffic_back_ms = 151;
              }),
              Contains(HasSubstr("only by a new plan")));
  EXPECT_THAT(broken([](DemoResult& r) {
                r.far_held_ms = 150;
                r.far_traffic_back_ms = 60;
              }),
              IsEmpty());
  EXPECT_THAT(broken([](DemoResult& r) { r.jobs[0].ecmp_median = 0.97; }),
              Contains(HasSubstr("ring-a: efficiency 0.960, no better than ECMP's 0.970")));
  EXPECT_THAT(broken([](DemoResult& r) { r.lease_ms = 6501; }), Contains(HasSubstr("lease")));
  EXPECT_THAT(broken([](DemoResult& r) { r.pins_left = 2; }), Contains(HasSubstr("2 pins")));
  EXPECT_THAT(broken([](DemoResult& r) { r.complaints = {"routing: no"}; }),
              Contains("routing: no"));
}

// With more hosts than spines a perfect plan promises 0.5, and 0.49 keeps that.
TEST(DemoReport, HoldsAPlanToWhatItPromisedWhereFullRateIsImpossible) {
  DemoResult result = good();
  result.full_rate_possible = false;
  result.jobs[0].promised = 0.5;
  result.jobs[0].heddle = 0.49;
  EXPECT_THAT(shortcomings(result), IsEmpty());
  result.jobs[0].heddle = 0.47;
  EXPECT_THAT(shortcomings(result), Contains(HasSubstr("the plan promised 0.500")));
}

// 0.95 of 0.98 of what is promised or possible, all along.
TEST(DemoReport, AllowsForWhatWrappingTakes) {
  DemoResult result = good();
  for (DemoJob& job : result.jobs) {
    job.heddle = job.returned = 0.932;
    job.after_failure = 0.466;
  }
  EXPECT_FALSE(shortcomings(result).empty());
  result.wire_share = share_of_wire(4116, 84);
  EXPECT_DOUBLE_EQ(result.wire_share, 0.98);
  EXPECT_THAT(shortcomings(result), IsEmpty());
  EXPECT_THAT(to_table(result, false), HasSubstr("leaves 0.980 of what links carry"));
  result.jobs[0].after_failure = 0.465;
  EXPECT_THAT(shortcomings(result), Contains(HasSubstr("a spine less: 0.465")));
}

TEST(DemoReport, IsInvalidOnABusyMachine) {
  DemoResult result = good();
  result.idle_percent = 9.9;
  EXPECT_FALSE(is_valid(result));
}

TEST(DemoReport, WritesEveryKeyThatOthersRead) {
  const auto json = nlohmann::json::parse(to_json(good()));
  const auto& job = json.at("jobs").at(0);
  EXPECT_EQ(job.at("name"), "ring-a");
  for (const char* key : {"ecmp_median", "ecmp_draws", "heddle", "promised", "after_failure"})
    EXPECT_TRUE(job.at("efficiency").contains(key)) << key;
  for (const char* key : {"unshaped", "ecmp_median", "heddle"})
    EXPECT_TRUE(job.at("iteration_ms").contains(key)) << key;
  for (const char* key : {"count", "packets_lost", "packets_reordered"})
    EXPECT_TRUE(json.at("moves").contains(key)) << key;
  EXPECT_EQ(json.at("failure").at("near").at("traffic_back_ms"), 49);
  EXPECT_EQ(json.at("failure").at("near").at("replanned_ms"), 499);
  EXPECT_EQ(json.at("failure").at("far").at("pin_removed_ms"), 99);
  EXPECT_EQ(json.at("failure").at("far").at("replanned_ms"), 499);
  for (const char* key : {"lease_ms", "idle_percent", "valid"})
    EXPECT_TRUE(json.contains(key)) << key;
}

// 4 flows over 3 spines: in one piece two of them share a spine; in three pieces each, 12 are 4 on
// each, and 3 of 4 may go at once; in eight, 32 are 11 on the fullest.
TEST(DemoReport, KnowsTheBoundOfSplitting) {
  EXPECT_DOUBLE_EQ(splitting_bound(1, 4, 4), 1);
  EXPECT_DOUBLE_EQ(splitting_bound(1, 4, 3), 0.5);
  EXPECT_DOUBLE_EQ(splitting_bound(3, 4, 3), 0.75);
  EXPECT_DOUBLE_EQ(splitting_bound(8, 4, 3), 8.0 / 11);
  EXPECT_DOUBLE_EQ(splitting_bound(2, 2, 8), 1);
}

TEST(DemoReport, TakesTheMeanOfTheTwoMiddleDraws) {
  EXPECT_DOUBLE_EQ(median({0.5, 0.25, 1, 0.75}), 0.625);
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
}

TEST(DemoPlacement, GivesEachLeafsHostsToBothJobsAndLetsEveryEdgeCrossTheCore) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const auto jobs = place_jobs({.prefix = "x"}, seed);
    ASSERT_EQ(jobs.size(), 2U);
    std::set<std::string> all;
    for (const ClusterJob& job : jobs) {
      ASSERT_EQ(job.hosts.size(), 8U);
      for (std::size_t i = 0; i < job.hosts.size(); ++i) {
        const std::string& next = job.hosts[(i + 1) % job.hosts.size()];
        EXPECT_NE(job.hosts[i].substr(0, 2), next.substr(0, 2)) << job.hosts[i] << " " << next;
        all.insert(job.hosts[i]);
      }
    }
    EXPECT_EQ(all.size(), 16U);
  }
}

}  // namespace
}  // namespace heddle::lab
