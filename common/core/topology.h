// The fabric as values: leaves, spines, hosts, NICs with their attachments, cables. Built once from
// a description whose every mistake is reported with its line; immutable afterwards, so any thread
// may read it. What changes while the fabric runs (which links are up) is LinkState.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/core/address.h"
#include "common/core/ids.h"
#include "common/core/units.h"

namespace heddle {

// Any node of the fabric, as a place where pins are installed.
using NodeId = std::variant<LeafId, SpineId, HostId>;

// What a fabric file says, before it is checked. `line` is where it says so, 1-based; 0 if
// generated.
struct FabricDescription {
  struct Leaf {
    std::string name;
    std::string rack;  // empty: the leaf's own name
    int line{};
  };
  struct Spine {
    std::string name;
    int line{};
  };
  struct Attachment {
    std::string leaf;
    std::string leaf_port;  // the interface on the leaf that faces this NIC
    Rate capacity;
    int line{};
    std::string host_port{};  // the interface on the host; empty: the NIC's name
  };
  struct Nic {
    std::string name;  // unique within its host; the interface's name there
    std::string address;
    std::vector<Attachment> attachments;  // one, or more (dual-ToR, planes)
    int line{};
  };
  struct Host {
    std::string name;
    std::string rack;
    std::vector<Nic> nics;
    int line{};
  };
  struct Cable {
    std::string leaf;
    std::string spine;
    std::string leaf_port;
    std::string spine_port;
    Rate capacity;
    int line{};
  };
  std::string name;
  std::vector<Leaf> leaves;
  std::vector<Spine> spines;
  std::vector<Host> hosts;
  std::vector<Cable> cables;
};

struct Mistake {
  int line{};
  std::string message;
  bool operator==(const Mistake&) const = default;
};

class Topology {
 public:
  struct Leaf {
    std::string name;
    std::string rack;
    std::vector<CableId> cables;            // in the order of the description
    std::vector<AttachmentId> attachments;  // likewise
  };
  struct Spine {
    std::string name;
    std::vector<CableId> cables;
  };
  struct Host {
    std::string name;
    std::string rack;
    std::vector<NicId> nics;
  };
  struct Nic {
    std::string name;
    HostId host;
    IpAddress address;
    std::vector<AttachmentId> attachments;
  };
  struct Attachment {
    NicId nic;
    LeafId leaf;
    std::string leaf_port;
    std::string host_port;
    Rate capacity;
  };
  struct Cable {
    LeafId leaf;
    SpineId spine;
    std::string leaf_port;
    std::string spine_port;
    Rate capacity;
  };

  // Checks everything and reports every mistake, not only the first: names and addresses used
  // twice, unknown leaves and spines, capacities that are not positive and finite, a cable from a
  // node to itself, a port used twice on one node, a NIC in no leaf.
  static tl::expected<Topology, std::vector<Mistake>> build(const FabricDescription& description);

  const std::string& name() const { return name_; }
  std::span<const Leaf> leaves() const { return leaves_; }
  std::span<const Spine> spines() const { return spines_; }
  std::span<const Host> hosts() const { return hosts_; }
  std::span<const Nic> nics() const { return nics_; }
  std::span<const Attachment> attachments() const { return attachments_; }
  std::span<const Cable> cables() const { return cables_; }

  const Leaf& operator[](LeafId id) const { return leaves_[id.value]; }
  const Spine& operator[](SpineId id) const { return spines_[id.value]; }
  const Host& operator[](HostId id) const { return hosts_[id.value]; }
  const Nic& operator[](NicId id) const { return nics_[id.value]; }
  const Attachment& operator[](AttachmentId id) const { return attachments_[id.value]; }
  const Cable& operator[](CableId id) const { return cables_[id.value]; }

  std::optional<LeafId> find_leaf(std::string_view name) const;
  std::optional<SpineId> find_spine(std::string_view name) const;
  std::optional<HostId> find_host(std::string_view name) const;
  // Names are unique over all three kinds.
  std::optional<NodeId> find_node(std::string_view name) const;
  const std::string& name_of(NodeId node) const;
  // All of them: leaves, then spines, then hosts.
  std::vector<NodeId> nodes() const;
  // A leaf's own; a host's are those of the leaves that it is attached to; a spine is in none.
  std::set<std::string> racks_of(NodeId node) const;
  std::optional<NicId> find_nic(const IpAddress& address) const;
  // The cable behind a leaf's port, the attachment behind a leaf's port; nothing if it is another
  // kind of port.
  std::optional<CableId> cable_at(LeafId leaf, std::string_view leaf_port) const;
  std::optional<CableId> cable_at(SpineId spine, std::string_view spine_port) const;
  std::optional<AttachmentId> attachment_at(LeafId leaf, std::string_view leaf_port) const;
  // Behind a port of a host; nothing if several attachments share it, as of a bond.
  std::optional<AttachmentId> attachment_at(HostId host, std::string_view host_port) const;
  // Parallel cables of one pair, in the order of the description; empty if the pair is not cabled.
  std::span<const CableId> cables_between(LeafId leaf, SpineId spine) const;

  // Links: each cable is two, each attachment is two. Dense, from 0 to link_count() - 1.
  std::size_t link_count() const { return 2 * (cables_.size() + attachments_.size()); }
  LinkId uplink(CableId id) const { return {2 * id.value}; }
  LinkId downlink(CableId id) const { return {2 * id.value + 1}; }
  LinkId nic_tx(AttachmentId id) const { return {core_links() + 2 * id.value}; }
  LinkId nic_rx(AttachmentId id) const { return {core_links() + 2 * id.value + 1}; }
  bool is_core(LinkId id) const { return id.value < core_links(); }
  Rate capacity(LinkId id) const;
  // Every link has a leaf at one end: which, and by what port of it.
  struct LeafEnd {
    LeafId leaf;
    std::string port;
  };
  LeafEnd leaf_end(LinkId id) const;
  // "leaf3-spine7" for an uplink, "spine7-leaf3" for a downlink, "host1/eth0-leaf3" and back for
  // NIC ports; parallel cables are told apart by "#2" and so on.
  std::string link_name(LinkId id) const;

 private:
  Topology() = default;
  std::uint32_t core_links() const { return static_cast<std::uint32_t>(2 * cables_.size()); }

  std::string name_;
  std::vector<Leaf> leaves_;
  std::vector<Spine> spines_;
  std::vector<Host> hosts_;
  std::vector<Nic> nics_;
  std::vector<Attachment> attachments_;
  std::vector<Cable> cables_;
  std::vector<std::vector<CableId>> bundles_;  // leaf-major: leaf * spines + spine
  std::unordered_map<std::string, LeafId> leaf_by_name_;
  std::unordered_map<std::string, SpineId> spine_by_name_;
  std::unordered_map<std::string, HostId> host_by_name_;
  std::unordered_map<IpAddress, NicId> nic_by_address_;
};

// Which links are up. A link that is not known to be down is up.
class LinkState {
 public:
  explicit LinkState(const Topology& topology) : down_(topology.link_count(), false) {}

  bool up(LinkId id) const { return !down_[id.value]; }
  void set(LinkId id, bool is_up) { down_[id.value] = !is_up; }
  // Both directions of a cable.
  void set(const Topology& topology, CableId id, bool is_up) {
    set(topology.uplink(id), is_up);
    set(topology.downlink(id), is_up);
  }
  bool operator==(const LinkState&) const = default;

 private:
  std::vector<bool> down_;
};

}  // namespace heddle
