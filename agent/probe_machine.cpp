// The facts of probe_report.h that files hold.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "agent/probe_report.h"

namespace heddle {
namespace {

std::optional<int> number(const FileTree& root, const std::string& file) {
  const Result<std::string> text = root.read(file);
  int value{};
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// "CapEff:	000001ffffffffff"
std::optional<std::uint64_t> capabilities(const FileTree& root) {
  const Result<std::string> status = root.read("proc/self/status");
  std::optional<std::uint64_t> result;
  if (status)
    for_each_line(*status, [&result](std::string_view line) {
      constexpr std::string_view kKey = "CapEff:";
      if (!line.starts_with(kKey))
        return;
      const std::string_view digits = trimmed(line.substr(kKey.size()));
      std::uint64_t value{};
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value, 16).ec ==
          std::errc{})
        result = value;
    });
  return result;
}

// systemd's words for yes; whatever else it would refuse, and keep the default.
bool says_no(std::string_view value) {
  return value == "no" || value == "false" || value == "off" || value == "0" || value == "n" ||
         value == "f";
}

void read_networkd_file(const FileTree& root, const std::string& file, MachineFacts& facts) {
  const Result<std::string> text = root.read(file);
  if (!text)
    return;
  std::string_view section;
  for_each_line(*text, [&](std::string_view raw) {
    const std::string_view line = trimmed(raw);
    if (line.starts_with('[')) {
      section = line;
      return;
    }
    const std::size_t equals = line.find('=');
    if (section != "[Network]" || equals == std::string_view::npos || line.starts_with('#') ||
        line.starts_with(';'))
      return;
    const std::string_view key = trimmed(line.substr(0, equals));
    const bool manages = !says_no(trimmed(line.substr(equals + 1)));
    if (key == "ManageForeignRoutes")
      facts.foreign_routes = manages;
    if (key == "ManageForeignRoutingPolicyRules")
      facts.foreign_rules = manages;
    if (key == "ManageForeignNextHops")
      facts.foreign_next_hops = manages;
  });
}

// The main file, then the drop-ins by their names, of which one in /etc hides one in /run, and that
// one in /usr/lib.
void read_networkd(const FileTree& root, MachineFacts& facts) {
  facts.networkd = root.read("run/systemd/netif/state").has_value();
  facts.foreign_routes = facts.foreign_rules = facts.foreign_next_hops = true;
  read_networkd_file(root, "etc/systemd/networkd.conf", facts);
  std::vector<std::pair<std::string, std::string>> drop_ins;  // name, folder
  for (const char* const place : {"etc", "run", "usr/lib", "lib"}) {
    const std::string folder = std::string(place) + "/systemd/networkd.conf.d";
    for (const std::string& name : root.list(folder))
      if (name.ends_with(".conf") &&
          std::ranges::find(drop_ins, name, &std::pair<std::string, std::string>::first) ==
              drop_ins.end())
        drop_ins.emplace_back(name, folder);
  }
  std::ranges::sort(drop_ins);
  for (const auto& [name, folder] : drop_ins)
    read_networkd_file(root, fmt::format("{}/{}", folder, name), facts);

  for (const char* const folder :
       {"usr/lib/systemd", "usr/lib/x86_64-linux-gnu/systemd", "usr/lib/aarch64-linux-gnu/systemd"})
    for (const std::string& name : root.list(folder)) {
      constexpr std::string_view kShared = "libsystemd-shared-";
      if (name.starts_with(kShared))
        std::from_chars(name.data() + kShared.size(), name.data() + name.size(),
                        facts.systemd_version);
    }
}

}  // namespace

MachineFacts read_machine(const FileTree& root) {
  MachineFacts facts;
  facts.capabilities = capabilities(root);
  const std::vector<std::string> types = root.list("sys/kernel/btf");
  facts.type_information = std::ranges::find(types, "vmlinux") != types.end();
  // The first process belongs to root; where even root without privileges may not see it, it sees
  // no other user's.
  facts.other_processes = root.read("proc/1/cgroup").has_value();
  facts.forwarding = number(root, "proc/sys/net/ipv4/ip_forward");
  facts.hash_policy = number(root, "proc/sys/net/ipv4/fib_multipath_hash_policy");
  facts.hash_policy_v6 = number(root, "proc/sys/net/ipv6/fib_multipath_hash_policy");
  facts.nexthop_compat_mode = number(root, "proc/sys/net/ipv4/nexthop_compat_mode");
  facts.rdma_devices = root.list("sys/class/infiniband");
  read_networkd(root, facts);
  return facts;
}

}  // namespace heddle
