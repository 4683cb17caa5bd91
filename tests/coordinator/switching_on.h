// A cluster on which heddle is switched on and off: what the tests of roll-outs, drains and what is
// never to be touched share. Seeds are fixed.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/coordinator/fake_cluster.h"

namespace heddle::testing {

using nlohmann::json;

// A ring in which every leaf sends four flows into the core.
class SwitchingOn : public ::testing::Test {
 protected:
  SwitchingOn() : cluster(4, 4, 4, kSeed) {
    cluster.ring(4, 4);
    cluster.settings.rollout.baseline = 3s;
    cluster.settings.rollout.converge = 3s;
    cluster.settings.rollout.unobservable_blocks = false;
  }
  static constexpr std::uint64_t kSeed = 20261130;

  void settle() {
    ASSERT_TRUE(cluster.await(
        10s,
        [&] { return cluster.converged() && cluster.installed_pins() == cluster.flows.size(); }))
        << cluster.installed_pins() << " pins";
  }
  json rollout() { return json::parse(cluster.ask("rollout status")->json); }
  std::uint8_t order(const std::string& command, std::vector<std::string> words = {}) {
    const auto reply = cluster.ask(command, std::move(words));
    return reply ? reply->exit_code : 99;
  }
  bool await_wave(std::size_t wave, const std::string& state, Duration patience = 30s) {
    return cluster.await(patience, [&] {
      const auto& waves = cluster.store.rollout.waves;
      return wave <= waves.size() && to_string(waves[wave - 1].state) == state;
    });
  }
  std::size_t pins_of(const std::string& leaf) { return cluster.agents.at(leaf).installed.size(); }
  static constexpr const char* kWaves[] = {"--wave", "4",     "rack1",  "--wave", "4",
                                           "rack2",  "rack3", "--wave", "4",      "rack4"};
  static std::vector<std::string> waves() { return {std::begin(kWaves), std::end(kWaves)}; }

  FakeCluster cluster;
};

}  // namespace heddle::testing
