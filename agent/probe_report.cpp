#include "agent/probe_report.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "agent/program/main_view.h"

namespace heddle {
namespace {

constexpr int kNextHopsManagedFrom = 256;  // systemd's version

// Reasons and remedies come as "why; what to do".
ProbeLine line(std::string area, std::string name, Verdict verdict, const std::string& text,
               std::string_view otherwise) {
  ProbeLine result{std::move(area), std::move(name), verdict, text, {}};
  if (const std::size_t end = text.find("; "); end != std::string::npos) {
    result.reason = text.substr(0, end);
    result.remedy = text.substr(end + 2);
  } else if (verdict != Verdict::yes) {
    result.remedy = otherwise;
  }
  return result;
}

// Where a source says why it cannot be used, and not what would help.
std::string_view usual_remedy(const std::string& source) {
  if (source == "rdma")
    return "load the driver of the NIC, and ib_core with it; a machine without RDMA needs none";
  if (source == "kprobe")
    return "it takes ib_core, the kernel's type information (btf) and CAP_PERFMON; without it "
           "peers "
           "of queue pairs are found by rdma_cm or by both ends' numbers";
  return "see heddle-agent(8)";
}

class Judgement {
 public:
  explicit Judgement(const ProbeFacts& facts) : facts_(facts) {}

  ProbeReport run() {
    configuration();
    bool sees = false;
    for (const SourceCapability& source : facts_.sources) {
      // Neighbours are no flows.
      sees = sees || (source.usable && source.name != "lldp");
      add(line("sources", source.name,
               !source.usable          ? Verdict::no
               : source.reason.empty() ? Verdict::yes
                                       : Verdict::limited,
               source.reason, usual_remedy(source.name)));
    }
    rdma_devices();
    labels();
    enforcers();
    capabilities();
    settings();
    networkd();
    report_.usable = sees && !facts_.configuration_error &&
                     ((!is_switch() && !facts_.programs) ||
                      (!facts_.enforcers.empty() && facts_.enforcers.front().usable));
    return std::move(report_);
  }

 private:
  bool is_switch() const { return facts_.role == Role::leaf || facts_.role == Role::spine; }
  void add(ProbeLine one) { report_.lines.push_back(std::move(one)); }
  void setting(std::string name, Verdict verdict, std::string reason = {},
               std::string remedy = {}) {
    add({"settings", std::move(name), verdict, std::move(reason), std::move(remedy)});
  }

  void configuration() {
    if (facts_.configuration_error)
      setting("configuration", Verdict::no, *facts_.configuration_error,
              "correct it; heddle-agent --check-config says every mistake");
    else if (!facts_.role)
      setting("configuration", Verdict::limited,
              "there is none, so every interface is looked at and no enforcer is judged",
              "name uplinks and host ports in /etc/heddle/agent.yaml");
    else
      setting("configuration", Verdict::yes);
  }

  void rdma_devices() {
    const std::vector<std::string>& devices = facts_.machine.rdma_devices;
    if (!devices.empty())
      add({"sources",
           "rdma-devices",
           Verdict::yes,
           fmt::format("{}", fmt::join(devices, ", ")),
           {}});
    else if (!is_switch())  // a switch has none
      add({"sources", "rdma-devices", Verdict::no, "the kernel shows no RDMA device",
           "load the driver of the NIC (rdma-core; dmesg says why it fails), or leave the network "
           "namespace if devices belong to namespaces (rdma system)"});
  }

  void labels() {
    if (facts_.machine.other_processes)
      add({"sources", "labels", Verdict::yes, {}, {}});
    else
      add({"sources", "labels", Verdict::no, "the processes of other users are hidden in /proc",
           "mount /proc without hidepid, and leave ProtectProc=default in the agent's unit"});
  }

  void enforcers() {
    for (const EnforcerCapability& enforcer : facts_.enforcers)
      add(line("enforcers", enforcer.name,
               !enforcer.usable          ? Verdict::no
               : enforcer.reason.empty() ? Verdict::yes
                                         : Verdict::limited,
               enforcer.reason, "see heddle-agent(8)"));
    if (!facts_.routing)
      add({"enforcers", "routing", Verdict::no, facts_.routing_error, "see heddle-agent(8)"});
  }

  void capabilities() {
    const std::optional<std::uint64_t> own = facts_.machine.capabilities;
    struct Wanted {
      int bit;
      const char* name;
      const char* reason;
    };
    for (const auto& [bit, name, reason] :
         {Wanted{CAP_NET_ADMIN, "CAP_NET_ADMIN",
                 "without it no route is changed, no packet counted "
                 "and no sample heard"},
          Wanted{CAP_BPF, "CAP_BPF", "without it packets are not counted"},
          Wanted{CAP_PERFMON, "CAP_PERFMON",
                 "without it connecting queue pairs are not watched"}}) {
      if (!own)
        setting(name, Verdict::limited, "this process's capabilities cannot be read",
                "mount /proc");
      else if ((*own >> static_cast<unsigned>(bit) & 1U) != 0)
        setting(name, Verdict::yes);
      else
        setting(name, Verdict::no, reason,
                "run as root, or let the unit's CapabilityBoundingSet= keep it");
    }
    if (facts_.machine.type_information)
      setting("btf", Verdict::yes);
    else
      setting(
          "btf", Verdict::no, "the kernel has no type information (/sys/kernel/btf/vmlinux)",
          "use a kernel with CONFIG_DEBUG_INFO_BTF; without it peers of queue pairs are found by "
          "rdma_cm or by both ends' numbers only");
  }

