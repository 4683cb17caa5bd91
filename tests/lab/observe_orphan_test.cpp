// What stays when an agent is killed, and the programs that take it away: the real heddle-agent
// under a coordinator that the test plays, in a namespace of its own (safety rule 2).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/runtime/event_loop.h"
#include "common/transport/zmq_channel.h"
#include "common/wire/codec.h"
#include "tests/lab/process.h"
#include "tests/lab/program_lab.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class SafetyRule2Orphan : public ::testing::Test {
 protected:
  SafetyRule2Orphan() {
    leaf.at_leaf.add_route(
        {.destination = net("10.2.1.2/32"), .nexthop_id = 2, .table = 77, .protocol = kOther});
    leaf.commit();
    others = must(leaf.at_leaf.routes());
    std::filesystem::create_directory(state());
    std::filesystem::create_directory(runtime());
  }

  std::string state() const { return folder.path() + "/state"; }
  std::string runtime() const { return folder.path() + "/run"; }
  std::string config() const { return folder.path() + "/agent.yaml"; }

  // An agent that held two pins under this lease, and was killed.
  void orphan(int lease_s, const std::string& more = "") {
    const InNamespace inside(leaf.leaf);
    auto server = must(
        ZmqServerChannel::listen(*loop, {.endpoint = "tcp://127.0.0.1:*", .allow_plain = true}));
    std::uint32_t installed = 0;
    std::uint64_t sequence = 0;
    server->on_message([&](const Peer& peer, Payload payload) {
      const Envelope envelope = must(decode(payload));
      const auto say = [&](Message message) {
        must(server->send(peer, encode({.node = "coordinator",
                                        .sequence = ++sequence,
                                        .message = std::move(message)})));
      };
      if (std::holds_alternative<Hello>(envelope.message)) {
        const NodePlan wanted =
            plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")});
        say(Welcome{.version = {1, 0}, .report_interval = seconds(1), .lease = seconds(lease_s)});
        say(Snapshot{.plan = wanted, .digest = digest(wanted.pins)});
      } else if (const auto* told = std::get_if<Acknowledgement>(&envelope.message)) {
        installed = told->installed;
      }
    });
    std::ofstream(config()) << "node: leaf1\nrole: leaf\nmode: program\ncoordinator: {endpoint: \""
                            << server->endpoint() << "\", plain: true}\nstate_dir: " << state()
                            << "\nrun_dir: " << runtime()
                            << "\nuplinks: [\"up*\"]\nhost_ports: [\"p*\"]\n"
                            << more;
    Child agent = must(Child::start({.words = {program, "run", "--config", config()},
                                     .space = &leaf.leaf,
                                     .log = folder.path() + "/log"}));
    const Time end = clock.now() + seconds(20);
    while (installed < 2 && clock.now() < end)
      must(loop->run_once(std::chrono::milliseconds(100)));
    ASSERT_EQ(installed, 2U);
    ASSERT_EQ(agent.stop(SIGKILL, seconds(10)), 128 + SIGKILL);
    ASSERT_EQ(must(leaf.at_leaf.routes()).size(), others.size() + 2);
  }

  void await_the_end_of_the_lease() {
    bool over = false;
    const EventSource timer =
        loop->at(must(read_lease(runtime())).deadline, [&over] { over = true; });
    while (!over)
      must(loop->run_once(seconds(1)));
  }

  Output run(const std::string& command) const {
    return must(
        capture({.words = {program, command, "--config", config()}, .space = &leaf.leaf, .log = {}},
                seconds(20)));
  }
  // With the folders of this test as the default ones.
  Output run_in_default_folders(const std::string& command) const {
    const std::string script =
        "mount -t tmpfs none /var/lib && mkdir /var/lib/heddle && "
        "mount --bind \"$0/state\" /var/lib/heddle && "
        "mount -t tmpfs none /run && mkdir /run/heddle && "
        "mount --bind \"$0/run\" /run/heddle && exec \"$@\"";
    return must(capture({.words = {"/usr/bin/unshare", "--mount", "/bin/sh", "-c", script,
                                   folder.path(), program, command, "--config", config()},
                         .space = &leaf.leaf,
                         .log = {}},
                        seconds(20)));
  }
  std::string tc(std::vector<std::string> words) const {
    words.insert(words.begin(), {"/usr/sbin/tc", "filter"});
    const Output output =
        must(capture({.words = words, .space = &leaf.leaf, .log = {}}, seconds(20)));
    return output.text + output.errors;
  }

  const std::string program{HEDDLE_AGENT};
  Leaf leaf;
  TemporaryDirectory folder;
  SystemClock clock;
  std::unique_ptr<EventLoop> loop = must(EventLoop::create());
  std::vector<RouteSeen> others;
};

