// `heddle-agent probe` on a leaf of a real kernel: each setting that keeps heddle from working
// there is made wrong, named with its remedy, and right again once the remedy was applied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"
#include "tests/lab/process.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;

class ProbeCommandTest : public ::testing::Test {
 protected:
  ProbeCommandTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-probe-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    for (const char* port : {"up1", "up2", "p1"}) {
      net.add_veth(port, far_net, std::string("far-") + port, 4200);
      net.set_up(port);
    }
    must(net.commit());
    for (const char* port : {"far-up1", "far-up2", "far-p1"})
      far_net.set_up(port);
    must(far_net.commit());
    set("net.ipv4.ip_forward", 1);
    set("net.ipv4.fib_multipath_hash_policy", 3);
    set("net.ipv6.fib_multipath_hash_policy", 3);
    set("net.ipv4.nexthop_compat_mode", 0);
    for (const char* of : {"all", "up1", "up2", "p1"})
      set(std::string("net.ipv4.conf.") + of + ".rp_filter", 0);
    std::ofstream(folder / "agent.yaml")
        << "node: leaf1\nrole: leaf\ncoordinator: {endpoint: \"tcp://127.0.0.1:7117\", plain: "
           "true}\n"
        << "state_dir: " << (folder / "state").string()
        << "\nrun_dir: " << (folder / "run").string() << "\nlldp: " << (folder / "lldp").string()
        << "\nuplinks: [\"up*\"]\nhost_ports: [\"p*\"]\n";
  }
  ~ProbeCommandTest() override { std::filesystem::remove_all(folder); }

  Output run(std::vector<std::string> words) const {
    return must(capture({.words = std::move(words), .space = &leaf, .log = {}}, seconds(30)));
  }
  void set(const std::string& name, int value) const {
    ASSERT_EQ(run({"/usr/sbin/sysctl", "-qw", name + "=" + std::to_string(value)}).status, 0)
        << name;
  }
  void ip(std::vector<std::string> words) const {
    words.insert(words.begin(), "/usr/sbin/ip");
    const Output output = run(words);
    ASSERT_EQ(output.status, 0) << output.errors;
  }
  std::vector<std::string> probe() const {
    return {HEDDLE_AGENT, "probe", "--json", "--config", (folder / "agent.yaml").string()};
  }
  // The line of that name; also where the exit code says that nothing works.
  json line(const std::string& name, const std::vector<std::string>& before = {}) {
    std::vector<std::string> words = before;
    for (const std::string& word : probe())
      words.push_back(word);
    const Output output = run(words);
    const json report = json::parse(output.text, nullptr, false);
    EXPECT_FALSE(report.is_discarded()) << output.text << output.errors;
    usable = output.status == 0;
    EXPECT_EQ(report["usable"], usable);
    for (const json& one : report["lines"])
      if (one["name"] == name)
        return one;
    ADD_FAILURE() << "no line " << name << " in " << output.text;
    return {};
  }
  void expect_no(const std::string& name, const std::string& reason, const std::string& remedy,
                 const std::string& verdict = "no") {
    const json one = line(name);
    EXPECT_EQ(one["verdict"], verdict) << name;
    EXPECT_THAT(one["reason"].get<std::string>(), HasSubstr(reason));
    EXPECT_THAT(one["remedy"].get<std::string>(), HasSubstr(remedy));
  }

  NetNamespace leaf = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace far = must(NetNamespace::create(unique_namespace_name("far")));
  Netlink net = must(Netlink::open(leaf));
  Netlink far_net = must(Netlink::open(far));
  std::filesystem::path folder;
  bool usable{};
};

TEST_F(ProbeCommandTest, FindsALeafThatSuits) {
  for (const char* const name :
       {"ebpf", "port-tables", "routed-ports", "rp_filter", "linkdown", "ip_forward", "hash-policy",
        "hash-policy-ipv6", "nexthop_compat_mode", "CAP_NET_ADMIN", "CAP_BPF", "labels",
        "configuration"})
    EXPECT_EQ(line(name)["verdict"], "yes") << name;
  EXPECT_TRUE(usable);
}