  void settings() {
    const MachineFacts& machine = facts_.machine;
    if (is_switch() && machine.forwarding) {
      if (*machine.forwarding != 0)
        setting("ip_forward", Verdict::yes);
      else
        setting("ip_forward", Verdict::no, "this switch forwards nothing",
                "set net.ipv4.ip_forward to 1");
    }
    if (machine.hash_policy) {
      if (*machine.hash_policy != 0)
        setting("hash-policy", Verdict::yes);
      else
        setting("hash-policy", Verdict::limited,
                "ECMP hashes addresses only, so all queue pairs of two NICs share one path",
                "set net.ipv4.fib_multipath_hash_policy to 1");
    }
    if (machine.hash_policy_v6) {
      if (*machine.hash_policy_v6 != 0)
        setting("hash-policy-ipv6", Verdict::yes);
      else
        setting("hash-policy-ipv6", Verdict::limited,
                "ECMP over IPv6 hashes addresses and flow labels only, and few applications of "
                "RDMA set a label: all queue pairs of two NICs share one path",
                "set net.ipv6.fib_multipath_hash_policy to 1, where RoCE runs over IPv6");
    }
    if (machine.nexthop_compat_mode) {
      if (*machine.nexthop_compat_mode == 0)
        setting("nexthop_compat_mode", Verdict::yes);
      else
        setting("nexthop_compat_mode", Verdict::limited,
                "each change of a next hop is announced again for every route over it",
                "set net.ipv4.nexthop_compat_mode to 0, if the routing daemon knows next hop "
                "objects");
    }
    if (facts_.routing)
      ports(*facts_.routing);
  }

  void ports(const KernelState& state) {
    MainView view(facts_.uplinks);
    view.load(state);
    std::vector<std::string> bridged, filtered, dead;
    std::string kind;
    for (const auto& [index, link] : view.links()) {
      const bool host_port = matches_any(facts_.host_ports, link.name);
      if (link.name == "lo" || (!host_port && !view.is_uplink(index)))
        continue;
      if (host_port && link.master != 0) {
        bridged.push_back(link.name);
        kind = link.master_kind.empty() ? "master device" : link.master_kind;
      }
      if (const InterfaceSettings* const own = view.settings(index);
          own != nullptr && own->strict_reverse_path)
        filtered.push_back(link.name);
    }
    for (const std::uint32_t index : view.legacy_multipath_uplinks())
      if (const InterfaceSettings* const own = view.settings(index);
          own != nullptr && !own->ignore_routes_with_linkdown)
        dead.push_back(view.link(index)->name);

    if (bridged.empty())
      setting("routed-ports", Verdict::yes);
    else
      setting("routed-ports", Verdict::no,
              fmt::format("{} belong to a {}, where a rule by ingress port has no effect",
                          fmt::join(bridged, ", "), kind),
              "make them routed ports of the default VRF, or take them out of host_ports");
    if (filtered.empty())
      setting("rp_filter", Verdict::yes);
    else
      setting(
          "rp_filter", Verdict::no,
          fmt::format("it is strict on {} and would drop what is steered",
                      fmt::join(filtered, ", ")),
          fmt::format("set net.ipv4.conf.all.rp_filter and net.ipv4.conf.{}.rp_filter to 0 or 2",
                      filtered.front()));
    if (dead.empty())
      setting("linkdown", Verdict::yes);
    else
      setting(
          "linkdown", Verdict::no,
          fmt::format("main has multipath routes without nexthop objects, which go on using {} "
                      "without carrier",
                      fmt::join(dead, ", ")),
          fmt::format("set net.ipv4.conf.{}.ignore_routes_with_linkdown to 1, or let the routing "
                      "daemon use nexthop objects",
                      dead.front()));
  }

  void networkd() {
    const MachineFacts& machine = facts_.machine;
    if (!machine.networkd) {
      setting("networkd", Verdict::yes, "it does not run here");
      return;
    }
    std::vector<std::string> missing;
    if (machine.foreign_routes)
      missing.emplace_back("ManageForeignRoutes=no");
    if (machine.foreign_rules)
      missing.emplace_back("ManageForeignRoutingPolicyRules=no");
    if (machine.foreign_next_hops && machine.systemd_version >= kNextHopsManagedFrom)
      missing.emplace_back("ManageForeignNextHops=no");
    if (missing.empty())
      setting("networkd", Verdict::yes);
    else
      setting("networkd", Verdict::no, "it removes routes that it does not know",
              fmt::format("put {} under [Network] into a file in /etc/systemd/networkd.conf.d",
                          fmt::join(missing, " and ")));
  }

  const ProbeFacts& facts_;
  ProbeReport report_;
};

}  // namespace

ProbeReport judge(const ProbeFacts& facts) {
  return Judgement(facts).run();
}

}  // namespace heddle
