// The part of the demonstration in which cables die: near, at a spine that loses all of them, and
// far, beyond one that others go on using.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "tests/lab/demo_stages.h"
#include "tests/lab/marks_seen.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;
using Kind = TableEvent::Kind;

constexpr int kIterations = 4;
// Packets that were in a queue when its cable died belong to the failure.
constexpr Duration kInQueues = 100ms;
// The kernel needs no longer to drop a dead uplink, the cables of a spine one after another.
constexpr Duration kCarrierGone = 20ms;
// After so long a probe that has not come does not come.
constexpr Duration kDrain = 300ms;
// For so long no new plan may help what the underlay has repaired.
constexpr Duration kUnderlayAlone = 100ms;

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

// The longest time for which a flow's probes did not come through because of the failure, in
// milliseconds: those that began while it lasted. What is lost later is lost by moves.
double Stage::outage_since(Time event, Duration failure_lasts) {
  std::this_thread::sleep_for(kDrain);
  Duration longest{};
  quiet_since_ = event + failure_lasts;
  for (const Outage& outage : traffic_->probe_outages(event - kInQueues, boot_now() - kDrain)) {
    if (outage.begin > event + failure_lasts)
      continue;
    longest = std::max(longest, outage.length());
    quiet_since_ = std::max(quiet_since_, outage.end);
  }
  return milliseconds(longest);
}

Result<void> Stage::fail_near() {
  dead_spine_ = 1 + static_cast<int>(random_() % static_cast<unsigned>(options_.fabric.spines));
  const int leaves = options_.fabric.leaves;
  const Time cut = boot_now();
  if (auto done = fabric_->cut_spine(dead_spine_); !done)
    return done;
  expect_no_loss(quiet_since_, cut - kInQueues);
  console_.say(fmt::format("spine{} loses all its cables", dead_spine_));
  auto converged = await_plan(generation_, 2 * leaves, cut, "a plan without the dead spine");
  if (!converged)
    return tl::unexpected(converged.error());
  result_.near_traffic_back_ms = outage_since(cut, kCarrierGone);
  result_.near_replanned_ms = milliseconds(converged->last_change - cut);
  console_.say(
      fmt::format("traffic back after {:.0f} ms by {}; the new plan is installed after {:.0f} ms",
                  result_.near_traffic_back_ms,
                  by_segments() ? "the new plan, as a host does not see its leaf's carriers"
                                : "the kernel itself",
                  result_.near_replanned_ms));
  if (auto rested = await_rest(); !rested)
    return rested;
  if (auto held = hold_to_promise(kIterations, &DemoJob::after_failure,
                                  &DemoJob::after_failure_promised, "one spine less:");
      !held)
    return tl::unexpected(held.error());
  return {};
}

Result<std::vector<Stage::PinPlace>> Stage::pins_of_host(const std::string& host, int spine) {
  Netlink& net = fabric_->netlink(host);
  const auto hops = net.nexthops();
  const auto routes = net.routes();
  if (!hops || !routes)
    return fail(Errc::kernel, "the tables cannot be read");
  std::set<std::uint32_t> over_spine;
  for (const NexthopSeen& hop : *hops)
    if (!hop.segments.empty() && hop.segments.front() == spine_segment(spine))
      over_spine.insert(hop.id);
  std::vector<PinPlace> places;
  for (const RouteSeen& route : *routes)
    if (route.protocol == kPinProtocol && over_spine.contains(route.nexthop_id))
      places.push_back({host, route.table, route.destination, {}});
  return places;
}

Result<int> Stage::pins_led_on(int spine, int leaf) {
  int count = 0;
  for (const std::string& host : holders()) {
    const auto places = pins_of_host(host, spine);
    if (!places)
      return tl::unexpected(places.error());
    count += static_cast<int>(std::ranges::count_if(*places, [&](const PinPlace& place) {
      return leaf_prefix(leaf).contains(place.destination.address);
    }));
  }
  return count;
}

Result<std::vector<Stage::PinPlace>> Stage::pins_through(int spine, int leaf) {
  std::vector<PinPlace> places;
  for (int host = 1; host <= options_.fabric.hosts && by_segments(); ++host) {
    auto found = pins_of_host(NodeName::host(leaf, host), spine);
    if (!found)
      return found;
    places.insert(places.end(), found->begin(), found->end());
  }
  if (by_segments())
    return places;
  for (int other = 1; other <= options_.fabric.leaves; ++other) {
    if (other == leaf)
      continue;
    const std::string node = NodeName::leaf(other);
    Netlink& net = fabric_->netlink(node);
    const int port = net.index_of(fmt::format("up{}", spine));
    const auto hops = net.nexthops();
    const auto routes = net.routes();
    if (!hops || !routes)
      return fail(Errc::kernel, "the tables cannot be read");
    std::set<std::uint32_t> over_port;
    for (const NexthopSeen& hop : *hops)
      if (hop.out_index == port)
        over_port.insert(hop.id);
    std::set<std::uint32_t> marks;  // that lead over the port; each is the number of its table
    for (const RouteSeen& route : *routes) {
      if (route.protocol != kPinProtocol ||
          (route.out_index != port && !over_port.contains(route.nexthop_id)))
        continue;
      if (route.destination.length == 0)
        marks.insert(route.table);
      else if (leaf_prefix(leaf).contains(route.destination.address))
        places.push_back({node, route.table, route.destination, {}});
    }
    if (marks.empty())
      continue;
    const auto marked = marked_flows(fabric_->space(node));
    if (!marked)
      return tl::unexpected(marked.error());
    for (const MarkedFlow& each : *marked)
      if (marks.contains(each.mark) && leaf_prefix(leaf).contains(each.flow.destination))
        places.push_back({node, each.mark, {}, each.flow});
  }
  return places;
}

