#include "agent/program/main_view.h"

#include <fnmatch.h>

#include <algorithm>

namespace heddle {
namespace {

constexpr std::uint32_t kMainTable = 254;
// A routing protocol that invents networks without end must not make this grow without end.
constexpr std::size_t kMostShared = 65536;

Prefix network_of(const IpAddress& address, std::uint8_t length) {
  Prefix prefix{.address = address, .length = length};
  for (std::size_t i = 0; i < address.size(); ++i) {
    const int kept = std::clamp(static_cast<int>(length) - static_cast<int>(8 * i), 0, 8);
    prefix.address.octets[i] &= static_cast<std::uint8_t>(0xFF00U >> kept);
  }
  return prefix;
}

constexpr std::size_t index_of(const IpAddress& address) {
  return static_cast<std::size_t>(address.family);
}

// fe80::/10, which every link has and which leads nowhere else.
bool is_link_local(const IpAddress& address) {
  return address.family == Family::v6 && address.octets[0] == 0xFE &&
         (address.octets[1] & 0xC0) == 0x80;
}

// Routes over nexthop objects are not merged.
bool may_be_a_part(const RouteEvent& event) {
  return event.route.next_hop_id == 0;
}

bool holds_for_all_packets(const KernelRoute& route) {
  return route.tos == 0 && !route.some_sources;
}

}  // namespace

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

void MainView::index_links() {
  uplinks_.clear();
  for (const auto& [index, link] : links_) {
    if (matches_any(uplink_patterns_, link.name))
      uplinks_.insert(index);
  }
}

void MainView::load(const KernelState& state) {
  links_.clear();
  next_hops_.clear();
  routes_.clear();
  for (auto& of_family : lengths_)
    of_family.clear();
  connected_.clear();
  neighbours_.clear();
  settings_.clear();
  for (const Link& link : state.links)
    links_[link.index] = link;
  index_links();
  for (const KernelNextHop& next_hop : state.next_hops)
    next_hops_[next_hop.id] = next_hop;
  for (const KernelRoute& route : state.routes) {
    if (route.table == kMainTable && holds_for_all_packets(route))
      add(route, RouteEvent::Kind::appended);
  }
  for (const Neighbour& neighbour : state.neighbours) {
    if (is_uplink(neighbour.ifindex))
      neighbours_[{neighbour.ifindex, neighbour.address}] = neighbour.state;
  }
  forwards_ipv6_ = state.forwards_ipv6;
  shows_offload_ = std::ranges::any_of(state.routes, [](const KernelRoute& route) {
    return route.table == kMainTable && route.offloaded;
  });
  for (const InterfaceSettings& settings : state.settings)
    settings_[settings.ifindex] = settings;
}

const Link* MainView::uplink_of_asic() const {
  for (const std::uint32_t index : uplinks_) {
    if (const Link* const uplink = link(index); uplink != nullptr && !uplink->switch_id.empty())
      return uplink;
  }
  return nullptr;
}

MainView::Effect MainView::apply(const LinkEvent& event) {
  const auto known = links_.find(event.link.index);
  if (event.removed ? known == links_.end() : known != links_.end() && known->second == event.link)
    return Effect::none;
  if (event.removed) {
    links_.erase(known);
  } else {
    links_[event.link.index] = event.link;
  }
  index_links();
  // With a link go addresses, next hops and routes, most of them without a word.
  return Effect::read_again;
}

void MainView::add(const KernelRoute& route, RouteEvent::Kind kind) {
  Entry entry{.metric = route.metric,
              .next_hop_id = route.next_hop_id,
              .unicast = route.unicast,
              .hops = route.hops,
              .source = route.local_address};
  auto [at, is_new] = routes_.try_emplace(route.destination);
  if (is_new)
    ++lengths_[index_of(route.destination.address)][route.destination.length];
  Entries& entries = at->second;
  const IpAddress& network = route.destination.address;
  if (route.hops.size() == 1 && !route.hops.front().gateway && route.unicast &&
      !is_link_local(network))
    connected_.try_emplace({route.hops.front().ifindex, network.family}, route.destination,
                           route.local_address.value_or(IpAddress{}));
  // Notifications from before a dump are seen again after it.
  if (kind != RouteEvent::Kind::replaced &&
      std::find(entries.begin(), entries.end(), entry) != entries.end())
    return;
  const auto less = [](const Entry& a, const Entry& b) { return a.metric < b.metric; };
  const auto [first, end] = std::equal_range(entries.begin(), entries.end(), entry, less);
  if (kind == RouteEvent::Kind::replaced && first != end) {
    *first = std::move(entry);
  } else {
    entries.insert(kind == RouteEvent::Kind::appended ? end : first, std::move(entry));
  }
}

MainView::Effect MainView::apply(const RouteEvent& event) {
  const KernelRoute& route = event.route;
  if (route.table != kMainTable || !holds_for_all_packets(route))
    return Effect::none;
  if (route.destination.address.family == Family::v6 && may_be_a_part(event)) {
    if (const Effect effect = merge(event); effect != Effect::none)
      return effect;
  }
  if (event.kind != RouteEvent::Kind::removed) {
    add(route, event.kind);
    return Effect::changed;
  }
  const auto at = routes_.find(route.destination);
  if (at == routes_.end())
    return Effect::none;
  Entries& entries = at->second;
  const auto same_metric = [&](const Entry& e) { return e.metric == route.metric; };
  auto gone = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
    return same_metric(e) && e.next_hop_id == route.next_hop_id && e.hops == route.hops;
  });
  if (gone == entries.end()) {
    // Not as we knew it. If there is no other it can be, it is this one.
    if (std::count_if(entries.begin(), entries.end(), same_metric) != 1)
      return Effect::read_again;
    gone = std::find_if(entries.begin(), entries.end(), same_metric);
  }
  entries.erase(gone);
  if (entries.empty()) {
    routes_.erase(at);
    forget_network(route.destination);
  }
  return Effect::changed;
}

