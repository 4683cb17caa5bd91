#include "common/core/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/core/check.h"

namespace heddle {
namespace {

template <class Map>
auto find_in(const Map& map, std::string_view name) -> std::optional<typename Map::mapped_type> {
  const auto it = map.find(std::string(name));
  if (it == map.end())
    return std::nullopt;
  return it->second;
}

// Collects every mistake, so that an operator mends a file in one go.
class Mistakes {
 public:
  template <class... Args>
  void add(int line, fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back({line, fmt::format(format, std::forward<Args>(args)...)});
  }
  std::vector<Mistake> take() {
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Mistake& a, const Mistake& b) { return a.line < b.line; });
    return std::move(list_);
  }
  bool none() const { return list_.empty(); }

 private:
  std::vector<Mistake> list_;
};

void check_capacity(Mistakes& mistakes, int line, Rate capacity, std::string_view of) {
  const double bits = capacity.bits_per_second;
  if (!std::isfinite(bits) || bits <= 0)
    mistakes.add(line, "{} has a capacity of {} bit/s; it must be above zero", of, bits);
}

// Leaves, spines and hosts share one name space: an agent's name says which node it is.
class Names {
 public:
  explicit Names(Mistakes& mistakes) : mistakes_(mistakes) {}
  void claim(const std::string& name, std::string_view kind, int line) {
    if (name.empty())
      mistakes_.add(line, "a {} has no name", kind);
    else if (const auto [it, fresh] = lines_.emplace(name, line); !fresh)
      mistakes_.add(line, "the name '{}' is used twice; first on line {}", name, it->second);
  }

 private:
  Mistakes& mistakes_;
  std::unordered_map<std::string, int> lines_;
};

// A port belongs to one cable or one attachment.
class Ports {
 public:
  explicit Ports(Mistakes& mistakes) : mistakes_(mistakes) {}
  void claim(const std::string& node, const std::string& port, int line) {
    if (port.empty())
      mistakes_.add(line, "no port is named on '{}'", node);
    else if (const auto [it, fresh] = lines_.emplace(std::pair(node, port), line); !fresh)
      mistakes_.add(line, "port '{}' of '{}' is used twice; first on line {}", port, node,
                    it->second);
  }

 private:
  struct Hash {
    std::size_t operator()(const std::pair<std::string, std::string>& key) const {
      return std::hash<std::string>{}(key.first) * 31 + std::hash<std::string>{}(key.second);
    }
  };
  Mistakes& mistakes_;
  std::unordered_map<std::pair<std::string, std::string>, int, Hash> lines_;
};

}  // namespace

