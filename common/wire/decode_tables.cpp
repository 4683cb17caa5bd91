#include "common/wire/decode_tables.h"

#include <limits>
#include <string>

#include "common/wire/checks.h"
#include "common/wire/limits.h"

namespace heddle::wire {

IpAddress v4(std::uint32_t n) {
  return IpAddress::v4(static_cast<std::uint8_t>(n >> 24), static_cast<std::uint8_t>(n >> 16),
                       static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n));
}

IpAddress v6(std::uint64_t high, std::uint64_t low) {
  IpAddress address{.family = Family::v6, .octets = {}};
  for (std::size_t i = 0; i < 8; ++i) {
    address.octets[i] = static_cast<std::uint8_t>(high >> (56 - 8 * i));
    address.octets[8 + i] = static_cast<std::uint8_t>(low >> (56 - 8 * i));
  }
  return address;
}

namespace {

void read_addresses(capnp::List<std::uint32_t>::Reader four, capnp::List<std::uint64_t>::Reader six,
                    std::vector<IpAddress>& addresses) {
  // A row brings at most two addresses.
  require(four.size() <= 2 * kMaxElements && six.size() <= 4 * kMaxElements && six.size() % 2 == 0,
          "a table's list of addresses", "has a wrong size");
  addresses.reserve(four.size() + six.size() / 2);
  for (const std::uint32_t n : four)
    addresses.push_back(v4(n));
  for (unsigned i = 0; i < six.size(); i += 2)
    addresses.push_back(v6(six[i], six[i + 1]));
}

// The addresses and names that a table's rows refer to by number.
struct Dictionary {
  std::vector<IpAddress> addresses;
  std::vector<std::string> names{""};

  template <class Table>
  explicit Dictionary(Table from) {
    read_addresses(from.getV4(), from.getV6(), addresses);
    const auto texts = from.getNames();
    require(texts.size() <= 2 * kMaxElements, "a flow table's list of names",
            "has too many elements");
    for (const auto t : texts)
      names.push_back(name(t, "a flow's port or source"));
  }

  const IpAddress& address(std::uint32_t number) const {
    require(number < addresses.size(), "a flow's address", "is not in its table");
    return addresses[number];
  }
  const std::string& name_of(std::uint32_t number) const {
    require(number < names.size(), "a flow's port or source", "is not in its table");
    return names[number];
  }
};

// A column, or one element that says the same of every row.
template <class List>
class Column {
 public:
  explicit Column(List list) : list_(list) {}
  bool given() const { return list_.size() != 0; }
  auto operator[](unsigned row) const { return list_[list_.size() == 1 ? 0 : row]; }

 private:
  List list_;
};

// Every column of a table has a row for each of the first one's, or one for all.
struct Columns {
  unsigned rows;
  template <class List>
  Column<List> operator()(List list) const {
    require(list.size() == rows || (list.size() == 1 && rows > 0), "a column of a table",
            "has another length than the first");
    return Column<List>(list);
  }
  // One that came later, and that senders leave out where it says nothing.
  template <class List>
  Column<List> later(List list) const {
    return list.size() == 0 ? Column<List>(list) : (*this)(list);
  }
};

std::uint32_t queue_pair(std::uint32_t number) {
  require(number < 1U << 24, "a queue pair's number", "has more than 24 bits");
  return number;
}

// The later columns of a flow table about the sender's own queue pair.
class SenderColumns {
 public:
  SenderColumns(ws::FlowTable::Reader from, const Columns& column)
      : local_qpn_(column.later(from.getLocalQpn())),
        process_(column.later(from.getProcess())),
        pids_(from.getPids()),
        peer_(column.later(from.getPeer())),
        unobservable_(column.later(from.getUnobservable())) {}

  void fill(unsigned row, FlowDelta& flow) const {
    if (local_qpn_.given())
      flow.local_qpn = queue_pair(local_qpn_[row]);
    if (process_.given() && process_[row] != 0) {
      require(process_[row] <= pids_.size(), "a flow's process", "is not in its table");
      flow.pid = pids_[process_[row] - 1];
    }
    if (peer_.given())
      flow.peer = enumerant(peer_[row], PeerOrigin::inferred, "how a peer is known");
    flow.unobservable = unobservable_.given() && unobservable_[row];
  }

