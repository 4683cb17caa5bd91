#include "agent/program/installed_pins.h"

#include <algorithm>
#include <map>
#include <string>

#include "agent/program/route_kernel.h"

namespace heddle {
namespace {

Pin pin_of(const PinRoute& route, const std::string& port, const std::string& out,
           const std::vector<IpAddress>* segments) {
  if (port != kOwnPackets)
    return {.unit = ByPortAndDestination{.in_port = port, .destination = route.destination},
            .target = PortTableRoute{.out_port = out},
            .reason = {}};
  Pin pin{.unit = ByDestination{.destination = route.destination},
          .target = HostRoute{.out_port = out},
          .reason = {}};
  if (segments != nullptr)
    pin.target = SegmentList{.segments = *segments};
  return pin;
}

}  // namespace

std::vector<Pin> pins_of(const SteeringTables& installed, const MainView& view) {
  std::map<std::uint32_t, std::string> port_of;
  for (const TableRule& rule : installed.rules)
    port_of[rule.table] = rule.in_port;
  std::map<std::uint32_t, std::string> uplink_of;
  std::map<std::uint32_t, const std::vector<IpAddress>*> segments_of;
  for (const NextHop& next_hop : installed.next_hops) {
    if (const Link* const out = view.link(next_hop.ifindex); out != nullptr && !next_hop.action)
      uplink_of[next_hop.id] = out->name;
    if (!next_hop.segments.empty())
      segments_of[next_hop.id] = &next_hop.segments;
  }
  std::vector<Pin> pins;
  std::map<std::uint32_t, std::string> uplink_of_mark;
  for (const PinRoute& route : installed.routes) {
    const auto port = port_of.find(route.table);
    const auto out = uplink_of.find(route.next_hop);
    if (out != uplink_of.end() && route.destination.is_unspecified())
      uplink_of_mark[route.table] = out->second;
    else if (port != port_of.end() && out != uplink_of.end())
      pins.push_back(
          pin_of(route, port->second, out->second,
                 segments_of.contains(route.next_hop) ? segments_of[route.next_hop] : nullptr));
  }
  for (const MarkedFlow& marked : installed.marks) {
    if (const auto out = uplink_of_mark.find(marked.mark); out != uplink_of_mark.end())
      pins.push_back(
          {.unit = marked.flow, .target = FlowMark{.out_port = out->second}, .reason = {}});
  }
  std::sort(pins.begin(), pins.end(), [](const Pin& a, const Pin& b) { return a.unit < b.unit; });
  return pins;
}

}  // namespace heddle