TEST_F(ProbeCommandTest, JudgesEveryWayThatTheRoleCouldHoldPathsBy) {
  EXPECT_EQ(line("flow-marks")["verdict"], "yes");
  std::ofstream(folder / "agent.yaml")
      << "node: host1\nrole: host\nmode: program\nenforcer: srv6\n"
         "coordinator: {endpoint: \"tcp://127.0.0.1:7117\", plain: true}\n"
      << "state_dir: " << (folder / "state").string() << "\nrun_dir: " << (folder / "run").string()
      << "\nuplinks: [\"up*\"]\n";
  EXPECT_EQ(line("host-routes")["verdict"], "yes");
  // 4,096 octets of payload, 96 of headers, 80 for two segments.
  expect_no("srv6", "the MTU of up1 is 4200", "set the MTU to 4272");
  EXPECT_FALSE(usable) << "it is to hold paths by srv6";
  for (const char* port : {"up1", "up2"})
    ip({"link", "set", port, "mtu", "4272"});
  EXPECT_EQ(line("srv6")["verdict"], "yes");
}

TEST_F(ProbeCommandTest, NamesEachSettingThatIsWrong) {
  set("net.ipv4.ip_forward", 0);
  expect_no("ip_forward", "forwards nothing", "net.ipv4.ip_forward");
  set("net.ipv4.fib_multipath_hash_policy", 0);
  expect_no("hash-policy", "addresses only", "fib_multipath_hash_policy to 1", "limited");
  set("net.ipv6.fib_multipath_hash_policy", 0);
  expect_no("hash-policy-ipv6", "flow labels only", "net.ipv6.fib_multipath_hash_policy to 1",
            "limited");
  set("net.ipv4.nexthop_compat_mode", 1);
  expect_no("nexthop_compat_mode", "announced again", "nexthop_compat_mode to 0", "limited");
  set("net.ipv4.conf.up1.rp_filter", 1);
  expect_no("rp_filter", "strict on up1", "net.ipv4.conf.up1.rp_filter");
  EXPECT_FALSE(usable) << "what is steered would be dropped";
  EXPECT_EQ(line("port-tables")["verdict"], "no");
}

TEST_F(ProbeCommandTest, NamesABridgedHostPort) {
  ip({"link", "add", "br0", "type", "bridge"});
  ip({"link", "set", "p1", "master", "br0"});
  expect_no("routed-ports", "p1 belong to a bridge", "default VRF");
  EXPECT_FALSE(usable);
  ip({"link", "set", "p1", "nomaster"});
  EXPECT_EQ(line("routed-ports")["verdict"], "yes");
}

TEST_F(ProbeCommandTest, NamesUplinksThatStayInUseWithoutCarrier) {
  ip({"addr", "add", "10.101.1.1/30", "dev", "up1"});
  ip({"addr", "add", "10.101.2.1/30", "dev", "up2"});
  ip({"route", "add", "10.2.0.0/16", "nexthop", "via", "10.101.1.2", "dev", "up1", "nexthop", "via",
      "10.101.2.2", "dev", "up2"});
  expect_no("linkdown", "up1, up2", "ignore_routes_with_linkdown");
  EXPECT_FALSE(usable);
  set("net.ipv4.conf.up1.ignore_routes_with_linkdown", 1);
  set("net.ipv4.conf.up2.ignore_routes_with_linkdown", 1);
  EXPECT_EQ(line("linkdown")["verdict"], "yes");
  EXPECT_TRUE(usable);
}

TEST_F(ProbeCommandTest, NamesCapabilitiesThatItLacks) {
  const std::vector<std::string> without{"/usr/bin/setpriv", "--bounding-set=-all",
                                         "--inh-caps=-all"};
  for (const char* const name : {"CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON"}) {
    const json one = line(name, without);
    EXPECT_EQ(one["verdict"], "no") << name;
    EXPECT_THAT(one["remedy"].get<std::string>(), HasSubstr("CapabilityBoundingSet"));
  }
  EXPECT_FALSE(usable);
}

// Whatever is not so here is named with a remedy: a kernel without psample, no RDMA, no lldpd.
TEST_F(ProbeCommandTest, LeavesNoNoWithoutARemedy) {
  const Output output =
      run({HEDDLE_AGENT, "probe", "--json", "--config", (folder / "none.yaml").string()});
  EXPECT_EQ(output.status, 1) << "there is no such configuration";
  for (const json& one : json::parse(output.text)["lines"])
    if (one["verdict"] != "yes") {
      EXPECT_NE(one["reason"], "") << one;
      EXPECT_NE(one["remedy"], "") << one;
    }
  expect_no("lldp", "there is no", "lldpd");
}

TEST_F(ProbeCommandTest, NamesAMistakeInTheConfigurationAndGoesOn) {
  std::ofstream(folder / "agent.yaml", std::ios::app) << "leese_s: 3\n";
  expect_no("configuration", "leese_s: no such key", "--check-config");
  EXPECT_FALSE(usable);
  EXPECT_EQ(line("ebpf")["verdict"], "yes") << "what can be seen is still told";
}

}  // namespace
}  // namespace heddle::lab
