#include "coordinator/simulate/sweep.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "coordinator/simulate/output.h"
#include "coordinator/simulate/report.h"
#include "coordinator/simulate/verdict.h"
#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// 8 x 8 x 8, and jobs of a small model on it.
SweepSpec small() {
  SweepSpec spec;
  spec.fabric.leaves = spec.fabric.nics_per_leaf = spec.fabric.uplinks = 8;
  spec.preset.name = "model";
  spec.preset.tensor = 2;
  spec.preset.pipeline = 3;
  spec.concurrent = {1, 3};
  spec.spines_down = {0, 1};
  spec.schemes = {"ecmp", "greedy", "heddle"};
  spec.cell.timeline.end = 15s;
  return spec;
}

Sweep run(const SweepSpec& spec) {
  auto sweep = run_sweep(spec, {});
  EXPECT_TRUE(sweep.has_value()) << sweep.error().message;
  return *std::move(sweep);
}

std::string fault(const SweepSpec& spec) {
  const auto sweep = run_sweep(spec, {});
  return sweep ? "no fault" : sweep.error().message;
}

TEST(Sweep, HasARowForEachCellAndScheme) {
  std::size_t reports = 0, last_done = 0;
  const auto sweep = run_sweep(small(), [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 12U);
    EXPECT_EQ(done, last_done + 1);
    last_done = done;
    ++reports;
  });
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  ASSERT_THAT(sweep->rows, SizeIs(12));
  EXPECT_EQ(reports, 12U);
  EXPECT_EQ(sweep->rows[0].scheme, "ecmp");
  EXPECT_EQ(sweep->rows[2].scheme, "heddle");
  EXPECT_EQ(sweep->rows[5].at.spines_down, 1U);
  EXPECT_EQ(sweep->rows[11].at.concurrent, 3U);
}

TEST(Sweep, GivesTheSameBytesOnOneThreadAndOnSeveral) {
  SweepSpec spec = small();
  spec.links_down = {0.05};
  spec.qps = {1, 4};
  spec.seeds = 2;
  spec.cell.export_routing = true;
  spec.schemes = {"ecmp", "greedy", "annealing", "heddle"};
  spec.threads = 1;
  const Sweep one = run(spec);
  spec.threads = 3;
  const Sweep three = run(spec);
  const OutputOptions options{.times = false, .epochs = true};
  EXPECT_EQ(to_json(one.rows, options), to_json(three.rows, options));
  EXPECT_EQ(to_csv(one.rows, options), to_csv(three.rows, options));
  EXPECT_EQ(report_html(one, "c", options), report_html(three, "c", options));
  ASSERT_EQ(one.rows.size(), three.rows.size());
  for (std::size_t i = 0; i < one.rows.size(); ++i)
    EXPECT_EQ(one.rows[i].routing, three.rows[i].routing);
}

TEST(Sweep, RowsHaveTheDocumentedKeys) {
  SweepSpec spec = small();
  spec.concurrent = {3};
  const Json rows = Json::parse(to_json(run(spec).rows, {}));
  ASSERT_EQ(rows.size(), 6U);
  for (const Json& row : rows) {
    for (const char* key :
         {"scheme", "concurrent", "spines_down", "links_down", "oversubscription", "qps", "seed",
          "efficiency", "worst", "mean", "max_on_link", "bound_max_on_link", "bound_efficiency",
          "percent_of_bound", "allreduce_ms", "moves", "proven"})
      EXPECT_TRUE(row.contains(key)) << key;
    for (const char* key : {"p50", "p99", "max"})
      EXPECT_TRUE(row["fct_ms"][key].is_number()) << key;
    for (const char* key : {"p50", "max"})
      EXPECT_TRUE(row["solver_ms"][key].is_number()) << key;
    EXPECT_EQ(row["efficiency"].size(), 3U);
    EXPECT_TRUE(std::is_sorted(row["efficiency"].begin(), row["efficiency"].end()));
    EXPECT_EQ(row["allreduce_ms"].size(), 3U);
    EXPECT_EQ(row["worst"], row["efficiency"][0]);
  }
}

