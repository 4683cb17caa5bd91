// What is commanded on a machine without a coordinator, also when the disk of the state directory
// fails or the configuration is another than the one that the agent runs by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "agent/commands.h"
#include "agent/program/disable_switch.h"
#include "agent/program/guard.h"
#include "tests/agent/fake_node.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

// An agent under whose lock this test stands lives in here: it obeys a switch that it can see.
class ObeyingKernel final : public FakeKernel {
 public:
  Result<KernelState> read_ours() override {
    if (++looks >= obeys_at && agent_watches != nullptr && agent_watches->disabled()) {
      std::erase_if(state.routes, [](const KernelRoute& route) { return route.table != kMain; });
      obeyed = true;
    }
    return state;
  }
  const DisableSwitch* agent_watches{};
  int obeys_at{1};  // the look before which it does
  int looks{};
  bool obeyed{};
};

class FullRecord final : public FakeRecord {
 public:
  Result<void> save(const Ownership&) override { return fail(Errc::io, "no space left on device"); }
};

class DisableCommand : public ::testing::Test {
 protected:
  DisableCommand() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "heddle-commands-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    config.state_dir = folder / "state";
    config.run_dir = folder / "run";
    std::filesystem::create_directory(config.state_dir);
    std::filesystem::create_directory(config.run_dir);
    SteeringTables pinned;
    const std::uint32_t id = config.routing.nexthop_base;
    pinned.next_hops = {
        {.id = id, .ifindex = FakeKernel::kUp1, .gateway = IpAddress::v4(10, 101, 1, 2)}};
    pinned.rules = {{.in_port = "p1", .table = config.routing.table_base}};
    pinned.routes = {{.table = config.routing.table_base,
                      .destination = IpAddress::v4(10, 2, 1, 2),
                      .next_hop = id}};
    for (FakeRecord* each : {&record, static_cast<FakeRecord*>(&full_record)})
      each->record = Ownership::of(pinned, config.routing);
    EXPECT_TRUE(kernel.apply(reconcile(pinned, {}).make));
    EXPECT_EQ(kernel.pins().size(), 1U);
  }
  ~DisableCommand() override { std::filesystem::remove_all(folder); }

  // Nothing can be written there any more, by root neither.
  void lose_the_disk() { std::filesystem::remove_all(config.state_dir); }
  // What it said on stderr; `code` is how it ended.
  std::string disable(OwnershipStore& store) {
    ::testing::internal::CaptureStderr();
    code = disable_command(kernel, store, config);
    return ::testing::internal::GetCapturedStderr();
  }
  DisableSwitch off_switch() const { return {config.state_dir.string(), config.run_dir.string()}; }

  std::filesystem::path folder;
  AgentConfig config;
  ObeyingKernel kernel;
  FakeRecord record;
  FullRecord full_record;
  ExitCode code{};
};

TEST_F(DisableCommand, RemovesThePinsOfADeadAgentAndKeepsTheSwitch) {
  EXPECT_EQ(disable(record), "");
  EXPECT_EQ(code, kOk);
  EXPECT_TRUE(kernel.pins().empty());
  EXPECT_TRUE(std::filesystem::exists(config.state_dir / "disabled"));
  EXPECT_FALSE(std::filesystem::exists(config.run_dir / "disabled")) << "that is kept already";
}

TEST_F(DisableCommand, RemovesThePinsOfADeadAgentAlsoIfTheSwitchCannotBeKept) {
  lose_the_disk();
  EXPECT_THAT(disable(full_record),
              HasSubstr("the switch is not kept, and holds until a reboot: "));
  EXPECT_EQ(code, kFailed) << "a reboot would forget it";
  EXPECT_TRUE(kernel.pins().empty());
  EXPECT_TRUE(off_switch().disabled()) << "an agent that is started programs nothing";
}

TEST_F(DisableCommand, IsObeyedByARunningAgentAlsoIfTheSwitchCannotBeKept) {
  lose_the_disk();
  const auto lock = AgentLock::take(config.run_dir.string());
  ASSERT_TRUE(lock);
  const DisableSwitch seen_by_agent = off_switch();
  kernel.agent_watches = &seen_by_agent;
  EXPECT_THAT(disable(full_record),
              HasSubstr("the switch is not kept, and holds until a reboot: "));
  EXPECT_EQ(code, kFailed);
  EXPECT_TRUE(kernel.obeyed);
  EXPECT_TRUE(kernel.pins().empty());
  EXPECT_EQ(enable_command(config), kOk);
  EXPECT_FALSE(seen_by_agent.disabled());
}

TEST_F(DisableCommand, AwaitsThePinsOfAnAgentThatStartedWithOtherRanges) {
  config.routing.table_base += 5000;  // written since, and waits for a restart
  const auto lock = AgentLock::take(config.run_dir.string());
  ASSERT_TRUE(lock);
  const DisableSwitch seen_by_agent = off_switch();
  kernel.agent_watches = &seen_by_agent;
  kernel.obeys_at = 3;
  EXPECT_EQ(disable(record), "");
  EXPECT_EQ(code, kOk);
  EXPECT_EQ(kernel.looks, 3) << "not before they are gone";
}

// Neither directory takes it: an agent that runs would put back what is taken from under it.
TEST_F(DisableCommand, TakesNothingFromARunningAgentThatCannotBeTold) {
  const auto lock = AgentLock::take(config.run_dir.string());
  ASSERT_TRUE(lock);
  lose_the_disk();
  std::filesystem::create_directories(folder / "elsewhere");
  std::filesystem::create_hard_link(config.run_dir / "agent.lock",
                                    folder / "elsewhere" / "agent.lock");
  // A folder in the place of the file that the switch is written to first.
  std::filesystem::create_directory(folder / "elsewhere" /
                                    ("disabled." + std::to_string(::getpid()) + ".new"));
  config.run_dir = folder / "elsewhere";
  EXPECT_THAT(disable(full_record), HasSubstr("an agent that is started will program"));
  EXPECT_EQ(code, kFailed);
  EXPECT_EQ(kernel.pins().size(), 1U);
}

}  // namespace
}  // namespace heddle
