// Flow marks over a kernel of the test's own: which rows they need, in which order these change,
// and whose they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "agent/program/flush.h"
#include "agent/program/programmer.h"
#include "tests/agent/program/programmer_fakes.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ByQueuePair flow(std::uint16_t port, std::uint8_t to = 1) {
  return {
      .source = IpAddress::v4(10, 1, 1, 2), .destination = destination(to), .source_port = port};
}

ByQueuePair flow_v6(std::uint16_t port) {
  return {.source = *IpAddress::parse("fd00:1:1::2"),
          .destination = *IpAddress::parse("fd00:2:1::2"),
          .source_port = port};
}

NodePlan marks(std::uint64_t generation,
               const std::vector<std::pair<std::uint16_t, const char*>>& flows) {
  NodePlan result{.node = "leaf1", .version = {.epoch = 1, .generation = generation}, .pins = {}};
  for (const auto& [port, out] : flows)
    result.pins.push_back({.unit = flow(port), .target = FlowMark{out}, .reason = {}});
  return result;
}

class FlowMarks : public ProgrammerOverAFake {
 protected:
  void begin() { start(Mode::program, {}, Enforcer::flow_marks); }
  // Where the kernel leads a flow: by its mark, the rule for that mark and the route in its table.
  std::string way_of(std::uint16_t port) const {
    if (!kernel.state.mark_table)
      return "main";
    for (const MarkedFlow& marked : kernel.state.mark_table->flows) {
      if (marked.flow != flow(port))
        continue;
      const auto rule = std::ranges::find(kernel.state.rules, marked.mark, &KernelRule::mark);
      if (rule == kernel.state.rules.end())
        return "main";
      for (const KernelRoute& route : kernel.state.routes) {
        if (route.table != rule->table)
          continue;
        const auto hop =
            std::ranges::find(kernel.state.next_hops, route.next_hop_id, &KernelNextHop::id);
        return hop == kernel.state.next_hops.end() ? "main"
                                                   : "up" + std::to_string(hop->hop->ifindex);
      }
    }
    return "main";
  }
};

TEST_F(FlowMarks, NeedOneTableForEachUplinkAndOneMarkForEachFlow) {
  begin();
  EXPECT_EQ(programmer->capability(), (EnforcerCapability{.name = "flow-marks",
                                                          .granularity = Granularity::queue_pair,
                                                          .usable = true,
                                                          .reason = {}}));
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}, {3, "up1"}, {4, "up2"}}));
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 4U);
  EXPECT_TRUE(news->failed.empty());
  EXPECT_EQ(news->digest, digest(marks(1, {{1, "up1"}, {2, "up2"}, {3, "up1"}, {4, "up2"}}).pins));
  EXPECT_EQ(kernel.state.rules.size(), 2U);
  EXPECT_EQ(kernel.pinned(), 2U);
  EXPECT_EQ(kernel.state.mark_table->ports, std::vector<std::string>{"p1"});
  EXPECT_EQ(way_of(1), "up1");
  EXPECT_EQ(way_of(2), "up2");
  EXPECT_EQ(way_of(3), "up1");
}

TEST_F(FlowMarks, MoveInOneTransactionWhateverThePlanChanges) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up1"}, {3, "up1"}}));
  ASSERT_EQ(settle()->installed, 3U);
  kernel.done.clear();
  programmer->want(marks(2, {{1, "up2"}, {2, "up1"}, {4, "up2"}}));
  ASSERT_EQ(settle()->installed, 3U);
  EXPECT_EQ(
      std::ranges::count_if(kernel.done,
                            [](const Action& a) { return std::holds_alternative<ChangeMarks>(a); }),
      1);
  // Next hop, route and rule of up2 are there before the first mark leads to them.
  ASSERT_EQ(kernel.done.size(), 4U);
  const auto& change = std::get<ChangeMarks>(kernel.done.back());
  EXPECT_EQ(change.on.size(), 1U);
  EXPECT_EQ(change.moved.size(), 1U);
  EXPECT_EQ(change.off, std::vector{flow(3)});
  EXPECT_FALSE(change.make_table || change.drop_table);
  EXPECT_EQ(way_of(1), "up2");
  EXPECT_EQ(way_of(3), "main");
}