tl::expected<Topology, std::vector<Mistake>> Topology::build(const FabricDescription& description) {
  Topology t;
  t.name_ = description.name;
  Mistakes mistakes;
  Names names(mistakes);
  Ports ports(mistakes);

  for (const auto& leaf : description.leaves) {
    names.claim(leaf.name, "leaf", leaf.line);
    t.leaf_by_name_.emplace(leaf.name, LeafId{static_cast<std::uint32_t>(t.leaves_.size())});
    t.leaves_.push_back({leaf.name, leaf.rack.empty() ? leaf.name : leaf.rack, {}, {}});
  }
  for (const auto& spine : description.spines) {
    names.claim(spine.name, "spine", spine.line);
    t.spine_by_name_.emplace(spine.name, SpineId{static_cast<std::uint32_t>(t.spines_.size())});
    t.spines_.push_back({spine.name, {}});
  }

  for (const auto& host : description.hosts) {
    names.claim(host.name, "host", host.line);
    const HostId host_id{static_cast<std::uint32_t>(t.hosts_.size())};
    t.host_by_name_.emplace(host.name, host_id);
    t.hosts_.push_back({host.name, host.rack, {}});
    std::set<std::string_view> nic_names;
    for (const auto& nic : host.nics) {
      const NicId nic_id{static_cast<std::uint32_t>(t.nics_.size())};
      const std::string label = host.name + "/" + nic.name;
      if (!nic_names.insert(nic.name).second)
        mistakes.add(nic.line, "the NIC name '{}' is used twice on '{}'", nic.name, host.name);
      const auto address = IpAddress::parse(nic.address);
      if (!address)
        mistakes.add(nic.line, "{}: {}", label, address.error().message);
      else if (address->is_unspecified())
        mistakes.add(nic.line, "{}: an address of all zeros reaches nobody", label);
      else if (const auto [it, fresh] = t.nic_by_address_.emplace(*address, nic_id); !fresh)
        mistakes.add(nic.line, "{}: the address {} is used twice", label, nic.address);
      t.nics_.push_back({nic.name, host_id, address.value_or(IpAddress{}), {}});
      t.hosts_.back().nics.push_back(nic_id);
      if (nic.attachments.empty())
        mistakes.add(nic.line, "{} is attached to no leaf", label);
      for (const auto& attachment : nic.attachments) {
        check_capacity(mistakes, attachment.line, attachment.capacity, label);
        const auto leaf = t.find_leaf(attachment.leaf);
        if (!leaf) {
          mistakes.add(attachment.line, "{} is attached to '{}', which is no leaf", label,
                       attachment.leaf);
          continue;
        }
        ports.claim(attachment.leaf, attachment.leaf_port, attachment.line);
        const AttachmentId id{static_cast<std::uint32_t>(t.attachments_.size())};
        t.attachments_.push_back({nic_id, *leaf, attachment.leaf_port,
                                  attachment.host_port.empty() ? nic.name : attachment.host_port,
                                  attachment.capacity});
        t.nics_.back().attachments.push_back(id);
        t.leaves_[leaf->value].attachments.push_back(id);
      }
    }
  }

  t.bundles_.resize(t.leaves_.size() * t.spines_.size());
  for (const auto& cable : description.cables) {
    const std::string label = fmt::format("cable {}-{}", cable.leaf, cable.spine);
    check_capacity(mistakes, cable.line, cable.capacity, label);
    if (cable.leaf == cable.spine) {
      mistakes.add(cable.line, "a cable goes from '{}' to itself", cable.leaf);
      continue;
    }
    const auto leaf = t.find_leaf(cable.leaf);
    const auto spine = t.find_spine(cable.spine);
    if (!leaf)
      mistakes.add(cable.line, "{}: '{}' is no leaf", label, cable.leaf);
    if (!spine)
      mistakes.add(cable.line, "{}: '{}' is no spine", label, cable.spine);
    if (!leaf || !spine)
      continue;
    ports.claim(cable.leaf, cable.leaf_port, cable.line);
    ports.claim(cable.spine, cable.spine_port, cable.line);
    const CableId id{static_cast<std::uint32_t>(t.cables_.size())};
    t.cables_.push_back({*leaf, *spine, cable.leaf_port, cable.spine_port, cable.capacity});
    t.leaves_[leaf->value].cables.push_back(id);
    t.spines_[spine->value].cables.push_back(id);
    t.bundles_[leaf->value * t.spines_.size() + spine->value].push_back(id);
  }

  if (!mistakes.none())
    return tl::unexpected(mistakes.take());
  return t;
}

std::optional<LeafId> Topology::find_leaf(std::string_view name) const {
  return find_in(leaf_by_name_, name);
}
std::optional<SpineId> Topology::find_spine(std::string_view name) const {
  return find_in(spine_by_name_, name);
}
std::optional<HostId> Topology::find_host(std::string_view name) const {
  return find_in(host_by_name_, name);
}

std::optional<NodeId> Topology::find_node(std::string_view name) const {
  if (const auto leaf = find_leaf(name))
    return *leaf;
  if (const auto spine = find_spine(name))
    return *spine;
  if (const auto host = find_host(name))
    return *host;
  return std::nullopt;
}

const std::string& Topology::name_of(NodeId node) const {
  return std::visit([this](auto id) -> const std::string& { return (*this)[id].name; }, node);
}