 private:
  Column<capnp::List<std::uint32_t>::Reader> local_qpn_, process_;
  capnp::List<std::uint32_t>::Reader pids_;
  Column<capnp::List<ws::Peer>::Reader> peer_;
  Column<capnp::List<bool>::Reader> unobservable_;
};

}  // namespace

std::vector<FlowDelta> read_flows(ws::FlowTable::Reader from) {
  const auto source = from.getSource();
  const unsigned n = source.size();
  require(n <= kMaxElements, "the flow table", "has too many rows");
  const Columns column{n};
  const auto destination = column(from.getDestination());
  const auto source_port = column(from.getSourcePort());
  const auto dest_qpn = column(from.getDestQpn());
  const auto first_seen = column(from.getFirstSeen());
  const auto bytes = column(from.getBytes());
  const auto packets = column(from.getPackets());
  const auto message_length = column(from.getMessageLength());
  const auto out_port = column(from.getOutPort());
  const auto seen_by = column(from.getSeenBy());
  const auto reset = column(from.getReset());
  const auto bytes_error = column.later(from.getBytesError());
  const auto label = column.later(from.getLabel());
  const auto label_origin = column.later(from.getLabelOrigin());
  require(label.given() == label_origin.given(), "a column of labels", "has another length");
  const SenderColumns sender(from, column);
  const Dictionary dictionary(from);
  const std::int64_t base = from.getFirstSeenBase();
  // What is left above the base, as an unsigned number, since it may not fit a signed one.
  const std::uint64_t room = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) -
                             static_cast<std::uint64_t>(base);

  std::vector<FlowDelta> flows(n);
  for (unsigned i = 0; i < n; ++i) {
    FlowDelta& flow = flows[i];
    flow.key.source = dictionary.address(source[i]);
    flow.key.destination = dictionary.address(destination[i]);
    require(flow.key.source.family == flow.key.destination.family, "a flow", "mixes IPv4 and IPv6");
    flow.key.source_port = source_port[i];
    flow.key.dest_qpn = queue_pair(dest_qpn[i]);
    require(first_seen[i] <= room, "the time a flow was first seen", "is out of range");
    flow.key.first_seen = WallTime(
        Duration(static_cast<std::int64_t>(static_cast<std::uint64_t>(base) + first_seen[i])));
    flow.bytes = Bytes{bytes[i]};
    flow.packets = packets[i];
    flow.message_length = Bytes{message_length[i]};
    flow.out_port = dictionary.name_of(out_port[i]);
    require(flow.out_port.size() <= kMaxPortBytes, "a port's name", "is too long");
    flow.source = dictionary.name_of(seen_by[i]);
    flow.reset = reset[i];
    if (bytes_error.given())
      flow.bytes_error = Bytes{bytes_error[i]};
    if (label.given()) {
      flow.label = dictionary.name_of(label[i]);
      flow.label_origin = dictionary.name_of(label_origin[i]);
    }
    sender.fill(i, flow);
  }
  return flows;
}

std::vector<OpenQueuePair> read_queue_pairs(ws::QueuePairTable::Reader from) {
  const auto qpn = from.getQpn();
  const unsigned n = qpn.size();
  require(n <= kMaxElements, "the table of queue pairs", "has too many rows");
  const Columns column{n};
  const auto address = column(from.getAddress());
  const auto remote_qpn = column(from.getRemoteQpn());
  const auto pid = column(from.getPid());
  const auto label = column.later(from.getLabel());
  const auto label_origin = column.later(from.getLabelOrigin());
  require(label.given() == label_origin.given(), "a column of labels", "has another length");
  const Dictionary dictionary(from);
  std::vector<OpenQueuePair> pairs(n);
  for (unsigned i = 0; i < n; ++i) {
    OpenQueuePair& pair = pairs[i];
    pair.address = dictionary.address(address[i]);
    pair.qpn = queue_pair(qpn[i]);
    pair.remote_qpn = queue_pair(remote_qpn[i]);
    pair.pid = pid[i];
    if (label.given()) {
      pair.label = dictionary.name_of(label[i]);
      pair.label_origin = dictionary.name_of(label_origin[i]);
    }
  }
  return pairs;
}

}  // namespace heddle::wire
