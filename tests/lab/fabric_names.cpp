// Names and addresses in a laboratory fabric, and the file that tells a coordinator of them.
#include <fmt/format.h>

#include <cstdio>

#include "common/core/check.h"
#include "tests/lab/fabric.h"

namespace heddle::lab {
namespace {

std::uint8_t octet(int value) {
  HEDDLE_CHECK(value >= 0 && value <= 255);
  return static_cast<std::uint8_t>(value);
}

}  // namespace

std::string NodeName::leaf(int leaf) {
  return fmt::format("leaf{}", leaf);
}
std::string NodeName::spine(int spine) {
  return fmt::format("spine{}", spine);
}
std::string NodeName::host(int leaf, int host) {
  return fmt::format("h{}-{}", leaf, host);
}

IpAddress host_address(int leaf, int host) {
  return IpAddress::v4(10, octet(leaf), octet(host), 2);
}
IpAddress leaf_port_address(int leaf, int host) {
  return IpAddress::v4(10, octet(leaf), octet(host), 1);
}
IpAddress uplink_address(int leaf, int spine) {
  return IpAddress::v4(10, octet(100 + leaf), octet(spine), 1);
}
IpAddress downlink_address(int leaf, int spine) {
  return IpAddress::v4(10, octet(100 + leaf), octet(spine), 2);
}
Prefix leaf_prefix(int leaf) {
  return {IpAddress::v4(10, octet(leaf), 0, 0), 16};
}

namespace {
// fd00:KIND:A:B::LAST. Kinds: 4 segments of hosts, 5 of spines, 6 cables, 7 hosts' cables.
IpAddress underlay(int kind, int a, int b, int last) {
  IpAddress address;
  address.family = Family::v6;
  address.octets[0] = 0xFD;
  address.octets[3] = octet(kind);
  address.octets[5] = octet(a);
  address.octets[7] = octet(b);
  address.octets[15] = octet(last);
  return address;
}
}  // namespace

IpAddress underlay_uplink_address(int leaf, int spine) {
  return underlay(6, leaf, spine, 1);
}
IpAddress underlay_downlink_address(int leaf, int spine) {
  return underlay(6, leaf, spine, 2);
}
IpAddress underlay_port_address(int leaf, int host) {
  return underlay(7, leaf, host, 1);
}
IpAddress underlay_host_address(int leaf, int host) {
  return underlay(7, leaf, host, 2);
}
Prefix spine_segments(int spine) {
  return {underlay(5, spine, 0, 0), 48};
}
Prefix host_segments(int leaf, int host) {
  return {underlay(4, leaf, host, 0), 64};
}
Prefix leaf_segments(int leaf) {
  return {underlay(4, leaf, 0, 0), 48};
}
IpAddress spine_segment(int spine) {
  return underlay(5, spine, 0, 1);
}
IpAddress host_segment(int leaf, int host) {
  return underlay(4, leaf, host, 1);
}

std::optional<IpAddress> segment_of(std::string_view node) {
  int a = 0;
  int b = 0;
  const std::string name(node);
  if (std::sscanf(name.c_str(), "spine%d", &a) == 1)
    return spine_segment(a);
  if (std::sscanf(name.c_str(), "h%d-%d", &a, &b) == 2)
    return host_segment(a, b);
  return std::nullopt;
}

IpAddress management_address(std::string_view node) {
  int a = 0;
  int b = 0;
  const std::string name(node);
  if (std::sscanf(name.c_str(), "leaf%d", &a) == 1)
    return IpAddress::v4(10, 255, 1, octet(a));
  if (std::sscanf(name.c_str(), "spine%d", &a) == 1)
    return IpAddress::v4(10, 255, 2, octet(a));
  if (std::sscanf(name.c_str(), "h%d-%d", &a, &b) == 2)
    return IpAddress::v4(10, 255, octet(10 + a), octet(b));
  return IpAddress::v4(10, 255, 0, 1);
}

std::vector<std::string> node_names(const FabricSpec& spec) {
  std::vector<std::string> names;
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    names.push_back(NodeName::leaf(leaf));
  for (int spine = 1; spine <= spec.spines; ++spine)
    names.push_back(NodeName::spine(spine));
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    for (int host = 1; host <= spec.hosts; ++host)
      names.push_back(NodeName::host(leaf, host));
  return names;
}

std::string fabric_yaml(const FabricSpec& spec) {
  const auto capacity = fmt::format("{}", static_cast<std::uint64_t>(spec.rate.bits_per_second));
  std::string yaml = "fabric: lab\nleaves:\n";
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    yaml += fmt::format("  - {{name: leaf{0}, rack: rack{0}}}\n", leaf);
  yaml += "spines:\n";
  for (int spine = 1; spine <= spec.spines; ++spine)
    yaml += fmt::format("  - {{name: spine{}}}\n", spine);
  yaml += "hosts:\n";
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    for (int host = 1; host <= spec.hosts; ++host)
      yaml += fmt::format(
          "  - name: {}\n    rack: rack{}\n    nics:\n      - {{name: eth0, address: {}, "
          "attachments: [{{leaf: leaf{}, port: p{}, capacity: {}}}]}}\n",
          NodeName::host(leaf, host), leaf, to_string(host_address(leaf, host)), leaf, host,
          capacity);
  yaml += "cables:\n";
  for (int leaf = 1; leaf <= spec.leaves; ++leaf)
    for (int spine = 1; spine <= spec.spines; ++spine)
      yaml += fmt::format(
          "  - {{leaf: leaf{0}, spine: spine{1}, leaf_port: up{1}, spine_port: d{0}, "
          "capacity: {2}}}\n",
          leaf, spine, capacity);
  return yaml;
}

}  // namespace heddle::lab
