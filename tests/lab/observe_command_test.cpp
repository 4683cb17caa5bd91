// The program heddle-agent as an operator and systemd meet it: exit codes, complaints, readiness,
// and what it leaves behind when it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "common/runtime/event_loop.h"
#include "common/transport/keys.h"
#include "common/transport/zmq_channel.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"
#include "tests/lab/process.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class AgentProgramTest : public ::testing::Test {
 protected:
  AgentProgramTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-agent-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    for (const char* port : {"up1", "p1"}) {
      net.add_veth(port, far_net, std::string("far-") + port, 4200);
      net.set_up(port);
    }
    must(net.commit());
    for (const char* port : {"far-up1", "far-p1"})
      far_net.set_up(port);
    must(far_net.commit());

    notify = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder / "notify").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(notify, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("bind");
    ::setenv("NOTIFY_SOCKET", address.sun_path, 1);
  }
  ~AgentProgramTest() override {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(notify);
    std::filesystem::remove_all(folder);
  }

  std::filesystem::path write_config(
      const std::string& coordinator = "{endpoint: \"tcp://127.0.0.1:7117\", plain: true}",
      const std::string& more = "") const {
    std::filesystem::path file = folder / "agent.yaml";
    std::ofstream(file) << "node: leaf1\nrole: leaf\nmode: program\ncoordinator: " << coordinator
                        << "\nstate_dir: " << (folder / "state").string()
                        << "\nrun_dir: " << (folder / "run").string()
                        << "\nuplinks: [\"up*\"]\nhost_ports: [\"p*\"]\n"
                        << more;
    return file;
  }
  Command command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), HEDDLE_AGENT);
    return {.words = std::move(arguments), .space = &leaf, .log = (folder / "log").string()};
  }
  Output run(std::vector<std::string> arguments) const {
    return must(capture(command(std::move(arguments)), seconds(20)));
  }
  // An agent that has told systemd that it is ready.
  Child ready_agent(const std::vector<std::string>& before = {}) {
    Command start = command({"run", "--config", write_config().string()});
    start.words.insert(start.words.begin(), before.begin(), before.end());
    Child agent = must(Child::start(start));
    EXPECT_TRUE(told("READY=1")) << log();
    return agent;
  }
  bool told(const std::string& what) const {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    pollfd readable{.fd = notify, .events = POLLIN, .revents = 0};
    while (std::chrono::steady_clock::now() < end && ::poll(&readable, 1, 1000) >= 0) {
      std::array<char, 1024> text{};
      if (::recv(notify, text.data(), text.size() - 1, MSG_DONTWAIT) > 0 &&
          std::string(text.data()).find(what) != std::string::npos)
        return true;
    }
    return false;
  }
  std::string log() const {
    std::ifstream in(folder / "log");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::string filters() const {
    return must(capture({.words = {"/usr/sbin/tc", "filter", "show", "dev", "up1", "egress"},
                         .space = &leaf,
                         .log = {}},
                        seconds(20)))
        .text;
  }

  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace far = must(NetNamespace::create(unique_namespace_name("far")));
  Netlink net = must(Netlink::open(leaf));
  Netlink far_net = must(Netlink::open(far));
  std::filesystem::path folder;
  int notify{-1};
};
using SafetyRule1AgentProgram = AgentProgramTest;

TEST_F(AgentProgramTest, SaysWhatIsWrongWithHowItIsCalled) {
  EXPECT_EQ(run({"--version"}).status, 0);
  EXPECT_THAT(run({"--help"}).text, HasSubstr("reconcile --dry-run"));
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"weave"}, {"run", "twice"}, {"--nosuch"}, {"reconcile"}, {"run", "--watch"}}) {
    const Output output = run(wrong);
    EXPECT_EQ(output.status, 2) << wrong[0];
    EXPECT_NE(output.errors, "") << wrong[0];
  }
}

TEST_F(AgentProgramTest, SaysWhatIsWrongWithItsConfiguration) {
  EXPECT_EQ(run({"--config", (folder / "none.yaml").string()}).status, 3);
  const std::string config = write_config("{endpoint: x, plain: true}", "leese_s: 3\n").string();
  const Output output = run({"--check-config", "--config", config});
  EXPECT_EQ(output.status, 3);
  EXPECT_THAT(output.errors, HasSubstr("agent.yaml:9: leese_s: no such key"));
  EXPECT_EQ(run({"--check-config", "--config", write_config().string()}).status, 0);
}

