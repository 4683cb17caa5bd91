// What holds when the agent is gone: lease, guard, flush (safety rule 2).
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>

#include "agent/program/flush.h"
#include "agent/program/guard.h"
#include "tests/lab/each_way.h"
#include "tests/lab/program_lab.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

NodePlan two_pins() {
  return plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")});
}

std::unique_ptr<NetlinkKernel> kernel_of(const Leaf& leaf) {
  const InNamespace inside(leaf.leaf);
  return must(NetlinkKernel::open({.ranges = {}}));
}

struct Machine {
  Leaf leaf;
  TemporaryDirectory state;
  TemporaryDirectory run;
  SystemClock clock;
  std::string boot = must(current_boot_id());
  OwnershipFile store{state.path(), boot};
  std::unique_ptr<NetlinkKernel> kernel = kernel_of(leaf);

  GuardOutcome look(Time now) {
    return must(guard(*kernel, store, {.run_dir = run.path(), .boot_id = boot, .ranges = {}}, now));
  }
};

// Without the kernel's own, some of which IPv6 makes only some time after the link is up.
std::vector<RouteSeen> others_routes(Leaf& leaf) {
  auto routes = must(leaf.at_leaf.routes(tested_family));
  std::erase_if(routes, [](const RouteSeen& r) { return r.protocol == RTPROT_KERNEL; });
  return routes;
}

void kill_agent(pid_t agent) {
  ASSERT_EQ(::kill(agent, SIGKILL), 0);
  ASSERT_EQ(::waitpid(agent, nullptr, 0), agent);
}

class WhenTheAgentIsGone : public EachEnforcer {
 protected:
  static NodePlan wanted() {
    return plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")});
  }

  // The agent process: installs, tells through the pipe, waits to be killed. Its lease was written
  // before.
  static pid_t start_agent(Machine& m, Duration lease) {
    int tell[2];
    EXPECT_EQ(::pipe(tell), 0);
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto lock = AgentLock::take(m.run.path());
      Lease mine(m.run.path(), m.boot);
      must(mine.extend(m.clock.now() + lease));
      Agent agent(m.leaf, m.state.path(), 4 << 20, {}, config());
      const char good = lock && agent.installs(wanted()) ? 'y' : 'n';
      if (::write(tell[1], &good, 1) != 1)
        ::_exit(1);
      for (;;)
        ::pause();
    }
    ::close(tell[1]);
    char good = 0;
    EXPECT_EQ(::read(tell[0], &good, 1), 1);
    EXPECT_EQ(good, 'y');
    ::close(tell[0]);
    return child;
  }
};

using SafetyRule2Each = WhenTheAgentIsGone;
INSTANTIATE_TEST_SUITE_P(, SafetyRule2Each, every_way(), name_of_case);

TEST_P(SafetyRule2Each, TheGuardFlushesForADeadAgentAfterTheLeaseAndNotBefore) {
  Machine m;
  m.leaf.at_leaf.add_route(
      {.destination = net("10.2.1.2/32"), .nexthop_id = 2, .table = 77, .protocol = kOther});
  m.leaf.commit();
  const auto others = others_routes(m.leaf);
  EXPECT_EQ(m.look(m.clock.now()).verdict, GuardVerdict::nothing_installed);
  const pid_t agent = start_agent(m, milliseconds{500});
  const Time deadline = must(read_lease(m.run.path())).deadline;
  kill_agent(agent);

  const GuardOutcome before = m.look(deadline - milliseconds{1});
  EXPECT_EQ(before.verdict, GuardVerdict::lease_valid);
  EXPECT_EQ(before.next, deadline);
  EXPECT_EQ(m.leaf.pins(), 2U);

  const GuardOutcome after = m.look(deadline);
  EXPECT_EQ(after.verdict, GuardVerdict::flushed);
  EXPECT_EQ(after.report.routes, 2U);
  EXPECT_EQ(after.report.rules, is_of_hosts(GetParam().enforcer) ? 1U : 2U);
  EXPECT_EQ(after.report.next_hops, 2U);
  EXPECT_TRUE(m.leaf.nothing_pinned());
  EXPECT_EQ(others_routes(m.leaf), others);
  EXPECT_EQ(m.look(deadline).verdict, GuardVerdict::nothing_installed);
}

TEST_P(SafetyRule2Each, TheGuardLeavesTheEndOfALeaseToALivingAgentButNotForEver) {
  Machine m;
  const pid_t agent = start_agent(m, milliseconds{500});
  const Time deadline = must(read_lease(m.run.path())).deadline;
  EXPECT_EQ(m.look(deadline).verdict, GuardVerdict::left_to_agent);
  EXPECT_EQ(m.leaf.pins(), 2U);
  // It hangs.
  EXPECT_EQ(m.look(deadline + kGuardGrace).verdict, GuardVerdict::flushed);
  EXPECT_TRUE(m.leaf.nothing_pinned());
  kill_agent(agent);
}

TEST_P(SafetyRule2Each, TheGuardTakesAMissingOrDamagedLeaseOfADeadAgentForOneThatIsOver) {
  for (const char* content : {"", "nonsense\n", "boot 12", "boot 99999999999999999999\n"}) {
    SCOPED_TRACE(content);
    Machine m;
    kill_agent(start_agent(m, seconds{3600}));
    const std::string file = m.run.path() + "/lease";
    std::filesystem::remove(file);
    if (*content != '\0') {
      std::FILE* const out = std::fopen(file.c_str(), "w");
      ASSERT_NE(out, nullptr);
      std::fputs(content, out);
      std::fclose(out);
    }
    EXPECT_EQ(m.look(m.clock.now()).verdict, GuardVerdict::flushed);
    EXPECT_TRUE(m.leaf.nothing_pinned());
  }
}

