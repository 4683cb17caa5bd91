#include "agent/program/prerequisites.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

// Falling back when an uplink dies is what makes pins safe, and such a route does not fall back.
std::string multipath_that_does_not_fall_back(const MainView& view, Family family) {
  const bool v6 = family == Family::v6;
  for (const std::uint32_t index : view.legacy_multipath_uplinks(family)) {
    const InterfaceSettings* const settings = view.settings(index);
    if (settings == nullptr ||
        (v6 ? settings->ignore_routes_with_linkdown_v6 : settings->ignore_routes_with_linkdown))
      continue;
    const std::string& name = view.link(index)->name;
    return fmt::format(
        "main has {}multipath routes without nexthop objects, which go on using {} without "
        "carrier; set net.{}.conf.{}.ignore_routes_with_linkdown to 1, or let the routing daemon "
        "use nexthop objects",
        v6 ? "IPv6 " : "", name, v6 ? "ipv6" : "ipv4", name);
  }
  return {};
}

// A spine's segment and the destination's.
constexpr std::size_t kUsualSegments = 2;
// Around RoCE's payload, as the kernel's RDMA core reckons when it chooses a path MTU for a link:
// IPv6 40, UDP 8, base transport 12, XRC 4, the longest extended header 28, checksum 4.
constexpr std::uint32_t kRoceHeaders = 96;
constexpr std::uint32_t kLeastOfIpv6 = 1280;  // an MTU that every link of IPv6 has

std::string missing_on_host(const PrerequisitesInput& input) {
  const MainView& view = input.view;
  std::size_t uplinks = 0;
  for (const auto& [index, link] : view.links()) {
    if (!view.is_uplink(index))
      continue;
    ++uplinks;
    if (const InterfaceSettings* const settings = view.settings(index);
        settings != nullptr && settings->strict_reverse_path)
      return fmt::format(
          "rp_filter is strict on {} and would drop what answers come by another uplink; set "
          "net.ipv4.conf.all.rp_filter and net.ipv4.conf.{}.rp_filter to 0 or 2",
          link.name, link.name);
    if (input.enforcer != Enforcer::srv6)
      continue;
    if (!link.ipv6)
      return fmt::format("IPv6 is off on {}; set net.ipv6.conf.{}.disable_ipv6 to 0", link.name,
                         link.name);
    if (std::string lack = lacks_room(link, kUsualSegments); !lack.empty())
      return lack;
  }
  const std::string patterns = fmt::format("{}", fmt::join(input.uplinks, ", "));
  if (uplinks == 0)
    return fmt::format("no interface matches uplinks ({})", patterns);
  if (uplinks == 1 && input.enforcer == Enforcer::host_routes)
    return fmt::format(
        "only one interface matches uplinks ({}), so there is nothing to choose; let the leaf "
        "hold paths, or use srv6",
        patterns);
  return multipath_that_does_not_fall_back(view, Family::v4);
}

}  // namespace

std::string lacks_room(const Link& link, std::size_t segments) {
  if (link.mtu == 0)
    return {};
  const auto wrapping = static_cast<std::uint32_t>(40 + 8 + 16 * segments);
  std::uint32_t payload = 4096;
  while (payload >= 256 && payload + kRoceHeaders > link.mtu)
    payload /= 2;
  const std::uint32_t packet = payload < 256 ? 0 : payload + kRoceHeaders;
  const std::uint32_t needed = std::max(packet, kLeastOfIpv6) + wrapping;
  if (link.mtu >= needed)
    return {};
  return fmt::format(
      "the MTU of {} is {}, and {} segments around packets of up to {} octets (RoCE's path MTU "
      "there is {}) need {}; set the MTU to {} or more on every link of the way",
      link.name, link.mtu, segments, needed - wrapping, payload < 256 ? 0 : payload, needed,
      needed);
}

std::string missing_prerequisite(const PrerequisitesInput& input) {
  if (is_of_hosts(input.enforcer))
    return missing_on_host(input);
  const MainView& view = input.view;
  bool any_uplink = false;
  bool any_host_port = false;
  for (const auto& [index, link] : view.links()) {
    const bool host_port = matches_any(input.host_ports, link.name);
    const bool uplink = view.is_uplink(index);
    any_host_port = any_host_port || host_port;
    any_uplink = any_uplink || uplink;
    if (!host_port && !uplink)
      continue;
    // An "iif" rule never matches a port whose packets are taken over by its master.
    if (host_port && link.master != 0)
      return fmt::format(
          "{} belongs to a {}, where a rule by ingress port has no effect; make it a routed port "
          "of the default VRF, or take it out of host_ports",
          link.name, link.master_kind.empty() ? "master device" : link.master_kind);
    const InterfaceSettings* const settings = view.settings(index);
    if (settings != nullptr && settings->strict_reverse_path)
      return fmt::format(
          "rp_filter is strict on {} and would drop what is steered; set "
          "net.ipv4.conf.all.rp_filter and net.ipv4.conf.{}.rp_filter to 0 or 2",
          link.name, link.name);
  }
  if (!any_host_port)
    return fmt::format("no interface matches host_ports ({})", fmt::join(input.host_ports, ", "));
  if (!any_uplink)
    return fmt::format("no interface matches uplinks ({})", fmt::join(input.uplinks, ", "));
  return multipath_that_does_not_fall_back(view, Family::v4);
}

std::string missing_proof_of_offload(const MainView& view, Enforcer enforcer) {
  const Link* const uplink = view.uplink_of_asic();
  // What a host sends is looked up by its kernel, whatever its network card could forward.
  if (uplink == nullptr || is_of_hosts(enforcer))
    return {};
  if (enforcer == Enforcer::flow_marks)
    return fmt::format(
        "an ASIC (switch id {}) forwards for {}, and packets that it forwards meet no packet "
        "rules; "
        "use port-tables",
        uplink->switch_id, uplink->name);
  if (!view.shows_offload())
    return fmt::format(
        "an ASIC (switch id {}) forwards for {}, and the kernel shows no route of main as "
        "offloaded: nothing would prove that the ASIC has a pin, so this node only observes",
        uplink->switch_id, uplink->name);
  return {};
}

std::string missing_prerequisite_of_ipv6(const MainView& view, Enforcer enforcer) {
  if (!is_of_hosts(enforcer) && !view.forwards_ipv6())
    return "IPv6 is not forwarded; set net.ipv6.conf.all.forwarding to 1";
  return multipath_that_does_not_fall_back(view, Family::v6);
}

}  // namespace heddle
