// Who may include whom, and the check of a tree against it. The table repeats the link edges of
// CMakeLists.txt for the includes (design: main -> adapters and logic -> ports -> core), because a
// header can be included without linking.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::layering {

using Words = std::vector<std::string_view>;

// What one folder, or one file of it, may include. The rule with the longest matching path holds.
// Its own folder is always allowed; of other headers those of the standard library always are,
// unless `pure`.
struct Rule {
  std::string_view path;  // "agent/report/", or a beginning of a file's name: "agent/main.cpp"
  Words ours;             // beginnings of paths in this project
  Words theirs;           // beginnings of other people's headers
  bool pure{};            // neither input nor output, clock, thread or hidden randomness (core)
};

// Headers of adapters. Only adapters themselves and the files that put a program together may
// include them.
inline const Words kAdapters{"agent/netlink/",
                             "agent/observe/tc_",
                             "agent/observe/rdma_socket",
                             "agent/observe/kprobe_",
                             "agent/observe/ethtool_",
                             "agent/observe/linux_host",
                             "agent/observe/linux_switch",
                             "agent/observe/psample_source",
                             "agent/observe/process_labels",
                             "agent/observe/lldp_file",
                             "common/transport/zmq_",
                             "coordinator/history/rocksdb_"};
inline const Words kMayIncludeAdapters{"agent/main.cpp", "coordinator/main.cpp",
                                       "coordinator/cli/zmq_line.cpp"};

