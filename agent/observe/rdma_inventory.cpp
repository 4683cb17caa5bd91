#include "agent/observe/rdma_inventory.h"

#include <algorithm>
#include <utility>

#include "common/core/udp_source_port.h"

namespace heddle {
namespace {

// Connections of queue pairs that no look has found, as when processes come and go in between.
constexpr std::size_t kMostConnections = 65'536;

std::uint64_t number_of(std::uint32_t device, std::uint32_t qpn) {
  return std::uint64_t{device} << 32U | qpn;
}

// What is looked up for each queue pair, by device and number.
struct Tables {
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  explicit Tables(const RdmaLook& look) {
    for (const RdmaDevice& device : look.devices)
      devices.emplace(device.index, &device);
    for (const RdmaPort& port : look.ports)
      ports.emplace(Key{port.device, port.port}, &port);
    for (const CmId& id : look.cm_ids) {
      if (id.listens && id.source)
        services.emplace_back(id.pid, id.source->port);
      else if (id.qpn != 0)
        connections.emplace(Key{id.device, id.qpn}, &id);
    }
    std::ranges::sort(services);
    for (const QpCounter& counter : look.counters) {
      for (const std::uint32_t qpn : counter.qpns)
        counters.emplace(Key{counter.device, qpn}, &counter);
    }
    for (const RdmaAddress& address : look.addresses)
      addresses[Key{address.device, address.port}].push_back(&address);
  }

  template <class Map>
  static auto find(const Map& map, Key key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : found->second;
  }