TEST_F(FlowMarks, TakeWhatNothingLeansOnAwayAfterTheMarksAreGone) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.done.clear();
  programmer->want(marks(2, {{1, "up2"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  ASSERT_EQ(kernel.done.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<ChangeMarks>(kernel.done[0]));
  EXPECT_TRUE(std::holds_alternative<RemoveRule>(kernel.done[1]));
  EXPECT_TRUE(std::holds_alternative<RemoveRoute>(kernel.done[2]));
  EXPECT_TRUE(std::holds_alternative<RemoveNextHop>(kernel.done[3]));
}

// Both families lean on the same uplinks, each by rules, routes and next hops of its own.
TEST_F(FlowMarks, HoldBothFamiliesInOneTable) {
  for (const std::uint32_t n : {1U, 2U}) {
    const IpAddress via = *IpAddress::parse("fd00:101:" + std::to_string(n) + "::2");
    kernel.state.next_hops.push_back(
        {.id = 20 + n, .protocol = 186, .hop = Hop{.ifindex = n, .gateway = via}, .members = {}});
    kernel.state.neighbours.push_back(
        {.ifindex = n, .address = via, .state = Resolution::resolved});
  }
  kernel.state.next_hops.push_back({.id = 30, .protocol = 186, .hop = {}, .members = {21, 22}});
  KernelRoute far;
  far.table = 254;
  far.destination = *Prefix::parse("fd00:2::/32");
  far.metric = usual_metric(Family::v6);
  far.next_hop_id = 30;
  kernel.state.routes.push_back(far);
  begin();
  NodePlan plan = marks(1, {{1, "up1"}, {2, "up2"}});
  plan.pins.push_back({.unit = flow_v6(1), .target = FlowMark{"up1"}, .reason = {}});
  plan.pins.push_back({.unit = ByQueuePair{.source = flow(3).source,
                                           .destination = flow_v6(3).destination,
                                           .source_port = 3},
                       .target = FlowMark{"up1"},
                       .reason = {}});
  std::ranges::sort(plan.pins, {}, &Pin::unit);
  programmer->want(plan);
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 3U);
  ASSERT_EQ(news->failed.size(), 1U);
  EXPECT_EQ(news->failed[0].reason, "flow marks hold flows by queue pair, and nothing else");
  std::map<std::uint32_t, std::vector<Family>> families;
  for (const KernelRule& rule : kernel.state.rules) {
    EXPECT_EQ(rule.mark, rule.table);
    families[rule.mark].push_back(rule.family);
  }
  EXPECT_EQ(families.size(), 3U) << "no table is shared by next hops of two families";
  const auto marked =
      std::ranges::find(kernel.state.mark_table->flows, flow_v6(1), &MarkedFlow::flow);
  ASSERT_NE(marked, kernel.state.mark_table->flows.end());
  EXPECT_EQ(families[marked->mark], std::vector{Family::v6});
}

TEST_F(FlowMarks, AreAllGoneWithTheirTableWhenNothingIsWanted) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  programmer->want_nothing("disabled");
  ASSERT_EQ(settle()->installed, 0U);
  EXPECT_FALSE(kernel.state.mark_table);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(kernel.state.rules.empty());
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(FlowMarks, AreAdoptedAfterARestartWithoutOneChange) {
  begin();
  const NodePlan plan = marks(1, {{1, "up1"}, {2, "up2"}});
  programmer->want(plan);
  ASSERT_EQ(settle()->installed, 2U);
  kernel.done.clear();
  begin();
  EXPECT_EQ(programmer->state().installed, 2U);
  EXPECT_EQ(programmer->state().digest, digest(plan.pins));
  programmer->want(plan);
  ASSERT_EQ(settle()->installed, 2U);
  EXPECT_TRUE(kernel.done.empty());
}

TEST_F(FlowMarks, GiveWayToPortTablesWhenTheConfigurationSaysSo) {
  begin();
  programmer->want(marks(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  start();
  EXPECT_FALSE(kernel.state.mark_table) << "what was held by the other enforcer is left to ECMP";
  programmer->want(plan(2, {{1, "up2"}}));
  ASSERT_EQ(settle()->installed, 1U);
  EXPECT_EQ(kernel.state.rules.size(), 1U);
  programmer->want(marks(3, {{1, "up1"}}));
  const auto news = settle();
  ASSERT_EQ(news->failed.size(), 1U);
  EXPECT_EQ(news->failed[0].reason,
            "port tables hold destinations by ingress port, and nothing else");
}

TEST_F(FlowMarks, AreMadeAgainWhenSomebodyFlushedOrChangedTheirTable) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  const KernelMarkTable whole = *kernel.state.mark_table;
  for (const bool flushed : {true, false}) {
    if (flushed)
      kernel.state.mark_table.reset();
    else
      kernel.state.mark_table->whole = false;
    programmer->kernel_changed(MarkEvent{});
    clock.time += milliseconds{50};
    settle();
    EXPECT_EQ(*kernel.state.mark_table, whole);
    EXPECT_EQ(programmer->state().installed, 2U);
    EXPECT_EQ(programmer->state().conflict, "");
  }
  EXPECT_EQ(programmer->counters().repairs, 2U);
}

TEST_F(FlowMarks, ThatTheKernelRefusesAreNotCounted) {
  begin();
  kernel.marks_fail = true;
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  const auto news = settle();
  EXPECT_EQ(news->installed, 0U);
  ASSERT_EQ(news->failed.size(), 2U);
  EXPECT_EQ(news->failed[0].reason,
            "the kernel refuses marks of flows in one transaction: the table made, 1 ports on, 0 "
            "off, 2 flows on, 0 moved, 0 off: not now");
  kernel.marks_fail = false;
  clock.time += seconds{1};
  EXPECT_EQ(settle()->installed, 2U);
}

// Without the capability the kernel does not show them, and what was seen last is no reading.
TEST_F(FlowMarks, ThatMayNotBeReadAreNotCounted) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.unable = Error{Errc::permission, "give the agent CAP_NET_ADMIN"};
  kernel.marks_fail = kernel.removals_fail = true;
  kernel.state.marks_hidden = true;
  programmer->kernel_changed(MarkEvent{});
  clock.time += milliseconds{50};
  const auto news = settle();
  ASSERT_TRUE(news);
  ASSERT_EQ(news->failed.size(), 2U);
  EXPECT_NE(news->failed[0].reason.find("CAP_NET_ADMIN"), std::string::npos)
      << news->failed[0].reason;
  kernel.unable.reset();
  kernel.marks_fail = kernel.removals_fail = kernel.state.marks_hidden = false;
  clock.time += seconds{30};
  EXPECT_EQ(settle()->installed, 2U);
  EXPECT_TRUE(programmer->state().failed.empty());
}

using MarksUnderSafetyRule12 = FlowMarks;

TEST_F(MarksUnderSafetyRule12, GoWhenMainNoLongerOffersTheirNextHop) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.state.next_hops.at(2).members = {2};
  programmer->kernel_changed(NextHopEvent{.next_hop = kernel.state.next_hops.at(2)});
  const auto news = settle();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->installed, 1U);
  EXPECT_EQ(news->failed.at(0).reason, "main does not offer up1 for 10.2.1.2");
  EXPECT_EQ(way_of(1), "main");
  EXPECT_EQ(way_of(2), "up2");
  EXPECT_EQ(programmer->counters().pins_withdrawn, 1U);
}