TEST_F(AgentProgramTest, LetsNoSecondAgentAndNoFlushInWhileItRuns) {
  const Child agent = ready_agent();
  const std::string config = (folder / "agent.yaml").string();
  EXPECT_EQ(run({"run", "--config", config}).status, 5);
  EXPECT_EQ(run({"flush", "--config", config}).status, 5);
  EXPECT_EQ(run({"probe", "--config", config}).status, 0);
  EXPECT_EQ(run({"disable", "--config", config}).status, 0);
  EXPECT_TRUE(told("disabled")) << "the running agent has not noticed";
  EXPECT_EQ(run({"enable", "--config", config}).status, 0);
}

TEST_F(AgentProgramTest, ComplainsAndGoesOnWithoutItsCapabilities) {
  Child agent = ready_agent({"/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all"});
  EXPECT_THAT(log(), HasSubstr("nothing will be programmed"));
  EXPECT_THAT(log(), HasSubstr("CAP_NET_ADMIN"));
  EXPECT_THAT(log(), HasSubstr("no flow can be observed"));
  EXPECT_EQ(agent.stop(SIGTERM, seconds(10)), 0);
}

TEST_F(AgentProgramTest, ReadsItsConfigurationAgainAndRefusesABrokenOne) {
  const Child agent = ready_agent();
  const auto hang_up = [&](const std::string& more, const std::string& words) {
    write_config("{endpoint: \"tcp://127.0.0.1:7117\", plain: true}", more);
    ASSERT_EQ(::kill(agent.pid(), SIGHUP), 0);
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    // Nobody is told of a new line, so it is looked for between words to systemd.
    pollfd readable{.fd = notify, .events = POLLIN, .revents = 0};
    while (log().find(words) == std::string::npos && std::chrono::steady_clock::now() < end)
      if (std::array<char, 1024> word{}; ::poll(&readable, 1, 100) > 0)
        ::recv(notify, word.data(), word.size(), MSG_DONTWAIT);
    EXPECT_THAT(log(), HasSubstr(words));
  };
  hang_up("lease_s: never\n", "the configuration stays as it was: ");
  EXPECT_THAT(log(), HasSubstr("agent.yaml:9: lease_s"));
  hang_up("lease_s: 7\nlog_level: debug\n", "the configuration was read again\n");
  hang_up("report_interval_ms: 77\nrouting: {protocol: 210}\n",
          "these wait for a restart: report_interval_ms, routing");
}

TEST_F(AgentProgramTest, SaysThatItsKeyIsRefused) {
  const InNamespace inside(leaf);
  std::filesystem::create_directory(folder / "authorised");
  for (const char* name : {"coordinator", "agent"})
    must(write_keys(must(generate_keys()), folder / name));
  auto loop = must(EventLoop::create());
  auto sink = must(ZmqServerChannel::listen(*loop, {.endpoint = "tcp://127.0.0.1:*",
                                                    .keys = must(load_keys(folder / "coordinator")),
                                                    .authorised_keys = folder / "authorised"}));
  bool heard = false;
  sink->on_message([&heard](const Peer&, Payload) { heard = true; });
  const std::string config = write_config("{endpoint: \"" + sink->endpoint() + "\", public_key: " +
                                              (folder / "coordinator.pub").string() + "}",
                                          "key: " + (folder / "agent").string() + "\n")
                                 .string();
  const Child agent = must(Child::start(command({"run", "--config", config})));
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (log().find("refused") == std::string::npos && std::chrono::steady_clock::now() < end)
    must(loop->run_once(milliseconds(50)));
  EXPECT_THAT(log(), HasSubstr("refused"));
  EXPECT_FALSE(heard);
}

TEST_F(SafetyRule1AgentProgram, TakesItsFiltersAlongWhenItEnds) {
  Child agent = ready_agent();
  EXPECT_THAT(filters(), HasSubstr("heddle_egress"));
  EXPECT_EQ(agent.stop(SIGTERM, seconds(10)), 0);
  EXPECT_THAT(filters(), Not(HasSubstr("heddle_egress")));
}

TEST_F(SafetyRule1AgentProgram, ProbingAndADryRunChangeNothing) {
  const std::string config = write_config().string();
  EXPECT_EQ(run({"probe", "--config", config}).status, 0);
  const Output dry = run({"reconcile", "--dry-run", "--config", config});
  EXPECT_EQ(dry.status, 0) << dry.errors;
  EXPECT_THAT(filters(), Not(HasSubstr("heddle_egress")));
  EXPECT_FALSE(std::filesystem::exists(folder / "state"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace heddle::lab
