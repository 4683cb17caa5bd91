#include "coordinator/simulate/presets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using sim::testing::fabric;
using ::testing::HasSubstr;

Workload preset(PresetSpec spec, const Topology& topology) {
  auto workload = make_preset(spec, topology);
  EXPECT_TRUE(workload.has_value()) << workload.error().message;
  return *std::move(workload);
}

double transfer_bytes(const SimJob& job) {
  return job.iteration.at(0).groups.at(0).rounds.at(0).transfers.at(0).bytes;
}

std::uint32_t leaf(const Topology& topology, NicId nic) {
  return topology[topology[nic].attachments.front()].leaf.value;
}

// 4 bytes x parameters / GPUs of a copy / copies, rounded up; the numbers are those of the public
// job files.
TEST(Preset, FlowsHaveTheSizesOfThePublicJobs) {
  const Topology topology = fabric();
  const std::map<std::string, std::pair<double, std::size_t>> expected{
      {"GPT_3", {5468750000, 128}}, {"BLOOM", {7333333334, 96}}, {"LLaMA2_70B", {1093750000, 256}}};
  for (const auto& [model, size] : expected) {
    PresetSpec spec;
    spec.name = "model";
    spec.model = model;
    spec.jobs = 1;
    const Workload workload = preset(spec, topology);
    EXPECT_EQ(transfer_bytes(workload.jobs[0]), size.first) << model;
    EXPECT_EQ(workload.jobs[0].flows.size(), size.second) << model;
  }
}

TEST(Preset, TheFirstJobsDoNotDependOnHowManyAreAskedFor) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.jobs = 2;
  const Workload two = preset(spec, topology);
  spec.jobs = 5;
  const Workload five = preset(spec, topology);
  ASSERT_EQ(five.jobs.size(), 5U);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(two.jobs[j].name, five.jobs[j].name);
    EXPECT_EQ(two.jobs[j].start, five.jobs[j].start);
    EXPECT_EQ(write_paper_job(two.jobs[j]), write_paper_job(five.jobs[j]));
  }
}

TEST(Preset, SeedsDiffer) {
  const Topology topology = fabric();
  PresetSpec spec;
  const Workload one = preset(spec, topology);
  spec.seed = 2;
  EXPECT_NE(write_paper_job(one.jobs[0]), write_paper_job(preset(spec, topology).jobs[0]));
}

TEST(Preset, NoNicIsInTwoJobs) {
  const Topology topology = fabric();
  for (const char* name : {"paper", "hard-equal"}) {
    PresetSpec spec;
    spec.name = name;
    spec.data = 4;
    std::map<NicId, std::size_t> owner;
    const Workload workload = preset(spec, topology);
    for (std::size_t j = 0; j < workload.jobs.size(); ++j)
      for (const JobFlow& flow : workload.jobs[j].flows)
        EXPECT_EQ(owner.emplace(flow.source, j).first->second, j) << name;
  }
}

// A copy takes whole leaves, and one slice for the rest: BLOOM's 48 NICs are a leaf and a half.
TEST(Preset, ACopyTakesWholeLeavesAndASlice) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.name = "model";
  spec.model = "BLOOM";
  spec.jobs = 3;
  const Workload workload = preset(spec, topology);
  for (const SimJob& job : workload.jobs) {
    std::map<std::uint32_t, int> on_leaf;
    for (const JobFlow& flow : job.flows)
      ++on_leaf[leaf(topology, flow.source)];
    std::vector<int> sizes;
    for (const auto& [id, count] : on_leaf)
      sizes.push_back(count);
    std::ranges::sort(sizes);
    // The two slices of 16 may fall on one leaf.
    EXPECT_THAT(sizes, ::testing::AnyOf(std::vector{16, 16, 32, 32}, std::vector{32, 32, 32}));
  }
}

TEST(Preset, PackedFillsLeafAfterLeaf) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.name = "model";
  spec.jobs = 1;
  spec.placement = Placement::packed;
  const Workload workload = preset(spec, topology);
  for (const JobFlow& flow : workload.jobs[0].flows)
    EXPECT_LT(leaf(topology, flow.source), 4U);  // 128 NICs, 32 to a leaf
}

// The n-th NIC of each machine is on the n-th leaf of its group, so equal positions of two copies
// meet on a leaf.
TEST(Preset, RailsKeepRingsOnOneLeaf) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.name = "model";
  spec.jobs = 1;
  spec.placement = Placement::rail;
  const Workload workload = preset(spec, topology);
  for (const JobFlow& flow : workload.jobs[0].flows)
    EXPECT_EQ(leaf(topology, flow.source), leaf(topology, flow.destination));
}

TEST(Preset, HardJobsFillTheFabric) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.name = "hard-unequal";
  spec.jobs = 0;
  const Workload workload = preset(spec, topology);
  std::size_t nics = 0;
  std::set<double> weights;
  for (const SimJob& job : workload.jobs) {
    nics += job.flows.size();
    EXPECT_GE(job.flows.size(), 4U);
    EXPECT_LE(job.flows.size(), 256U);
    for (const Transfer& transfer : job.iteration[0].groups[0].rounds[0].transfers)
      weights.insert(transfer.bytes);
  }
  EXPECT_GT(nics, 2048U - 4U);
  EXPECT_EQ(weights, (std::set<double>{0.25e9, 0.5e9, 0.75e9, 1e9}));
}

TEST(Preset, FewerJobsAreMadeWhereNoMoreFit) {
  const Topology topology = fabric();
  PresetSpec spec;
  spec.name = "model";
  spec.model = "LLaMA2_70B";
  spec.data = 8;  // 1,024 NICs a job
  spec.jobs = 5;
  EXPECT_EQ(preset(spec, topology).jobs.size(), 2U);
}