// min(1, q / ceil(qD / m)) with D = 32: one of 32 spines down leaves 1/2 with one path and 8/9
// with 8.
TEST(Sweep, HeddleReachesTheBoundOfThePublicJobsAtEveryFailure) {
  SweepSpec spec;
  for (const int ring : {2, 4})
    if (const auto folder = sim::testing::paper_folder(ring))
      spec.job_folders.push_back(*folder);
  spec.concurrent = {1, 2, 3, 4, 5};
  spec.spines_down = {0, 1, 4, 8};
  spec.qps = {1, 8};
  spec.schemes = {"greedy", "heddle"};
  spec.cell.timeline.end = 0s;
  spec.cell.solves = 1;
  const Sweep sweep = run(spec);
  EXPECT_GE(sweep.rows.size(), 80U);
  for (const Row& row : sweep.rows) {
    if (row.scheme != "heddle")
      continue;
    const std::uint32_t q = row.at.qps, live = 32 - row.at.spines_down;
    const double exact = std::min(1.0, static_cast<double>(q) / ((q * 32 + live - 1) / live));
    EXPECT_NEAR(row.all.bound.efficiency, exact, 1e-9) << describe(row.at);
    EXPECT_NEAR(row.all.efficiency.worst, exact, 1e-9) << describe(row.at);
  }
  for (const Verdict& verdict : judge(sweep.rows))
    if (verdict.scheme == "heddle") {
      EXPECT_EQ(verdict.cells_at_bound, verdict.cells);
      EXPECT_EQ(verdict.cells_below, 0U) << ::testing::PrintToString(verdict.below);
    }
}

// Over 40 s jobs begin and end to communicate a hundred times, each time from the paths of before.
TEST(Sweep, HeddleReachesTheBoundInEveryEpochOfThePublicJobs) {
  SweepSpec spec;
  if (const auto folder = sim::testing::paper_folder(4))
    spec.job_folders = {*folder};
  spec.spines_down = {0, 1, 8};
  spec.qps = {1, 8};
  spec.schemes = {"greedy", "edge-colouring", "heddle"};
  spec.cell.solves = 1;
  for (const Verdict& verdict : judge(run(spec).rows)) {
    if (verdict.scheme != "heddle")
      continue;
    EXPECT_GT(verdict.epochs, 100U);
    EXPECT_EQ(verdict.epochs_at_bound, verdict.epochs);
    EXPECT_EQ(verdict.epochs_below, 0U) << ::testing::PrintToString(verdict.below);
  }
}

TEST(Sweep, SaysWhatIsWrong) {
  SweepSpec spec = small();
  spec.schemes = {"magic"};
  EXPECT_THAT(fault(spec), HasSubstr("magic"));
  spec = small();
  spec.spines_down = {8};
  EXPECT_THAT(fault(spec), HasSubstr("8 spines down of 8"));
  spec = small();
  spec.links_down = {1.0};
  EXPECT_THAT(fault(spec), HasSubstr("links down"));
  spec = small();
  spec.qps = {0};
  EXPECT_THAT(fault(spec), HasSubstr("queue pairs"));
  spec = small();
  spec.seeds = 0;
  EXPECT_THAT(fault(spec), HasSubstr("seeds"));
  spec = small();
  spec.concurrent = {30};
  EXPECT_THAT(fault(spec), HasSubstr("jobs, not 30"));
  spec = small();
  spec.oversubscription = {3};
  EXPECT_THAT(fault(spec), HasSubstr("whole number"));
  spec = small();
  spec.fabric_file = "/nonexistent.yaml";
  EXPECT_THAT(fault(spec), HasSubstr("/nonexistent.yaml"));
}