// IPv6 merges an added route into one of the same metric, replaces one hop of several or all of
// them, removes single hops, and tells of each as if it were the whole route. What may have gone is
// taken for gone at once (rule 12); what has come is believed when it was read.
MainView::Effect MainView::merge(const RouteEvent& event) {
  const KernelRoute& route = event.route;
  const auto at = routes_.find(route.destination);
  const auto same_metric = [&](const Entry& e) { return e.metric == route.metric; };
  const auto count = at == routes_.end() ? 0 : std::ranges::count_if(at->second, same_metric);
  if (count == 0)
    return Effect::none;
  if (count == 1) {
    Entry& known = *std::ranges::find_if(at->second, same_metric);
    if (event.kind == RouteEvent::Kind::removed)
      std::erase_if(known.hops, [&](const Hop& hop) {
        return std::ranges::find(route.hops, hop) != route.hops.end();
      });
    else if (event.kind == RouteEvent::Kind::replaced)
      known = {.metric = route.metric,
               .next_hop_id = route.next_hop_id,
               .unicast = route.unicast,
               .hops = route.hops,
               .source = route.local_address};
  }
  return Effect::read_again;
}

void MainView::forget_network(const Prefix& network) {
  auto& lengths = lengths_[index_of(network.address)];
  const auto length = lengths.find(network.length);
  if (--length->second == 0)
    lengths.erase(length);
  std::erase_if(connected_, [&](const auto& c) { return c.second.first == network; });
}

// The kernel drops them with the object and says nothing; another object under the same id must
// not bring them back.
void MainView::forget_routes_over(std::uint32_t next_hop_id) {
  for (auto at = routes_.begin(); at != routes_.end();) {
    std::erase_if(at->second, [&](const Entry& e) { return e.next_hop_id == next_hop_id; });
    if (!at->second.empty()) {
      ++at;
      continue;
    }
    forget_network(at->first);
    at = routes_.erase(at);
  }
}

MainView::Effect MainView::apply(const NextHopEvent& event) {
  const auto known = next_hops_.find(event.next_hop.id);
  if (event.removed) {
    if (known == next_hops_.end())
      return Effect::none;
    next_hops_.erase(known);
    forget_routes_over(event.next_hop.id);
    for (auto& [id, group] : next_hops_)
      std::erase(group.members, event.next_hop.id);
  } else {
    if (known != next_hops_.end() && known->second == event.next_hop)
      return Effect::none;
    next_hops_[event.next_hop.id] = event.next_hop;
    // The kernel takes a next hop only over a link with carrier, and tells of carrier up to a
    // second late when it comes and goes: we are behind.
    if (event.next_hop.hop && !usable(*event.next_hop.hop))
      return Effect::read_again;
  }
  return Effect::changed;
}