TEST(Preset, SaysWhatIsWrong) {
  FabricSpec small;
  small.leaves = 2;
  small.nics_per_leaf = 2;
  small.uplinks = 2;
  const Topology topology = fabric(small);
  PresetSpec spec;
  EXPECT_THAT(make_preset(spec, topology).error().message, HasSubstr("not one job"));
  spec.name = "nonsense";
  EXPECT_THAT(make_preset(spec, topology).error().message, HasSubstr("nonsense"));
  spec = {};
  spec.data = 1;
  EXPECT_THAT(make_preset(spec, topology).error().message, HasSubstr("two copies"));
}

// 65,536 x 65,536 GPUs are none in 32 bits.
TEST(Preset, SizesBeyondTheFabricAreRefusedHoweverLarge) {
  const Topology topology = fabric();
  for (const auto& [tensor, pipeline, data] :
       {std::tuple(65536U, 65536U, 2U), std::tuple(65536U, 65536U, 4'000'000'000U),
        std::tuple(1U, 1U, 4'000'000'000U), std::tuple(8U, 8U, 33U), std::tuple(2049U, 1U, 2U)}) {
    PresetSpec spec;
    spec.name = "model";
    spec.tensor = tensor;
    spec.pipeline = pipeline;
    spec.data = data;
    const auto workload = make_preset(spec, topology);
    ASSERT_FALSE(workload.has_value()) << tensor << " x " << pipeline << " x " << data;
    EXPECT_THAT(workload.error().message, HasSubstr("not one job"));
  }
}

TEST(Preset, AnAllToAllOfMoreFlowsThanCanBeServedIsRefused) {
  FabricSpec large;
  large.nics_per_leaf = 64;
  const Topology topology = fabric(large);
  PresetSpec spec;
  spec.name = "model";
  spec.tensor = spec.pipeline = 1;
  spec.data = 4096;
  spec.communication = Communication::all_to_all;
  EXPECT_THAT(make_preset(spec, topology).error().message, HasSubstr("all-to-all of 4096 copies"));
}

TEST(Fabric, OversubscriptionTakesUplinksAway) {
  FabricSpec spec;
  spec.oversubscription = 2;
  const Topology topology = fabric(spec);
  EXPECT_EQ(topology.spines().size(), 16U);
  EXPECT_EQ(topology.nics().size(), 2048U);
}

TEST(Fabric, BundlesKeepTheNumberOfUplinks) {
  FabricSpec spec;
  spec.bundle = 2;
  EXPECT_EQ(fabric(spec).cables().size(), 64U * 32U);
  EXPECT_EQ(fabric(spec).spines().size(), 16U);
  spec.thin_bundles = 0.1;
  EXPECT_EQ(fabric(spec).cables().size(), 64U * 32U - 102U);  // a tenth of 1,024 bundles, rounded
}

TEST(Fabric, NumbersThatMakeNoFabricAreRefused) {
  FabricSpec spec;
  spec.oversubscription = 3;
  EXPECT_FALSE(generate_fabric(spec).has_value());
  spec.oversubscription = 0;
  EXPECT_FALSE(generate_fabric(spec).has_value());
  spec = {};
  spec.leaves = 0;
  EXPECT_FALSE(generate_fabric(spec).has_value());
  spec = {};
  spec.leaves = 1U << 20;
  EXPECT_FALSE(generate_fabric(spec).has_value());
}

TEST(Fabric, SizesThatCannotBeServedAreRefused) {
  const auto fault = [](std::uint32_t leaves, std::uint32_t nics, std::uint32_t uplinks,
                        double oversubscription = 1.0) {
    const auto fabric = describe_fabric({.leaves = leaves,
                                         .nics_per_leaf = nics,
                                         .uplinks = uplinks,
                                         .oversubscription = oversubscription});
    return fabric ? "no fault" : fabric.error().message;
  };
  EXPECT_EQ(fault(512, 64, 32), "no fault");
  EXPECT_EQ(fault(4, 1024, 1024), "no fault");
  EXPECT_EQ(fault(4096, 1, 1), "no fault");
  EXPECT_THAT(fault(64, 32, 4'000'000'000U), HasSubstr("4000000000 uplinks: at most 4096 leaves"));
  EXPECT_THAT(fault(64, 32, 100'000), HasSubstr("1024 of either on a leaf"));
  EXPECT_THAT(fault(64, 4'000'000'000U, 32), HasSubstr("1024 of either on a leaf"));
  EXPECT_THAT(fault(1'000'000, 4, 32), HasSubstr("at most 4096 leaves"));
  EXPECT_THAT(fault(4096, 128, 32), HasSubstr("262144 of either in all"));
  EXPECT_THAT(fault(4096, 32, 128), HasSubstr("262144 of either in all"));
  EXPECT_THAT(fault(64, 32, 32, 1e-9), HasSubstr("more than 1024 uplinks"));
}

TEST(Failures, TakeTheLastSpinesAndASeededShareOfCables) {
  const Topology topology = fabric();
  const auto spines = failed_cables(topology, {.spines = 2});
  ASSERT_EQ(spines.size(), 128U);
  for (const CableId cable : spines)
    EXPECT_GE(topology[cable].spine.value, 30U);
  const auto few = failed_cables(topology, {.links = 0.01, .seed = 7});
  const auto many = failed_cables(topology, {.links = 0.05, .seed = 7});
  EXPECT_EQ(few.size(), 20U);
  EXPECT_EQ(many.size(), 102U);
  EXPECT_TRUE(std::ranges::includes(many, few));
}

}  // namespace
}  // namespace heddle::sim
