// The program heddle-coordinator as an operator meets it when something is wrong: what it says, and
// its exit status.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/lab/expect.h"
#include "tests/lab/process.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kFabric = R"(fabric: small
leaves: [{name: leaf1}, {name: leaf2}]
spines: [{name: spine1}]
hosts:
  - name: h1
    nics: [{name: eth0, address: 10.1.1.2, attachments: [{leaf: leaf1, port: p1, capacity: 1G}]}]
  - name: h2
    nics: [{name: eth0, address: 10.2.1.2, attachments: [{leaf: leaf2, port: p1, capacity: 1G}]}]
cables:
  - {leaf: leaf1, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 1G}
  - {leaf: leaf2, spine: spine1, leaf_port: up1, spine_port: d2, capacity: 1G}
)";

class CoordinatorProgramTest : public ::testing::Test {
 protected:
  CoordinatorProgramTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "heddle-coordinator-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    write("fabric.yaml", kFabric);
  }
  ~CoordinatorProgramTest() override { std::filesystem::remove_all(folder); }

  void write(const char* name, const std::string& text) const {
    std::ofstream(folder / name) << text;
  }
  // What the program says with such a configuration, and how it ends.
  Output run(const std::string& listen, const std::string& more,
             const std::vector<std::string>& arguments) const {
    write("coordinator.yaml",
          "fabric: " + (folder / "fabric.yaml").string() + "\nlisten: " + listen +
              "\nplain: true\nstate_dir: " + (folder / "state").string() + "\n" + more);
    Command command{
        .words = {HEDDLE_COORDINATOR, "--config", (folder / "coordinator.yaml").string()},
        .log = {}};
    command.words.insert(command.words.end(), arguments.begin(), arguments.end());
    return must(capture(command, seconds(20)));
  }

  std::filesystem::path folder;
};

TEST_F(CoordinatorProgramTest, NamesAPortThatIsInUse) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(taken, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const Output output = run(endpoint, "", {});
  EXPECT_EQ(output.status, 4) << output.errors;
  EXPECT_THAT(output.errors, HasSubstr(endpoint));
  ::close(taken);
}

TEST_F(CoordinatorProgramTest, NamesEveryMistakeOfTheFabricWithItsLine) {
  std::string fabric = kFabric;
  fabric += "  - {leaf: leaf1, spine: spine1, leaf_port: up2, spine_port: d3, capacity: 0}\n";
  fabric += "  - {leaf: leaf9, spine: spine1, leaf_port: up2, spine_port: d4, capacity: 1G}\n";
  fabric += "  - {leaf: leaf2, spine: leaf2, leaf_port: up2, spine_port: up3, capacity: 1G}\n";
  fabric.replace(fabric.find("{name: leaf2}"), 13, "{name: leaf1}");
  write("fabric.yaml", fabric);
  const Output output = run("tcp://127.0.0.1:7117", "", {"--check-config"});
  EXPECT_EQ(output.status, 3);
  EXPECT_THAT(output.errors, AllOf(HasSubstr("fabric.yaml:2:"), HasSubstr("'leaf1' is used twice"),
                                   HasSubstr("fabric.yaml:12:"), HasSubstr("more than zero"),
                                   HasSubstr("fabric.yaml:13:"), HasSubstr("leaf9"),
                                   HasSubstr("fabric.yaml:14:"), HasSubstr("to itself")));
}

TEST_F(CoordinatorProgramTest, NamesAHostOfAJobThatTheFabricDoesNotHave) {
  write("jobs.yaml", "jobs:\n  - {name: train, hosts: [h1, h7]}\n");
  const Output output = run("tcp://127.0.0.1:7117",
                            "jobs: " + (folder / "jobs.yaml").string() + "\n", {"--check-config"});
  EXPECT_EQ(output.status, 3);
  EXPECT_THAT(output.errors, AllOf(HasSubstr("jobs.yaml:2:"), HasSubstr("h7")));
}

TEST_F(CoordinatorProgramTest, NamesAnUnknownKeyOfItsConfiguration) {
  const Output output = run("tcp://127.0.0.1:7117", "leese_s: 3\n", {"--check-config"});
  EXPECT_EQ(output.status, 3);
  EXPECT_THAT(output.errors, AllOf(HasSubstr("coordinator.yaml:5"), HasSubstr("leese_s")));
}

