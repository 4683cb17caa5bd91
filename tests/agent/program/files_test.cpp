// Leases, the record of what is installed, and the off switch: files that a crash may leave in any
// state.
#include "agent/program/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/program/disable_switch.h"
#include "agent/program/guard.h"
#include "agent/program/lease.h"
#include "agent/program/ownership.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Files : public testing::Test {
 protected:
  Files() {
    char name[] = "/tmp/heddle-test-XXXXXX";
    directory = ::mkdtemp(name);
  }
  ~Files() override { std::filesystem::remove_all(directory); }
  void put(const char* name, const std::string& content) const {
    std::ofstream(directory + "/" + name, std::ios::binary) << content;
  }
  std::string directory;
};

SteeringTables tables() {
  const IpAddress d = IpAddress::v4(10, 2, 1, 2);
  return {
      .next_hops = {{.id = 5, .ifindex = 1, .gateway = d}, {.id = 6, .ifindex = 2, .gateway = d}},
      .routes = {{.table = 18800, .destination = d, .next_hop = 5}},
      .rules = {{.in_port = "p1", .table = 18800}}};
}

// None is a default's.
constexpr RoutingRanges kRanges{.protocol = 77,
                                .table_base = 500,
                                .table_count = 20,
                                .rule_priority = 30,
                                .nexthop_base = 4000,
                                .nexthop_count = 600};

using OwnershipRecord = Files;

TEST_F(OwnershipRecord, SaysUnderWhichRangesItWasWrittenEvenWithoutAConfiguration) {
  EXPECT_EQ(recorded_ranges(directory, "boot-a").value(), RoutingRanges{});
  ASSERT_TRUE(OwnershipFile(directory, "boot-a").save(Ownership::of(tables(), kRanges)));
  EXPECT_EQ(recorded_ranges(directory, "boot-a").value(), kRanges);
  EXPECT_EQ(recorded_ranges(directory, "boot-b").value(), RoutingRanges{});
  put("installed", "heddle-ownership 2 boot-a protocol 256 tables 1 2 rules 3 nexthops 4 5\nend\n");
  EXPECT_EQ(recorded_ranges(directory, "boot-a").error().code, Errc::parse);
}

TEST_F(OwnershipRecord, OfTheFirstFormatIsStillRead) {
  put("installed", "heddle-ownership 1 boot-a\nnexthop 5\nend\n");
  const Ownership read = OwnershipFile(directory, "boot-a").load().value();
  EXPECT_EQ(read, Ownership{.next_hops = {5}});
  EXPECT_EQ(recorded_ranges(directory, "boot-a").value(), RoutingRanges{});
}

TEST_F(OwnershipRecord, HoldsMarksAndTheirTable) {
  const IpAddress d = IpAddress::v4(10, 2, 1, 2);
  const ByQueuePair flow{.source = d, .destination = d, .source_port = 51986};
  const SteeringTables marks{.next_hops = {{.id = 5, .ifindex = 1, .gateway = d}},
                             .routes = {{.table = 18800, .destination = {}, .next_hop = 5}},
                             .rules = {{.in_port = {}, .table = 18800},
                                       {.in_port = {}, .table = 18801, .family = Family::v6},
                                       {.in_port = "p1", .table = 18802, .family = Family::v6}},
                             .mark_table = MarkTable::whole,
                             .mark_ports = {"p1", "p2"},
                             .marks = {{.flow = flow, .mark = 18800}}};
  OwnershipFile file(directory, "boot-a");
  ASSERT_TRUE(file.save(Ownership::of(marks, kRanges)));
  const Ownership read = file.load().value();
  EXPECT_EQ(read, Ownership::of(marks, kRanges));
  EXPECT_TRUE(read.mark_table && read.owns_mark(flow) && read.owns_mark_port("p2"));
  EXPECT_TRUE(read.owns_rule({.in_port = {}, .table = 18800}));
  EXPECT_FALSE(read.empty());
  EXPECT_TRUE(read.covers(Ownership::of({}, kRanges)));
  EXPECT_FALSE(Ownership::of(tables(), kRanges).covers(read));
  for (const char* line :
       {"markrule x", "markrule 1 2", "marktable 1", "markport ", "mark 10.1.1.2 10.2.1.2",
        "mark 10.1.1.2 10.2.1.2 65536", "mark 10.1.1.2 ten 1"}) {
    put("installed", fmt::format("heddle-ownership 1 boot-a\n{}\nend\n", line));
    EXPECT_EQ(file.load().error().code, Errc::parse) << line;
  }
}

TEST_F(OwnershipRecord, ReadsBackWhatItWrote) {
  OwnershipFile file(directory, "boot-a");
  EXPECT_EQ(file.load().value(), Ownership{});
  ASSERT_TRUE(file.save(Ownership::of(tables(), kRanges)));
  const Ownership read = OwnershipFile(directory, "boot-a").load().value();
  EXPECT_EQ(read, Ownership::of(tables(), kRanges));
  EXPECT_TRUE(read.owns_next_hop(5));
  EXPECT_FALSE(read.owns_next_hop(7));
  EXPECT_TRUE(read.owns_rule({.in_port = "p1", .table = 18800}));
  EXPECT_FALSE(read.owns_rule({.in_port = "p1", .table = 18801}));
  EXPECT_TRUE(read.owns_route(18800, IpAddress::v4(10, 2, 1, 2)));
  EXPECT_FALSE(read.owns_route(18801, IpAddress::v4(10, 2, 1, 2)));
}

