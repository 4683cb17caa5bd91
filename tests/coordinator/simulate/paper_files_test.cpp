#include "coordinator/simulate/paper_files.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRingOfTwo =
    "#src dst src_tor dst_tor start_time flow_size compute_time stage_index\n"
    "96 128 0 1 500 1000 70 0\n"
    "128 96 1 0 500 1000 70 0\n";

std::string fault(const std::string& text) {
  const auto job = parse_paper_job(text, "job");
  return job ? "no fault" : job.error().message;
}

TEST(PaperJob, IsReadColumnByColumn) {
  const auto job = parse_paper_job(kRingOfTwo, "job_0-X");
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->start, Duration(500));
  ASSERT_EQ(job->flows.size(), 2U);
  EXPECT_EQ(job->flows[0].source, NicId{0});
  EXPECT_EQ(job->flows[0].destination, NicId{32});
  const Step& step = job->iteration.at(0);
  EXPECT_EQ(step.compute, Duration(70));
  EXPECT_EQ(step.groups.at(0).rounds.at(0).repeat, 2U);  // 2 (N - 1)
  EXPECT_EQ(step.groups.at(0).rounds.at(0).transfers.at(1).bytes, 1000.0);
}

TEST(PaperJob, EveryFaultNamesItsLine) {
  EXPECT_THAT(fault("96 128 0 1 500 1000 70\n"), HasSubstr("job:1: a flow has eight columns"));
  EXPECT_THAT(fault("96 128 0 1 500 1000 70 0 9\n"), HasSubstr("eight columns"));
  EXPECT_THAT(fault("96 x 0 1 500 1000 70 0\n"), HasSubstr("whole numbers"));
  EXPECT_THAT(fault("96 128 0 1 500 -5 70 0\n"), HasSubstr("whole numbers"));
  EXPECT_THAT(fault("96 99999999999999999999999 0 1 500 1 70 0\n"), HasSubstr("whole numbers"));
  EXPECT_THAT(fault("#\n\n95 128 0 1 500 1000 70 0\n"), HasSubstr("job:3: 95 is no server"));
  EXPECT_THAT(fault("96 2144 0 64 500 1000 70 0\n"), HasSubstr("2144 is no server"));
  EXPECT_THAT(fault("96 128 0 2 500 1000 70 0\n"), HasSubstr("server 128 is on leaf 1, not 2"));
  EXPECT_THAT(fault("96 96 0 0 500 1000 70 0\n"), HasSubstr("sends to itself"));
  EXPECT_THAT(fault("96 128 0 1 500 0 70 0\n"), HasSubstr("0 bytes"));
  EXPECT_THAT(fault("96 128 0 1 18446744073709551615 1 70 0\n"), HasSubstr("eleven days"));
  EXPECT_THAT(fault("96 128 0 1 500 1000 70 0\n128 96 1 0 501 1000 70 0\n"), HasSubstr("job:2"));
  EXPECT_THAT(fault("96 128 0 1 500 1000 70 0\n"), HasSubstr("do not make one circle"));
  EXPECT_THAT(
      fault("96 128 0 1 5 1 7 0\n128 96 1 0 5 1 7 0\n97 129 0 1 5 1 7 0\n129 97 1 0 5 1 7 0\n"),
      HasSubstr("do not make one circle"));
  EXPECT_THAT(fault("#only a comment\n"), HasSubstr("no flow"));
}

TEST(PaperJob, WhatIsWrittenIsReadAgain) {
  const Topology topology = sim::testing::fabric();
  PresetSpec spec;
  spec.data = 4;
  const Workload workload = *make_preset(spec, topology);
  for (const SimJob& job : workload.jobs) {
    const std::string text = write_paper_job(job);
    const auto again = parse_paper_job(text, job.name);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(write_paper_job(*again), text);
    EXPECT_EQ(again->start, job.start);
  }
}

TEST(PaperFolder, JobsComeInTheOrderOfTheirNumbers) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "heddle_paper_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* name : {"job_10-A.txt", "job_2-B.txt", "job_0-C.txt"})
    std::ofstream(folder / name) << kRingOfTwo;
  std::ofstream(folder / "README") << "not a job";
  const auto workload = load_paper_jobs(folder.string());
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  ASSERT_EQ(workload->jobs.size(), 3U);
  EXPECT_EQ(workload->jobs[0].name, "job_0-C");
  EXPECT_EQ(workload->jobs[1].name, "job_2-B");
  EXPECT_EQ(workload->name, "heddle_paper_folder");

  std::ofstream(folder / "job_2-D.txt") << kRingOfTwo;
  EXPECT_EQ(load_paper_jobs(folder.string()).error().code, Errc::duplicate);
  std::filesystem::remove_all(folder);
}

TEST(PaperFolder, AMissingOneIsNotFound) {
  EXPECT_EQ(load_paper_jobs("/nonexistent/folder").error().code, Errc::not_found);
}

// 48 + 128 + 128 + 48 + 64 rings of two, or of four with other models: what MANIFEST and the files
// say.
TEST(PaperFolder, ThePublicJobsAreRead) {
  const auto two = sim::testing::paper_folder(2), four = sim::testing::paper_folder(4);
  if (!two || !four)
    GTEST_SKIP() << "the public job files are not here";
  const auto flows = [](const Workload& workload) {
    std::size_t n = 0;
    for (const SimJob& job : workload.jobs)
      n += job.flows.size();
    return n;
  };
  EXPECT_EQ(flows(*load_paper_jobs(*two)), 832U);
  EXPECT_EQ(flows(*load_paper_jobs(*four)), 1728U);
}

}  // namespace
}  // namespace heddle::sim
