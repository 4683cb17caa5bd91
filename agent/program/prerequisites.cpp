#include "agent/program/prerequisites.h"

#include <fmt/format.h>

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

}  // namespace

std::string missing_prerequisite(const PrerequisitesInput& input) {
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

std::string missing_prerequisite_of_ipv6(const MainView& view) {
  if (!view.forwards_ipv6())
    return "IPv6 is not forwarded; set net.ipv6.conf.all.forwarding to 1";
  return multipath_that_does_not_fall_back(view, Family::v6);
}

}  // namespace heddle