// The cable of one leaf to a spine that is alive: the other leaves see nothing of it, and their
// pins lead into it until routing withdraws it or a new plan comes.
Result<void> Stage::fail_far() {
  const FabricSpec& spec = options_.fabric;
  std::vector<PinPlace> pins;
  for (int spine = 1; spine <= spec.spines && pins.empty(); ++spine) {
    for (int leaf = spec.leaves; leaf >= 1 && pins.empty(); --leaf) {
      if (spine == dead_spine_)
        continue;
      auto found = pins_through(spine, leaf);
      if (!found)
        return tl::unexpected(found.error());
      pins = std::move(*found);
      dead_cable_ = {leaf, spine};
    }
  }
  if (pins.empty())
    return fail(Errc::not_found, "no pin crosses any spine");
  const int leaf = dead_cable_.first;
  const int spine = dead_cable_.second;
  const auto led_on = by_segments() ? pins_led_on(spine, leaf) : Result<int>(0);
  if (!led_on)
    return tl::unexpected(led_on.error());
  // A plan would come sooner than routing's own withdrawal, and hide what agents do without one.
  cluster_->hold_coordinator(true);
  const Time cut = boot_now();
  if (auto done = fabric_->cut_cable(leaf, spine); !done)
    return done;
  expect_no_loss(quiet_since_, cut - kInQueues);
  console_.say(fmt::format(
      "leaf{}-spine{} dies while the coordinator is held still; {} pins of {} lead into it", leaf,
      spine, pins.size(), by_segments() ? "its leaf's hosts" : "other leaves"));
  if (by_segments())
    console_.more(fmt::format(
        "and {} of other leaves' hosts by its spine, which nothing tells them", *led_on));
  const auto withdrawn =
      routing_->await(RoutingEvent::Kind::withdrawn, 1, cut, std::chrono::seconds(5));
  if (!withdrawn) {
    cluster_->hold_coordinator(false);
    return tl::unexpected(withdrawn.error());
  }

  // When each of them was gone, counted from when its own leaf's `main` ceased to offer that way.
  const auto change_of = [](const std::vector<TableEvent>& events, const PinPlace& pin) {
    return std::find_if(events.begin(), events.end(), [&](const TableEvent& event) {
      if (pin.flow)
        return (event.kind == Kind::mark_removed || event.kind == Kind::mark_set) &&
               event.node == pin.node && event.flow == *pin.flow;
      return (event.kind == Kind::route_removed || event.kind == Kind::route_set) &&
             event.node == pin.node && event.table == pin.table &&
             event.destination == pin.destination;
    });
  };
  const auto all_changed = [&](const std::vector<TableEvent>& events) {
    return std::all_of(pins.begin(), pins.end(),
                       [&](const PinPlace& pin) { return change_of(events, pin) != events.end(); });
  };
  const auto gone = watch_->await(cut, all_changed, std::chrono::seconds(5));
  // Pins that stay lead over what the underlay repairs by itself, and that shows only while no new
  // plan comes.
  if (by_segments())
    std::this_thread::sleep_for(kUnderlayAlone);
  const Time released = boot_now();
  cluster_->hold_coordinator(false);
  if (!gone)
    return fail(Errc::timeout, "a pin into the dead cable stays");
  const auto events = watch_->since(cut);
  for (const PinPlace& pin : pins) {
    const auto offer = std::find_if(events.begin(), events.end(), [&](const TableEvent& event) {
      return event.node == pin.node &&
             (by_segments()
                  ? event.kind == Kind::route_removed && event.destination == spine_segments(spine)
                  : event.kind == Kind::nexthop_set && event.nexthop_id == group_of(leaf));
    });
    const Time withdrawn_here = offer == events.end() ? withdrawn->at : offer->at;
    result_.far_pin_removed_ms = std::max(
        result_.far_pin_removed_ms, milliseconds(change_of(events, pin)->at - withdrawn_here));
  }
  auto converged = await_plan(generation_, 2 * (spec.leaves + 1), cut, "a plan without the cable");
  if (!converged)
    return tl::unexpected(converged.error());
  Time last_gone = cut;
  for (const PinPlace& pin : pins)
    last_gone = std::max(last_gone, change_of(events, pin)->at);
  result_.far_traffic_back_ms = outage_since(cut, last_gone - cut);
  result_.far_replanned_ms = milliseconds(converged->last_change - cut);
  if (by_segments())
    result_.far_held_ms = milliseconds(released - cut);
  console_.say(
      fmt::format("`main` withdrew it after {:.0f} ms, the agents their pins {:.1f} ms later; "
                  "traffic back after "
                  "{:.0f} ms; the coordinator goes on, its new plan is installed after {:.0f} ms",
                  milliseconds(withdrawn->at - cut), result_.far_pin_removed_ms,
                  result_.far_traffic_back_ms, result_.far_replanned_ms));
  if (by_segments())
    console_.more(
        fmt::format("what other leaves' hosts lead by spine{} went on by its `main` and "
                    "another leaf; the coordinator was held for {:.0f} ms",
                    spine, result_.far_held_ms));
  auto measured = measure(kIterations);
  if (!measured)
    return tl::unexpected(measured.error());
  show("and a cable less:", *measured);
  return {};
}

}  // namespace heddle::lab