MainView::Effect MainView::apply(const NeighbourEvent& event) {
  const Neighbour& neighbour = event.neighbour;
  if (!is_uplink(neighbour.ifindex))
    return Effect::none;
  const auto key = std::pair(neighbour.ifindex, neighbour.address);
  if (event.removed)
    return neighbours_.erase(key) != 0 ? Effect::changed : Effect::none;
  const auto known = neighbours_.find(key);
  if (known != neighbours_.end() && known->second == neighbour.state)
    return Effect::none;
  neighbours_[key] = neighbour.state;
  return Effect::changed;
}

const Link* MainView::link(std::string_view name) const {
  for (const auto& [index, link] : links_) {
    if (link.name == name)
      return &link;
  }
  return nullptr;
}

const Link* MainView::link(std::uint32_t ifindex) const {
  const auto found = links_.find(ifindex);
  return found == links_.end() ? nullptr : &found->second;
}

bool MainView::usable(const Hop& hop) const {
  const Link* const out = link(hop.ifindex);
  return out != nullptr && out->up && out->carrier;
}

template <class Visit>
void MainView::for_each_hop(const Entry& entry, Visit visit) const {
  if (entry.next_hop_id == 0) {
    std::for_each(entry.hops.begin(), entry.hops.end(), visit);
    return;
  }
  const auto object = next_hops_.find(entry.next_hop_id);
  if (object == next_hops_.end())
    return;
  if (object->second.hop)
    visit(*object->second.hop);
  // Groups have no groups in them (resilient ones neither).
  for (const std::uint32_t id : object->second.members) {
    const auto member = next_hops_.find(id);
    if (member != next_hops_.end() && member->second.hop)
      visit(*member->second.hop);
  }
}

bool MainView::drops(const Entry& entry) const {
  const auto object = next_hops_.find(entry.next_hop_id);
  return object != next_hops_.end() && object->second.blackhole;
}

const MainView::Entry* MainView::live(const Entries& entries) const {
  for (const Entry& entry : entries) {
    bool alive = !entry.unicast;
    for_each_hop(entry, [&](const Hop& hop) { alive = alive || usable(hop); });
    // What drops packets takes them as surely as what leads them on.
    if (alive || drops(entry))
      return &entry;
  }
  return nullptr;
}

const MainView::Entry* MainView::find(const IpAddress& destination, std::uint8_t longest) const {
  for (const auto& [length, prefixes] : lengths_[index_of(destination)]) {
    if (length > longest)
      continue;
    const auto at = routes_.find(network_of(destination, length));
    if (at == routes_.end())
      continue;
    if (const Entry* const entry = live(at->second))
      return entry;
  }
  return nullptr;
}

std::optional<Hop> MainView::offer(const IpAddress& destination, std::uint32_t ifindex) const {
  const Entry* const entry = find(destination);
  std::optional<Hop> result;
  if (entry == nullptr || !entry->unicast)
    return result;
  for_each_hop(*entry, [&](const Hop& hop) {
    if (!result && hop.ifindex == ifindex && usable(hop))
      result = hop;
  });
  return result;
}

std::optional<IpAddress> MainView::source_for(const IpAddress& destination) const {
  const Entry* const entry = find(destination);
  return entry == nullptr ? std::nullopt : entry->source;
}

std::optional<std::uint32_t> MainView::way_to(const IpAddress& address) const {
  std::set<std::uint32_t> ways;
  if (const Entry* const entry = find(address); entry != nullptr && entry->unicast)
    for_each_hop(*entry, [&](const Hop& hop) { ways.insert(hop.ifindex); });
  return ways.size() == 1 ? std::optional(*ways.begin()) : std::nullopt;
}

std::set<std::uint32_t> MainView::ways_into(const Prefix& network) const {
  std::set<std::uint32_t> ways;
  const auto note = [&](const Entries& entries) {
    for (const Entry& entry : entries)
      for_each_hop(entry, [&](const Hop& hop) { ways.insert(hop.ifindex); });
  };
  for (const auto& [prefix, entries] : routes_)
    if (prefix.length > network.length && network.contains(prefix.address))
      note(entries);
  // And the one that speaks for what has no smaller one.
  for (const auto& [length, prefixes] : lengths_[index_of(network.address)]) {
    if (length > network.length)
      continue;
    if (const auto at = routes_.find(network_of(network.address, length)); at != routes_.end()) {
      note(at->second);
      break;
    }
  }
  return ways;
}

