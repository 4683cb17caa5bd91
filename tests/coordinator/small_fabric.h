// A small fabric for tests: leaves leaf1.., spines spine1.., hosts hL-H with one NIC each
// at 10.L.H.2, ports up1.. and p1.. as in the lab.
#pragma once

#include <fmt/format.h>

#include "common/core/check.h"
#include "common/core/messages.h"
#include "common/core/topology.h"

namespace heddle::testing {

inline Topology small_fabric(int leaves, int spines, int hosts, Rate capacity = Rate{25e6}) {
  FabricDescription fabric;
  fabric.name = "test";
  for (int l = 1; l <= leaves; ++l)
    fabric.leaves.push_back(
        {.name = fmt::format("leaf{}", l), .rack = fmt::format("rack{}", l), .line = 0});
  for (int s = 1; s <= spines; ++s)
    fabric.spines.push_back({.name = fmt::format("spine{}", s), .line = 0});
  for (int l = 1; l <= leaves; ++l) {
    for (int h = 1; h <= hosts; ++h)
      fabric.hosts.push_back({.name = fmt::format("h{}-{}", l, h),
                              .rack = fmt::format("rack{}", l),
                              .nics = {{.name = "eth0",
                                        .address = fmt::format("10.{}.{}.2", l, h),
                                        .attachments = {{.leaf = fmt::format("leaf{}", l),
                                                         .leaf_port = fmt::format("p{}", h),
                                                         .capacity = capacity,
                                                         .line = 0}},
                                        .line = 0}},
                              .line = 0});
    for (int s = 1; s <= spines; ++s)
      fabric.cables.push_back({.leaf = fmt::format("leaf{}", l),
                               .spine = fmt::format("spine{}", s),
                               .leaf_port = fmt::format("up{}", s),
                               .spine_port = fmt::format("d{}", l),
                               .capacity = capacity,
                               .line = 0});
  }
  auto topology = Topology::build(fabric);
  HEDDLE_CHECK(topology.has_value());
  return std::move(*topology);
}

// Leaves and spines with `cables` parallel cables each, up1-1, up1-2 and so on at the leaves, d1-1
// at the spines; hosts hL-H whose one NIC 10.L.H.2 is on leaf L by eth0 and, if there are two
// ports, on the leaf after it by eth1.
struct ClusterShape {
  int leaves{2};
  int spines{2};
  int hosts{2};
  int cables{1};
  int ports{1};
};

inline Topology shaped_fabric(const ClusterShape& shape) {
  FabricDescription fabric;
  fabric.name = "test";
  for (int s = 1; s <= shape.spines; ++s)
    fabric.spines.push_back({.name = fmt::format("spine{}", s), .line = 0});
  for (int l = 1; l <= shape.leaves; ++l) {
    fabric.leaves.push_back({.name = fmt::format("leaf{}", l), .rack = {}, .line = 0});
    for (int s = 1; s <= shape.spines; ++s)
      for (int c = 1; c <= shape.cables; ++c)
        fabric.cables.push_back({.leaf = fmt::format("leaf{}", l),
                                 .spine = fmt::format("spine{}", s),
                                 .leaf_port = fmt::format("up{}-{}", s, c),
                                 .spine_port = fmt::format("d{}-{}", l, c),
                                 .capacity = Rate{25e6},
                                 .line = 0});
    for (int h = 1; h <= shape.hosts; ++h) {
      FabricDescription::Nic nic{
          .name = "eth0", .address = fmt::format("10.{}.{}.2", l, h), .attachments = {}, .line = 0};
      for (int p = 0; p < shape.ports; ++p)
        nic.attachments.push_back({.leaf = fmt::format("leaf{}", (l - 1 + p) % shape.leaves + 1),
                                   .leaf_port = fmt::format("p{}-{}", l, h),
                                   .capacity = Rate{25e6},
                                   .line = 0,
                                   .host_port = fmt::format("eth{}", p)});
      fabric.hosts.push_back(
          {.name = fmt::format("h{}-{}", l, h), .rack = {}, .nics = {nic}, .line = 0});
    }
  }
  auto topology = Topology::build(fabric);
  HEDDLE_CHECK(topology.has_value());
  return std::move(*topology);
}

inline IpAddress address(int leaf, int host) {
  return IpAddress::v4(10, static_cast<std::uint8_t>(leaf), static_cast<std::uint8_t>(host), 2);
}

inline WireKey wire_key(IpAddress from, IpAddress to, std::uint16_t port = 50000,
                        std::uint32_t qpn = 17) {
  return {
      .source = from, .destination = to, .source_port = port, .dest_qpn = qpn, .first_seen = {}};
}

inline FlowDelta delta(const WireKey& key, std::uint64_t bytes, std::string out_port = {},
                       std::uint64_t message = 0) {
  return {.key = key,
          .bytes = {bytes},
          .packets = bytes / 4096,
          .message_length = {message},
          .out_port = std::move(out_port),
          .source = "test"};
}

inline Report report_of(std::uint64_t number, Time begin, Duration length,
                        std::vector<FlowDelta> flows, std::vector<PortStatus> ports = {}) {
  Report report;
  report.number = number;
  report.begin = begin;
  report.length = length;
  report.flows = std::move(flows);
  report.ports = std::move(ports);
  return report;
}

}  // namespace heddle::testing
