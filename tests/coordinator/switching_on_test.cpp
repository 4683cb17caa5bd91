// Switched on with care, in a whole cluster: decisions and roll-outs. Seeds are fixed.
#include "tests/coordinator/switching_on.h"

#include <gtest/gtest.h>

namespace heddle::testing {
namespace {

// Five flows over four uplinks: two share one. When one of the others ends, its uplink is free, and
// one move doubles what the slowest flow gets.
TEST(SwitchingOnAgain, ARealImprovementIsTakenWithinTwoPeriods) {
  FakeCluster cluster(2, 4, 5, 20261130);
  cluster.noise = 0.05;
  cluster.settings.decide.hysteresis = 0.2;
  for (int host = 1; host <= 5; ++host)
    cluster.flows.push_back({1, host, 2, host});
  cluster.start();
  ASSERT_TRUE(
      cluster.await(10s, [&] { return cluster.converged() && cluster.installed_pins() == 5; }));
  ASSERT_DOUBLE_EQ(cluster.measured().worst, 0.5);
  std::map<std::string, std::vector<int>> by_uplink;
  for (const Pin& pin : cluster.agents.at("leaf1").installed)
    by_uplink[std::get<PortTableRoute>(pin.target).out_port].push_back(
        std::get<ByPortAndDestination>(pin.unit).in_port.back() - '0');
  const auto alone =
      std::ranges::find_if(by_uplink, [](const auto& entry) { return entry.second.size() == 1; });
  ASSERT_NE(alone, by_uplink.end());
  std::erase_if(cluster.flows,
                [&](const FlowSpec& flow) { return flow.from == alone->second.front(); });
  // Forgotten after 10 s of silence; from then on the plan can be better.
  ASSERT_TRUE(
      cluster.await(15s, [&] { return cluster.coordinator->flows().subflows().size() == 4; }));
  EXPECT_TRUE(cluster.await(2 * cluster.settings.period, [&] {
    return cluster.measured().worst == 1.0;
  })) << cluster.measured().worst;
}

TEST_F(SwitchingOn, AFlappingCableMovesFlowsOnceWhileTheyDwell) {
  cluster.settings.decide.dwell = 5s;
  cluster.start();
  settle();
  cluster.cut(1, 2);
  ASSERT_TRUE(cluster.await(2s, [&] { return cluster.converged(); }));
  cluster.advance(300ms);
  const std::uint64_t changes = cluster.changes();
  for (int flap = 0; flap < 3; ++flap) {
    cluster.cut(1, 2, true);
    cluster.advance(500ms);
    cluster.cut(1, 2);
    cluster.advance(500ms);
  }
  cluster.cut(1, 2, true);
  cluster.advance(500ms);
  EXPECT_EQ(cluster.changes(), changes) << "what was moved stays until it is quiet";
  EXPECT_LT(cluster.measured().worst, 1.0);
  ASSERT_TRUE(cluster.await(10s, [&] { return cluster.measured().worst == 1.0; }));
}

TEST_F(SwitchingOn, APlanMovesNoMoreFlowsThanItMay) {
  cluster.start();
  cluster.advance(1s);
  ASSERT_EQ(order("disable", {"--all"}), 0);
  cluster.advance(2s);
  cluster.stop();
  cluster.settings.decide.moves_per_plan = 3;
  cluster.history.plans.clear();
  cluster.start();
  cluster.advance(1s);
  ASSERT_EQ(order("enable", {"--all"}), 0);
  settle();
  cluster.advance(10s);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  std::size_t steps = 0;
  for (const PlanRecord& plan : cluster.history.plans) {
    EXPECT_LE(plan.moves.size(), 3U) << plan.reason;
    steps += plan.moves.empty() ? 0 : 1;
  }
  EXPECT_GT(steps, 1U);
}

// Iterations of 2 s: 1.2 s of sending, 0.8 s of silence. A cable that is lost moves flows at once;
// when it is back, one returns with the event, and the others one a plan, in no hurry.
TEST_F(SwitchingOn, PeriodicFlowsAreMovedWhileTheyAreSilentUnlessALinkFailed) {
  cluster.settings.broadcast.report_interval = 100ms;
  cluster.settings.decide.moves_per_plan = 1;
  const auto sends = [](Time now) { return now.time_since_epoch() % 2s < 1200ms; };
  cluster.sending = sends;
  cluster.start();
  settle();
  cluster.advance(20s);
  ASSERT_TRUE(
      cluster.await(3s, [&] { return cluster.clock.now().time_since_epoch() % 2s == 400ms; }));
  cluster.cut(1, 2);
  ASSERT_TRUE(cluster.await(300ms, [&] { return cluster.measured().worst > 0; }));
  EXPECT_TRUE(sends(cluster.clock.now()));
  cluster.advance(100ms);
  cluster.cut(1, 2, true);
  cluster.advance(100ms);
  std::size_t moved = 0;
  std::uint64_t changes = cluster.changes();
  for (int ms = 0; ms < 12'000; ++ms) {
    cluster.advance(1ms);
    if (cluster.changes() != changes) {
      ++moved;
      EXPECT_FALSE(sends(cluster.clock.now())) << ms;
    }
    changes = cluster.changes();
  }
  EXPECT_GT(moved, 0U);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  EXPECT_TRUE(std::ranges::any_of(cluster.history.decisions, [](const auto& entry) {
    return entry.second.outcome == "waits" &&
           entry.second.reason.find("waits for a silent phase of ") != std::string::npos;
  }));
}

TEST_F(SwitchingOn, EveryDecisionHasALineThatSaysWhy) {
  cluster.start();
  settle();
  cluster.advance(3s);
  json log = json::parse(cluster.ask("plan log")->json);
  ASSERT_GE(log["decisions"].size(), 2U);
  const json& moved = log["decisions"][0];
  EXPECT_EQ(moved["outcome"], "moved");
  EXPECT_GT(moved["moves"], 0);
  const json held = log["decisions"].back();
  EXPECT_EQ(held["outcome"], "held");
  EXPECT_EQ(held["reason"], "held at worst 100.0 %, mean 100.0 %: nothing promises more");
  EXPECT_GT(held["times"], 5);
  EXPECT_EQ(held["efficiency"]["worst"], 1.0);

  // What came before a restart is the history's.
  const std::string next = log["next"];
  cluster.stop();
  cluster.start();
  cluster.coordinator->restore(cluster.history.plans.back());
  cluster.advance(2s);
  log = json::parse(cluster.ask("plan log", {"--last", "100"})->json);
  EXPECT_EQ(log["decisions"][0]["outcome"], "moved");
  EXPECT_TRUE(log["incomplete"].is_null());
  const json newer = json::parse(cluster.ask("plan log", {"--after", next})->json);
  EXPECT_LT(newer["decisions"].size(), log["decisions"].size());
  EXPECT_EQ(order("plan log", {"--last", "none"}), 2);
  EXPECT_EQ(order("plan log", {"--before", "1"}), 2);
}

TEST_F(SwitchingOn, ProgrammingAgentsGetNoPinBeforeARollOutEnablesTheirRack) {
  cluster.settings.rollout.required = true;
  cluster.start();
  cluster.advance(10s);
  EXPECT_EQ(cluster.installed_pins(), 0U);
  EXPECT_EQ(rollout()["phase"], "none");
  const json flows = json::parse(cluster.ask("flows")->json)["flows"];
  EXPECT_EQ(flows.size(), 16U);
  for (const json& flow : flows)
    EXPECT_FALSE(flow["pinned"]) << flow;
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(1, "soaking"));
  EXPECT_EQ(pins_of("leaf1"), 4U);
  EXPECT_EQ(cluster.installed_pins(), 4U);
  ASSERT_TRUE(await_wave(3, "good", 60s)) << rollout();
  EXPECT_EQ(cluster.installed_pins(), 16U);
  EXPECT_DOUBLE_EQ(cluster.measured().worst, 1.0);
  EXPECT_EQ(rollout()["phase"], "done");
  EXPECT_EQ(order("rollout start", waves()), 1) << "they are enabled";
}

// The uplinks of leaf 3 get slow when it is enabled, for a reason that nobody has told heddle.
TEST_F(SwitchingOn, SafetyRule11AWaveThatMakesThingsWorseIsTurnedBackAndReadBack) {
  cluster.settings.rollout.required = true;
  cluster.sending = [](Time now) { return now.time_since_epoch() % 2s < 1200ms; };
  cluster.start();
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(1, "good", 60s)) << rollout();
  ASSERT_TRUE(await_wave(2, "soaking", 60s)) << rollout();
  cluster.slowed = 0.1;
  ASSERT_TRUE(await_wave(2, "rolled-back", 4s)) << rollout();
  ASSERT_TRUE(cluster.await(2s, [&] { return pins_of("leaf2") + pins_of("leaf3") == 0; }));
  EXPECT_EQ(pins_of("leaf1"), 4U) << "a good wave stays";
  const json seen = rollout();
  EXPECT_EQ(seen["phase"], "stopped");
  EXPECT_NE(seen["why"].get<std::string>().find("gate efficiency: auto-h1-1: "), std::string::npos)
      << seen["why"];
  ASSERT_TRUE(
      cluster.await(2s, [&] { return cluster.logged("rack3 holds no pin any more, read back"); }));
  cluster.advance(60s);
  EXPECT_EQ(cluster.installed_pins(), 4U) << "it goes no further by itself";
}

