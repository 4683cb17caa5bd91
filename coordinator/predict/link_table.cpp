#include "coordinator/predict/link_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

// The two links behind a leaf's port: first the one that the leaf sends on.
std::optional<std::pair<LinkId, LinkId>> links_at(const Topology& topology, LeafId leaf,
                                                  const std::string& port) {
  if (const auto cable = topology.cable_at(leaf, port))
    return std::pair{topology.uplink(*cable), topology.downlink(*cable)};
  if (const auto attachment = topology.attachment_at(leaf, port))
    return std::pair{topology.nic_rx(*attachment), topology.nic_tx(*attachment)};
  return std::nullopt;
}

}  // namespace

LinkTable::LinkTable(const Topology& topology)
    : topology_(topology),
      by_leaf_(topology),
      by_host_(topology),
      state_(topology),
      rates_(topology.link_count()) {}

std::vector<std::string> LinkTable::set_ports(const std::string& node,
                                              std::span<const PortStatus> ports) {
  std::vector<std::string> changes;
  const auto note = [&](std::optional<std::string> change) {
    if (change)
      changes.push_back(std::move(*change));
  };
  const std::optional<NodeId> place = topology_.find_node(node);
  for (const PortStatus& port : ports) {
    if (!place)
      break;
    if (const auto* leaf = std::get_if<LeafId>(&*place)) {
      if (const auto links = links_at(topology_, *leaf, port.name))
        note(tell(by_leaf_, links->first, links->second, port.carrier));
    } else if (const auto* host = std::get_if<HostId>(&*place)) {
      const auto entry = topology_.attachment_at(*host, port.name);
      if (entry && topology_[topology_[*entry].nic].attachments.size() > 1)
        note(tell(by_host_, topology_.nic_rx(*entry), topology_.nic_tx(*entry), port.carrier));
    }
  }
  return changes;
}

// What has changed by it, if anything has.
std::optional<std::string> LinkTable::tell(LinkState& by, LinkId first, LinkId second, bool up) {
  by.set(first, up);
  by.set(second, up);
  const bool both = by_leaf_.up(first) && by_host_.up(first);
  if (state_.up(first) == both)
    return std::nullopt;
  state_.set(first, both);
  state_.set(second, both);
  return fmt::format("{} {}", topology_.link_name(first), both ? "up" : "down");
}

std::set<std::pair<AttachmentId, NicId>> LinkTable::unreached() const {
  std::set<std::pair<AttachmentId, NicId>> all;
  for (const auto& [node, withdrawals] : withdrawn_)
    if (const auto* host = std::get_if<HostId>(&node))
      for (const Withdrawal& one : withdrawals)
        if (const auto entry = topology_.attachment_at(*host, one.out_port))
          for (std::uint32_t i = 0; i < topology_.nics().size(); ++i)
            if (one.destination.contains(topology_[NicId{i}].address))
              all.insert({*entry, NicId{i}});
  return all;
}

std::vector<std::string> LinkTable::set_withdrawn(const std::string& node,
                                                  const std::vector<Withdrawal>& withdrawn) {
  std::vector<std::string> changes;
  const std::optional<NodeId> place = topology_.find_node(node);
  const auto concerns = [&](const std::string& port) {
    if (!place)
      return false;
    if (const auto* leaf = std::get_if<LeafId>(&*place))
      return topology_.cable_at(*leaf, port).has_value();
    const auto* host = std::get_if<HostId>(&*place);
    return host != nullptr && topology_.attachment_at(*host, port).has_value();
  };
  std::set<Withdrawal> next;
  for (const Withdrawal& one : withdrawn)
    if (concerns(one.out_port))
      next.insert(one);
  if (!place || (next.empty() && !withdrawn_.contains(*place)))
    return changes;
  std::set<Withdrawal>& present = withdrawn_[*place];
  for (const Withdrawal& one : next)
    if (!present.contains(one))
      changes.push_back(fmt::format("{} no longer reaches {} by {}", node,
                                    to_string(one.destination), one.out_port));
  for (const Withdrawal& one : present)
    if (!next.contains(one))
      changes.push_back(
          fmt::format("{} reaches {} by {} again", node, to_string(one.destination), one.out_port));
  if (changes.empty())
    return changes;
  present = std::move(next);
  rebuild_forbidden();
  return changes;
}

void LinkTable::count(const std::string& node, const Report& report) {
  const std::optional<LeafId> leaf = topology_.find_leaf(node);
  if (!leaf || report.length <= Duration::zero())
    return;
  // Ports are read for each report. Where flows could not be, its interval is longer than that: it
  // goes on from the last reading of flows.
  const Time read = report.begin + report.length;
  for (const PortStatus& port : report.ports) {
    const auto links = links_at(topology_, *leaf, port.name);
    if (!links)
      continue;
    const auto counter = counters_.try_emplace({*leaf, port.name});
    const bool first = counter.second;
    Counter& before = counter.first->second;
    const auto rate = [&](std::uint64_t now, std::uint64_t then) -> std::optional<Rate> {
      // A counter that went back is a reset, a missing report makes the interval unknown.
      if (first || report.number != before.report + 1 || now < then || read <= before.read)
        return std::nullopt;
      const double seconds = std::chrono::duration<double>(read - before.read).count();
      return Rate{static_cast<double>(now - then) * 8.0 / seconds};
    };
    rates_[links->first.value] = rate(port.tx_bytes, before.tx);
    rates_[links->second.value] = rate(port.rx_bytes, before.rx);
    before = {.tx = port.tx_bytes, .rx = port.rx_bytes, .report = report.number, .read = read};
  }
}

// Many leaves withdraw the same few prefixes at once, so which leaves lie behind one is found once.
const std::vector<LeafId>& LinkTable::leaves_behind(const Prefix& prefix) {
  const auto [place, added] = leaves_behind_.try_emplace(prefix);
  if (added) {
    for (const Topology::Nic& nic : topology_.nics())
      if (prefix.contains(nic.address))
        for (const AttachmentId id : nic.attachments)
          place->second.push_back(topology_[id].leaf);
    std::ranges::sort(place->second);
    place->second.erase(std::unique(place->second.begin(), place->second.end()),
                        place->second.end());
  }
  return place->second;
}

void LinkTable::rebuild_forbidden() {
  forbidden_.clear();
  for (const auto& [node, withdrawals] : withdrawn_) {
    const auto* leaf = std::get_if<LeafId>(&node);
    if (leaf == nullptr)
      continue;
    for (const Withdrawal& one : withdrawals) {
      const std::optional<CableId> cable = topology_.cable_at(*leaf, one.out_port);
      for (const LeafId to : leaves_behind(one.destination))
        forbidden_.push_back({*leaf, to, *cable});
    }
  }
  std::ranges::sort(forbidden_);
  forbidden_.erase(std::unique(forbidden_.begin(), forbidden_.end()), forbidden_.end());
}

}  // namespace heddle
