#include "coordinator/state_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace heddle {
namespace {

using namespace std::chrono_literals;

class FileStateStoreTest : public ::testing::Test {
 protected:
  FileStateStoreTest() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-state-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~FileStateStoreTest() override { std::filesystem::remove_all(folder); }
  void write(const char* name, const std::string& text) { std::ofstream(folder / name) << text; }
  std::filesystem::path folder;
};

TEST_F(FileStateStoreTest, KeepsEpochAndOrdersOverARestart) {
  const OperatorState state{
      .disabled_nodes = {"leaf1", "h1-1"},
      .disabled_jobs = {{"gpt", {}}, {"auto-h3-1", {"h3-1", "h4-1"}}},
      .jobs = {{.name = "llama", .hosts = {"h1-1", "h2-1"}, .line = 0}},
      .drains = {{.target = {"spine", "spine3"}, .since = WallTime(1700000000s)}}};
  {
    auto store = FileStateStore::open(folder);
    ASSERT_TRUE(store);
    EXPECT_EQ(store->load_epoch(), 0U);
    EXPECT_EQ(store->load_operator_state(), OperatorState{});
    ASSERT_TRUE(store->store_epoch(41));
    ASSERT_TRUE(store->store_epoch(42));
    ASSERT_TRUE(store->store_operator_state(state));
  }
  auto store = FileStateStore::open(folder);
  EXPECT_EQ(store->load_epoch(), 42U);
  EXPECT_EQ(store->load_operator_state(), state);
}

TEST_F(FileStateStoreTest, KeepsARollOutOverARestart) {
  RolloutState state;
  state.phase = RolloutPhase::stopped;
  state.why = "gate iteration-time: ring-a: 300 ms before, 900 ms now";
  state.enabled = {"rack1"};
  state.waves = {{.racks = {"rack1"}, .soak = 60s, .state = WaveState::good, .verdict = "fine"},
                 {.racks = {"rack2", "rack3"}, .soak = 90s, .state = WaveState::rolled_back}};
  state.baseline.jobs["ring-a"] = {
      .in_bursts = 0.5, .mean = std::nullopt, .iteration = 300ms, .slack = 100ms};
  const FlowKey v4{.source = IpAddress::v4(10, 1, 1, 2),
                   .destination = IpAddress::v4(10, 2, 1, 2),
                   .source_port = 51986,
                   .dest_qpn = 0xffffff};
  const FlowKey v6{.source = *IpAddress::parse("fd00::1"),
                   .destination = *IpAddress::parse("fd00::2"),
                   .source_port = 49152,
                   .dest_qpn = 17};
  state.baseline.jobs["ring-a"].steady = {{.key = v4, .period = 300ms, .seen_by = "h1-1"},
                                          {.key = v6, .period = {}, .seen_by = "leaf2"}};
  state.baseline.hosts["h1-1"] = {
      .retransmissions = std::nullopt, .out_of_sequence = 0.25, .sequence_counters = 2};
  {
    auto store = FileStateStore::open(folder);
    EXPECT_EQ(store->load_rollout(), RolloutState{});
    ASSERT_TRUE(store->store_rollout(state));
  }
  EXPECT_EQ(FileStateStore::open(folder)->load_rollout(), state);
  EXPECT_FALSE(std::filesystem::exists(folder / "rollout.new"));
}

TEST_F(FileStateStoreTest, NamesADamagedFileAndLine) {
  auto store = FileStateStore::open(folder);
  for (const char* text : {"", "x\n", "12", "12 13\n", "99999999999999999999999\n"}) {
    write("epoch", text);
    const auto epoch = store->load_epoch();
    ASSERT_FALSE(epoch) << '"' << text << '"';
    EXPECT_NE(epoch.error().message.find("epoch:1:"), std::string::npos);
  }
  write("operator", "disabled-node leaf1\njob\n");
  const auto state = store->load_operator_state();
  ASSERT_FALSE(state);
  EXPECT_NE(state.error().message.find("operator:2:"), std::string::npos);
  write("operator", "drain spine spine3 soon\n");
  EXPECT_FALSE(store->load_operator_state());
  for (const char* text : {"", "heddle-rollout 2\n", "heddle-rollout 1\nphase running\nwave good\n",
                           "heddle-rollout 1\nphase running\njob a 1 2\n",
                           "heddle-rollout 1\nphase running\nwave better 1 a\n"}) {
    write("rollout", text);
    const auto rollout = store->load_rollout();
    ASSERT_FALSE(rollout) << text;
    const char* where =
        std::string_view(text).find("running") == std::string::npos ? "rollout:1:" : "rollout:3:";
    EXPECT_NE(rollout.error().message.find(where), std::string::npos) << rollout.error().message;
  }
}

TEST_F(FileStateStoreTest, SaysWhichFolderItCannotMake) {
  write("file", "");
  const auto store = FileStateStore::open(folder / "file" / "state");
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find((folder / "file" / "state").string()), std::string::npos);
}

}  // namespace
}  // namespace heddle