inline const Words kPosix{"arpa/",    "net/",      "netinet/", "sys/",     "endian.h",
                          "fcntl.h",  "fnmatch.h", "getopt.h", "malloc.h", "poll.h",
                          "signal.h", "time.h",    "unistd.h"};

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline const std::vector<Rule>& rules() {
  static const Words kCore{"common/core/"};
  static const Words kText{"fmt/", "tl/"};
  static const Words kRuntime{"common/runtime/"};
  static const Words kWire{"common/wire/"};
  static const Words kPort{"common/transport/channel.h"};
  static const Words kStages{"coordinator/predict/", "coordinator/optimise/",
                             "coordinator/decide/",  "coordinator/broadcast/",
                             "coordinator/history/", "coordinator/serve/",
                             "coordinator/import/"};
  static const std::vector<Rule> kRules{
      {"common/core/", {}, kText, true},
      {"common/wire/", kCore, kText},
      {"common/wire/encode", kCore + Words{"schemas/"}, kText + Words{"capnp/", "kj/"}},
      {"common/wire/decode", kCore + Words{"schemas/"}, kText + Words{"capnp/", "kj/"}},
      {"common/wire/checks.h", kCore, kText + Words{"capnp/", "kj/"}},
      {"common/runtime/", kCore, kText + kPosix},
      {"common/runtime/config.cpp", kCore, kText + Words{"yaml-cpp/"}},
      {"common/runtime/log.cpp", kCore, kText + kPosix + Words{"spdlog/"}},
      {"common/runtime/notify.cpp", kCore, kText + Words{"systemd/"}},
      {"common/runtime/event_loop.cpp", kCore, kText + kPosix + Words{"systemd/"}},
      {"common/transport/", kCore, kText},
      {"common/transport/keys.cpp", kCore, kText + kPosix + Words{"zmq.h"}},
      {"common/transport/zmq_", kCore + kRuntime, kText + kPosix + Words{"zmq.h"}},

      {"agent/report/", kCore, kText},
      {"agent/program/", kCore, kText + Words{"fnmatch.h"}},
      {"agent/program/files.cpp", kCore, kText + kPosix},
      {"agent/program/guard.cpp", kCore, kText + kPosix},
      {"agent/observe/", kCore + Words{"agent/report/"}, kText},
      {"agent/observe/rdma_message", kCore + Words{"agent/report/"},
       kText + Words{"linux/", "rdma/", "netinet/", "sys/socket.h"}},
      {"agent/observe/rdma_socket", kCore + Words{"agent/report/"},
       kText + Words{"linux/", "rdma/", "netlink/", "sys/"}},
      {"agent/observe/directory_tree", kCore, kText + kPosix},
      {"agent/observe/qp_", kCore, kText + Words{"linux/", "bpf/"}},
      {"agent/observe/kprobe_", kCore + Words{"agent/report/"},
       kText + Words{"bpf/", "qp_connect.skel.h", "sys/stat.h"}},
      {"agent/observe/linux_switch", kCore + Words{"agent/report/"},
       kText + Words{"fnmatch.h", "net/if.h"}},
      {"agent/observe/module_life", {}, {"sys/stat.h"}},
      {"agent/observe/ethtool_", kCore + Words{"agent/report/"}, kText + kPosix + Words{"linux/"}},
      {"agent/observe/roce_egress", {}, {"linux/", "bpf/"}},
      {"agent/observe/attributes", {}, {"linux/netlink.h"}},
      {"agent/observe/generic_family", kCore, kText + kPosix + Words{"linux/"}},
      {"agent/observe/psample_message", kCore, kText + Words{"linux/"}},
      {"agent/observe/psample_source", kCore + Words{"agent/report/"},
       kText + kPosix + Words{"linux/"}},
      {"agent/observe/process_labels", kCore + Words{"agent/report/"}, kText + kPosix},
      {"agent/observe/lldp.cpp", kCore, kText + Words{"nlohmann/"}},
      {"agent/observe/lldp_file", kCore, kText + kPosix},
      {"agent/observe/tc_", kCore + Words{"agent/report/"},
       kText + kPosix + Words{"bpf/", "linux/", "roce_egress.skel.h"}},
      {"agent/netlink/", kCore + Words{"agent/program/", "agent/observe/"},
       kText + kPosix + Words{"linux/", "netlink/"}},
      {"agent/",
       kCore + kWire + kRuntime + kPort +
           Words{"agent/program/", "agent/report/", "agent/observe/"},
       kText + Words{"fnmatch.h"}},
      {"agent/arguments.cpp", {}, {"getopt.h"}},
      {"agent/probe_command.cpp", kCore, kText + Words{"nlohmann/"}},
      {"agent/dry_run.cpp", kCore + kRuntime + Words{"agent/program/"}, kText + Words{"nlohmann/"}},
      {"agent/probe_report.cpp", kCore + Words{"agent/program/", "agent/observe/"},
       kText + Words{"linux/capability.h"}},
      {"agent/main.cpp", kCore + kRuntime + Words{"common/transport/", "agent/"}, kText + kPosix},

      {"coordinator/predict/", kCore, kText},
      {"coordinator/optimise/", kCore + Words{"coordinator/predict/"}, kText},
      {"coordinator/decide/", kCore + Words{"coordinator/optimise/", "coordinator/predict/"},
       kText},
      {"coordinator/broadcast/", kCore, kText},
      {"coordinator/history/", kCore + kWire, kText},
      {"coordinator/history/rocksdb_", kCore + kWire, kText + Words{"rocksdb/"}},
      {"coordinator/serve/",
       kCore + Words{"coordinator/predict/", "coordinator/optimise/", "coordinator/decide/",
                     "coordinator/broadcast/", "coordinator/history/"},
       kText + Words{"nlohmann/"}},
      {"coordinator/import/", kCore, kText},
      {"coordinator/import/yaml_tree.cpp", kCore, kText + Words{"yaml-cpp/"}},
      {"coordinator/simulate/", kCore + Words{"coordinator/import/", "coordinator/optimise/"},
       kText + Words{"nlohmann/", "time.h"}},
      {"coordinator/simulate/ilp.cpp", kCore + Words{"coordinator/import/"},
       kText + Words{"coin/"}},
      {"coordinator/cli/",
       kCore + kWire + kRuntime + kPort +
           Words{"common/transport/keys.h", "coordinator/import/", "coordinator/simulate/"},
       kText + Words{"nlohmann/"}},
      {"coordinator/cli/command_line.cpp", kCore, kText + Words{"CLI/"}},
      {"coordinator/cli/command_line_offline.cpp", kCore, kText + Words{"CLI/"}},
      {"coordinator/cli/command_line_switching.cpp", kCore, kText + Words{"CLI/"}},
      {"coordinator/cli/archive.cpp", kCore, kText + Words{"zlib.h"}},
      {"coordinator/cli/simulate_command.cpp",
       kCore + Words{"coordinator/import/", "coordinator/simulate/"}, kText + Words{"CLI/"}},
      {"coordinator/cli/zmq_line.cpp", kCore + kRuntime + Words{"common/transport/"}, kText},
      {"coordinator/cli/main.cpp", kRuntime, {"unistd.h"}},
      {"coordinator/", kCore + kWire + kRuntime + kPort + kStages, kText},
      {"coordinator/state_store.cpp", kCore + kStages, kText + kPosix},
      {"coordinator/file_audit_log.cpp", kCore + kStages, kText + kPosix},
      {"coordinator/loop_executor", kCore + kRuntime, kText + kPosix},
      {"coordinator/main.cpp", kCore + kWire + kRuntime + kStages + Words{"common/transport/"},
       kText + kPosix},
  };
  return kRules;
}