TEST(Sweep, ACellThatIsTooLongIsNamed) {
  SweepSpec spec = small();
  spec.cell.timeline.most_epochs = 1;
  spec.threads = 3;
  EXPECT_THAT(fault(spec), HasSubstr("GPT_3-data2, 3 jobs, seed 1, ecmp: more than 1 placements"));
}

TEST(Sweep, APeriodThatIsTooShortIsRefusedBeforeAnythingRuns) {
  SweepSpec spec = small();
  spec.cell.timeline.period = 1us;
  EXPECT_THAT(fault(spec), HasSubstr("period: with 15 s to simulate at least 0.3 ms"));
  spec.cell.timeline.period = 1s;
  EXPECT_EQ(fault(spec), "no fault");
}

TEST(Sweep, WhatAListRepeatsIsCountedOnce) {
  SweepSpec spec = small();
  spec.cell.timeline.end = 0s;
  spec.schemes = {"heddle", "ecmp", "heddle"};
  spec.data = {2, 2};
  spec.concurrent = {3, 1, 3};
  spec.spines_down = {0, 0};
  spec.links_down = {0.0, 0.0};
  spec.oversubscription = {1.0, 1.0};
  spec.qps = {1, 1};
  const Sweep sweep = run(spec);
  ASSERT_THAT(sweep.rows, SizeIs(4));
  EXPECT_EQ(sweep.rows[0].scheme, "heddle");
  EXPECT_EQ(sweep.rows[0].at.concurrent, 3U);
}

TEST(Sweep, MoreSubflowsThanCanBeServedAreRefused) {
  SweepSpec spec;
  spec.fabric = {.leaves = 512, .nics_per_leaf = 64, .uplinks = 32};
  spec.preset.name = "hard-equal";
  spec.concurrent = {0};
  spec.qps = {256};
  EXPECT_THAT(fault(spec), HasSubstr("with 256 queue pairs each more than 4194304 in all"));
}

TEST(Sweep, JobFilesThatNeedMoreNicsThanTheFabricHasAreRefused) {
  const auto folder = sim::testing::paper_folder(2);
  if (!folder)
    GTEST_SKIP() << "the public job files are not here";
  SweepSpec spec = small();
  spec.job_folders = {*folder};
  EXPECT_THAT(fault(spec), HasSubstr("the fabric has 64"));
}

// One leaf without an uplink: what crosses the core from it is reported, the rest is placed.
TEST(Sweep, ACutOffLeafIsReported) {
  FabricSpec fabric;
  fabric.leaves = fabric.nics_per_leaf = fabric.uplinks = 4;
  const Topology topology = sim::testing::fabric(fabric);
  SimJob cut{.name = "cut", .flows = {{NicId{0}, NicId{4}}, {NicId{4}, NicId{0}}}};
  SimJob whole{.name = "whole", .flows = {{NicId{5}, NicId{8}}, {NicId{8}, NicId{5}}}};
  for (SimJob* job : {&cut, &whole})
    job->iteration = {
        {.compute = 1s, .groups = {{.rounds = {{.transfers = {{0, 1e9}, {1, 1e9}}}}}}}};
  const Coordinates at{.workload = "w", .concurrent = 2};
  CellOptions options;
  options.timeline.end = 3s;
  Scenario scenario = make_scenario(topology, {.name = "w", .jobs = {cut, whole}}, at, options);
  scenario.failed.assign(topology.leaves()[0].cables.begin(), topology.leaves()[0].cables.end());
  const Row row =
      *run_cell(scenario, *make_optimiser("heddle"), at, options, bound_of_all(scenario));
  EXPECT_EQ(row.all.efficiency.by_job, (std::vector<double>{0.0, 1.0}));
  EXPECT_EQ(row.all.bound.efficiency, 0.0);
  EXPECT_EQ(row.stalled, 2U);
  EXPECT_THAT(row.all.notes, Contains(HasSubstr("leaf1 has no live uplink")));
  const Json json = Json::parse(to_json({row}, {}));
  EXPECT_TRUE(json[0]["allreduce_ms"][0].is_null());
  EXPECT_NEAR(json[0]["allreduce_ms"][1].get<double>(), 80.0, 1e-9);
}