TEST_F(OwnershipRecord, OfAnotherBootClaimsNothing) {
  ASSERT_TRUE(OwnershipFile(directory, "boot-a").save(Ownership::of(tables(), kRanges)));
  EXPECT_EQ(OwnershipFile(directory, "boot-b").load().value(), Ownership{});
}

TEST_F(OwnershipRecord, CutOffAnywhereIsRefused) {
  OwnershipFile file(directory, "boot-a");
  ASSERT_TRUE(file.save(Ownership::of(tables(), kRanges)));
  const std::string whole = read_small_file(directory + "/installed").value();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put("installed", whole.substr(0, length));
    const auto read = file.load();
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().code, Errc::parse);
  }
}

TEST_F(OwnershipRecord, NamesTheLineThatItCannotRead) {
  put("installed", "heddle-ownership 1 boot-a\nnexthop 5\nroute 18800 somewhere\nend\n");
  const auto read = OwnershipFile(directory, "boot-a").load();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, directory + "/installed:3: not a record of what is installed");
}

TEST(Ownership, CoversAndMerges) {
  const Ownership a{.next_hops = {1, 2}}, b{.next_hops = {2, 3}, .rules = {{"p1", 5}}};
  const Ownership both{.next_hops = {1, 2, 3}, .rules = {{"p1", 5}}};
  EXPECT_EQ(a.merged(b), both);
  EXPECT_TRUE(both.covers(a) && both.covers(b));
  EXPECT_FALSE(a.covers(b));
}

using LeaseFile = Files;

TEST_F(LeaseFile, IsReadByAnotherProcessAsItWasWritten) {
  Lease lease(directory, "boot-a");
  EXPECT_TRUE(lease.lease_expired(Time{}));
  ASSERT_TRUE(lease.extend(Time{seconds{100}}));
  EXPECT_FALSE(lease.lease_expired(Time{seconds{100} - milliseconds{1}}));
  EXPECT_TRUE(lease.lease_expired(Time{seconds{100}}));
  const LeaseRecord read = read_lease(directory).value();
  EXPECT_EQ(read, (LeaseRecord{.boot_id = "boot-a", .deadline = Time{seconds{100}}}));
  EXPECT_FALSE(lease_expired(read, "boot-a", Time{seconds{99}}));
  EXPECT_TRUE(lease_expired(read, "boot-a", Time{seconds{100}}));
  EXPECT_TRUE(lease_expired(read, "boot-b", Time{seconds{99}}));
}

// The file lags less than a second behind, and never claims more than was granted.
TEST_F(LeaseFile, IsWrittenOnlyWhenTheDeadlineMovesNotablyOrBack) {
  Lease lease(directory, "boot-a");
  const auto extend = [&](Duration d) { ASSERT_TRUE(lease.extend(Time{d})); };
  const auto on_disk = [&] { return read_lease(directory).value().deadline; };
  extend(seconds{10});
  extend(seconds{10} + milliseconds{999});
  EXPECT_EQ(on_disk(), Time{seconds{10}});
  EXPECT_EQ(lease.deadline(), Time{seconds{10} + milliseconds{999}});
  extend(seconds{11});
  EXPECT_EQ(on_disk(), Time{seconds{11}});
  extend(seconds{10} + milliseconds{999});
  EXPECT_EQ(on_disk(), Time{seconds{10} + milliseconds{999}});
}

TEST_F(LeaseFile, TellsAMissingFromADamagedOne) {
  EXPECT_EQ(read_lease(directory).error().code, Errc::not_found);
  for (const char* content : {"", "x", "boot", "boot 12", "boot 1x\n", " 12\n", "boot \n"}) {
    put("lease", content);
    EXPECT_EQ(read_lease(directory).error().code, Errc::parse) << content;
  }
}

class Switch : public Files {
 protected:
  Switch() : run(directory + "/run") { std::filesystem::create_directory(run); }
  DisableSwitch off_switch() const { return {directory, run}; }
  std::string run;
};

TEST_F(Switch, SurvivesItsObjectAndSaysWhoTurnedItOff) {
  EXPECT_FALSE(off_switch().disabled());
  ASSERT_TRUE(off_switch().disable("root on leaf1"));
  EXPECT_TRUE(off_switch().disabled());
  EXPECT_EQ(off_switch().by(), "root on leaf1");
  ASSERT_TRUE(off_switch().enable());
  ASSERT_TRUE(off_switch().enable());
  EXPECT_FALSE(off_switch().disabled());
}

TEST_F(Switch, IsOffWhenItCannotBeLookedAt) {
  std::filesystem::create_directory(directory + "/disabled");
  EXPECT_TRUE(off_switch().disabled());
}

// As on a full or read-only disk; the other directory is in memory and goes with a reboot.
TEST_F(Switch, HoldsUntilARebootWhereItCannotBeKept) {
  DisableSwitch lost(directory + "/nowhere", run);
  EXPECT_FALSE(lost.disable("root on leaf1")) << "not kept";
  EXPECT_TRUE(lost.disabled());
  EXPECT_EQ(lost.by(), "root on leaf1");
  EXPECT_TRUE(off_switch().disabled()) << "also when the disk is back";
  ASSERT_TRUE(off_switch().disable("root on leaf1"));
  ASSERT_TRUE(off_switch().enable());
  EXPECT_FALSE(lost.disabled()) << "both";
}

using Lock = Files;

TEST_F(Lock, IsHeldByOneAgentAtATime) {
  auto first = AgentLock::take(directory);
  ASSERT_TRUE(first);
  EXPECT_EQ(AgentLock::take(directory).error().code, Errc::duplicate);
  { const AgentLock gone = std::move(*first); }
  EXPECT_TRUE(AgentLock::take(directory));
}

}  // namespace
}  // namespace heddle