// Nothing is sent from the moment on that the second wave is enabled: what cannot be compared any
// more is not good.
TEST_F(SwitchingOn, SafetyRule11AWaveThatStopsAJobCompletelyIsTurnedBack) {
  cluster.settings.rollout.required = true;
  cluster.start();
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(2, "enabling", 60s)) << rollout();
  cluster.sending = [](Time) { return false; };
  ASSERT_TRUE(await_wave(2, "rolled-back", 20s)) << rollout();
  EXPECT_NE(rollout()["why"].get<std::string>().find("gate jobs: auto-h1-1: sent before"),
            std::string::npos)
      << rollout()["why"];
  ASSERT_TRUE(cluster.await(2s, [&] { return pins_of("leaf2") + pins_of("leaf3") == 0; }));
}

// It was seen in the wave's first seconds, and its flows are remembered for longer than that soaks.
TEST_F(SwitchingOn, SafetyRule11AJobThatStopsInTheMiddleOfASoakTurnsTheWaveBack) {
  cluster.settings.rollout.required = true;
  cluster.settings.flows.memory = 1h;
  cluster.start();
  ASSERT_EQ(order("rollout start", {"--wave", "60", "rack1"}), 0);
  ASSERT_TRUE(await_wave(1, "soaking", 60s)) << rollout();
  cluster.advance(20s);
  ASSERT_EQ(rollout()["gates"][0]["verdict"], "good") << rollout();
  cluster.sending = [](Time) { return false; };
  ASSERT_TRUE(await_wave(1, "rolled-back", 10s)) << rollout();
  EXPECT_GT(cluster.took, cluster.settings.rollout.converge);
  EXPECT_NE(rollout()["why"].get<std::string>().find("gate jobs: auto-h1-1: "), std::string::npos)
      << rollout()["why"];
}