// No time is endless, and nothing of nothing is not all of it.
TEST(Sweep, AJobThatCannotCommunicateHasNeitherATimeNorAShareOfItsBound) {
  SweepSpec spec = small();
  spec.concurrent = {2};
  spec.spines_down = {0};
  spec.links_down = {0.9999};
  spec.cell.timeline.end = 0s;
  spec.schemes = {"heddle"};
  const Sweep sweep = run(spec);
  const Json json = Json::parse(to_json(sweep.rows, {}));
  EXPECT_EQ(json[0]["allreduce_ms"], Json::parse("[null, null]"));
  EXPECT_TRUE(json[0]["percent_of_bound"].is_null());
  EXPECT_EQ(json[0]["bound_efficiency"], 0.0);
  EXPECT_THAT(to_csv(sweep.rows, {}), Not(HasSubstr("9223372036854")));
  const TableText table = table_of(summarise(sweep.rows), {});
  for (const char* title : {"% of bound", "all-reduce ms"}) {
    const auto column = std::ranges::find(table.titles, title) - table.titles.begin();
    EXPECT_EQ(table.rows[0][static_cast<std::size_t>(column)], "-") << title;
  }
  EXPECT_THAT(findings(sweep), Contains(HasSubstr("at the bound in 0 of 0 cells, not counting 1")));
  EXPECT_THAT(report_html(sweep, "c", {}), Not(HasSubstr("9223372036854")));
}

// Half the racks steer; flows of the others stay where the hash puts them, so that it is between
// the two.
TEST(Sweep, RacksThatAreNotEnabledHash) {
  SweepSpec spec = small();
  spec.concurrent = {3};
  spec.spines_down = {0};
  spec.schemes = {"ecmp", "heddle"};
  spec.cell.enabled = 0.0;
  const Sweep none = run(spec);
  EXPECT_EQ(none.rows[0].all.efficiency.ascending, none.rows[1].all.efficiency.ascending);
  spec.cell.enabled = 1.0;
  EXPECT_GT(run(spec).rows[1].all.efficiency.worst, none.rows[1].all.efficiency.worst);
}

TEST(Sweep, BackgroundTrafficTakesItsShare) {
  SweepSpec spec = small();
  spec.concurrent = {3};
  spec.spines_down = {0};
  spec.schemes = {"heddle"};
  const Sweep free = run(spec);
  spec.cell.background = 0.3;
  const Sweep loaded = run(spec);
  EXPECT_LT(loaded.rows[0].all.efficiency.worst, free.rows[0].all.efficiency.worst);
  EXPECT_LE(loaded.rows[0].percent_of_bound(), 100.0);
}

// A comparison that would miss a loss could not fail: two schemes by hand, one below.
TEST(Verdict, FindsTheCellsWhereASchemeIsBelow) {
  Row good{.scheme = "good"}, bad{.scheme = "bad"};
  good.all.efficiency.ascending = {0.5, 0.9};
  bad.all.efficiency.ascending = {0.5, 0.8};
  good.all.efficiency.worst = bad.all.efficiency.worst = 0.5;
  good.all.bound.efficiency = bad.all.bound.efficiency = 0.5;
  Epoch epoch{.jobs = {0}};
  epoch.efficiency.ascending = {0.5};
  bad.epochs = {epoch};
  epoch.efficiency.ascending = {1.0};
  good.epochs = {epoch};
  const std::vector<Verdict> verdicts = judge({good, bad});
  ASSERT_THAT(verdicts, SizeIs(2));
  EXPECT_EQ(verdicts[0].cells_below, 0U);
  EXPECT_EQ(verdicts[0].epochs_below, 0U);
  EXPECT_EQ(verdicts[1].cells_below, 1U);
  EXPECT_EQ(verdicts[1].epochs_below, 1U);
  EXPECT_EQ(verdicts[1].cells_at_bound, 1U);
}

