#include "agent/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/tree.h"

namespace heddle {
namespace {

const std::string kGood = R"(node: leaf1
role: leaf
mode: program
coordinator:
  endpoint: tcp://10.255.0.1:7117
  public_key: /etc/heddle/coordinator.pub
key: /etc/heddle/agent.key
uplinks: ["up*"]
host_ports: ["p*"]
)";

std::string why(const std::string& text) {
  const Result<AgentConfig> config = parse_agent_config(text, "agent.yaml");
  return config ? "" : config.error().message;
}

std::string example() {
  std::ifstream in(HEDDLE_SOURCE_DIR "/systemd/agent.yaml.example");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The text with every "#key:" made into "key:"; sentences in comments stay.
std::string uncommented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line); result += line + "\n") {
    const std::size_t hash = line.find_first_not_of(' ');
    if (hash == std::string::npos || line[hash] != '#')
      continue;
    const std::size_t end =
        line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", hash + 1);
    if (end != std::string::npos && end > hash + 1 && line[end] == ':')
      line.erase(hash, 1);
  }
  return result;
}

// Every key of the example but two, each changed alone.
TEST(AgentConfig, NamesTheKeysThatWaitForARestart) {
  const Result<AgentConfig> now = parse_agent_config(kGood, "agent.yaml");
  ASSERT_TRUE(now);
  const auto waiting = [&](std::string text) {
    const Result<AgentConfig> next = parse_agent_config(text, "agent.yaml");
    EXPECT_TRUE(next) << next.error().message;
    return next ? needs_restart(*now, *next) : std::vector<std::string>{"wrong"};
  };
  EXPECT_EQ(waiting(kGood), std::vector<std::string>{});
  for (const char* line : {"lease_s: 7", "log_level: debug"})
    EXPECT_EQ(waiting(kGood + line + "\n"), std::vector<std::string>{}) << line;
  for (const auto& [key, line] : {std::pair("state_dir", "state_dir: /x"),
                                  {"run_dir", "run_dir: /x"},
                                  {"lldp", "lldp: /x"},
                                  {"report_interval_ms", "report_interval_ms: 77"},
                                  {"never_touch", "never_touch: [10.9.0.0/16]"},
                                  {"enforcer", "enforcer: flow-marks"},
                                  {"srv6.sid", "srv6: {sid: \"fc00::5\"}"},
                                  {"routing", "routing: {protocol: 210}"}})
    EXPECT_EQ(waiting(kGood + line + "\n"), std::vector<std::string>{key});
  for (const auto& [key, from, to] : {std::tuple("node", "leaf1", "leaf2"),
                                      {"mode", "mode: program", "mode: observe"},
                                      {"coordinator.endpoint", "10.255.0.1", "10.255.0.2"},
                                      {"coordinator.public_key", "coordinator.pub", "other.pub"},
                                      {"key", "agent.key", "other.key"},
                                      {"uplinks", "up*", "eth*"},
                                      {"host_ports", "p*\"]", "h*\"]"}}) {
    std::string text = kGood;
    text.replace(text.rfind(from), std::string(from).size(), to);
    EXPECT_EQ(waiting(text), std::vector<std::string>{key}) << text;
  }
}

TEST(AgentConfig, ReadsWhatIsGivenAndKeepsDefaultsForTheRest) {
  const Result<AgentConfig> config = parse_agent_config(kGood + R"(
lease_s: 3
report_interval_ms: 200
enforcer: flow-marks
routing: {protocol: 210, table_count: 64}
)",
                                                        "agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->node, "leaf1");
  EXPECT_EQ(config->role, Role::leaf);
  EXPECT_EQ(config->mode, Mode::program);
  EXPECT_FALSE(config->plain);
  EXPECT_EQ(config->lease, std::chrono::seconds(3));
  EXPECT_EQ(config->report_interval, std::chrono::milliseconds(200));
  EXPECT_EQ(config->enforcer, Enforcer::flow_marks);
  EXPECT_EQ(config->routing.protocol, 210);
  EXPECT_EQ(config->routing.table_count, 64u);
  EXPECT_EQ(config->routing.table_base, RoutingRanges{}.table_base);
  EXPECT_EQ(config->state_dir, "/var/lib/heddle");
}

