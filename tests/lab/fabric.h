// A leaf-spine fabric of network namespaces: hosts, leaves, spines and a management network, each
// link shaped to a rate, ECMP between the leaves by nexthop objects. Raised in well under a second
// and removed without a trace, also after a crash: what belongs to it is known by the prefix of its
// names and by a state file. One thread. The destructor takes the fabric down unless keep() was
// called.
//
// With the prefix "hd-": namespaces hd-leaf1, hd-spine1, hd-h1-2 (host 2 of leaf 1), hd-mgmt.
// Interfaces: a leaf's `up<spine>` and `p<host>`, a spine's `d<leaf>`, a host's `eth0`, everywhere
// `mgmt0`.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"

namespace heddle::lab {

struct FabricSpec {
  int leaves{4};
  int spines{4};
  int hosts{4};     // on each leaf
  Rate rate{25e6};  // of every link, in both directions
  int mtu{4200};
  std::string prefix{"hd-"};
  bool segments{};  // with an underlay of IPv6 that takes packets from segment to segment (SRv6)
};

struct NodeName {
  static std::string leaf(int leaf);
  static std::string spine(int spine);
  static std::string host(int leaf, int host);
};

// Numbers count from 1.
IpAddress host_address(int leaf, int host);
IpAddress leaf_port_address(int leaf, int host);  // the host's gateway
IpAddress uplink_address(int leaf, int spine);    // the leaf's end
IpAddress downlink_address(int leaf, int spine);  // the spine's end
Prefix leaf_prefix(int leaf);
// The underlay of IPv6: both ends of each cable, and the prefixes out of which spines and hosts
// take their segments.
IpAddress underlay_uplink_address(int leaf, int spine);
IpAddress underlay_downlink_address(int leaf, int spine);
IpAddress underlay_port_address(int leaf, int host);
IpAddress underlay_host_address(int leaf, int host);
Prefix spine_segments(int spine);
Prefix host_segments(int leaf, int host);
Prefix leaf_segments(int leaf);  // of all its hosts
// A spine's "End", a host's way out of the wrapping of IPv4.
IpAddress spine_segment(int spine);
IpAddress host_segment(int leaf, int host);
// The segment of a node's agent; a leaf has none.
std::optional<IpAddress> segment_of(std::string_view node);
IpAddress management_address(std::string_view node);  // "mgmt", "leaf1", "spine1", "h1-2"

// The names of all nodes of a fabric, hd-mgmt's apart.
std::vector<std::string> node_names(const FabricSpec& spec);

// The fabric file that a coordinator of this fabric reads.
std::string fabric_yaml(const FabricSpec& spec);

class Fabric {
 public:
  // Errc::duplicate if something of that prefix is up, with the command that removes it.
  static Result<Fabric> raise(const FabricSpec& spec);
  // One that another process raised; it is left up at the end.
  static Result<Fabric> attach(const std::string& prefix);
  // Removes every namespace of that prefix and every process that its state file lists; the number
  // of both. Nothing there is no error.
  static Result<int> tear_down(const std::string& prefix);

  Fabric(Fabric&& other) noexcept { *this = std::move(other); }
  Fabric& operator=(Fabric&& other) noexcept;
  ~Fabric();

  const FabricSpec& spec() const { return spec_; }
  void keep() { owned_ = false; }

  // By the node's name without the prefix, "mgmt" included.
  const NetNamespace& space(std::string_view node) const;
  Netlink& netlink(std::string_view node);

  // Uplinks and downlinks only, for a core that never is the bottleneck; and back to the fabric's
  // own rate.
  Result<void> unshape_core();
  Result<void> shape_core();
  // One uplink alone, at another rate; what was in its queue is lost.
  Result<void> shape_uplink(int leaf, int spine, Rate rate);

  // A cable dies at the spine's end, so that the leaf loses carrier as with a cut cable. Other
  // leaves learn of it only from routing. restore_cable() is the repair; both return at once.
  Result<void> cut_cable(int leaf, int spine);
  Result<void> restore_cable(int leaf, int spine);
  // All cables of a spine in one moment.
  Result<void> cut_spine(int spine);
  Result<void> restore_spine(int spine);
  bool cable_up(int leaf, int spine);

  // A folder that goes with the fabric, for what its programs write.
  std::string work_folder() const;
  // Tear-down ends this process too, unless it ended before; `what` is for people.
  Result<void> remember_process(pid_t process, std::string_view what);

 private:
  Fabric() = default;
  Result<void> open_nodes();
  Result<void> build();
  Result<void> prepare(const std::string& node);
  void add_underlay_addresses();
  Result<void> shape_links();
  Result<void> let_wrapped_answers_pass();

  FabricSpec spec_;
  bool owned_{};
  std::map<std::string, NetNamespace, std::less<>> spaces_;
  std::map<std::string, Netlink, std::less<>> netlinks_;
};

}  // namespace heddle::lab
