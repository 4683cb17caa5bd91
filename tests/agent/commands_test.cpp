// What is commanded on a machine without a coordinator, beside an agent that runs.
#include "agent/commands.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "agent/program/guard.h"
#include "tests/agent/fake_node.h"

namespace heddle {
namespace {

// One pin, which an agent that runs takes away when it has seen the switch.
class OnePin final : public RouteKernel {
 public:
  void use(const RoutingRanges& ranges) override { used = ranges; }
  Result<void> probe() override { return {}; }
  Result<void> subscribe() override { return {}; }
  Result<KernelState> read() override { return read_ours(); }
  Result<KernelState> read_ours() override {
    KernelState state;
    if (++looks < 3 && used.protocol == RoutingRanges{}.protocol) {
      KernelRoute pin;
      pin.table = RoutingRanges{}.table_base;
      pin.destination = Prefix::host(IpAddress::v4(10, 2, 1, 2));
      pin.protocol = used.protocol;
      state.routes.push_back(pin);
    }
    return state;
  }
  Result<std::vector<ActionFailure>> apply(std::span<const Action>) override {
    return std::vector<ActionFailure>{};
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup>) override {
    return std::vector<LookupAnswer>{};
  }
  void resolve(std::uint32_t, const IpAddress&) override {}

  RoutingRanges used;
  int looks{};
};

class Commands : public testing::Test {
 protected:
  Commands() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-command-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    config.state_dir = config.run_dir = folder;
  }
  ~Commands() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  AgentConfig config;
  FakeRecord record;
};

TEST_F(Commands, DisableAwaitsThePinsOfAnAgentThatStartedWithOtherRanges) {
  OnePin kernel;
  ASSERT_TRUE(record.save({.ranges = RoutingRanges{}}));
  config.routing.protocol = 206;  // written since, and waits for a restart
  config.routing.table_base += 5000;
  kernel.use(config.routing);
  const Result<AgentLock> agent = AgentLock::take(folder.string());
  ASSERT_TRUE(agent);
  EXPECT_EQ(disable_command(kernel, record, config), kOk);
  EXPECT_EQ(kernel.looks, 3) << "not before they are gone";
  EXPECT_TRUE(std::filesystem::exists(folder / "disabled"));
}

}  // namespace
}  // namespace heddle
