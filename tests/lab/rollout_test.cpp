// Switched on with care, on a real fabric: a roll-out over four racks under traffic, with a wave
// that is made bad on purpose and a coordinator killed in each state; the off switch; a drain. The
// programs are the real ones. Needs root.
#include <gtest/gtest.h>

#include "tests/lab/rollout_lab.h"

namespace heddle::lab {
namespace {

// Three waves: rack 1, racks 2 and 3, rack 4. The first is good, over a coordinator that is killed
// in each of its states. In the second, an uplink of leaf 2 is shaped down after it was enabled; it
// is turned back by itself. Repaired, it is tried again, and all is enabled.
TEST_F(RolloutLab, SafetyRule11AWaveMadeBadIsRolledBackByItsGateAndAGoodOneIsKept) {
  start("required");
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(pins(), 0) << "agents may program, and nobody has enabled their racks";
  show("status");
  show("flows");
  show("jobs");
  write_waves(
      "soak_s: 6\nwaves:\n  - racks: [rack1]\n  - racks: [rack2, rack3]\n  - racks: [rack4]\n");
  ask({"rollout", "start", "--waves", (cluster->folder() / "waves.yaml").string()});
  show("rollout status");

  await_wave(1, "pending", 5s);
  kill_coordinator();
  ASSERT_EQ(kill_when_stored(1, "enabling", 40s), "enabling");
  must(cluster->start_coordinator());
  const json enabled = await_rollout([](const json& now) { return now["waves"].size() == 3; }, 10s);
  EXPECT_NE(enabled["waves"][0]["state"], "pending") << "it goes on where it was";
  EXPECT_EQ(enabled["phase"], "running");
  await_wave(1, "soaking", 40s);
  EXPECT_GT(pins_of(1), 0);
  EXPECT_EQ(pins_of(2) + pins_of(3) + pins_of(4), 0);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4);
  kill_coordinator();
  await_rollout(
      [](const json& now) { return now["waves"].size() == 3 && now["waves"][0]["soaked_s"] >= 4; },
      40s);
  show("rollout status");
  await_wave(1, "good", 40s);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4);
  show("plan show");
  show("plan log --last 4");
  show("jobs");
  kill_coordinator();

  ask({"rollout", "pause"});
  kill_coordinator();
  EXPECT_EQ(await_rollout([](const json&) { return true; }, 10s)["phase"], "paused");
  ask({"rollout", "resume"});
  const json soaking = await_wave(2, "soaking", 40s);
  EXPECT_EQ(soaking["phase"], "running");
  EXPECT_GT(pins_of(2), 0);
  std::this_thread::sleep_for(2s);
  show("rollout status");
  // One uplink that a pin of leaf 2 uses, at a sixth of its rate.
  const int spine = pinned_spine(2);
  const Time slow = boot_now();
  must(fabric->shape_uplink(2, spine, Rate{4e6}));
  const json back = await_wave(2, "rolled-back", 15s);
  const double took = std::chrono::duration<double>(boot_now() - slow).count();
  // Of the slowed iterations, which are the periods now.
  double period = kCompute / 1ms;
  for (const ClusterJob& job : jobs)
    period = std::max(period, std::chrono::duration<double, std::milli>(kCompute).count() +
                                  std::max(mean_ms(job.name, slow), under_way_ms(job.name)));
  std::cout << fmt::format(
      "rolled back {:.2f} s after leaf2-spine{} was slowed, a period then being {:.2f} s: {}\n",
      took, spine, period / 1000, back["why"].get<std::string>());
  EXPECT_LT(took * 1000, 2 * period);
  EXPECT_EQ(back["phase"], "stopped");
  show("rollout status");
  show("plan log --last 4");
  const Time end = boot_now() + 5s;
  while (pins_of(2) + pins_of(3) > 0 && boot_now() < end)
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(pins_of(2) + pins_of(3), 0);
  EXPECT_EQ(rollout()["racks"][0]["pins"], 4) << "the good wave stays";
  kill_coordinator();
  const json after = await_rollout(
      [](const json& now) {
        return now["racks"].size() == 4 && now["racks"][0]["confirmed"] == true;
      },
      20s);
  EXPECT_EQ(after["phase"], "stopped");
  EXPECT_EQ(after["waves"][1]["state"], "rolled-back");
  EXPECT_EQ(after["racks"][0]["pins"], 4);
  EXPECT_EQ(pins_of(2) + pins_of(3), 0) << "a restart enables nothing again";

  must(fabric->shape_uplink(2, spine, fabric->spec().rate));
  std::this_thread::sleep_for(3s);
  ask({"rollout", "resume"});
  await_wave(3, "good", 90s);
  EXPECT_EQ(rollout()["phase"], "done");
  kill_coordinator();
  EXPECT_EQ(await_rollout([](const json&) { return true; }, 10s)["phase"], "done");
  for (int leaf = 1; leaf <= 4; ++leaf)
    EXPECT_GT(pins_of(leaf), 0) << leaf;
}