using MarksUnderSafetyRule6 = FlowMarks;

TEST_F(MarksUnderSafetyRule6, StayUncountedWhileAForgottenGatewayIsAskedFor) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  for (const Resolution state : {Resolution::pending, Resolution::failed}) {
    kernel.state.neighbours.at(0).state = state;
    programmer->kernel_changed(NeighbourEvent{.neighbour = kernel.state.neighbours.at(0)});
    settle();
    EXPECT_EQ(programmer->state().installed, 1U);
    EXPECT_EQ(way_of(1), state == Resolution::pending ? "up1" : "main");
  }
}

using MarksUnderSafetyRule1 = FlowMarks;

TEST_F(MarksUnderSafetyRule1, AreNotMadeWhereATableOfThatNameIsNotOurs) {
  kernel.state.mark_table =
      KernelMarkTable{.is_signed = false, .whole = false, .foreign = {}, .ports = {}, .flows = {}};
  begin();
  programmer->want(marks(1, {{1, "up1"}}));
  const auto news = settle();
  EXPECT_EQ(news->conflict,
            "nft table inet heddle-205: lies in our ranges, but is not of our protocol");
  EXPECT_TRUE(kernel.done.empty());
}

TEST_F(MarksUnderSafetyRule1, LeaveWhatOthersPutIntoTheirTableAndSteerNothingBesideIt) {
  begin();
  programmer->want(marks(1, {{1, "up1"}}));
  ASSERT_EQ(settle()->installed, 1U);
  kernel.state.mark_table->foreign = {"chain theirs"};
  kernel.state.mark_table->flows.push_back({.flow = flow(9), .mark = 5});
  programmer->kernel_changed(MarkEvent{});
  clock.time += milliseconds{50};
  settle();
  EXPECT_EQ(programmer->state().installed, 0U);
  EXPECT_EQ(programmer->state().conflict,
            "chain theirs in nft table inet heddle-205: looks like ours, but is not in our record "
            "(and 1 more)");
  ASSERT_TRUE(kernel.state.mark_table) << "theirs would go with the table";
  EXPECT_EQ(kernel.state.mark_table->flows,
            (std::vector<MarkedFlow>{{.flow = flow(9), .mark = 5}}));

  const auto report = flush(kernel, store, {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(kernel.state.mark_table);
  EXPECT_EQ(report->left_alone.size(), 3U);

  kernel.state.mark_table->foreign.clear();
  kernel.state.mark_table->flows.clear();
  programmer->kernel_changed(MarkEvent{});
  clock.time += milliseconds{50};
  settle();
  EXPECT_EQ(programmer->state().installed, 1U);
  EXPECT_EQ(way_of(1), "up1");
}

// As an earlier version left it, which marked IPv4 alone, in family ip.
KernelMarkTable former_table(const KernelMarkTable& present) {
  KernelMarkTable former = present;
  former.whole = false;
  return former;
}

TEST_F(FlowMarks, TakeOverFromAnEarlierVersionsTableInOneTransaction) {
  begin();
  const NodePlan plan = marks(1, {{1, "up1"}, {2, "up2"}});
  programmer->want(plan);
  ASSERT_EQ(settle()->installed, 2U);
  const KernelMarkTable whole = *kernel.state.mark_table;
  kernel.state.former_mark_table = former_table(whole);
  kernel.state.mark_table.reset();
  kernel.done.clear();
  begin();  // without a plan: what is found goes on
  ASSERT_EQ(kernel.done.size(), 1U) << "next hops, routes and rules are as good as they were";
  const auto& change = std::get<ChangeMarks>(kernel.done[0]);
  EXPECT_TRUE(change.drop_former && change.make_table && !change.drop_table);
  EXPECT_FALSE(kernel.state.former_mark_table);
  EXPECT_EQ(*kernel.state.mark_table, whole);
  EXPECT_EQ(programmer->state().installed, 2U);
  EXPECT_EQ(programmer->state().digest, digest(plan.pins));
  EXPECT_EQ(programmer->state().conflict, "");
  EXPECT_EQ(store.kept.marks.size(), 2U);
}

TEST_F(MarksUnderSafetyRule1, FlushAnEarlierVersionsTableWithTheRest) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  kernel.state.former_mark_table = former_table(*kernel.state.mark_table);
  const auto report = flush(kernel, store, {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->marks, 2U);
  EXPECT_TRUE(report->left_alone.empty());
  EXPECT_FALSE(kernel.state.mark_table || kernel.state.former_mark_table);
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(MarksUnderSafetyRule1, LeaveAnEarlierVersionsTableThatIsNotProvenOurs) {
  struct Case {
    const char* what;
    bool is_signed;
    bool recorded;
    const char* conflict;
  };
  for (const Case& c :
       {Case{"unsigned", false, true, ""},
        Case{"not in the record", true, false,
             "nft table ip heddle-205 of an earlier version: looks like ours, but is not in our "
             "record"},
        Case{"another's chain in it", true, true,
             "something in nft table ip heddle-205 of an earlier version: looks like ours, but is "
             "not in our record"},
        Case{"another's flow in it", true, true,
             "something in nft table ip heddle-205 of an earlier version: looks like ours, but is "
             "not in our record"}}) {
    SCOPED_TRACE(c.what);
    kernel.state.former_mark_table = KernelMarkTable{
        .is_signed = c.is_signed, .whole = false, .foreign = {}, .ports = {}, .flows = {}};
    if (std::string_view(c.what).ends_with("chain in it"))
      kernel.state.former_mark_table->foreign = {"chain theirs"};
    if (std::string_view(c.what).ends_with("flow in it"))
      kernel.state.former_mark_table->flows = {{.flow = flow(9), .mark = 5}};
    const auto before = kernel.state.former_mark_table;
    store.kept = {.ranges = RoutingRanges{}, .mark_table = c.recorded};
    begin();
    programmer->want(marks(1, {{1, "up1"}}));
    settle();
    EXPECT_EQ(programmer->state().conflict, c.conflict);
    EXPECT_EQ(programmer->state().installed, c.is_signed ? 0U : 1U);
    EXPECT_EQ(kernel.state.former_mark_table, before);
    ASSERT_TRUE(flush(kernel, store, {}));
    EXPECT_EQ(kernel.state.former_mark_table, before);
    EXPECT_FALSE(kernel.state.mark_table);
  }
}

TEST_F(MarksUnderSafetyRule1, AreFlushedWithAllThatBelongsToThem) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  const auto report = flush(kernel, store, {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->marks, 2U);
  EXPECT_EQ(report->rules, 2U);
  EXPECT_FALSE(kernel.state.mark_table);
  EXPECT_EQ(kernel.pinned(), 0U);
  EXPECT_TRUE(store.kept.empty());
}

TEST_F(MarksUnderSafetyRule1, AreOnlyTakenAwayWhileNothingCanBeRecorded) {
  begin();
  programmer->want(marks(1, {{1, "up1"}, {2, "up2"}}));
  ASSERT_EQ(settle()->installed, 2U);
  store.full = true;
  programmer->want(marks(2, {{2, "up2"}, {3, "up1"}}));
  const auto news = settle();
  EXPECT_EQ(news->installed, 1U);
  EXPECT_EQ(news->failed.at(0).reason, "No space left on device");
  EXPECT_EQ(way_of(1), "main");
  EXPECT_EQ(way_of(2), "up2");
  EXPECT_EQ(way_of(3), "main");
}

}  // namespace
}  // namespace heddle