// The same jobs over other links are another situation.
TEST(Verdict, ComparesEpochsOverTheSameLinksOnly) {
  Row good{.scheme = "good"}, bad{.scheme = "bad"};
  good.all.efficiency.ascending = bad.all.efficiency.ascending = {1.0};
  Epoch epoch{.jobs = {0}};
  epoch.efficiency.ascending = {1.0};
  good.epochs = {epoch};
  epoch.efficiency.ascending = {0.5};
  epoch.link_changes = 1;
  bad.epochs = {epoch};
  EXPECT_EQ(judge({good, bad})[1].epochs_below, 0U);
}

TEST(Verdict, TellsWhatQueuePairsGain) {
  std::vector<Row> rows;
  for (const auto& [qps, worst] : {std::pair{1U, 0.5}, std::pair{8U, 8.0 / 9.0}}) {
    Row row{.scheme = "x"};
    row.at.qps = qps;
    row.all.efficiency.worst = worst;
    rows.push_back(row);
  }
  const std::vector<Gain> found = gains(rows);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].qps, 8U);
  EXPECT_DOUBLE_EQ(found[0].mean, 16.0 / 9.0);
}

TEST(Verdict, LeavesUnprovenIntegerProgramsOut) {
  Row ilp{.scheme = "ilp"}, other{.scheme = "other"};
  ilp.all.efficiency.ascending = {1.0};
  other.all.efficiency.ascending = {0.5};
  EXPECT_EQ(judge({ilp, other})[1].cells_below, 0U);
  ilp.all.proven = true;
  EXPECT_EQ(judge({ilp, other})[1].cells_below, 1U);
}

TEST(Report, OpensFromDiskAndSaysHowToRepeatIt) {
  SweepSpec spec = small();
  const std::string html = report_html(run(spec), "heddle simulate --preset 'a<b'", {});
  EXPECT_THAT(html, HasSubstr("heddle simulate --preset 'a&lt;b'"));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  for (const char* title :
       {"Job efficiency", "All-reduce time", "Flow completion time", "Throughput", "Solver time"})
    EXPECT_THAT(html, HasSubstr(title));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("no data in this sweep")));
}

TEST(Table, PutsSeedsTogether) {
  SweepSpec spec = small();
  spec.seeds = 3;
  spec.concurrent = {3};
  spec.spines_down = {1};
  const auto summaries = summarise(run(spec).rows);
  ASSERT_THAT(summaries, SizeIs(3));
  EXPECT_EQ(summaries[0].at.seed, 3U);
  const TableText table = table_of(summaries, {});
  for (const auto& row : table.rows)
    EXPECT_EQ(row.size(), table.titles.size());
}

TEST(Csv, QuotesWhatNeedsIt) {
  Row row{.scheme = "a,\"b\""};
  const std::string csv = to_csv({row}, {});
  EXPECT_THAT(csv, HasSubstr("\n\"a,\"\"b\"\"\","));
  EXPECT_THAT(csv, HasSubstr("fct_ms.p50"));
}

TEST(Distribution, HasTheNearestRanks) {
  std::vector<double> samples;
  for (int i = 1000; i >= 1; --i)
    samples.push_back(i);
  const Distribution distribution(samples);
  EXPECT_EQ(distribution.quantile(0.5), 500.0);
  EXPECT_EQ(distribution.quantile(0.99), 990.0);
  EXPECT_EQ(distribution.max(), 1000.0);
  EXPECT_EQ(distribution.quantile(0.0), 1.0);
  EXPECT_EQ(Distribution({3.0, 1.0, 2.0}).quantile(0.5), 2.0);
  EXPECT_TRUE(Distribution().empty());
}

}  // namespace
}  // namespace heddle::sim