TEST_P(SafetyRule2Each, ALivingAgentRestoresWhatTheGuardTookOnceItHasANewPlan) {
  Machine m;
  {
    Agent agent(m.leaf, m.state.path(), 4 << 20, {}, config());
    ASSERT_TRUE(agent.installs(wanted()));
    // No lease file and no lock: the guard thinks that it is dead.
    EXPECT_EQ(m.look(m.clock.now()).verdict, GuardVerdict::flushed);
    ASSERT_TRUE(m.leaf.nothing_pinned());
    const auto repairs = agent.programmer->counters().repairs;
    ASSERT_TRUE(agent.run_until([&] {
      return agent.programmer->counters().repairs > repairs && agent.state().installed == 2;
    }));
    EXPECT_EQ(m.leaf.pins(), 2U);
  }
  // And its next life knows them as its own.
  Agent agent(m.leaf, m.state.path(), 4 << 20, {}, config());
  ASSERT_TRUE(agent.installs(wanted()));
  EXPECT_EQ(agent.state().conflict, "");
  EXPECT_EQ(agent.programmer->counters().changes, 0U);
}

TEST(Flush, RemovesTenThousandPinsAndNothingElse) {
  Machine m;
  std::vector<Pin> pins;
  for (int d = 0; d < 10000; ++d)
    pins.push_back(
        pin("p1", fmt::format("10.2.{}.{}", d / 250, d % 250 + 2), Leaf::uplink(d % kUplinks + 1)));
  {
    Agent agent(m.leaf, m.state.path());
    ASSERT_TRUE(agent.installs(plan(1, pins)));
  }
  const Time begin = m.clock.now();
  const FlushReport report = must(flush(*m.kernel, m.store, {}));
  std::printf("[ measured ] 10,000 pins flushed in %.1f ms\n",
              lab::milliseconds(m.clock.now() - begin));
  EXPECT_EQ(report.routes, 10000U);
  EXPECT_TRUE(report.left_alone.empty());
  EXPECT_TRUE(m.leaf.nothing_pinned());
  EXPECT_TRUE(must(m.store.load()).empty());
}

TEST(Flush, NamesWhatItLeavesAlone) {
  Machine m;
  {
    Agent agent(m.leaf, m.state.path());
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  const std::uint32_t lent = m.leaf.pin_next_hops().at(0).id;
  m.leaf.at_leaf.add_route(
      {.destination = net("10.80.0.0/16"), .nexthop_id = lent, .protocol = kOther});
  m.leaf.commit();
  const FlushReport report = must(flush(*m.kernel, m.store, {}));
  EXPECT_EQ(report.routes, 2U);
  ASSERT_EQ(report.left_alone.size(), 2U);
  EXPECT_EQ(report.left_alone[0].rfind("route 10.80.0.0/16 table 254 proto 99", 0), 0U)
      << report.left_alone[0];
  EXPECT_EQ(report.left_alone[1],
            fmt::format("nexthop id {}: ours, but others' routes use it", lent));
  EXPECT_EQ(m.leaf.pin_next_hops().size(), 1U);
}

constexpr RoutingRanges kOtherRanges{.protocol = 210,
                                     .table_base = 30000,
                                     .table_count = 8,
                                     .rule_priority = 300,
                                     .nexthop_base = 7000,
                                     .nexthop_count = 8};

std::size_t routes_in_other_tables(Leaf& leaf) {
  const std::vector<RouteSeen> routes = must(leaf.at_leaf.routes());
  return static_cast<std::size_t>(std::count_if(routes.begin(), routes.end(), [](const auto& r) {
    return kOtherRanges.owns_table(r.table) && r.protocol == kOtherRanges.protocol;
  }));
}

TEST(SafetyRule1, AnAgentWithOtherRangesTakesAwayWhatTheFormerOnesHold) {
  Machine m;
  {
    Agent agent(m.leaf, m.state.path());
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  ProgramConfig config = programming();
  config.ranges = kOtherRanges;
  Agent agent(m.leaf, m.state.path(), 4 << 20, {}, config);
  ASSERT_TRUE(agent.installs(two_pins()));
  EXPECT_TRUE(m.leaf.nothing_pinned());
  EXPECT_EQ(routes_in_other_tables(m.leaf), 2U);
  EXPECT_EQ(must(recorded_ranges(m.state.path(), m.boot)), kOtherRanges);
}

TEST(SafetyRule1, TheGuardFlushesUnderTheRecordedRangesNotTheConfiguredOnes) {
  Machine m;
  ProgramConfig config = programming();
  config.ranges = kOtherRanges;
  {
    Agent agent(m.leaf, m.state.path(), 4 << 20, {}, config);
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  ASSERT_EQ(routes_in_other_tables(m.leaf), 2U);
  EXPECT_EQ(m.look(m.clock.now()).verdict, GuardVerdict::flushed);
  EXPECT_EQ(routes_in_other_tables(m.leaf), 0U);
  EXPECT_TRUE(must(m.store.load()).empty());
}

TEST(Flush, RefusesWithoutAReadableRecord) {
  Machine m;
  {
    Agent agent(m.leaf, m.state.path());
    ASSERT_TRUE(agent.installs(two_pins()));
  }
  std::filesystem::resize_file(m.state.path() + "/installed", 40);
  const auto refused = flush(*m.kernel, m.store, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::parse);
  EXPECT_EQ(m.leaf.pinned_routes().size(), 2U);
}

}  // namespace
}  // namespace heddle::lab
