#include "coordinator/predict/cable_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace heddle {
namespace {

// Drivers round: 25,781 Mbit/s is sold as 25 Gbit/s.
constexpr double kSpeedTolerance = 0.05;

struct Cable {
  CableEnd a;  // the leaf
  CableEnd b;  // the spine or the host
  Rate capacity;
};

std::vector<Cable> cables_of(const Topology& topology) {
  std::vector<Cable> all;
  for (const Topology::Cable& cable : topology.cables())
    all.push_back({.a = {topology[cable.leaf].name, cable.leaf_port},
                   .b = {topology[cable.spine].name, cable.spine_port},
                   .capacity = cable.capacity});
  for (const Topology::Attachment& attachment : topology.attachments())
    all.push_back({.a = {topology[attachment.leaf].name, attachment.leaf_port},
                   .b = {topology[topology[attachment.nic].host].name, attachment.host_port},
                   .capacity = attachment.capacity});
  return all;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

// One comparison. Ends are looked up by name; what a neighbour calls itself is turned into the
// file's name where the two agree up to case and domain.
class CableTable::Check {
 public:
  Check(const Topology& topology, const std::map<std::string, Node>& nodes)
      : nodes_(nodes), cables_(cables_of(topology)) {
    for (const Topology::Leaf& leaf : topology.leaves())
      names_.emplace(lower(leaf.name), leaf.name);
    for (const Topology::Spine& spine : topology.spines())
      names_.emplace(lower(spine.name), spine.name);
    for (const Topology::Host& host : topology.hosts())
      names_.emplace(lower(host.name), host.name);
    for (const Cable& cable : cables_) {
      other_[cable.a] = cable.b;
      other_[cable.b] = cable.a;
    }
    for (const auto& [name, node] : nodes)
      if (node.neighbours && names_.contains(lower(name)))
        for (const LldpNeighbour& neighbour : *node.neighbours)
          heard_[{name, neighbour.port}].push_back(end_of(neighbour));
  }

  CableCheck run() {
    result_.expected = static_cast<std::uint32_t>(cables_.size());
    for (const Cable& cable : cables_)
      look_at(cable);
    look_for_extra();
    std::ranges::sort(result_.differences, {}, [](const CableDifference& one) {
      return std::tuple(one.fault, one.at, one.expected, one.found);
    });
    return std::move(result_);
  }

  bool in_place(const CableEnd& a, const CableEnd& b) const { return hears(a, b) || hears(b, a); }
  bool leads_to(const CableEnd& at, const std::string& node) const {
    return std::ranges::any_of(heard_at(at),
                               [&node](const CableEnd& found) { return found.node == node; });
  }
  bool swapped(const CableEnd& end) const { return swapped_.contains(end); }

 private:
  std::string name_in_file(const std::string& name) const {
    const std::string plain = lower(name);
    if (const auto found = names_.find(plain); found != names_.end())
      return found->second;
    const auto found = names_.find(plain.substr(0, plain.find('.')));
    return found != names_.end() ? found->second : name;
  }

  // The neighbour's port is what its id or its description names, if the file has a port of that
  // name there; else what it gave.
  CableEnd end_of(const LldpNeighbour& neighbour) const {
    CableEnd end{name_in_file(neighbour.node), neighbour.node_port};
    if (other_.contains(end) || neighbour.node_port_description.empty())
      return end;
    CableEnd described{end.node, neighbour.node_port_description};
    // A MAC address says less to people than a description that is short enough for an interface.
    const bool better =
        other_.contains(described) || (neighbour.node_port.find(':') != std::string::npos &&
                                       neighbour.node_port_description.size() <= 15);
    return better ? described : end;
  }

  bool told(const CableEnd& end) const {
    const auto node = nodes_.find(end.node);
    return node != nodes_.end() && node->second.neighbours.has_value();
  }
  const std::vector<CableEnd>& heard_at(const CableEnd& end) const {
    static const std::vector<CableEnd> nobody;
    const auto found = heard_.find(end);
    return found == heard_.end() ? nobody : found->second;
  }
  bool hears(const CableEnd& at, const CableEnd& whom) const {
    return std::ranges::find(heard_at(at), whom) != heard_at(at).end();
  }
  const Port* port(const CableEnd& end) const {
    const auto node = nodes_.find(end.node);
    if (node == nodes_.end())
      return nullptr;
    const auto found = node->second.ports.find(end.port);
    return found == node->second.ports.end() ? nullptr : &found->second;
  }

  void look_at(const Cable& cable) {
    for (const CableEnd& end : {cable.a, cable.b})
      check_speed(end, cable);
    if (in_place(cable.a, cable.b)) {
      ++result_.verified;
      return;
    }
    if (!told(cable.a) && !told(cable.b)) {
      result_.unverified.emplace_back(cable.a, cable.b);
      return;
    }
    if (swapped(cable.a) || look_for_swap(cable.a, cable.b) || look_for_swap(cable.b, cable.a))
      return;
    // Told of at the leaf's end where the leaf tells.
    const CableEnd& at = told(cable.a) ? cable.a : cable.b;
    const std::vector<CableEnd>& heard = heard_at(at);
    const Port* const own = port(at);
    result_.differences.push_back({.fault = CableFault::missing,
                                   .at = at,
                                   .expected = at == cable.a ? cable.b : cable.a,
                                   .found = heard.empty() ? CableEnd{} : heard.front(),
                                   .other = {},
                                   .expected_speed = {},
                                   .found_speed = {},
                                   .no_carrier = own != nullptr && !own->carrier});
  }

  // Whether the cable at `end`, which should lead to `wanted`, was swapped with another one: end
  // hears the far end of the other cable, whose near end hears what end should.
  bool look_for_swap(const CableEnd& end, const CableEnd& wanted) {
    for (const CableEnd& found : heard_at(end)) {
      const auto other = other_.find(found);
      if (other == other_.end() || other->second == end || !in_place(other->second, wanted))
        continue;
      for (const CableEnd& one : {end, other->second, wanted, found})
        swapped_.insert(one);
      result_.differences.push_back({.fault = CableFault::swapped,
                                     .at = end,
                                     .expected = wanted,
                                     .found = found,
                                     .other = other->second,
                                     .expected_speed = {},
                                     .found_speed = {},
                                     .no_carrier = false});
      return true;
    }
    return false;
  }

  void check_speed(const CableEnd& end, const Cable& cable) {
    const Port* const own = port(end);
    const double expected = cable.capacity.bits_per_second;
    if (own == nullptr || own->speed.bits_per_second <= 0 ||
        std::abs(own->speed.bits_per_second - expected) <= kSpeedTolerance * expected)
      return;
    result_.differences.push_back({.fault = CableFault::speed,
                                   .at = end,
                                   .expected = end == cable.a ? cable.b : cable.a,
                                   .found = {},
                                   .other = {},
                                   .expected_speed = cable.capacity,
                                   .found_speed = own->speed,
                                   .no_carrier = false});
  }

  // What is heard between nodes of the file at a port of which the file knows nothing, and a port
  // of the file that hears one more than its cable's other end.
  void look_for_extra() {
    std::set<std::pair<CableEnd, CableEnd>> told_of;
    for (const auto& [at, heard] : heard_) {
      const auto wanted = other_.find(at);
      for (const CableEnd& found : heard) {
        if (wanted != other_.end() && (wanted->second == found || swapped(at)))
          continue;
        // Who is no node of the file is nobody's concern here: a management switch, a storage box.
        // Where a port of the file hears such a one, its own cable is missing.
        if (!names_.contains(lower(found.node)))
          continue;
        if (told_of.insert(std::minmax(at, found)).second)
          result_.differences.push_back(
              {.fault = CableFault::extra,
               .at = at,
               .expected = wanted == other_.end() ? CableEnd{} : wanted->second,
               .found = found,
               .other = {},
               .expected_speed = {},
               .found_speed = {},
               .no_carrier = false});
      }
    }
  }

  const std::map<std::string, Node>& nodes_;
  std::vector<Cable> cables_;
  std::map<std::string, std::string> names_;  // of the file's nodes, by their small letters
  std::map<CableEnd, CableEnd> other_;        // by the file
  std::map<CableEnd, std::vector<CableEnd>> heard_;
  std::set<CableEnd> swapped_;
  CableCheck result_;
};

void CableTable::set_ports(const std::string& node, const std::vector<PortStatus>& ports) {
  Node& own = nodes_[node];
  own.ports.clear();
  for (const PortStatus& port : ports)
    own.ports[port.name] = {port.carrier, port.speed};
}

void CableTable::set_neighbours(const std::string& node,
                                const std::optional<std::vector<LldpNeighbour>>& neighbours) {
  nodes_[node].neighbours = neighbours;
}

bool CableTable::hears(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.neighbours.has_value();
}

CableCheck CableTable::check(const Topology& topology) const {
  Check check(topology, nodes_);
  CableCheck result = check.run();
  for (std::uint32_t l = 0; l < topology.leaves().size(); ++l) {
    for (std::uint32_t s = 0; s < topology.spines().size(); ++s) {
      const auto cables = topology.cables_between(LeafId{l}, SpineId{s});
      if (cables.size() < 2)
        continue;
      ParallelCables parallel{.leaf = topology[LeafId{l}].name,
                              .spine = topology[SpineId{s}].name,
                              .expected = static_cast<std::uint32_t>(cables.size()),
                              .found = 0};
      for (const CableId id : cables) {
        const CableEnd a{parallel.leaf, topology[id].leaf_port};
        parallel.found += check.in_place(a, {parallel.spine, topology[id].spine_port}) ||
                          check.leads_to(a, parallel.spine);
      }
      result.parallel.push_back(std::move(parallel));
    }
  }
  return result;
}

}  // namespace heddle