  std::map<std::uint32_t, const RdmaDevice*> devices;
  std::map<Key, const RdmaPort*> ports;
  std::map<Key, const CmId*> connections;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> services;  // process and port
  std::map<Key, const QpCounter*> counters;
  std::map<Key, std::vector<const RdmaAddress*>> addresses;
};

bool is_link_local(const IpAddress& address) {
  if (address.family == Family::v4)
    return address.octets[0] == 169 && address.octets[1] == 254;
  return address.octets[0] == 0xFE && (address.octets[1] & 0xC0U) == 0x80;
}

// The port's addresses, IPv4 before IPv6 and link-local last, as applications choose.
std::vector<IpAddress> by_likelihood(const std::vector<const RdmaAddress*>& entries) {
  std::vector<IpAddress> result;
  result.reserve(entries.size());
  for (const RdmaAddress* entry : entries)
    result.push_back(entry->address);
  std::ranges::stable_sort(result, {}, [](const IpAddress& address) {
    return std::pair(is_link_local(address), address.family);
  });
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Both ends of a connection by rdma_cm send from the port that follows from the caller's port and
// the service's. A socket whose port somebody in its process listens on was called; where nobody
// does any more, the higher port is taken for the caller's, as those are drawn from a high range.
std::uint16_t source_port_of(const CmId& id, const Tables& tables) {
  const std::uint16_t here = id.source ? id.source->port : 0;
  const std::uint16_t there = id.destination->port;
  const bool called =
      std::ranges::binary_search(tables.services, std::pair(id.pid, here)) || here < there;
  return udp_source_port(called ? cm_flow_label(there, here) : cm_flow_label(here, there));
}

void resolve_peer(KnownQueuePair& known, const QueuePair& pair,
                  const std::optional<QpConnection>& connection, const Tables& tables) {
  known.source_port = udp_source_port(flow_label(pair.qpn, known.remote_qpn));
  if (connection) {
    known.peer = connection->destination;
    known.origin = PeerOrigin::kernel;
    if (connection->flow_label != 0)
      known.source_port = udp_source_port(connection->flow_label);
    const auto port = tables.addresses.find({pair.device, connection->port});
    if (port != tables.addresses.end()) {
      for (const RdmaAddress* entry : port->second) {
        if (entry->gid_index == connection->gid_index)
          known.addresses = {entry->address};
      }
    }
  } else if (const CmId* id = Tables::find(tables.connections, {pair.device, pair.qpn});
             id != nullptr && id->destination) {
    known.peer = id->destination->address;
    known.origin = PeerOrigin::cm;
    known.source_port = source_port_of(*id, tables);
    if (id->source && !id->source->address.is_unspecified())
      known.addresses = {id->source->address};
  }
  if (known.peer) {
    std::erase_if(known.addresses, [&known](const IpAddress& address) {
      return address.family != known.peer->family;
    });
  }
}

}  // namespace

void RdmaInventory::count(Incarnation& incarnation, const QpCounter* counter, bool all_read,
                          KnownQueuePair& known) {
  if (counter != nullptr || all_read) {
    // One that several queue pairs share says nothing of one of them.
    const bool alone = counter != nullptr && !counter->automatic && counter->qpns.size() == 1;
    // Somebody else bound it before we looked, or an agent that was killed did: what it has counted
    // until now was sent in no interval of ours.
    known.unseen = alone && !incarnation.bare && incarnation.counter != counter->id;
    incarnation.bare = counter == nullptr;
    incarnation.counter.reset();
    incarnation.bytes.reset();
    incarnation.packets = 0;
    if (alone) {
      incarnation.counter = counter->id;
      for (const NamedCount& value : counter->values) {
        if (value.name == "rdma_tx_bytes")
          incarnation.bytes = Bytes{value.value};
        if (value.name == "rdma_tx_packets")
          incarnation.packets = value.value;
      }
    }
  } else {
    known.unseen = true;
  }
  known.bytes = incarnation.bytes;
  known.packets = incarnation.packets;
}

void RdmaInventory::connected(std::span<const QpConnection> connections) {
  for (const QpConnection& connection : connections) {
    if (connections_.size() >= kMostConnections)
      connections_.clear();
    connections_[number_of(connection.device, connection.qpn)] = connection;
  }
}

RdmaInventory::Incarnation& RdmaInventory::incarnation(const PairKey& key, const QueuePair& pair,
                                                       Time now) {
  const auto [entry, is_new] = pairs_.try_emplace(key);
  Incarnation& known = entry->second;
  const std::uint32_t remote = pair.remote_qpn.value_or(0);
  std::optional<QpConnection> connection;
  if (const auto made = connections_.find(number_of(pair.device, pair.qpn));
      made != connections_.end()) {
    // That of an earlier queue pair of this number, whose successor was connected unseen.
    if (made->second.remote_qpn == remote)
      connection = made->second;
  }
  const bool again = connection && known.connection && connection->when != known.connection->when;
  // A process that has ended keeps its queue pairs for a moment, without a name.
  const bool other_owner = pair.pid != 0 && pair.pid != known.pid;
  if (is_new || known.remote_qpn != remote || other_owner || again) {
    known = {.pid = pair.pid,
             .remote_qpn = remote,
             .first_seen = connection ? connection->when : now,
             .connection = std::nullopt,
             .look = {}};
  }
  if (connection)
    known.connection = connection;
  known.look = looks_;
  return known;
}

RdmaView RdmaInventory::update(const RdmaLook& look, Time now) {
  RdmaView view;
  view.gap = look.incomplete;
  view.looked = now;
  const Tables tables(look);
  ++looks_;
  view.queue_pairs.reserve(look.queue_pairs.size());
  for (const QueuePair& pair : look.queue_pairs) {
    const auto device = tables.devices.find(pair.device);
    if (device == tables.devices.end() || !pair.remote_qpn)
      continue;
    const PairKey key{{device->second->node_guid, pair.device}, pair.qpn};
    Incarnation& incarnation = this->incarnation(key, pair, now);
    KnownQueuePair known{.device = pair.device,
                         .qpn = pair.qpn,
                         .remote_qpn = *pair.remote_qpn,
                         .pid = incarnation.pid,
                         .netdev = {},
                         .software = device->second->software,
                         .addresses = {},
                         .peer = std::nullopt,
                         .first_seen = incarnation.first_seen,
                         .bytes = std::nullopt};
    if (const RdmaPort* port = Tables::find(tables.ports, {pair.device, pair.port}))
      known.netdev = port->netdev;
    if (const auto own = tables.addresses.find({pair.device, pair.port});
        own != tables.addresses.end())
      known.addresses = by_likelihood(own->second);
    resolve_peer(known, pair, incarnation.connection, tables);
    count(incarnation, Tables::find(tables.counters, {pair.device, pair.qpn}),
          std::ranges::find(look.uncounted, pair.device) == look.uncounted.end(), known);
    view.queue_pairs.push_back(std::move(known));
  }
  // What an incomplete look did not find may still be there, and would count as new when it is
  // found again.
  if (!look.incomplete)
    std::erase_if(pairs_, [this](const auto& entry) { return entry.second.look != looks_; });
  note_devices(look, view.ports);
  return view;
}

void RdmaInventory::note_devices(const RdmaLook& look, std::vector<RdmaPortReading>& ports) {
  std::map<std::pair<DeviceKey, std::uint32_t>, RdmaPortReading> now;
  for (const RdmaPort& port : look.ports) {
    const auto device = std::ranges::find(look.devices, port.device, &RdmaDevice::index);
    if (device == look.devices.end())
      continue;
    RdmaPortReading reading{.device = device->name,
                            .port = port.port,
                            .netdev = port.netdev,
                            .guid = device->node_guid,
                            .hidden = false,
                            .counters = {},
                            .index = port.device};
    for (const PortCounters& counters : look.port_counters) {
      if (counters.device == port.device && counters.port == port.port)
        reading.counters = counters.counters;
    }
    now.emplace(std::pair(DeviceKey{reading.guid, port.device}, port.port), std::move(reading));
  }
  for (const auto& [key, reading] : seen_ports_) {
    // Gone, unless namespaces have devices to themselves: then it may work on in another one. A
    // device that came back has another index and the same GUID.
    const bool back = std::ranges::any_of(now, [&key = key](const auto& other) {
      return other.first.first.first == key.first.first && other.first.second == key.second;
    });
    if (look.system.shared || look.incomplete || back)
      continue;
    RdmaPortReading hidden = reading;
    hidden.hidden = true;
    hidden.counters.clear();
    now.emplace(key, std::move(hidden));
  }
  for (const auto& [key, reading] : now)
    ports.push_back(reading);
  if (look.incomplete)
    now.merge(seen_ports_);  // they may be there all the same
  seen_ports_ = std::move(now);
}

}  // namespace heddle