// Three of sixteen flows stop when the second wave is enabled, and the others go on: what is left
// of the ring falls into chains with other names.
TEST_F(SwitchingOn, SafetyRule11AWaveThatStopsSomeFlowsOfAJobIsTurnedBackAndNamesThem) {
  for (const bool restarted : {false, true}) {
    FakeCluster again(4, 4, 4, kSeed);
    again.ring(4, 4);
    again.settings.rollout = cluster.settings.rollout;
    again.settings.rollout.required = true;
    again.start();
    again.ask("rollout start", waves());
    const auto state = [&] { return to_string(again.store.rollout.waves.at(1).state); };
    ASSERT_TRUE(again.await(60s, [&] { return state() == std::string("enabling"); }));
    std::vector<std::string> names;
    for (const std::size_t i : {9, 5, 2}) {
      const FlowSpec flow = again.flows[i];
      again.flows.erase(again.flows.begin() + static_cast<std::ptrdiff_t>(i));
      names.push_back(to_string(
          key_of(wire_key(address(flow.from_leaf, flow.from), address(flow.to_leaf, flow.to)))));
    }
    if (restarted) {
      again.stop();
      again.start();
      again.coordinator->restore(again.history.plans.back());
    }
    ASSERT_TRUE(again.await(20s, [&] { return state() == std::string("rolled-back"); }));
    const std::string why = again.store.rollout.why;
    EXPECT_NE(why.find("gate jobs: auto-h1-1: 3 of 16 flows sent before"), std::string::npos)
        << why;
    for (const std::string& name : names)
      EXPECT_NE(why.find(name), std::string::npos) << name << " in " << why;
  }
}