class ReloadedCoordinator : public CoordinatorProgramTest {
 protected:
  ~ReloadedCoordinator() override {
    if (program) {
      EXPECT_EQ(program->stop(SIGTERM, seconds(10)), 0);
    }
    ::close(log);
  }
  void configure(const std::string& more) const {
    write("coordinator.yaml", "fabric: " + (folder / "fabric.yaml").string() +
                                  "\nlisten: tcp://127.0.0.1:*\nplain: true\nstate_dir: " +
                                  (folder / "state").string() + "\n" + more);
  }
  // Its log is a pipe, so that each line is an event.
  void start() {
    const std::string pipe = (folder / "log").string();
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    log = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    program = must(Child::start(
        {.words = {HEDDLE_COORDINATOR, "--config", (folder / "coordinator.yaml").string()},
         .log = pipe}));
    ASSERT_TRUE(says("listens on"));
  }
  bool says(const std::string& words) {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    pollfd readable{.fd = log, .events = POLLIN, .revents = 0};
    while (said.find(words) == std::string::npos) {
      std::array<char, 4096> block{};
      const ssize_t n = ::read(log, block.data(), block.size());
      if (n > 0)
        said.append(block.data(), static_cast<std::size_t>(n));
      else if (std::chrono::steady_clock::now() > end)
        break;
      else
        ::poll(&readable, 1, 1000);
    }
    const std::size_t at = said.find(words);
    EXPECT_NE(at, std::string::npos) << "'" << words << "' is not in:\n" << said;
    if (at == std::string::npos)
      return false;
    said.erase(0, at + words.size());
    return true;
  }
  std::vector<nlohmann::json> audit() const {
    std::ifstream in(folder / "state" / "audit.log");
    std::vector<nlohmann::json> records;
    for (std::string line; std::getline(in, line);)
      records.push_back(nlohmann::json::parse(line));
    return records;
  }
  // The record is written before the log says that the keys were read.
  void await_record(const std::string& key, const std::string& role, const std::string& outcome) {
    const auto there = [&] {
      return std::ranges::any_of(audit(), [&](const nlohmann::json& record) {
        return record["command"] == "key" && record["key"] == key && record["role"] == role &&
               record["outcome"] == outcome;
      });
    };
    while (!there())
      ASSERT_TRUE(says("authorised keys read again")) << key << " " << outcome;
  }
  void hang_up() const { ASSERT_EQ(::kill(program->pid(), SIGHUP), 0); }

  int log{-1};
  std::string said;  // and not looked for yet
  std::optional<Child> program;
};

TEST_F(ReloadedCoordinator, RefusesABrokenFileAndGoesOnAndNamesWhatWaitsForARestart) {
  configure("lease_s: 5\n");
  start();
  configure("lease_s: never\n");
  hang_up();
  EXPECT_TRUE(says("the configuration stays as it was: "));
  EXPECT_TRUE(says("coordinator.yaml:5: lease_s"));
  configure("lease_s: 7\nlog_level: debug\n");
  hang_up();
  EXPECT_TRUE(says("the configuration was read again\n"));
  configure("lease_s: 7\nhistory_days: 3\noptimiser: greedy\n");
  hang_up();
  EXPECT_TRUE(says("read again; these wait for a restart: history_days, optimiser"));
  write("fabric.yaml", std::string(kFabric) + "# changed\n");
  configure("");
  hang_up();
  EXPECT_TRUE(says("these wait for a restart: " + (folder / "fabric.yaml").string()));
}

// The folder of authorised keys is watched while the coordinator runs; what becomes of a key is on
// record, whoever put it there.
TEST_F(ReloadedCoordinator, HasALineOfAuditForEachKeyThatIsAddedRevokedOrGivenAnotherRole) {
  const auto heddle = [&](std::vector<std::string> words) {
    words.insert(words.begin(), std::string(HEDDLE_BINARY_DIR) + "/heddle");
    const Output output = must(capture({.words = words, .log = {}}, seconds(20)));
    EXPECT_EQ(output.status, 0) << output.errors;
  };
  const std::string keys = (folder / "keys").string();
  const std::string authorised = (folder / "authorised").string();
  std::filesystem::create_directory(authorised);
  for (const char* name : {"coordinator", "leaf1", "alice"})
    heddle({"keygen", "--dir", keys, name});
  heddle({"key", "add", "--dir", authorised, "--role", "agent", keys + "/leaf1.pub"});
  write("coordinator.yaml", "fabric: " + (folder / "fabric.yaml").string() +
                                "\nlisten: tcp://127.0.0.1:*\nkey: " + keys +
                                "/coordinator\nauthorised_keys: " + authorised +
                                "\nstate_dir: " + (folder / "state").string() + "\n");
  start();
  heddle({"key", "add", "--dir", authorised, "--role", "viewer", keys + "/alice.pub"});
  await_record("alice", "viewer", "authorised");
  heddle({"key", "revoke", "--dir", authorised, "leaf1"});
  await_record("leaf1", "agent", "revoked");
  // By hand, and not by the command.
  std::filesystem::create_directory(folder / "authorised" / "operators");
  std::filesystem::rename(folder / "authorised" / "viewers" / "alice.pub",
                          folder / "authorised" / "operators" / "alice.pub");
  await_record("alice", "operator", "authorised");
  await_record("alice", "viewer", "revoked");
  EXPECT_EQ(audit().size(), 4U) << "what was there at the start is no change";
}

}  // namespace
}  // namespace heddle::lab
