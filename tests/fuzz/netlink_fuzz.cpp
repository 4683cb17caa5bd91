// Whatever a kernel answers or announces, it is understood or passed over, and what is made of it
// holds together (safety rule 10).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "agent/netlink/parse.h"
#include "agent/program/claims.h"
#include "agent/program/desire.h"
#include "agent/program/main_view.h"
#include "common/core/check.h"
#include "common/core/reconcile.h"

namespace heddle {
namespace {

template <class T>
void keep(std::optional<T> value, std::vector<T>& into) {
  if (value)
    into.push_back(std::move(*value));
}

void fuzz(std::span<const std::byte> bytes) {
  KernelState state;
  std::vector<KernelEvent> events;
  for_each_message(bytes, [&](const nlmsghdr& message) {
    keep(parse_link(message), state.links);
    keep(parse_next_hop(message), state.next_hops);
    keep(parse_route(message), state.routes);
    keep(parse_rule(message), state.rules);
    keep(parse_neighbour(message), state.neighbours);
    keep(parse_event(message), events);
    (void)parse_settings(message);
    (void)parse_counters(message);
    (void)parse_answer(message);
  });

  const std::vector<std::string> uplinks = {"up*"};
  const std::vector<std::string> host_ports = {"p*"};
  MainView view(uplinks);
  view.load(state);
  for (const KernelEvent& event : events) {
    if (const auto* link = std::get_if<LinkEvent>(&event))
      view.apply(*link);
    if (const auto* route = std::get_if<RouteEvent>(&event))
      view.apply(*route);
    if (const auto* next_hop = std::get_if<NextHopEvent>(&event))
      view.apply(*next_hop);
    if (const auto* neighbour = std::get_if<NeighbourEvent>(&event))
      view.apply(*neighbour);
  }
  // Everything that looks like ours is in the record, so that as much as possible is dealt with.
  Ownership record;
  for (const KernelNextHop& next_hop : state.next_hops)
    record.next_hops.push_back(next_hop.id);
  std::sort(record.next_hops.begin(), record.next_hops.end());
  const Claims claims = claim(state, {}, record);
  const IpAddress destination = IpAddress::v4(10, 2, 1, 2);
  const std::vector<Pin> pins = {
      {.unit = ByPortAndDestination{.in_port = "p1", .destination = destination},
       .target = PortTableRoute{.out_port = "up1"},
       .reason = {}}};
  const Desire desired = desire({.pins = pins,
                                 .view = view,
                                 .installed = claims.ours,
                                 .record = record,
                                 .uplinks = uplinks,
                                 .host_ports = host_ports,
                                 .ranges = {}});
  // A route is programmed only over a link that is there and that `main` offers.
  for (const NextHop& next_hop : desired.tables.next_hops)
    HEDDLE_CHECK(view.offer(destination, next_hop.ifindex).has_value());
  (void)reconcile(desired.tables, claims.ours);
  (void)view.withdrawn({destination});
}

}  // namespace
}  // namespace heddle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The sockets' buffers are aligned as the kernel's messages are.
  std::vector<std::uint64_t> aligned(size / sizeof(std::uint64_t) + 1);
  if (size != 0)
    std::memcpy(aligned.data(), data, size);
  heddle::fuzz({reinterpret_cast<const std::byte*>(aligned.data()), size});
  return 0;
}
