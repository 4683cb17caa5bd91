// What heddle could see and do on a machine, judged from facts: for each way of looking, each
// enforcer and each setting that matters, whether it is as it should be, and if not, why and what
// to do about it. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/file_tree.h"
#include "agent/program/route_kernel.h"
#include "common/core/messages.h"

namespace heddle {

// What the machine's files say. Nothing: it cannot be read.
struct MachineFacts {
  std::optional<std::uint64_t> capabilities;  // of this process, one bit each
  bool type_information{};                    // BTF, for the watch on connections
  bool other_processes{};                     // those of other users show in /proc
  std::optional<int> forwarding;
  std::optional<int> hash_policy;     // net.ipv4.fib_multipath_hash_policy
  std::optional<int> hash_policy_v6;  // net.ipv6's; nothing also without IPv6
  std::optional<int> nexthop_compat_mode;
  std::vector<std::string> rdma_devices;
  bool networkd{};        // it runs here
  int systemd_version{};  // 0: not known
  bool foreign_routes{};  // what networkd was told: true: it removes what it does not know
  bool foreign_rules{};
  bool foreign_next_hops{};
  bool operator==(const MachineFacts&) const = default;
};

// `root` is the machine's "/".
MachineFacts read_machine(const FileTree& root);

struct ProbeFacts {
  std::optional<std::string> configuration_error;  // of a configuration that is there
  std::optional<Role> role;                        // nothing: there is no configuration
  // Of the configuration, or "*" where there is none.
  std::vector<std::string> uplinks;
  std::vector<std::string> host_ports;
  std::vector<SourceCapability> sources;
  std::vector<EnforcerCapability> enforcers;  // that the role could use; the configured one first
  bool programs{};                            // it is to hold paths
  std::optional<KernelState> routing;
  std::string routing_error;
  MachineFacts machine;
};

enum class Verdict : std::uint8_t {
  yes,
  limited,  // it works, and something would work better or is missing
  no
};

struct ProbeLine {
  std::string area;  // "sources", "enforcers", "settings"
  std::string name;
  Verdict verdict{};
  std::string reason;  // why not, or not fully
  std::string remedy;  // never empty where the verdict is not yes
  bool operator==(const ProbeLine&) const = default;
};

struct ProbeReport {
  std::vector<ProbeLine> lines;
  // Flows can be seen, and on a switch, or where they are to be, paths can be held.
  bool usable{};
};

ProbeReport judge(const ProbeFacts& facts);

}  // namespace heddle