// A leaf whose hardware lets pins lead nothing, while others get new pins all the time.
TEST_F(SwitchingOn, FlowsBesideTheirPinsFailAWaveWhoeverIsPinnedMeanwhile) {
  cluster.settings.rollout.required = true;
  cluster.pace = [](const FlowSpec&) { return 2e6; };
  cluster.agents.at("leaf1").ignores_pins = true;
  cluster.start();
  ASSERT_EQ(
      order("rollout start", {"--wave", "1", "rack2", "rack3", "rack4", "--wave", "20", "rack1"}),
      0);
  ASSERT_TRUE(await_wave(2, "soaking", 60s)) << rollout();
  const std::uint64_t plans = cluster.history.plans.size();
  const auto turned_back = [&] {
    return to_string(cluster.store.rollout.waves[1].state) == std::string("rolled-back");
  };
  // Behind leaf 2 there is a flow more in each planning period: a plan never grows as old as two
  // reports.
  for (int period = 0; period < 40 && !turned_back(); ++period) {
    cluster.flows.push_back({2, 1 + period % 4, 3 + period / 4 % 2, 1 + period / 8 % 4});
    cluster.advance(cluster.settings.period);
  }
  EXPECT_GT(cluster.history.plans.size(), plans + 10) << "nobody was pinned meanwhile";
  ASSERT_TRUE(turned_back()) << rollout();
  EXPECT_NE(rollout()["why"].get<std::string>().find("gate drift: "), std::string::npos)
      << rollout()["why"];
  EXPECT_NE(rollout()["why"].get<std::string>().find("flows run elsewhere than their pins say"),
            std::string::npos)
      << rollout()["why"];
}

// Killed and started again in every state; each time the same racks are steered before and after,
// no other is for a moment, and in the end all are.
TEST_F(SwitchingOn, ACoordinatorKilledInAnyStateOfARollOutGoesOn) {
  cluster.settings.rollout.required = true;
  cluster.start();
  ASSERT_EQ(order("rollout start", waves()), 0);
  for (std::size_t wave = 1; wave <= 3; ++wave)
    for (const char* state : {"pending", "enabling", "soaking"}) {
      ASSERT_TRUE(await_wave(wave, state, 60s)) << wave << " " << state << rollout();
      const auto enabled = cluster.store.rollout.enabled;
      const std::uint64_t changes = cluster.changes();
      cluster.stop();
      cluster.advance(500ms);
      cluster.start();
      if (!cluster.history.plans.empty())
        cluster.coordinator->restore(cluster.history.plans.back());
      EXPECT_EQ(cluster.store.rollout.enabled, enabled);
      cluster.advance(1s);
      for (const auto& [name, agent] : cluster.agents)
        if (!enabled.contains("rack" + name.substr(4)) && agent.role == Role::leaf) {
          EXPECT_TRUE(agent.installed.empty()) << name;
        }
      if (std::string_view(state) == "soaking") {
        EXPECT_EQ(cluster.changes(), changes) << "a restart moves nothing";
      }
    }
  ASSERT_TRUE(await_wave(3, "good", 60s)) << rollout();
  EXPECT_EQ(cluster.installed_pins(), 16U);
}

TEST_F(SwitchingOn, AWaveTurnedBackStaysSoThoughTheHistoryKnowsItsPins) {
  cluster.settings.rollout.required = true;
  cluster.start();
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(2, "soaking", 60s));
  const PlanRecord last = cluster.history.plans.back();
  ASSERT_EQ(order("rollout rollback"), 0);
  cluster.stop();
  cluster.start();
  cluster.coordinator->restore(last);
  cluster.advance(3s);
  EXPECT_EQ(cluster.installed_pins(), 0U);
  EXPECT_EQ(rollout()["phase"], "rolled-back");
}

TEST_F(SwitchingOn, OnABrokenDiskNoRackIsEnabledButEachCanBeTurnedBack) {
  cluster.settings.rollout.required = true;
  cluster.start();
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(1, "soaking", 60s));
  cluster.store.broken = true;
  ASSERT_EQ(order("rollout abort"), 1);
  cluster.advance(2s);
  EXPECT_EQ(cluster.installed_pins(), 0U);
  EXPECT_TRUE(cluster.logged("the roll-out's state cannot be kept"));
  EXPECT_EQ(order("rollout start", waves()), 1);
  EXPECT_EQ(rollout()["phase"], "aborted");
  cluster.advance(20s);
  EXPECT_EQ(cluster.installed_pins(), 0U);
  cluster.store.broken = false;
  ASSERT_EQ(order("rollout start", waves()), 0);
  ASSERT_TRUE(await_wave(1, "soaking", 60s));
}