TEST(AgentConfig, OnlyObservesUnlessToldOtherwise) {
  std::string text = kGood;
  text.erase(text.find("mode: program\n"), 14);
  const Result<AgentConfig> config = parse_agent_config(text, "agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->mode, Mode::observe);
}

TEST(AgentConfig, CountsFlowsAtALeafsUplinksAndAtAllOfAHostsPorts) {
  AgentConfig config;
  config.uplinks = {"up*"};
  config.host_ports = {"p*"};
  config.role = Role::leaf;
  EXPECT_EQ(config.watched_ports(), (std::vector<std::string>{"up*"}));
  config.role = Role::host;
  EXPECT_EQ(config.watched_ports(), (std::vector<std::string>{"up*", "p*"}));
}

TEST(AgentConfig, NamesFileLineAndKeyOfEveryMistakeAtOnce) {
  const std::string text =
      kGood + "lease: 3\nreport_interval_ms: 1\nrouting:\n  protocol: 188\n  tabel_base: 3\n";
  const std::string mistakes = why(text);
  EXPECT_NE(mistakes.find("agent.yaml:10: lease: no such key"), std::string::npos) << mistakes;
  EXPECT_NE(mistakes.find("agent.yaml:11: report_interval_ms:"), std::string::npos) << mistakes;
  EXPECT_NE(mistakes.find("agent.yaml:13: routing.protocol:"), std::string::npos) << mistakes;
  EXPECT_NE(mistakes.find("agent.yaml:14: routing.tabel_base: no such key"), std::string::npos)
      << mistakes;
}

TEST(AgentConfig, WantsKeysUnlessPlainIsAskedForByName) {
  const std::string without_keys =
      "node: leaf1\nrole: leaf\nuplinks: [up1]\ncoordinator:\n  endpoint: tcp://10.255.0.1:7117\n";
  EXPECT_NE(why(without_keys).find("key: missing"), std::string::npos);
  EXPECT_NE(why(without_keys).find("coordinator.public_key: missing"), std::string::npos);
  EXPECT_EQ(why(without_keys + "  plain: true\n"), "");
}

std::string as(const std::string& role) {
  std::string text = kGood;
  text.replace(text.find("role: leaf"), 10, "role: " + role);
  return text;
}

TEST(AgentConfig, LetsEachRoleHoldPathsInItsOwnWays) {
  for (const auto& [role, enforcer, allowed] : {std::tuple("host", "port-tables", false),
                                                {"host", "flow-marks", false},
                                                {"host", "host-routes", true},
                                                {"host", "srv6", true},
                                                {"leaf", "port-tables", true},
                                                {"leaf", "flow-marks", true},
                                                {"leaf", "host-routes", false},
                                                {"leaf", "srv6", false},
                                                {"spine", "port-tables", true},
                                                {"spine", "flow-marks", false},
                                                {"spine", "srv6", false}}) {
    const std::string mistakes = why(as(role) + "enforcer: " + enforcer + "\n");
    EXPECT_EQ(mistakes.find("enforcer: a node of this role holds paths by") == std::string::npos,
              allowed)
        << role << " " << enforcer << ": " << mistakes;
  }
}

TEST(AgentConfig, ChoosesAnEnforcerThatFitsTheRole) {
  for (const auto& [role, enforcer] : {std::pair("host", Enforcer::host_routes),
                                       {"leaf", Enforcer::port_tables},
                                       {"spine", Enforcer::port_tables}}) {
    const Result<AgentConfig> config = parse_agent_config(as(role), "agent.yaml");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->enforcer, enforcer) << role;
  }
}

TEST(AgentConfig, TakesASegmentOfIpv6) {
  const auto config =
      parse_agent_config(as("spine") + "srv6: {sid: \"fc00:5::1\"}\n", "agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->sid, IpAddress::parse("fc00:5::1").value());
  for (const char* wrong : {"10.1.1.1", "fe80::1", "ff02::1", "::1", "2002"})
    EXPECT_NE(why(kGood + "srv6: {sid: \"" + wrong + "\"}\n").find("srv6.sid: a segment has"),
              std::string::npos)
        << wrong;
  EXPECT_NE(why(kGood + "srv6: {sid: \"fc00:5::1\"}\nrouting: {table_count: 1}\n")
                .find("routing.table_count is too small"),
            std::string::npos);
}

TEST(AgentConfig, WantsPortsThatFaceHostsOfSwitchesOnly) {
  for (const auto& [role, wants] : {std::pair("host", false), {"leaf", true}, {"spine", true}}) {
    std::string text = as(role);
    text.erase(text.find("host_ports"));
    EXPECT_EQ(why(text).find("host_ports: needed") != std::string::npos, wants) << role;
  }
}

TEST(AgentConfig, RefusesNumbersThatBelongToOthers) {
  EXPECT_NE(why(kGood + "routing: {protocol: 4}\n"), "");
  EXPECT_NE(why(kGood + "routing: {table_base: 254}\n"), "") << "the main table";
  EXPECT_NE(why(kGood + "routing: {rule_priority: 32766}\n"), "") << "main's own rule";
}

TEST(AgentConfig, RefusesWhatIsNoMappingAndWhatIsNoYaml) {
  for (const char* text :
       {"", "- a\n", "node: [\n", "node: {a: b}\n", "\x01\x02", "node: leaf 1\n"}) {
    EXPECT_NE(why(text), "") << text;
  }
}

TEST(AgentConfig, FindsItsExampleGood) {
  ASSERT_FALSE(example().empty());
  EXPECT_EQ(why(example()), "");
}

// What the example comments out are the defaults: uncommented, they change nothing and are all
// known.
TEST(AgentConfig, IsDocumentedByItsExample) {
  const std::string all = uncommented(example());
  ASSERT_NE(all, example());
  const Result<AgentConfig> written = parse_agent_config(all, "example");
  ASSERT_TRUE(written) << written.error().message;
  const Result<AgentConfig> left_out = parse_agent_config(example(), "example");
  ASSERT_TRUE(left_out);
  EXPECT_EQ(written->mode, left_out->mode);
  EXPECT_EQ(written->plain, left_out->plain);
  EXPECT_EQ(written->state_dir, left_out->state_dir);
  EXPECT_EQ(written->run_dir, left_out->run_dir);
  EXPECT_EQ(written->report_interval, left_out->report_interval);
  EXPECT_EQ(written->lease, left_out->lease);
  EXPECT_EQ(written->routing.protocol, left_out->routing.protocol);
  EXPECT_EQ(written->routing.table_base, left_out->routing.table_base);
  EXPECT_EQ(written->routing.table_count, left_out->routing.table_count);
  EXPECT_EQ(written->routing.rule_priority, left_out->routing.rule_priority);
  EXPECT_EQ(written->routing.nexthop_base, left_out->routing.nexthop_base);
  EXPECT_EQ(written->routing.nexthop_count, left_out->routing.nexthop_count);
  EXPECT_EQ(written->log_level, left_out->log_level);
}

}  // namespace
}  // namespace heddle
