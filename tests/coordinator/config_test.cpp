#include "coordinator/config.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "tests/tree.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

class CoordinatorConfigTest : public ::testing::Test {
 protected:
  CoordinatorConfigTest() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-config-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~CoordinatorConfigTest() override { std::filesystem::remove_all(folder); }
  Result<CoordinatorConfig> load(const std::string& text) {
    std::ofstream(folder / "c.yaml") << text;
    return load_coordinator_config(folder / "c.yaml");
  }
  std::filesystem::path folder;
};

TEST_F(CoordinatorConfigTest, ReadsItsKeysInTheirUnits) {
  const auto config = load(
      "fabric: f.yaml\nlease_s: 3\nperiod_ms: 250\nelephant_mbps: 1.5\nelephant_message_bytes: "
      "65536\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->lease, Duration(3s));
  EXPECT_EQ(config->period, Duration(250ms));
  EXPECT_EQ(config->elephant_rate, Rate{1.5e6});
  EXPECT_EQ(config->elephant_message, Bytes{65536});
}

TEST_F(CoordinatorConfigTest, NamesFileLineAndKeyOfEveryMistake) {
  const auto config = load(
      "lease_s: 0\n"
      "optimiser: magic\n"
      "period: 5\n"
      "log_level: loud\n"
      "hysteresis: 2\n");
  ASSERT_FALSE(config);
  for (const char* part : {"c.yaml:1", "lease_s", "c.yaml:2", "magic", "c.yaml:3", "period",
                           "c.yaml:4", "loud", "c.yaml:5", "hysteresis", "fabric"})
    EXPECT_NE(config.error().message.find(part), std::string::npos) << part << " is not in:\n"
                                                                    << config.error().message;
}

TEST_F(CoordinatorConfigTest, ReadsHowCarefulItIsToBe) {
  const auto config = load(
      "fabric: f.yaml\nmoves_per_plan: 7\ndwell_s: 3\nquiet_wait_s: 0\nnever_touch: [10.9.0.0/16]\n"
      "drained_mbps: 2.5\nrollout:\n  mode: off\n  baseline_s: 5\n  unobservable: pass\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->decide.moves_per_plan, 7U);
  EXPECT_EQ(config->decide.dwell, Duration(3s));
  EXPECT_EQ(config->decide.quiet_wait, Duration(0s));
  EXPECT_EQ(config->never_touch, (std::vector{*Prefix::parse("10.9.0.0/16")}));
  EXPECT_EQ(config->drained_below, Rate{2.5e6});
  EXPECT_FALSE(config->rollout.required);
  EXPECT_EQ(config->rollout.baseline, Duration(5s));
  EXPECT_FALSE(config->rollout.unobservable_blocks);
  const auto wrong =
      load("fabric: f.yaml\nnever_touch: [ten]\nrollout: {mode: perhaps, soak: 1}\n");
  ASSERT_FALSE(wrong);
  for (const char* part : {"c.yaml:2", "'ten' is no prefix", "c.yaml:3", "perhaps", "soak"})
    EXPECT_NE(wrong.error().message.find(part), std::string::npos) << part << " is not in:\n"
                                                                   << wrong.error().message;
}

TEST_F(CoordinatorConfigTest, TheExampleIsGoodAndNamesTheDefaults) {
  const auto example =
      load_coordinator_config(HEDDLE_SOURCE_DIR "/systemd/coordinator.yaml.example");
  ASSERT_TRUE(example) << example.error().message;
  const CoordinatorConfig defaults;
  EXPECT_EQ(example->listen, defaults.listen);
  EXPECT_EQ(example->key, defaults.key);
  EXPECT_EQ(example->authorised_keys, defaults.authorised_keys);
  EXPECT_EQ(example->state_dir, defaults.state_dir);
  EXPECT_EQ(example->lease, defaults.lease);
  EXPECT_EQ(example->period, defaults.period);
  EXPECT_EQ(example->report_interval, defaults.report_interval);
  EXPECT_EQ(example->flow_memory, defaults.flow_memory);
  EXPECT_EQ(example->history, defaults.history);
  EXPECT_EQ(example->optimiser, defaults.optimiser);
  EXPECT_EQ(example->decide, defaults.decide);
  EXPECT_EQ(example->rollout, defaults.rollout);
  EXPECT_EQ(example->never_touch, defaults.never_touch);
  EXPECT_EQ(example->drained_below, defaults.drained_below);
  EXPECT_EQ(example->elephant_rate, defaults.elephant_rate);
  EXPECT_EQ(example->elephant_message, defaults.elephant_message);
}

}  // namespace
}  // namespace heddle
