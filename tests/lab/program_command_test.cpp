// The program heddle-agent beside the pins of an agent: what `reconcile --dry-run` says, and that
// `flush` takes everything of ours and nothing else.
#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/file_store.h"
#include "tests/lab/each_way.h"
#include "tests/lab/others.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

class Commands : public EachEnforcer {
 protected:
  Commands() {
    std::filesystem::create_directories(state());
    std::ofstream(folder.path() + "/agent.yaml")
        << "node: leaf1\nrole: " << (is_of_hosts(GetParam().enforcer) ? "host" : "leaf")
        << "\nmode: program\n"
           "coordinator: {endpoint: \"tcp://127.0.0.1:7117\", plain: true}\nuplinks: [\"up*\"]\n"
           "host_ports: [\"p*\"]\nenforcer: "
        << name_of(GetParam().enforcer) << "\nstate_dir: " << state()
        << "\nrun_dir: " << folder.path() << "/run\n";
  }
  std::string state() const { return folder.path() + "/state"; }
  Output run(std::vector<std::string> words) {
    words.insert(words.begin(), HEDDLE_AGENT);
    words.insert(words.end(), {"--config", folder.path() + "/agent.yaml"});
    return must(
        capture({.words = words, .space = &leaf.leaf, .log = {}}, std::chrono::seconds{20}));
  }
  // As an agent would have kept it.
  void accept(const NodePlan& plan) {
    must(FileStore(state(), folder.path(), must(current_boot_id())).save_plan(plan));
  }
  nlohmann::json dry_run(int status) {
    const Output output = run({"reconcile", "--dry-run", "--json"});
    EXPECT_EQ(output.status, status) << output.text << output.errors;
    return nlohmann::json::parse(output.text);
  }
  std::string everything() { return shown(leaf.leaf, kEverything); }
  static NodePlan two_pins() {
    return plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.3.1.2", "up2")});
  }

  static constexpr const char* kEverything =
      "ip nexthop; ip -4 route show table all; ip -6 route show table all | grep -v 'proto "
      "kernel'; "
      "ip -4 rule; ip -6 rule; nft list ruleset";
  TemporaryDirectory folder;
  Leaf leaf;
};

using DryRun = Commands;
using SafetyRule1Flush = Commands;
INSTANTIATE_TEST_SUITE_P(, DryRun, every_way(), name_of_case);
INSTANTIATE_TEST_SUITE_P(, SafetyRule1Flush, every_way(), name_of_case);

// The position of the first action with these words; as many as there are if none has them.
std::size_t first(const nlohmann::json& run, const std::string& words) {
  std::size_t at = 0;
  for (const auto& action : run.at("actions")) {
    if (action.get<std::string>().find(words) != std::string::npos)
      break;
    ++at;
  }
  return at;
}

TEST_P(DryRun, PrintsInTheirOrderTheChangesThatWouldMakeTheTablesAgreeAndMakesNone) {
  EXPECT_EQ(dry_run(0).at("why_nothing"), "no plan was ever accepted here");
  accept(two_pins());
  Agent agent(leaf, state(), 4 << 20, {}, config());
  // So that the gateways are known and nothing is installed.
  ASSERT_TRUE(agent.installs(two_pins()));
  ASSERT_TRUE(agent.installs(plan(2, {})));
  const std::string before = everything();
  const auto run_before = dry_run(6);
  EXPECT_EQ(run_before.at("plan"), "1.1");
  EXPECT_EQ(run_before.at("pins"), 2);
  EXPECT_FALSE(run_before.at("agrees"));
  EXPECT_TRUE(run_before.at("not_held").empty()) << run_before.dump();
  EXPECT_NE(run_before.at("lease"), "");
  // Nothing is used before it is there.
  const std::size_t count = run_before.at("actions").size();
  EXPECT_LT(first(run_before, "next hop 188"), first(run_before, "route "));
  EXPECT_LT(first(run_before, "route "), count);
  const bool marks = GetParam().enforcer == Enforcer::flow_marks;
  EXPECT_EQ(first(run_before, "marks of flows in one transaction"), marks ? count - 1 : count);
  EXPECT_EQ(everything(), before);
  EXPECT_TRUE(leaf.nothing_pinned());

  // Beside the agent that has done it.
  NodePlan again = two_pins();
  again.version.generation = 3;
  ASSERT_TRUE(agent.installs(again));
  const auto agreeing = dry_run(0);
  EXPECT_TRUE(agreeing.at("agrees"));
  EXPECT_TRUE(agreeing.at("actions").empty());
  EXPECT_EQ(run({"reconcile", "--dry-run"}).text.substr(0, 22), "plan 1.1 wants 2 pins\n");

  // What somebody deleted, and nothing else.
  const std::size_t rules = leaf.pin_rules().size();
  leaf.at_leaf.delete_rule(leaf.pin_rules().at(0), tested_family);
  leaf.commit();
  const auto repair = dry_run(6);
  ASSERT_EQ(repair.at("actions").size(), 1U) << repair.dump();
  EXPECT_NE(repair.at("actions")[0].get<std::string>().find("rule "), std::string::npos);
  EXPECT_EQ(leaf.pin_rules().size(), rules - 1);
}

TEST_P(DryRun, NamesThePinsThatCannotBeHeldAndWhy) {
  Agent agent(leaf, state(), 4 << 20, {}, config());
  // Segments lead anywhere, if `main` has a way to the first.
  const NodePlan wanted =
      plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.9.1.2", by_segments() ? "up9" : "up2")});
  agent.programmer->want(wanted);
  ASSERT_TRUE(agent.run_until([&] { return agent.state().installed == 1; }));
  accept(wanted);
  const auto result = dry_run(0);
  ASSERT_EQ(result.at("not_held").size(), 1U) << result.dump();
  EXPECT_EQ(result.at("not_held")[0].at("reason"),
            lost_with(9, say("main does not offer up2 for 10.9.1.2")));
}

TEST_P(DryRun, SaysWhatWouldGoWhileNothingIsWantedOrAllowed) {
  Agent agent(leaf, state(), 4 << 20, {}, config());
  accept(two_pins());
  ASSERT_TRUE(agent.installs(two_pins()));
  { std::ofstream(state() + "/disabled") << "somebody\n"; }
  const auto disabled = dry_run(6);
  EXPECT_EQ(disabled.at("why_nothing"), "disabled by somebody");
  EXPECT_LT(first(disabled, "rule "), disabled.at("actions").size());
  std::filesystem::remove(state() + "/disabled");

  leaf.at_leaf.set_nexthop(RoutingRanges{}.nexthop_base + 7, Leaf::gateway(1), "up1", Write::create,
                           kOther);
  leaf.commit();
  const Output refused = run({"reconcile", "--dry-run"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.errors.find("nexthop id 1880000007 proto 99"), std::string::npos);
  EXPECT_NE(refused.text.find("would change, in this order:"), std::string::npos);
  EXPECT_EQ(leaf.pins(), 2U);
}

TEST_P(SafetyRule1Flush, TakesEverythingOfOursAndNothingElse) {
  add_state_of_others(leaf);
  const std::string before = everything();
  {
    Agent agent(leaf, state(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  EXPECT_NE(everything(), before);
  const Output flushed = run({"flush"});
  EXPECT_EQ(flushed.status, 0) << flushed.errors;
  EXPECT_EQ(flushed.text.find("left alone"), std::string::npos) << flushed.text;
  EXPECT_EQ(everything(), before);
}

}  // namespace
}  // namespace heddle::lab
