#include "coordinator/simulate/routing_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/core/optimiser.h"
#include "tests/coordinator/simulate/paper_data.h"

namespace heddle::sim {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

struct Case {
  Topology topology;
  LinkState links;
  Problem problem;
};

// Bundles of two, some thin, some links down, two queue pairs, unequal weights; with local flows.
std::unique_ptr<Case> make_case() {
  FabricSpec spec;
  spec.leaves = 4;
  spec.nics_per_leaf = 4;
  spec.uplinks = 4;
  spec.bundle = 2;
  spec.thin_bundles = 0.25;
  Topology topology = sim::testing::fabric(spec);
  LinkState links(topology);
  for (const CableId cable : failed_cables(topology, {.links = 0.1, .seed = 3}))
    links.set(topology, cable, false);
  auto made = std::make_unique<Case>(Case{std::move(topology), std::move(links), {}});
  made->problem.topology = &made->topology;
  made->problem.links = &made->links;
  made->problem.demand.jobs = {{.name = "a"}, {.name = "b"}};
  for (std::uint32_t n = 0; n < 16; ++n)
    made->problem.demand.flows.push_back({.job = {n % 2},
                                          .source = {n},
                                          .destination = {(n + (n < 4 ? 1 : 5)) % 16},
                                          .weight = 1.0 + n,
                                          .subflows = 2});
  made->problem.unit_of_subflow.resize(32);
  std::iota(made->problem.unit_of_subflow.begin(), made->problem.unit_of_subflow.end(), 0U);
  return made;
}

TEST(RoutingFile, IsJudgedAsBeforeItWasWritten) {
  const auto made = make_case();
  for (const std::string_view scheme : {"ecmp", "greedy", "heddle"}) {
    const Routing routing = make_optimiser(scheme)->place(made->problem, 1).routing;
    const Efficiency before = evaluate(made->topology, made->links, made->problem.demand, routing);
    const std::string text =
        write_routing(made->topology, made->links, {}, made->problem.demand, routing);
    const auto read = read_routing(text);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const Efficiency after = evaluate(read->topology, read->links, read->demand, read->routing);
    EXPECT_EQ(before.ascending, after.ascending) << scheme;
    EXPECT_EQ(before.max_on_link, after.max_on_link) << scheme;
  }
}

// Each NIC on two leaves, as with dual ToR switches; the second port is slower, and for some NICs
// on the same leaf as the first.
std::unique_ptr<Case> make_dual_case() {
  FabricSpec spec;
  spec.leaves = spec.nics_per_leaf = spec.uplinks = 4;
  FabricDescription fabric = *describe_fabric(spec);
  for (std::uint32_t n = 0; n < fabric.hosts.size(); ++n)
    fabric.hosts[n].nics[0].attachments.push_back(
        {.leaf = fabric.leaves[n % 3 == 0 ? n / 4 : n / 4 ^ 1].name,
         .leaf_port = fmt::format("second{}", n),
         .capacity = {0.5e11}});
  Topology topology = *Topology::build(fabric);
  LinkState links(topology);
  for (const CableId cable : failed_cables(topology, {.spines = 1, .links = 0.1, .seed = 3}))
    links.set(topology, cable, false);
  auto made = std::make_unique<Case>(Case{std::move(topology), std::move(links), {}});
  made->problem.topology = &made->topology;
  made->problem.links = &made->links;
  made->problem.demand.jobs = {{.name = "a"}, {.name = "b"}};
  for (std::uint32_t n = 0; n < 16; ++n)
    made->problem.demand.flows.push_back({.job = {n % 2},
                                          .source = {n},
                                          .destination = {(n + (n < 4 ? 1 : 5)) % 16},
                                          .weight = 1.0,
                                          .subflows = 2});
  return made;
}

TEST(RoutingFile, KeepsWhichAttachmentsPathsUse) {
  const auto made = make_dual_case();
  for (const std::string_view scheme : {"ecmp", "greedy", "heddle"}) {
    const Routing routing = make_optimiser(scheme)->place(made->problem, 1).routing;
    const std::string text =
        write_routing(made->topology, made->links, {}, made->problem.demand, routing);
    const auto read = read_routing(text);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->routing, routing) << scheme;
    const Efficiency before = evaluate(made->topology, made->links, made->problem.demand, routing);
    const Efficiency after = evaluate(read->topology, read->links, read->demand, read->routing);
    EXPECT_EQ(before.ascending, after.ascending) << scheme;
    EXPECT_EQ(before.max_on_link, after.max_on_link) << scheme;
  }
}