// Whether an operator turned it back or a gate: it is stored as soon as the disk lets it, and until
// then nobody is told that all is well.
TEST_F(SwitchingOn, ATurnBackThatCouldNotBeStoredIsStoredLater) {
  cluster.settings.rollout.required = true;
  cluster.sending = [](Time now) { return now.time_since_epoch() % 2s < 1200ms; };
  for (const bool by_a_gate : {false, true}) {
    cluster.slowed = 1.0;
    cluster.store = {};
    cluster.history.plans.clear();
    cluster.log.clear();
    cluster.start();
    ASSERT_EQ(order("rollout start", waves()), 0);
    ASSERT_TRUE(await_wave(1, "soaking", 60s));
    cluster.store.broken = true;
    if (by_a_gate) {
      cluster.slowed = 0.1;
      ASSERT_TRUE(cluster.await(10s, [&] { return rollout()["phase"] == "stopped"; }));
    } else {
      const auto reply = cluster.ask("rollout rollback");
      EXPECT_EQ(reply->exit_code, 1);
      EXPECT_NE(reply->error.find("it is done, and would be undone by a restart"),
                std::string::npos)
          << reply->error;
    }
    ASSERT_TRUE(cluster.await(2s, [&] { return cluster.installed_pins() == 0; }));
    EXPECT_EQ(cluster.store.rollout.enabled.size(), 1U) << "the disk knows nothing of it";
    cluster.advance(3s);
    EXPECT_EQ(std::ranges::count_if(cluster.log,
                                    [](const std::string& line) {
                                      return line.find("cannot be kept") != std::string::npos;
                                    }),
              1)
        << "said once, not each time that it is tried";
    cluster.store.broken = false;
    ASSERT_TRUE(cluster.await(cluster.settings.period + 10ms,
                              [&] { return cluster.store.rollout.enabled.empty(); }));
    EXPECT_TRUE(cluster.logged("the roll-out's state is kept again"));
    cluster.stop();
    cluster.start();
    cluster.advance(10s);
    EXPECT_EQ(cluster.installed_pins(), 0U);
    cluster.stop();
  }
}

TEST_F(SwitchingOn, AnOffSwitchThatCouldNotBeStoredIsStoredLater) {
  cluster.start();
  settle();
  cluster.store.broken = true;
  const auto reply = cluster.ask("disable", {"--all"});
  EXPECT_EQ(reply->exit_code, 1);
  EXPECT_NE(reply->error.find("would be forgotten by a restart"), std::string::npos)
      << reply->error;
  EXPECT_EQ(cluster.installed_pins(), 0U) << "it works on a broken disk";
  EXPECT_TRUE(cluster.store.operators.disabled_nodes.empty());
  cluster.store.broken = false;
  cluster.advance(cluster.settings.period + 10ms);
  EXPECT_EQ(cluster.store.operators.disabled_nodes.size(), 24U);
  EXPECT_EQ(order("drain", {"--spine", "spine2"}), 0);
}

TEST_F(SwitchingOn, RefusesWhatCannotBeRolledOut) {
  cluster.settings.rollout.required = true;
  cluster.start();
  cluster.advance(1s);
  EXPECT_EQ(order("rollout start", {"--wave", "4", "rack9"}), 4);
  EXPECT_EQ(order("rollout start", {"rack1"}), 2);
  EXPECT_EQ(order("rollout start", {"--wave", "soon", "rack1"}), 2);
  EXPECT_EQ(order("rollout start", {}), 2);
  EXPECT_EQ(order("rollout pause"), 1);
  EXPECT_EQ(order("rollout resume", {"now"}), 2);
  EXPECT_EQ(order("rollout fly"), 2);
  cluster.agents.at("leaf1").mode = Mode::observe;
  cluster.reconnect();
  ASSERT_EQ(order("rollout start", waves()), 0);
  cluster.advance(10s);
  EXPECT_NE(rollout()["waits_for"].get<std::string>().find("leaf1: its agent only observes"),
            std::string::npos)
      << rollout();
  EXPECT_EQ(cluster.installed_pins(), 0U);
}

}  // namespace
}  // namespace heddle::testing