std::vector<NodeId> Topology::nodes() const {
  std::vector<NodeId> all;
  all.reserve(leaves_.size() + spines_.size() + hosts_.size());
  for (std::uint32_t i = 0; i < leaves_.size(); ++i)
    all.emplace_back(LeafId{i});
  for (std::uint32_t i = 0; i < spines_.size(); ++i)
    all.emplace_back(SpineId{i});
  for (std::uint32_t i = 0; i < hosts_.size(); ++i)
    all.emplace_back(HostId{i});
  return all;
}

std::set<std::string> Topology::racks_of(NodeId node) const {
  std::set<std::string> racks;
  if (const auto* leaf = std::get_if<LeafId>(&node))
    racks.insert((*this)[*leaf].rack);
  if (const auto* host = std::get_if<HostId>(&node))
    for (const NicId nic : (*this)[*host].nics)
      for (const AttachmentId id : (*this)[nic].attachments)
        racks.insert((*this)[(*this)[id].leaf].rack);
  return racks;
}

std::optional<NicId> Topology::find_nic(const IpAddress& address) const {
  const auto it = nic_by_address_.find(address);
  if (it == nic_by_address_.end())
    return std::nullopt;
  return it->second;
}

std::optional<CableId> Topology::cable_at(LeafId leaf, std::string_view leaf_port) const {
  for (const CableId id : (*this)[leaf].cables) {
    if ((*this)[id].leaf_port == leaf_port)
      return id;
  }
  return std::nullopt;
}

std::optional<CableId> Topology::cable_at(SpineId spine, std::string_view spine_port) const {
  for (const CableId id : (*this)[spine].cables)
    if ((*this)[id].spine_port == spine_port)
      return id;
  return std::nullopt;
}

std::optional<AttachmentId> Topology::attachment_at(HostId host, std::string_view host_port) const {
  std::optional<AttachmentId> found;
  for (const NicId nic : (*this)[host].nics)
    for (const AttachmentId id : (*this)[nic].attachments) {
      if ((*this)[id].host_port != host_port)
        continue;
      if (found)
        return std::nullopt;
      found = id;
    }
  return found;
}

std::optional<AttachmentId> Topology::attachment_at(LeafId leaf, std::string_view leaf_port) const {
  for (const AttachmentId id : (*this)[leaf].attachments) {
    if ((*this)[id].leaf_port == leaf_port)
      return id;
  }
  return std::nullopt;
}

std::span<const CableId> Topology::cables_between(LeafId leaf, SpineId spine) const {
  return bundles_[leaf.value * spines_.size() + spine.value];
}

Rate Topology::capacity(LinkId id) const {
  HEDDLE_CHECK(id.value < link_count());
  if (is_core(id))
    return cables_[id.value / 2].capacity;
  return attachments_[(id.value - core_links()) / 2].capacity;
}

Topology::LeafEnd Topology::leaf_end(LinkId id) const {
  HEDDLE_CHECK(id.value < link_count());
  if (is_core(id)) {
    const Cable& cable = cables_[id.value / 2];
    return {cable.leaf, cable.leaf_port};
  }
  const Attachment& attachment = attachments_[(id.value - core_links()) / 2];
  return {attachment.leaf, attachment.leaf_port};
}

std::string Topology::link_name(LinkId id) const {
  HEDDLE_CHECK(id.value < link_count());
  const bool towards_core = id.value % 2 == 0;
  std::string from, to, suffix;
  if (is_core(id)) {
    const Cable& cable = cables_[id.value / 2];
    from = (*this)[cable.leaf].name;
    to = (*this)[cable.spine].name;
    const auto bundle = cables_between(cable.leaf, cable.spine);
    const auto position =
        std::find(bundle.begin(), bundle.end(), CableId{id.value / 2}) - bundle.begin();
    if (position > 0)
      suffix = fmt::format("#{}", position + 1);
  } else {
    const Attachment& attachment = attachments_[(id.value - core_links()) / 2];
    const Nic& nic = (*this)[attachment.nic];
    from = (*this)[nic.host].name + "/" + nic.name;
    to = (*this)[attachment.leaf].name;
  }
  if (!towards_core)
    std::swap(from, to);
  return from + "-" + to + suffix;
}

}  // namespace heddle