TEST_F(RolloutLab, DisableAllUnderLoadIsReadBackInUnderASecondAlsoWithoutACoordinator) {
  start("off");
  // A plan without pins comes first, where no flow has shown itself yet.
  must(cluster->await(
      [&](const ClusterStatus& now) { return now.converged == now.agents && pins() > 0; }, 30s,
      "pins to be installed"));
  const Time begin = boot_now();
  const json nodes = ask({"disable", "--all"})["nodes"];
  const auto took = std::chrono::duration<double, std::milli>(boot_now() - begin).count();
  EXPECT_EQ(pins(), 0);
  EXPECT_EQ(nodes.size(), 20U);
  for (const json& node : nodes)
    EXPECT_TRUE(node["confirmed"]) << node;
  std::cout << fmt::format("disable --all read back from {} nodes after {:.0f} ms\n", nodes.size(),
                           took);
  EXPECT_LT(took, 1000);

  ask({"enable", "--all"});
  const Time again = boot_now() + 20s;
  while (pins() == 0 && boot_now() < again)
    std::this_thread::sleep_for(50ms);
  ASSERT_GT(pins(), 0);
  cluster->kill_coordinator();
  const Time dead = boot_now();
  std::vector<std::thread> machines;
  for (int leaf = 1; leaf <= 4; ++leaf)
    machines.emplace_back([&, leaf] {
      const auto done =
          capture({.words = {HEDDLE_AGENT, "disable", "--config",
                             (cluster->folder() / fmt::format("leaf{}.yaml", leaf)).string()},
                   .space = &fabric->space(NodeName::leaf(leaf)),
                   .log = {}},
                  10s);
      EXPECT_TRUE(done && done->status == 0) << (done ? done->errors : done.error().message);
    });
  for (std::thread& machine : machines)
    machine.join();
  const auto alone = std::chrono::duration<double, std::milli>(boot_now() - dead).count();
  EXPECT_EQ(pins(), 0);
  std::cout << fmt::format("heddle-agent disable on 4 leaves without a coordinator: {:.0f} ms\n",
                           alone);
  EXPECT_LT(alone, 1000);
}

TEST_F(RolloutLab, ADrainedSpineIsEmptyAndItsLinksCanBeCutWithoutALoss) {
  start("off");
  must(cluster->await(
      [&](const ClusterStatus& now) { return now.converged == now.agents && pins() > 0; }, 30s,
      "pins to be installed"));
  must(traffic->await_iterations(2, boot_now(), 20s));
  const std::uint64_t lost = lost_for_good();
  must(traffic->await_iterations(1, boot_now(), 20s));
  traffic->probe(100);
  const Time begin = boot_now();
  ask({"drain", "--spine", "spine2"});
  json seen;
  for (const Time end = boot_now() + 15s; boot_now() < end; std::this_thread::sleep_for(100ms)) {
    seen = ask({"drain", "status"})["drains"][0];
    if (seen["state"] == "empty")
      break;
  }
  EXPECT_EQ(seen["state"], "empty") << seen;
  show("drain status");
  std::cout << fmt::format("spine2 is empty {:.1f} s after the order: {}\n",
                           std::chrono::duration<double>(boot_now() - begin).count(),
                           seen["links"].dump());
  must(traffic->await_iterations(2, boot_now(), 20s));
  std::this_thread::sleep_for(kDrain);
  const ProbeCounts moved = traffic->probes_between(begin, boot_now() - kDrain);
  EXPECT_EQ(moved.lost, 0U) << "of " << moved.sent;
  EXPECT_EQ(lost_for_good(), lost);
  const Time calm = boot_now();
  must(traffic->await_iterations(5, calm, 20s));
  const std::string plan = must(cluster->plan()).version;
  std::map<std::string, double> before;
  for (const ClusterJob& job : jobs)
    before[job.name] = median_ms(job.name, calm);

  const Time cut = boot_now();
  must(fabric->cut_spine(2));
  must(traffic->await_iterations(5, cut, 20s));
  for (const ClusterJob& job : jobs) {
    const double now = median_ms(job.name, cut);
    EXPECT_NEAR(now, before[job.name], 0.2 * before[job.name]) << job.name;
    std::cout << fmt::format("{}: {:.0f} ms of communication, {:.0f} ms with its links cut\n",
                             job.name, before[job.name], now);
  }
  EXPECT_EQ(must(cluster->plan()).version, plan) << "nothing was left there to be moved";
  std::this_thread::sleep_for(kDrain);
  const ProbeCounts after = traffic->probes_between(cut - 50ms, boot_now() - kDrain);
  EXPECT_EQ(after.lost, 0U) << "of " << after.sent;
  // Acknowledgements are small flows that ECMP hashes: those on a cable that is cut are lost, and
  // their flows repeat what had arrived. Of what jobs send nothing may be lost.
  EXPECT_EQ(lost_for_good(), lost);
  std::cout << fmt::format(
      "probes lost while it was drained {} of {}, when it was cut {} of {}; packets of jobs: 0\n",
      moved.lost, moved.sent, after.lost, after.sent);
  must(fabric->restore_spine(2));
  ask({"undrain", "--spine", "spine2"});
}

}  // namespace
}  // namespace heddle::lab
