// What a machine is told of itself: each "no" with its reason and its remedy; and the facts that
// are read from files, here a machine's that is made up.
#include "agent/probe_report.h"

#include <gtest/gtest.h>

#include <map>

#include "agent/probe_command.h"

namespace heddle {
namespace {

constexpr std::uint64_t kAllCapabilities = ~std::uint64_t{0};

// A leaf on which everything is as it should be.
ProbeFacts good_leaf() {
  ProbeFacts facts;
  facts.role = Role::leaf;
  facts.uplinks = {"up*"};
  facts.host_ports = {"p*"};
  facts.sources = {{"ebpf", true, ""}, {"lldp", true, ""}};
  facts.enforcers = {{"port-tables", Granularity::port_and_destination, true, ""}};
  facts.machine = {.capabilities = kAllCapabilities,
                   .type_information = true,
                   .other_processes = true,
                   .forwarding = 1,
                   .hash_policy = 1,
                   .hash_policy_v6 = 1,
                   .nexthop_compat_mode = 0,
                   .rdma_devices = {},
                   .networkd = false,
                   .systemd_version = 252,
                   .foreign_routes = true,
                   .foreign_rules = true,
                   .foreign_next_hops = true};
  facts.routing.emplace();
  for (const auto& [index, name] :
       {std::pair(1U, "p1"), std::pair(2U, "up1"), std::pair(3U, "up2")}) {
    Link link;
    link.index = index;
    link.name = name;
    link.up = link.carrier = true;
    facts.routing->links.push_back(link);
    facts.routing->settings.push_back({.ifindex = index});
  }
  return facts;
}

const ProbeLine* find(const ProbeReport& report, const std::string& name) {
  for (const ProbeLine& line : report.lines)
    if (line.name == name)
      return &line;
  return nullptr;
}

void expect_no(const ProbeFacts& facts, const std::string& name, const std::string& reason,
               const std::string& remedy, Verdict verdict = Verdict::no) {
  const ProbeReport report = judge(facts);
  const ProbeLine* const line = find(report, name);
  ASSERT_NE(line, nullptr) << name;
  EXPECT_EQ(line->verdict, verdict) << name;
  EXPECT_NE(line->reason.find(reason), std::string::npos) << line->reason;
  EXPECT_NE(line->remedy.find(remedy), std::string::npos) << line->remedy;
}

TEST(Probe, SaysYesToAllOfAGoodLeaf) {
  const ProbeReport report = judge(good_leaf());
  EXPECT_TRUE(report.usable);
  for (const ProbeLine& line : report.lines)
    EXPECT_EQ(line.verdict, Verdict::yes) << line.name << ": " << line.reason;
}

TEST(Probe, NamesASourcesReasonAndItsRemedy) {
  ProbeFacts facts = good_leaf();
  facts.sources = {{"psample", false, "the kernel samples no packets; load act_sample"},
                   {"ebpf", false, "broken"},
                   {"lldp", true, ""}};
  expect_no(facts, "psample", "the kernel samples no packets", "load act_sample");
  expect_no(facts, "ebpf", "broken", "heddle-agent(8)");
  EXPECT_FALSE(judge(facts).usable) << "neighbours are no flows";
  facts.sources[0] = {"psample", true, "no packet was sampled yet; sample the uplinks"};
  expect_no(facts, "psample", "no packet was sampled yet", "sample the uplinks", Verdict::limited);
  EXPECT_TRUE(judge(facts).usable);
}

TEST(Probe, NamesWhatKeepsALeafFromHoldingPaths) {
  ProbeFacts facts = good_leaf();
  facts.enforcers[0].usable = false;
  facts.enforcers[0].reason = "no nexthop objects; use a kernel from 5.3 on";
  expect_no(facts, "port-tables", "no nexthop objects", "5.3");
  EXPECT_FALSE(judge(facts).usable);
  facts = good_leaf();
  facts.machine.forwarding = 0;
  expect_no(facts, "ip_forward", "forwards nothing", "net.ipv4.ip_forward");
}

TEST(Probe, NamesPortsThatDoNotSuit) {
  ProbeFacts facts = good_leaf();
  facts.routing->links[0].master = 9;
  facts.routing->links[0].master_kind = "vrf";
  expect_no(facts, "routed-ports", "p1 belong to a vrf", "default VRF");
  facts = good_leaf();
  facts.routing->settings[1].strict_reverse_path = true;
  expect_no(facts, "rp_filter", "strict on up1", "net.ipv4.conf.up1.rp_filter to 0 or 2");
}

TEST(Probe, NamesUplinksThatStayInUseWithoutCarrier) {
  ProbeFacts facts = good_leaf();
  KernelRoute route;
  route.table = 254;
  route.destination = {IpAddress::v4(10, 2, 0, 0), 16};
  route.hops = {{.ifindex = 2, .gateway = IpAddress::v4(10, 101, 1, 2), .onlink = false},
                {.ifindex = 3, .gateway = IpAddress::v4(10, 101, 2, 2), .onlink = false}};
  facts.routing->routes = {route};
  expect_no(facts, "linkdown", "up1, up2", "net.ipv4.conf.up1.ignore_routes_with_linkdown");
  for (InterfaceSettings& settings : facts.routing->settings)
    settings.ignore_routes_with_linkdown = true;
  EXPECT_EQ(find(judge(facts), "linkdown")->verdict, Verdict::yes);
}

TEST(Probe, NamesSettingsThatCouldBeBetter) {
  ProbeFacts facts = good_leaf();
  facts.machine.hash_policy = 0;
  expect_no(facts, "hash-policy", "addresses only", "net.ipv4.fib_multipath_hash_policy",
            Verdict::limited);
  EXPECT_EQ(find(judge(facts), "hash-policy-ipv6")->verdict, Verdict::yes);
  facts = good_leaf();
  facts.machine.hash_policy_v6 = 0;
  expect_no(facts, "hash-policy-ipv6", "flow labels only", "net.ipv6.fib_multipath_hash_policy",
            Verdict::limited);
  EXPECT_EQ(find(judge(facts), "hash-policy")->verdict, Verdict::yes);
  facts.machine.hash_policy_v6.reset();
  EXPECT_FALSE(find(judge(facts), "hash-policy-ipv6")) << "there is no IPv6";
  facts = good_leaf();
  facts.machine.nexthop_compat_mode = 1;
  expect_no(facts, "nexthop_compat_mode", "announced again", "nexthop_compat_mode to 0",
            Verdict::limited);
  EXPECT_TRUE(judge(facts).usable);
}

TEST(Probe, NamesWhatTheProcessLacks) {
  ProbeFacts facts = good_leaf();
  facts.machine.capabilities = 0;
  for (const char* const name : {"CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON"})
    expect_no(facts, name, "without it", "CapabilityBoundingSet");
  facts.machine.capabilities.reset();
  expect_no(facts, "CAP_BPF", "cannot be read", "/proc", Verdict::limited);
  facts.machine.type_information = false;
  expect_no(facts, "btf", "type information", "CONFIG_DEBUG_INFO_BTF");
  facts.machine.other_processes = false;
  expect_no(facts, "labels", "hidden in /proc", "ProtectProc=default");
}

TEST(Probe, NamesWhatNetworkdWouldRemove) {
  ProbeFacts facts = good_leaf();
  facts.machine.networkd = true;
  expect_no(facts, "networkd", "removes routes",
            "ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no");
  EXPECT_EQ(find(judge(facts), "networkd")->remedy.find("NextHops"), std::string::npos)
      << "systemd 252 would complain about it";
  facts.machine.systemd_version = 256;
  facts.machine.foreign_routes = facts.machine.foreign_rules = false;
  expect_no(facts, "networkd", "removes routes", "ManageForeignNextHops=no");
  facts.machine.foreign_next_hops = false;
  EXPECT_EQ(find(judge(facts), "networkd")->verdict, Verdict::yes);
}

TEST(Probe, LooksAtAnyMachineWithoutAConfiguration) {
  ProbeFacts facts = good_leaf();
  facts.role.reset();
  facts.enforcers.clear();
  facts.uplinks = facts.host_ports = {"*"};
  expect_no(facts, "configuration", "there is none", "/etc/heddle/agent.yaml", Verdict::limited);
  expect_no(facts, "rdma-devices", "no RDMA device", "driver");
  EXPECT_TRUE(judge(facts).usable);
  facts.machine.rdma_devices = {"mlx5_0"};
  EXPECT_EQ(find(judge(facts), "rdma-devices")->reason, "mlx5_0");
  facts.configuration_error = "agent.yaml:3: 'nodes' is no key";
  expect_no(facts, "configuration", "agent.yaml:3", "--check-config");
  EXPECT_FALSE(judge(facts).usable);
  facts.routing.reset();
  facts.routing_error = "netlink: connect: not permitted";
  expect_no(facts, "routing", "not permitted", "heddle-agent(8)");
}

TEST(Probe, IsPrintedForPeopleAndForPrograms) {
  const ProbeReport report{.lines = {{"settings", "btf", Verdict::no, "why", "what to do"},
                                     {"sources", "ebpf", Verdict::yes, "", ""}},
                           .usable = true};
  EXPECT_EQ(text_of(report),
            "sources\n  ebpf                 yes\n\nsettings\n  btf                  no: why\n"
            "                         -> what to do\n");
  EXPECT_NE(json_of(report).find(R"("verdict": "no")"), std::string::npos);
  EXPECT_NE(json_of(report).find(R"("usable": true)"), std::string::npos);
}

class Files final : public FileTree {
 public:
  std::map<std::string, std::string> files;
  std::vector<std::string> list(const std::string& folder) const override {
    std::vector<std::string> names;
    for (const auto& [path, text] : files)
      if (path.starts_with(folder + "/")) {
        const std::string rest = path.substr(folder.size() + 1);
        const std::string name = rest.substr(0, rest.find('/'));
        if (names.empty() || names.back() != name)
          names.push_back(name);
      }
    return names;
  }
  Result<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    if (found == files.end())
      return fail(Errc::not_found, file);
    return found->second;
  }
};

TEST(Machine, IsReadFromItsFiles) {
  Files root;
  root.files = {{"proc/self/status", "Name:\theddle\nCapEff:\t0000000000001000\n"},
                {"sys/kernel/btf/vmlinux", ""},
                {"proc/1/cgroup", "0::/init.scope"},
                {"proc/sys/net/ipv4/ip_forward", "1"},
                {"proc/sys/net/ipv4/fib_multipath_hash_policy", "3"},
                {"proc/sys/net/ipv6/fib_multipath_hash_policy", "0"},
                {"proc/sys/net/ipv4/nexthop_compat_mode", "1"},
                {"sys/class/infiniband/mlx5_0/node_guid", ""},
                {"sys/class/infiniband/mlx5_1/node_guid", ""},
                {"run/systemd/netif/state", ""},
                {"usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so", ""},
                {"usr/lib/systemd/networkd.conf.d/50-heddle.conf",
                 "# heddle's\n[Network]\nManageForeignRoutes = no\n"
                 "ManageForeignRoutingPolicyRules=no\n"}};
  const MachineFacts facts = read_machine(root);
  EXPECT_EQ(facts.capabilities, std::uint64_t{1} << 12U);
  EXPECT_TRUE(facts.type_information);
  EXPECT_TRUE(facts.other_processes);
  EXPECT_EQ(facts.forwarding, 1);
  EXPECT_EQ(facts.hash_policy, 3);
  EXPECT_EQ(facts.hash_policy_v6, 0);
  EXPECT_EQ(facts.nexthop_compat_mode, 1);
  EXPECT_EQ(facts.rdma_devices, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  EXPECT_TRUE(facts.networkd);
  EXPECT_EQ(facts.systemd_version, 252);
  EXPECT_FALSE(facts.foreign_routes);
  EXPECT_FALSE(facts.foreign_rules);
  EXPECT_TRUE(facts.foreign_next_hops);
}

TEST(Machine, AnOperatorsFileForNetworkdHidesOursOfThatName) {
  Files root;
  root.files = {
      {"usr/lib/systemd/networkd.conf.d/50-heddle.conf", "[Network]\nManageForeignRoutes=no\n"},
      {"etc/systemd/networkd.conf.d/50-heddle.conf", "[DHCP]\nManageForeignRoutes=no\n"}};
  EXPECT_TRUE(read_machine(root).foreign_routes);
  root.files["etc/systemd/networkd.conf.d/60-x.conf"] = "[Network]\nManageForeignRoutes=false\n";
  EXPECT_FALSE(read_machine(root).foreign_routes);
}

TEST(Machine, SafetyRule7WhatCannotBeReadIsNotKnown) {
  const MachineFacts facts = read_machine(Files{});
  EXPECT_EQ(facts.capabilities, std::nullopt);
  EXPECT_EQ(facts.forwarding, std::nullopt);
  EXPECT_EQ(facts.hash_policy, std::nullopt);
  EXPECT_EQ(facts.nexthop_compat_mode, std::nullopt);
  EXPECT_FALSE(facts.networkd);
  Files damaged;
  damaged.files = {{"proc/self/status", "CapEff:\tx"}, {"proc/sys/net/ipv4/ip_forward", "on"}};
  EXPECT_EQ(read_machine(damaged).capabilities, std::nullopt);
  EXPECT_EQ(read_machine(damaged).forwarding, std::nullopt);
}

}  // namespace
}  // namespace heddle