// What others write: the flow's leaf says which attachment, where no path does.
TEST(RoutingFile, TheLeafOfAFlowSaysWhichAttachmentItsPathsUse) {
  const auto made = make_dual_case();
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  Json file =
      Json::parse(write_routing(made->topology, made->links, {}, made->problem.demand, routing));
  Json& flow = file["flows"][5];
  flow["src_leaf"] = "leaf1";  // h2-2's second
  flow["paths"] = {{{"spine", "spine1"}, {"cable", 0}}, {{"spine", "spine2"}, {"cable", 0}}};
  const auto read = read_routing(file.dump());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->topology[read->topology[read->routing[10].from].leaf].name, "leaf1");
  flow["paths"][0]["src_attachment"] = 2;
  EXPECT_THAT(read_routing(file.dump()).error().message, HasSubstr("whole number below 2"));
}

// Each phase number of a job costs as much as judging all flows, so only those that occur are kept,
// in their order.
TEST(RoutingFile, PhasesThatNoFlowIsInAreNotJudged) {
  const auto made = make_case();
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  Json file =
      Json::parse(write_routing(made->topology, made->links, {}, made->problem.demand, routing));
  for (std::size_t f = 0; f < file["flows"].size(); ++f)
    file["flows"][f]["phase"] = f % 2 == 0 ? 1023 : f % 3 == 0 ? 7 : 900;
  const auto read = read_routing(file.dump());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->demand.jobs[0].phases, 1U);
  EXPECT_EQ(read->demand.jobs[1].phases, 2U);
  for (std::uint32_t f = 0; f < 16; ++f)
    EXPECT_EQ(read->demand.flows[f].phase, f % 2 == 0 || f % 3 == 0 ? 0U : 1U) << f;
}

TEST(RoutingFile, MorePhasesThanCanBeJudgedAreRefused) {
  const auto made = make_case();
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  Json file =
      Json::parse(write_routing(made->topology, made->links, {}, made->problem.demand, routing));
  Json flows = Json::array();
  for (std::uint32_t n = 0; n < 15'000; ++n) {
    Json flow = file["flows"][5];
    flow["job"] = fmt::format("job{}", n / 1000);
    flow["phase"] = n % 1000;
    flows.push_back(std::move(flow));
  }
  file["flows"] = std::move(flows);
  const auto read = read_routing(file.dump());
  ASSERT_FALSE(read.has_value());
  EXPECT_THAT(read.error().message, HasSubstr("15000 flows in 15000 phases of 15 jobs"));
}

TEST(RoutingFile, KeepsWhatOtherTrafficTakes) {
  const auto made = make_case();
  std::vector<Rate> background(made->topology.link_count());
  for (std::uint32_t i = 0; i < 2 * made->topology.cables().size(); ++i)
    background[i] = {1e9 * (60 + i % 40)};
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  const Efficiency before =
      evaluate(made->topology, made->links, made->problem.demand, routing, background);
  ASSERT_LT(before.worst,
            evaluate(made->topology, made->links, made->problem.demand, routing).worst);
  const auto read = read_routing(
      write_routing(made->topology, made->links, background, made->problem.demand, routing));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const Efficiency after =
      evaluate(read->topology, read->links, read->demand, read->routing, read->background);
  EXPECT_EQ(before.ascending, after.ascending);
}

TEST(RoutingFile, HasTheKeysThatOthersReadItBy) {
  const auto made = make_case();
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  const Json file =
      Json::parse(write_routing(made->topology, made->links, {}, made->problem.demand, routing));
  const Json& link = file["fabric"]["links"][0];
  for (const char* key : {"leaf", "spine", "cable", "capacity_bps", "up", "down"})
    EXPECT_TRUE(link.contains(key)) << key;
  for (const char* key : {"name", "capacity_bps"})
    EXPECT_TRUE(file["fabric"]["nics"][0].contains(key)) << key;
  const Json& flow = file["flows"][5];
  for (const char* key : {"job", "src", "dst", "src_leaf", "dst_leaf", "weight", "paths"})
    EXPECT_TRUE(flow.contains(key)) << key;
  EXPECT_EQ(flow["paths"].size(), 2U);
  for (const char* key : {"spine", "cable"})
    EXPECT_TRUE(flow["paths"][0].contains(key)) << key;
}

