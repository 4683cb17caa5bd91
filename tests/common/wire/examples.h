// One message of every kind, with every field set: what the recorded bytes in corpus/ decode to.
// Fixed for good; a new field gets a new example beside the old one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/core/messages.h"

namespace heddle::test {

inline IpAddress v6_example(std::uint8_t last) {
  IpAddress address{.family = Family::v6, .octets = {}};
  address.octets = {0x20, 0x01, 0x0d, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, last};
  return address;
}

inline NodePlan plan_example() {
  return {.node = "leaf1",
          .version = {3, 17},
          .pins = {
              {ByDestination{IpAddress::v4(10, 2, 1, 2)}, HostRoute{"eth0"}, "first hop leaf2"},
              {ByPortAndDestination{"p1", IpAddress::v4(10, 2, 1, 2)}, PortTableRoute{"up3"},
               "off spine7"},
              {ByPortAndDestination{"p1", v6_example(1)}, FlowMark{"up4"}, ""},
              {ByQueuePair{v6_example(1), v6_example(2), 51'986},
               SegmentList{{v6_example(3), v6_example(4)}}, "\xc3\xa9"},
          }};
}

inline std::vector<PortStatus> ports_example() {
  return {{"up1", true, 1'000'000'007, 2}, {"p1", false, 0, ~std::uint64_t{0}}};
}

// Two subflows over IPv4 and one over IPv6, of two ports and two sources; first seen before and
// after 1970.
inline std::vector<FlowDelta> flows_example() {
  const IpAddress a = IpAddress::v4(10, 1, 1, 2), b = IpAddress::v4(10, 2, 1, 2);
  return {
      {{a, b, 51'986, 0x123456, WallTime(Duration(1'764'500'000'123'456'789))},
       Bytes{12'500'000'000},
       3'051'757,
       Bytes{4'194'304},
       "up1",
       "ebpf",
       false},
      {{b, a, 49'152, 1, WallTime(Duration(-5))}, Bytes{0}, 0, Bytes{0}, "", "psample", true},
      {{v6_example(1), v6_example(2), 65'535, 0xffffff,
        WallTime(Duration(1'764'500'000'000'000'000))},
       Bytes{~std::uint64_t{0}},
       1,
       Bytes{1},
       "up2",
       "ebpf",
       false},
  };
}

// What was estimated, and what its machine says it works for.
inline std::vector<FlowDelta> attributed_flows_example() {
  std::vector<FlowDelta> flows = flows_example();
  flows[0].bytes_error = Bytes{371'000'000};
  flows[0].label = "slurm:1234.0";
  flows[0].label_origin = "cgroup";
  flows[2].bytes_error = Bytes{~std::uint64_t{0}};
  return flows;
}

// What a host knows of its own queue pairs: how their peers are known, whose they are, what is not
// to be seen.
inline std::vector<FlowDelta> sender_flows_example() {
  std::vector<FlowDelta> flows = flows_example();
  flows[0].local_qpn = 0xb2;
  flows[0].pid = 197;
  flows[0].peer = PeerOrigin::kernel;
  flows[1].local_qpn = 0xffffff;
  flows[1].peer = PeerOrigin::cm;
  flows[1].unobservable = true;
  flows[2].pid = 0xffffffff;
  return flows;
}

// By file name in corpus/.
inline std::vector<std::pair<std::string, Envelope>> examples() {
  const NodePlan plan = plan_example();
  const auto from_agent = [](Message message) { return Envelope{"leaf1", 42, std::move(message)}; };
  const auto from_coordinator = [](Message message) {
    return Envelope{"coordinator", 7, std::move(message)};
  };
  return {
      {"hello",
       from_agent(Hello{.role = Role::leaf,
                        .mode = Mode::program,
                        .disabled = true,
                        .software = "0.1.0",
                        .boot_id = "3f1c2a54-7d0e-4b7c-9a51-0d6f5f1b2c3d",
                        .instance = 0x0123456789abcdef,
                        .installed = {3, 16},
                        .highest_seen = {3, 17},
                        .digest = 0xfedcba9876543210,
                        .enforcers = {{"port-tables", Granularity::port_and_destination, true, ""},
                                      {"flow-marks", Granularity::queue_pair, false, "no nft"}},
                        .sources = {{"ebpf", true, ""}, {"rdma", false, "no device"}},
                        .ports = ports_example()})},
      {"hello-segments",
       from_agent(Hello{.role = Role::host,
                        .mode = Mode::program,
                        .disabled = false,
                        .software = "0.1.0",
                        .boot_id = "3f1c2a54-7d0e-4b7c-9a51-0d6f5f1b2c3d",
                        .instance = 1,
                        .installed = {},
                        .highest_seen = {},
                        .digest = 0,
                        .enforcers = {{"srv6", Granularity::destination, true, ""}},
                        .sources = {},
                        .ports = {},
                        .segments = {{SegmentBehaviour::transit, v6_example(5)},
                                     {SegmentBehaviour::delivers_v4, v6_example(6)},
                                     {SegmentBehaviour::delivers_v6, v6_example(7)}}})},
      {"welcome",
       from_coordinator(Welcome{{3, 17}, std::chrono::seconds(1), std::chrono::seconds(120)})},
      {"welcome-columns", from_coordinator(Welcome{.version = {3, 17},
                                                   .report_interval = std::chrono::seconds(1),
                                                   .lease = std::chrono::seconds(120),
                                                   .columns_of_one = true})},
      {"refusal", from_coordinator(Refusal{Errc::duplicate, "another leaf1 is connected"})},
      {"report", from_agent(Report{.number = 9,
                                   .begin = Time(Duration(123'456'789'012)),
                                   .length = std::chrono::milliseconds(1'000),
                                   .gap = true,
                                   .flows = flows_example(),
                                   .ports = ports_example()})},
      {"report-links", from_agent(Report{.number = 10,
                                         .begin = Time(Duration(1)),
                                         .length = std::chrono::milliseconds(1'000),
                                         .gap = false,
                                         .flows = {},
                                         .ports = ports_example(),
                                         .links = 0xfedcba9876543210})},
      {"link-change-state", from_agent(LinkChange{.ports = ports_example(),
                                                  .withdrawn = {},
                                                  .neighbours = {},
                                                  .state = 0xfedcba9876543210})},
      {"link-request", from_coordinator(LinkRequest{.have = 0x0123456789abcdef})},
      {"link-change", from_agent(LinkChange{ports_example(),
                                            {{{IpAddress::v4(10, 2, 0, 0), 16}, "up1"},
                                             {{v6_example(0), 128}, "up2"},
                                             {{}, "up3"}}})},
      {"link-change-cabling",
       from_agent(LinkChange{.ports = {{.name = "up1",
                                        .carrier = true,
                                        .tx_bytes = 1,
                                        .rx_bytes = 2,
                                        .speed = Rate{400e9}}},
                             .withdrawn = {},
                             .neighbours = {{{"up1", "spine7.fabric.example", "Ethernet1/1"},
                                             {"p1", "", "00:1c:73:0c:00:01", "eth0"}}}})},
      {"report-attributes", from_agent(Report{.number = 10,
                                              .begin = Time(Duration(5)),
                                              .length = std::chrono::milliseconds(1'000),
                                              .gap = false,
                                              .flows = attributed_flows_example(),
                                              .ports = {}})},
      {"report-rdma",
       from_agent(
           Report{.number = 11,
                  .begin = Time(Duration(6)),
                  .length = std::chrono::milliseconds(1'000),
                  .gap = false,
                  .flows = sender_flows_example(),
                  .ports = {},
                  .rdma_ports = {{"mlx5_0",
                                  1,
                                  "eth0",
                                  0x506b4b0300a1b2c3,
                                  false,
                                  {{"tx_bytes", 50'000'000'000, false}, {"cnp_sent", 17, true}}},
                                 {"mlx5_1", 1, "", 0x506b4b0300a1b2c4, true, {}}},
                  .queue_pairs = {{IpAddress::v4(10, 1, 1, 2), 178, 200, 197},
                                  {v6_example(1), 0xffffff, 1, 0}}})},
      {"report-pair-labels", from_agent(Report{.number = 13,
                                               .begin = Time(Duration(8)),
                                               .length = std::chrono::milliseconds(1'000),
                                               .gap = false,
                                               .flows = {},
                                               .ports = {},
                                               .queue_pairs = {{IpAddress::v4(10, 1, 1, 2), 178,
                                                                200, 197, "slurm:1234.0", "cgroup"},
                                                               {v6_example(1), 0xffffff, 1, 0}}})},
      {"report-counts",
       from_agent(
           Report{.number = 12,
                  .begin = Time(Duration(7)),
                  .length = std::chrono::milliseconds(1'000),
                  .gap = false,
                  .flows = {},
                  .ports = {{.name = "up1",
                             .carrier = true,
                             .tx_bytes = 1,
                             .rx_bytes = 2,
                             .speed = Rate{400e9},
                             .counts = {{"pause_received", 3, false}, {"pause_sent", 4, true}}}},
                  .rdma_ports = {{.device = "mlx5_0",
                                  .port = 1,
                                  .netdev = "eth0",
                                  .guid = 7,
                                  .hidden = false,
                                  .counts = {{"tx_bytes", 1, false}},
                                  .length = std::chrono::milliseconds(3'000)}}})},
      {"acknowledgement",
       from_agent(Acknowledgement{.version = {3, 17},
                                  .digest = 5,
                                  .installed = 3,
                                  .failed = {{plan.pins[0].unit, Errc::kernel, "no route"},
                                             {plan.pins[3].unit, Errc::unobservable, ""}},
                                  .disabled = true,
                                  .conflict = "table 18800 holds a route of protocol 99",
                                  .apply_time = std::chrono::microseconds(812)})},
      {"acknowledgement-states",
       from_agent(Acknowledgement{
           .version = {3, 18},
           .digest = 6,
           .installed = 3,
           .failed = {{plan.pins[0].unit, Errc::kernel, "not effective: seen leaving by up3"}},
           .disabled = false,
           .conflict = "",
           .apply_time = std::chrono::microseconds(90),
           .states = PinStates{.installed = 5, .hardware = true, .offloaded = 4, .effective = 2}})},
      {"plan-diff", from_coordinator(PlanDiff{.node = "leaf1",
                                              .base = {3, 16},
                                              .version = {3, 17},
                                              .set = {plan.pins[1], plan.pins[3]},
                                              .removed = {plan.pins[0].unit, plan.pins[2].unit},
                                              .digest = 77})},
      {"snapshot", from_coordinator(Snapshot{plan, digest(plan.pins)})},
      {"snapshot-request", from_agent(SnapshotRequest{{3, 15}, "gap"})},
      {"heartbeat", from_coordinator(Heartbeat{{3, 17}, 99, std::chrono::hours(24)})},
      {"switch", from_coordinator(Switch{true, "admin"})},
      {"request",
       Envelope{"admin", 1,
                Request{0xffffffffffffffff, "plan", {"explain", "10.1.1.2 10.2.1.2", ""}}}},
      {"reply", from_coordinator(Reply{8, 4, R"({"flow":null})", "no such flow"})},
  };
}

}  // namespace heddle::test