Resolution MainView::resolution(std::uint32_t ifindex, const IpAddress& gateway) const {
  const Link* const out = link(ifindex);
  if (out != nullptr && !out->resolves)
    return Resolution::resolved;
  const auto known = neighbours_.find({ifindex, gateway});
  return known == neighbours_.end() ? Resolution::pending : known->second;
}

const InterfaceSettings* MainView::settings(std::uint32_t ifindex) const {
  const auto found = settings_.find(ifindex);
  return found == settings_.end() ? nullptr : &found->second;
}

std::optional<IpAddress> MainView::own_address(std::uint32_t ifindex, Family family) const {
  const auto found = connected_.find({ifindex, family});
  if (found == connected_.end() || found->second.second.is_unspecified())
    return std::nullopt;
  return found->second.second;
}

std::optional<IpAddress> MainView::neighbour_address(std::uint32_t ifindex, Family family) const {
  const auto found = connected_.find({ifindex, family});
  if (found == connected_.end())
    return std::nullopt;
  const auto& [network, own] = found->second;
  IpAddress address = network.address;
  const std::size_t bits = 8 * address.size();
  std::uint8_t& last = address.octets[address.size() - 1];
  if (network.length + 1U < bits)
    ++last;  // a network's first address is even: no carry
  if (address == own)
    ++last;
  return address;
}

std::set<std::uint32_t> MainView::legacy_multipath_uplinks(Family family) const {
  std::set<std::uint32_t> result;
  for (const auto& [prefix, entries] : routes_) {
    if (prefix.address.family != family)
      continue;
    for (const Entry& entry : entries) {
      if (entry.next_hop_id != 0 || entry.hops.size() < 2)
        continue;
      for (const Hop& hop : entry.hops) {
        if (is_uplink(hop.ifindex))
          result.insert(hop.ifindex);
      }
    }
  }
  return result;
}

std::set<std::uint32_t> MainView::offering(const Entry* entry) const {
  std::set<std::uint32_t> result;
  if (entry != nullptr && entry->unicast) {
    for_each_hop(*entry, [&](const Hop& hop) {
      if (hop.gateway && is_uplink(hop.ifindex) && usable(hop))
        result.insert(hop.ifindex);
    });
  }
  return result;
}

std::vector<Withdrawal> MainView::withdrawn(const std::vector<IpAddress>& also) {
  std::vector<std::uint32_t> live_uplinks;
  for (const std::uint32_t index : uplinks_) {
    if (usable({.ifindex = index, .gateway = {}}))
      live_uplinks.push_back(index);
  }
  for (const auto& [prefix, entries] : routes_) {
    if (prefix.length != 0 && shared_.size() < kMostShared && !shared_.contains(prefix) &&
        offering(live(entries)).size() > 1)
      shared_.insert(prefix);
  }

  std::set<Withdrawal> result;
  for (auto at = shared_.begin(); at != shared_.end(); ++at) {
    // A network with a smaller one of its own in it speaks for an unknown part of itself only.
    const auto next = std::next(at);
    if (next != shared_.end() && at->contains(next->address))
      continue;
    const auto offered = offering(find(at->address, at->length));
    if (offered.size() == live_uplinks.size())
      continue;
    for (const std::uint32_t index : live_uplinks) {
      if (!offered.contains(index))
        result.insert({.destination = *at, .out_port = links_.at(index).name});
    }
  }
  // Neighbours in the list are mostly in one network: what was found out of that holds for them.
  const Entry* entry = nullptr;
  std::set<std::uint32_t> offered;
  bool settled = live_uplinks.empty();  // of no route: nothing is offered
  for (const IpAddress& destination : also) {
    if (const Entry* const found = find(destination); found != entry) {
      entry = found;
      offered = offering(entry);
      settled = offered.size() == live_uplinks.size();
      if (entry != nullptr)  // what is on a link of ours is no matter of uplinks
        for_each_hop(*entry, [&](const Hop& hop) { settled = settled || !hop.gateway; });
    }
    if (settled)
      continue;
    for (const std::uint32_t index : live_uplinks) {
      const std::string& port = links_.at(index).name;
      bool said = offered.contains(index);
      for (std::uint8_t length = 1; length < 8 * destination.size() && !said; ++length)
        said = result.contains({.destination = network_of(destination, length), .out_port = port});
      if (!said)
        result.insert({.destination = Prefix::host(destination), .out_port = port});
    }
  }
  return {result.begin(), result.end()};
}

}  // namespace heddle
