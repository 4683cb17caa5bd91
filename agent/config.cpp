#include "agent/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/runtime/config.h"

namespace heddle {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Tables that the kernel keeps for itself or that everybody uses.
constexpr std::uint32_t kReservedTables = 256;
constexpr std::uint32_t kMainRule = 32766;

bool is_node_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void read_routing(ConfigReader routing, RoutingRanges& ranges) {
  std::uint16_t protocol = ranges.protocol;
  routing.read("protocol", protocol, {.min = 1, .max = 255});
  // The kernel's own, static configuration and known routing programs: a route of theirs would look
  // like ours.
  if (protocol <= 18 || protocol == 42 || protocol == 99 || (protocol >= 186 && protocol <= 198)) {
    routing.problem("protocol", "the number belongs to the kernel or to another routing program");
  }
  ranges.protocol = static_cast<std::uint8_t>(protocol);

  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  routing.read("table_base", ranges.table_base, {.min = kReservedTables, .max = kMost / 2});
  routing.read("table_count", ranges.table_count, {.min = 1, .max = 65536});
  routing.read("rule_priority", ranges.rule_priority, {.min = 1, .max = kMainRule - 1});
  routing.read("nexthop_base", ranges.nexthop_base, {.min = 1, .max = kMost / 2});
  routing.read("nexthop_count", ranges.nexthop_count, {.min = 1, .max = 1'000'000});
}

void read_enforcer(ConfigReader& reader, AgentConfig& config) {
  const std::vector<Enforcer> fitting = enforcers_of(config.role);
  config.enforcer = fitting.front();
  reader.read_choice("enforcer", config.enforcer,
                     {{"port-tables", Enforcer::port_tables},
                      {"flow-marks", Enforcer::flow_marks},
                      {"host-routes", Enforcer::host_routes},
                      {"srv6", Enforcer::srv6}});
  if (std::ranges::find(fitting, config.enforcer) != fitting.end())
    return;
  std::vector<const char*> names;
  for (const Enforcer enforcer : fitting)
    names.push_back(name_of(enforcer));
  reader.problem("enforcer",
                 fmt::format("a node of this role holds paths by {}", fmt::join(names, " or ")));
}

void read_srv6(ConfigReader srv6, AgentConfig& config) {
  std::string text{"none"};
  srv6.read("sid", text);
  if (text == "none")
    return;
  // Multicast, link-local and loopback addresses lead nowhere.
  const auto address = IpAddress::parse(text);
  const bool good = address && address->family == Family::v6 &&
                    ((address->octets[0] & 0xE0) == 0x20 || (address->octets[0] & 0xFE) == 0xFC);
  if (good)
    config.sid = *address;
  else
    srv6.problem("sid", "a segment has an IPv6 address of 2000::/3 or fc00::/7");
  if (config.routing.table_count < 2)
    srv6.problem("sid", "segments take one of the tables; routing.table_count is too small");
}

Result<AgentConfig> read_config(ConfigReader reader) {
  AgentConfig config;
  reader.read("node", config.node, Need::required);
  if (reader.has("node") && !is_node_name(config.node))
    reader.problem("node", "a name has 1 to 64 letters, digits, '.', '-' and '_'");
  reader.read_choice("role", config.role,
                     {{"host", Role::host}, {"leaf", Role::leaf}, {"spine", Role::spine}},
                     Need::required);
  reader.read_choice("mode", config.mode, {{"observe", Mode::observe}, {"program", Mode::program}});

  ConfigReader coordinator = reader.section("coordinator", Need::required);
  coordinator.read("endpoint", config.endpoint, Need::required);
  coordinator.read("plain", config.plain);
  const Need keys = config.plain ? Need::optional : Need::required;
  coordinator.read("public_key", config.coordinator_key, keys);
  reader.read("key", config.key, keys);

  reader.read("state_dir", config.state_dir);
  reader.read("run_dir", config.run_dir);
  reader.read("lldp", config.lldp);
  reader.read_duration("report_interval_ms", config.report_interval, milliseconds{1},
                       {.min = milliseconds{50}, .max = seconds{60}});
  reader.read_duration("lease_s", config.lease, seconds{1}, {.min = seconds{1}, .max = hours{24}});

  reader.read("uplinks", config.uplinks, Need::required);
  reader.read("host_ports", config.host_ports);
  if (config.mode == Mode::program && config.role != Role::host && config.host_ports.empty())
    reader.problem("host_ports", "needed to program a leaf or a spine");
  reader.read("never_touch", config.never_touch);
  read_enforcer(reader, config);
  read_routing(reader.section("routing"), config.routing);
  read_srv6(reader.section("srv6"), config);
  reader.read_choice("log_level", config.log_level,
                     {{"error", LogLevel::error},
                      {"warning", LogLevel::warning},
                      {"info", LogLevel::info},
                      {"debug", LogLevel::debug}});
  if (const Result<void> finished = reader.finish(); !finished)
    return tl::unexpected(finished.error());
  return config;
}

}  // namespace

std::vector<std::string> AgentConfig::watched_ports() const {
  std::vector<std::string> ports = uplinks;
  if (role == Role::host)
    ports.insert(ports.end(), host_ports.begin(), host_ports.end());
  return ports;
}

std::vector<std::string> needs_restart(const AgentConfig& now, const AgentConfig& next) {
  std::vector<std::string> keys;
  const auto compare = [&keys](const char* key, const auto& a, const auto& b) {
    if (!(a == b))
      keys.emplace_back(key);
  };
  compare("node", now.node, next.node);
  compare("role", now.role, next.role);
  compare("mode", now.mode, next.mode);
  compare("coordinator.endpoint", now.endpoint, next.endpoint);
  compare("coordinator.plain", now.plain, next.plain);
  compare("coordinator.public_key", now.coordinator_key, next.coordinator_key);
  compare("key", now.key, next.key);
  compare("state_dir", now.state_dir, next.state_dir);
  compare("run_dir", now.run_dir, next.run_dir);
  compare("lldp", now.lldp, next.lldp);
  compare("report_interval_ms", now.report_interval, next.report_interval);
  compare("uplinks", now.uplinks, next.uplinks);
  compare("host_ports", now.host_ports, next.host_ports);
  compare("never_touch", now.never_touch, next.never_touch);
  compare("enforcer", now.enforcer, next.enforcer);
  compare("srv6.sid", now.sid, next.sid);
  compare("routing", now.routing, next.routing);
  return keys;
}

Result<AgentConfig> load_agent_config(const std::filesystem::path& file) {
  return ConfigReader::load(file).and_then(read_config);
}

Result<AgentConfig> parse_agent_config(std::string_view text, std::string name) {
  return ConfigReader::parse(text, std::move(name)).and_then(read_config);
}

}  // namespace heddle
