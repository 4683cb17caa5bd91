// An agent killed at any step of a change and started again ends in the same tables (safety rule
// 3). The step is a single action in the kernel, or the record's writing; the agent is a process of
// its own, killed by SIGKILL.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>

#include "tests/lab/each_way.h"
#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

class Fate {
 public:
  explicit Fate(int steps) : left_(steps) {}
  void step() {
    if (left_-- == 0)
      ::raise(SIGKILL);
  }

 private:
  int left_;
};

// Hands the kernel one action at a time, so that death can come between any two.
class MortalKernel final : public RouteKernel {
 public:
  MortalKernel(RouteKernel& kernel, Fate& fate) : kernel_(kernel), fate_(fate) {}
  void use(const RoutingRanges& ranges) override { kernel_.use(ranges); }
  Result<void> probe() override { return kernel_.probe(); }
  Result<void> subscribe() override { return kernel_.subscribe(); }
  Result<KernelState> read() override { return kernel_.read(); }
  Result<KernelState> read_ours() override { return kernel_.read_ours(); }
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override {
    std::vector<ActionFailure> failures;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      fate_.step();
      for (ActionFailure failure : must(kernel_.apply(actions.subspan(i, 1)))) {
        failure.action = i;
        failures.push_back(std::move(failure));
      }
    }
    fate_.step();
    return failures;
  }
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override {
    return kernel_.look_up(lookups);
  }
  void resolve(std::uint32_t ifindex, const IpAddress& address) override {
    kernel_.resolve(ifindex, address);
  }

 private:
  RouteKernel& kernel_;
  Fate& fate_;
};

class MortalStore final : public OwnershipStore {
 public:
  MortalStore(OwnershipStore& store, Fate& fate) : store_(store), fate_(fate) {}
  Result<Ownership> load() override { return store_.load(); }
  Result<void> save(const Ownership& ownership) override {
    fate_.step();
    auto saved = store_.save(ownership);
    fate_.step();
    return saved;
  }

 private:
  OwnershipStore& store_;
  Fate& fate_;
};

// True if it was killed, false if the plan was installed before.
bool dies_installing(const Leaf& leaf, const std::string& state_dir, const ProgramConfig& config,
                     const NodePlan& wanted, int steps) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    Fate fate(steps);
    Agent agent(
        leaf, state_dir, 4 << 20,
        {.kernel = [&](RouteKernel& k) { return std::make_unique<MortalKernel>(k, fate); },
         .store = [&](OwnershipStore& s) { return std::make_unique<MortalStore>(s, fate); }},
        config);
    const bool installed = agent.installs(wanted);
    agent.settle();  // what is left for a moment goes, too
    ::_exit(installed ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return true;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the agent lived, but did not install the plan";
  return false;
}

// Every pin of ours as "port destination uplink", and how many other objects there are: ids may
// differ.
std::vector<std::string> picture(Leaf& leaf) {
  std::vector<std::string> result;
  for (const char* port : {"p1", "p2"}) {
    for (const char* destination : {"10.2.1.2", "10.2.2.2", "10.2.3.2"})
      result.push_back(
          fmt::format("{} {} {}", port, destination, leaf.pinned_to(port, destination)));
  }
  for (const RuleSpec& rule : leaf.pin_rules())
    result.push_back("rule " + rule.in_port);
  result.push_back(fmt::format("{} pins, {} routes, {} next hops", leaf.pins(),
                               leaf.pinned_routes().size(), leaf.pin_next_hops().size()));
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<RouteSeen> routes_of_others(Leaf& leaf) {
  std::vector<RouteSeen> result;
  for (const RouteSeen& route : must(leaf.at_leaf.routes(tested_family))) {
    // The kernel's own are left out: IPv6 makes some only a while after the link is up.
    if (!RoutingRanges{}.owns_table(route.table) && route.protocol != RTPROT_KERNEL)
      result.push_back(route);
  }
  return result;
}

using SafetyRule3Each = EachEnforcer;
INSTANTIATE_TEST_SUITE_P(, SafetyRule3Each, every_way(), name_of_case);

TEST_P(SafetyRule3Each, KilledAtEveryStepOfAChangeAndRestartedItEndsInTheSameTables) {
  Leaf leaf;
  const TemporaryDirectory state;
  // A move, an addition, a removal, a port that loses its last pin, a next hop that loses its last
  // route.
  const NodePlan before = plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p1", "10.2.2.2", "up2"),
                                   pin("p2", "10.2.1.2", "up2")});
  const NodePlan after = plan(2, {pin("p1", "10.2.1.2", "up2"), pin("p1", "10.2.3.2", "up3")});
  std::vector<std::string> expected;
  {
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(after));
    agent.settle();
    expected = picture(leaf);
  }
  const auto others = routes_of_others(leaf);
  int steps = 0;
  for (bool died = true; died; ++steps) {
    SCOPED_TRACE(fmt::format("killed at step {}", steps));
    {
      Agent agent(leaf, state.path(), 4 << 20, {}, config());
      ASSERT_TRUE(agent.installs(before));
    }
    died = dies_installing(leaf, state.path(), config(), after, steps);
    // Make before break: what is pinned before and after is pinned in between.
    EXPECT_NE(leaf.pinned_to("p1", "10.2.1.2"), "");
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(after));
    agent.settle();
    EXPECT_EQ(agent.state().conflict, "");
    EXPECT_EQ(picture(leaf), expected);
    EXPECT_EQ(routes_of_others(leaf), others);
    ASSERT_LT(steps, 100);
  }
  // 2 writes of the record with 2 steps each; 2 batches, of 5 and 2 actions or so (3 and 3 where
  // the marks change in one transaction), with one more each.
  std::printf("[ measured ] killed at each of %d steps\n", steps - 1);
  EXPECT_GE(steps, 11);
}

TEST_P(SafetyRule3Each, KilledAtEveryStepOfRemovingEverythingItLeavesNothingBehind) {
  Leaf leaf;
  const TemporaryDirectory state;
  const NodePlan before = plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")});
  int steps = 0;
  for (bool died = true; died; ++steps) {
    SCOPED_TRACE(fmt::format("killed at step {}", steps));
    {
      Agent agent(leaf, state.path(), 4 << 20, {}, config());
      ASSERT_TRUE(agent.installs(before));
    }
    died = dies_installing(leaf, state.path(), config(), plan(2, {}), steps);
    Agent agent(leaf, state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(plan(2, {})));
    EXPECT_TRUE(leaf.nothing_pinned());
    ASSERT_LT(steps, 100);
  }
  EXPECT_GE(steps, 8);
}

}  // namespace
}  // namespace heddle::lab