inline bool begins_with_any(std::string_view text, const Words& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [text](std::string_view beginning) { return text.starts_with(beginning); });
}

inline std::string_view folder_of(std::string_view file) {
  return file.substr(0, file.rfind('/') + 1);
}

// The rule that holds for a file: folder rules for files right in that folder, file rules by their
// beginning.
inline const Rule* rule_of(std::string_view file) {
  const Rule* best = nullptr;
  for (const Rule& rule : rules()) {
    const bool matches =
        rule.path.ends_with('/') ? folder_of(file) == rule.path : file.starts_with(rule.path);
    if (matches && (best == nullptr || rule.path.size() > best->path.size()))
      best = &rule;
  }
  return best;
}

// What an `#include` line names, with its quote or bracket in front; nothing on other lines.
inline std::optional<std::string> included(std::string_view line) {
  const auto skip = [&line] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  skip();
  if (!line.starts_with('#'))
    return {};
  line.remove_prefix(1);
  skip();
  if (!line.starts_with("include"))
    return {};
  line.remove_prefix(std::string_view("include").size());
  skip();
  if (line.empty())
    return {};
  const std::size_t end = line.find(line.front() == '<' ? '>' : '"', 1);
  return std::string(line.substr(0, end));
}

// Why a file may not include this; empty if it may. `name` begins with its quote or bracket.
inline std::string fault(const Rule& rule, std::string_view file, std::string_view name) {
  static const Words kImpure{"thread",  "mutex",       "condition_variable", "future", "iostream",
                             "fstream", "ostream",     "filesystem",         "ctime",  "csignal",
                             "atomic",  "shared_mutex"};
  const bool bracket = name.starts_with('<');
  name.remove_prefix(1);
  if (bracket) {
    const bool standard = name.find_first_of("./") == std::string_view::npos;
    if (standard && rule.pure && std::find(kImpure.begin(), kImpure.end(), name) != kImpure.end())
      return "the core has no input, output, clock or thread";
    if (standard || begins_with_any(name, rule.theirs))
      return {};
    return fmt::format("'{}' may not know this library", rule.path);
  }
  if (begins_with_any(name, kAdapters) && !begins_with_any(file, kAdapters) &&
      !begins_with_any(file, kMayIncludeAdapters))
    return "only adapters and the files that put a program together include an adapter";
  if (folder_of(name) == folder_of(file) || begins_with_any(name, rule.ours))
    return {};
  return fmt::format("'{}' may not know that folder", rule.path);
}

inline bool is_source(const std::filesystem::path& path) {
  return path.extension() == ".cpp" || path.extension() == ".h" || path.extension() == ".c";
}

// Every violation in agent/, common/ and coordinator/ below `root`, as "FILE:LINE: includes X:
// WHY".
inline std::vector<std::string> violations(const std::filesystem::path& root) {
  std::vector<std::string> found;
  for (const char* top : {"agent", "common", "coordinator"}) {
    if (!std::filesystem::is_directory(root / top))
      continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path()))
        continue;
      const std::string file = std::filesystem::relative(entry.path(), root).generic_string();
      const Rule* rule = rule_of(file);
      if (rule == nullptr) {
        found.push_back(fmt::format("{}: no rule says what this folder may know", file));
        continue;
      }
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        const auto name = included(line);
        if (!name)
          continue;
        if (const std::string why = fault(*rule, file, *name); !why.empty())
          found.push_back(
              fmt::format("{}:{}: includes {}: {}", file, number, name->substr(1), why));
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace heddle::layering