TEST_F(SafetyRule2Orphan, TheGuardProgramEmptiesTheTablesAfterTheLeaseOfAKilledAgent) {
  orphan(3);
  tc({"add", "dev", "up1", "egress", "prio", "7", "protocol", "ip", "u32", "match", "u32", "0", "0",
      "classid", "1:1"});
  EXPECT_THAT(tc({"show", "dev", "up1", "egress"}), HasSubstr("heddle_egress"));
  const Output before = run("guard");
  EXPECT_EQ(before.status, 0) << before.errors;
  EXPECT_EQ(leaf.pinned_routes().size(), 2U) << "the lease still ran";
  await_the_end_of_the_lease();
  const Output after = run("guard");
  EXPECT_EQ(after.status, 0) << after.errors;
  EXPECT_THAT(after.text, HasSubstr("removed 2 routes, 2 rules, 2 next hops"));
  EXPECT_TRUE(leaf.nothing_pinned());
  EXPECT_EQ(must(leaf.at_leaf.routes()), others);
  EXPECT_THAT(tc({"show", "dev", "up1", "egress"}), Not(HasSubstr("heddle_egress")));
  EXPECT_THAT(tc({"show", "dev", "up1", "egress"}), HasSubstr("u32"));
}

TEST_F(SafetyRule2Orphan, DisableEmptiesTheTablesOfAKilledAgentWhoseLeaseRuns) {
  orphan(120);
  const Output output = run("disable");
  EXPECT_EQ(output.status, 0) << output.errors;
  EXPECT_TRUE(leaf.nothing_pinned());
  EXPECT_EQ(must(leaf.at_leaf.routes()), others);
  EXPECT_TRUE(std::filesystem::exists(state() + "/disabled"));
}

TEST_F(SafetyRule2Orphan, FlushTakesAlsoTheFiltersOfAKilledAgent) {
  orphan(120);
  const Output output = run("flush");
  EXPECT_EQ(output.status, 0) << output.errors;
  EXPECT_TRUE(leaf.nothing_pinned());
  for (const char* port : {"up1", "up2", "up3"})
    EXPECT_THAT(tc({"show", "dev", port, "egress"}), Not(HasSubstr("heddle_egress"))) << port;
}

TEST_F(SafetyRule2Orphan, NoPinStaysBecauseTheConfigurationIsBroken) {
  for (const char* command : {"guard", "flush", "disable"}) {
    SCOPED_TRACE(command);
    std::filesystem::remove(state() + "/disabled");
    // Other ranges than the default ones: only the record knows them when the file is broken.
    orphan(command == std::string("guard") ? 3 : 120,
           "routing: {protocol: 206, table_base: 20000, rule_priority: 1990}\n");
    std::ofstream(config(), std::ios::app) << "leese_s: 3\nnode: [\n";
    EXPECT_EQ(run("--check-config").status, 3) << "what needs the file fails as before";
    if (command == std::string("guard")) {
      EXPECT_EQ(run_in_default_folders(command).status, 0);
      EXPECT_EQ(must(leaf.at_leaf.routes()).size(), others.size() + 2) << "the lease still ran";
      await_the_end_of_the_lease();
    }
    const Output output = run_in_default_folders(command);
    EXPECT_EQ(output.status, 0) << output.text << output.errors;
    EXPECT_THAT(output.errors, HasSubstr("going on with the record in /var/lib/heddle"));
    EXPECT_EQ(std::ranges::count(output.errors, '\n'), 1);
    EXPECT_EQ(must(leaf.at_leaf.routes()), others);
  }
}

}  // namespace
}  // namespace heddle::lab