// What others write: no leaf of a NIC, no phase, no down_cable.
TEST(RoutingFile, TheShortFormIsEnough) {
  const auto made = make_case();
  const Routing routing = make_optimiser("greedy")->place(made->problem, 1).routing;
  Json file =
      Json::parse(write_routing(made->topology, made->links, {}, made->problem.demand, routing));
  for (Json& nic : file["fabric"]["nics"])
    nic.erase("leaf");
  for (Json& flow : file["flows"]) {
    flow.erase("phase");
    for (Json& path : flow["paths"])
      path.erase("down_cable");
  }
  const auto read = read_routing(file.dump());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->demand.flows.size(), 16U);
}

class BadRoutingFile : public ::testing::Test {
 protected:
  BadRoutingFile() : made_(make_case()) {
    const Routing routing = make_optimiser("greedy")->place(made_->problem, 1).routing;
    good_ = Json::parse(
        write_routing(made_->topology, made_->links, {}, made_->problem.demand, routing));
  }
  std::string fault(const std::function<void(Json&)>& spoil) const {
    Json bad = good_;
    spoil(bad);
    const auto read = read_routing(bad.dump());
    return read ? "no fault" : read.error().message;
  }
  std::unique_ptr<Case> made_;
  Json good_;
};

TEST_F(BadRoutingFile, EveryFaultIsNamed) {
  EXPECT_EQ(fault([](Json&) {}), "no fault");
  EXPECT_THAT(fault([](Json& f) { f = Json::array(); }), HasSubstr("has no \"fabric\""));
  EXPECT_THAT(fault([](Json& f) { f["flows"] = 7; }), HasSubstr("not a list"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["dst"] = f["flows"][5]["src"]; }),
              HasSubstr("NIC h2-2/eth0 is on leaf leaf2"));
  EXPECT_THAT(fault([](Json& f) {
                f["flows"][5]["dst"] = f["flows"][5]["src"];
                f["flows"][5]["dst_leaf"] = f["flows"][5]["src_leaf"];
              }),
              HasSubstr("sends to itself"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["src"] = "h9-9/eth0"; }),
              HasSubstr("h9-9/eth0, is not among"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][0]["weight"] = 0; }), HasSubstr("above zero"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][0]["weight"] = nullptr; }), HasSubstr("finite"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["paths"] = Json::array(); }), HasSubstr("no path"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["paths"][0]["spine"] = "spine9"; }),
              HasSubstr("spine9"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["paths"][0]["spine"] = nullptr; }),
              HasSubstr("has no spine"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["paths"][0]["cable"] = 5; }),
              HasSubstr("no cable 5"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["paths"][0]["cable"] = -1; }),
              HasSubstr("whole number"));
  EXPECT_THAT(fault([](Json& f) { f["flows"][5]["phase"] = 4000000000U; }), HasSubstr("phase"));
  EXPECT_THAT(fault([](Json& f) { f["fabric"]["links"][0]["capacity_bps"] = -1.0; }),
              HasSubstr("above zero"));
  EXPECT_THAT(fault([](Json& f) { f["fabric"]["links"][0]["cable"] = 1; }),
              HasSubstr("not numbered"));
  EXPECT_THAT(fault([](Json& f) { f["fabric"]["links"][0]["up"] = "yes"; }),
              HasSubstr("neither true nor false"));
  EXPECT_THAT(
      fault([](Json& f) { f["fabric"]["nics"][1]["name"] = f["fabric"]["nics"][0]["name"]; }),
      HasSubstr("named twice"));
  EXPECT_THAT(fault([](Json& f) { f["fabric"]["links"][0]["background_bps"] = 5; }),
              HasSubstr("has no \"up\""));
  EXPECT_THAT(fault([](Json& f) {
                f["fabric"]["links"][0]["background_bps"] = {{"up", 0}, {"down", 1e12}};
              }),
              HasSubstr("to the link's capacity"));
  EXPECT_THAT(fault([](Json& f) { f["flows"] = Json::array(); }), HasSubstr("nothing to judge"));
  EXPECT_EQ(read_routing("{").error().code, Errc::parse);
  EXPECT_EQ(read_routing("").error().code, Errc::parse);
}

}  // namespace
}  // namespace heddle::sim
