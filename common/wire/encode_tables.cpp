#include "common/wire/encode_tables.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

namespace heddle::wire {

std::uint32_t v4_number(const IpAddress& a) {
  return std::uint32_t{a.octets[0]} << 24 | std::uint32_t{a.octets[1]} << 16 |
         std::uint32_t{a.octets[2]} << 8 | std::uint32_t{a.octets[3]};
}

std::uint64_t v6_half(const IpAddress& a, std::size_t first_octet) {
  std::uint64_t half = 0;
  for (std::size_t i = 0; i < 8; ++i)
    half = half << 8 | a.octets[first_octet + i];
  return half;
}

namespace {

kj::StringPtr text(const std::string& s) {
  return {s.c_str(), s.size()};
}

// The addresses and names of a flow table, each once.
class Dictionary {
 public:
  void add(const IpAddress& address) {
    auto& list = address.family == Family::v4 ? v4_ : v6_;
    if (number_.try_emplace(address, static_cast<std::uint32_t>(list.size())).second)
      list.push_back(address);
  }
  void add(const std::string& name) {
    if (name.empty())
      return;
    if (name_number_.try_emplace(name, static_cast<std::uint32_t>(names_.size() + 1)).second)
      names_.push_back(name);
  }
  std::uint32_t number(const IpAddress& address) const {
    const std::uint32_t before =
        address.family == Family::v4 ? 0 : static_cast<std::uint32_t>(v4_.size());
    return before + number_.at(address);
  }
  std::uint32_t number(const std::string& name) const {
    return name.empty() ? 0 : name_number_.at(name);
  }

  template <class Table>
  void put_addresses_into(Table out) const {
    auto v4 = out.initV4(static_cast<unsigned>(v4_.size()));
    for (unsigned i = 0; i < v4.size(); ++i)
      v4.set(i, v4_number(v4_[i]));
    auto v6 = out.initV6(static_cast<unsigned>(2 * v6_.size()));
    for (unsigned i = 0; i < v6_.size(); ++i) {
      v6.set(2 * i, v6_half(v6_[i], 0));
      v6.set(2 * i + 1, v6_half(v6_[i], 8));
    }
  }
  template <class Table>
  void put_names_into(Table out) const {
    auto names = out.initNames(static_cast<unsigned>(names_.size()));
    for (unsigned i = 0; i < names.size(); ++i)
      names.set(i, text(names_[i]));
  }

 private:
  std::vector<IpAddress> v4_, v6_;
  std::vector<std::string> names_;
  std::unordered_map<IpAddress, std::uint32_t> number_;
  std::unordered_map<std::string, std::uint32_t> name_number_;
};

// Writes columns of a table, each by what makes the list of so many elements and what a row says.
class ColumnWriter {
 public:
  ColumnWriter(const std::vector<FlowDelta>& flows, bool columns_of_one)
      : flows_(flows), columns_of_one_(columns_of_one) {}

  template <class Init, class Value>
  void operator()(Init init, Value value) const {
    const bool alike =
        columns_of_one_ && flows_.size() > 1 &&
        std::ranges::all_of(flows_, [&, first = value(flows_.front())](const FlowDelta& flow) {
          return value(flow) == first;
        });
    write(init, value, alike ? 1U : static_cast<unsigned>(flows_.size()));
  }
  // In full, as the number of its elements is the number of rows.
  template <class Init, class Value>
  void whole(Init init, Value value) const {
    write(init, value, static_cast<unsigned>(flows_.size()));
  }
  // One that is left out where no row says anything.
  template <class Init, class Value>
  void later(Init init, Value value) const {
    const auto says = [&value](const FlowDelta& flow) {
      return value(flow) != decltype(value(flow)){};
    };
    if (std::ranges::any_of(flows_, says))
      (*this)(init, value);
  }

 private:
  template <class Init, class Value>
  void write(Init init, Value value, unsigned rows) const {
    auto column = init(rows);
    for (unsigned i = 0; i < rows; ++i)
      column.set(i, value(flows_[i]));
  }

  const std::vector<FlowDelta>& flows_;
  bool columns_of_one_;
};

// What is said of the senders' own queue pairs.
void put_senders(ws::FlowTable::Builder out, const std::vector<FlowDelta>& flows,
                 const ColumnWriter& column) {
  column.later([&](unsigned n) { return out.initLocalQpn(n); },
               [](const FlowDelta& flow) { return flow.local_qpn; });
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  std::vector<std::uint32_t> known;
  for (const FlowDelta& flow : flows) {
    if (flow.pid != 0 &&
        numbers.try_emplace(flow.pid, static_cast<std::uint32_t>(known.size() + 1)).second)
      known.push_back(flow.pid);
  }
  if (!known.empty()) {
    auto pids = out.initPids(static_cast<unsigned>(known.size()));
    for (unsigned i = 0; i < pids.size(); ++i)
      pids.set(i, known[i]);
  }
  column.later([&](unsigned n) { return out.initProcess(n); },
               [&](const FlowDelta& flow) { return flow.pid == 0 ? 0U : numbers.at(flow.pid); });
  column.later([&](unsigned n) { return out.initPeer(n); },
               [](const FlowDelta& flow) { return static_cast<ws::Peer>(flow.peer); });
  column.later([&](unsigned n) { return out.initUnobservable(n); },
               [](const FlowDelta& flow) { return flow.unobservable; });
}

}  // namespace

void put_flows(ws::FlowTable::Builder out, const std::vector<FlowDelta>& flows,
               bool columns_of_one) {
  Dictionary dictionary;
  std::int64_t base = flows.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
  for (const FlowDelta& flow : flows) {
    dictionary.add(flow.key.source);
    dictionary.add(flow.key.destination);
    dictionary.add(flow.out_port);
    dictionary.add(flow.source);
    dictionary.add(flow.label);
    dictionary.add(flow.label_origin);
    base = std::min(base, flow.key.first_seen.time_since_epoch().count());
  }
  dictionary.put_addresses_into(out);
  dictionary.put_names_into(out);
  out.setFirstSeenBase(base);

  const ColumnWriter column(flows, columns_of_one);
  column.whole([&](unsigned n) { return out.initSource(n); },
               [&](const FlowDelta& flow) { return dictionary.number(flow.key.source); });
  column([&](unsigned n) { return out.initDestination(n); },
         [&](const FlowDelta& flow) { return dictionary.number(flow.key.destination); });
  column([&](unsigned n) { return out.initSourcePort(n); },
         [](const FlowDelta& flow) { return flow.key.source_port; });
  column([&](unsigned n) { return out.initDestQpn(n); },
         [](const FlowDelta& flow) { return flow.key.dest_qpn; });
  // Unsigned, because the difference of two signed times may not fit a signed one.
  column([&](unsigned n) { return out.initFirstSeen(n); },
         [base](const FlowDelta& flow) {
           return static_cast<std::uint64_t>(flow.key.first_seen.time_since_epoch().count()) -
                  static_cast<std::uint64_t>(base);
         });
  column([&](unsigned n) { return out.initBytes(n); },
         [](const FlowDelta& flow) { return flow.bytes.value; });
  column([&](unsigned n) { return out.initPackets(n); },
         [](const FlowDelta& flow) { return flow.packets; });
  column([&](unsigned n) { return out.initMessageLength(n); },
         [](const FlowDelta& flow) { return flow.message_length.value; });
  column([&](unsigned n) { return out.initOutPort(n); },
         [&](const FlowDelta& flow) { return dictionary.number(flow.out_port); });
  column([&](unsigned n) { return out.initSeenBy(n); },
         [&](const FlowDelta& flow) { return dictionary.number(flow.source); });
  column([&](unsigned n) { return out.initReset(n); },
         [](const FlowDelta& flow) { return flow.reset; });
  // Most sources count, and most nodes label nothing: such a report says nothing of either.
  column.later([&](unsigned n) { return out.initBytesError(n); },
               [](const FlowDelta& flow) { return flow.bytes_error.value; });
  if (std::ranges::any_of(flows, [](const FlowDelta& flow) {
        return !flow.label.empty() || !flow.label_origin.empty();
      })) {
    column([&](unsigned n) { return out.initLabel(n); },
           [&](const FlowDelta& flow) { return dictionary.number(flow.label); });
    column([&](unsigned n) { return out.initLabelOrigin(n); },
           [&](const FlowDelta& flow) { return dictionary.number(flow.label_origin); });
  }
  put_senders(out, flows, column);
}

void put_queue_pairs(ws::QueuePairTable::Builder out, const std::vector<OpenQueuePair>& pairs) {
  Dictionary dictionary;
  for (const OpenQueuePair& pair : pairs) {
    dictionary.add(pair.address);
    dictionary.add(pair.label);
    dictionary.add(pair.label_origin);
  }
  dictionary.put_addresses_into(out);
  const auto n = static_cast<unsigned>(pairs.size());
  auto address = out.initAddress(n);
  auto qpn = out.initQpn(n);
  auto remote_qpn = out.initRemoteQpn(n);
  auto pid = out.initPid(n);
  for (unsigned i = 0; i < n; ++i) {
    address.set(i, dictionary.number(pairs[i].address));
    qpn.set(i, pairs[i].qpn);
    remote_qpn.set(i, pairs[i].remote_qpn);
    pid.set(i, pairs[i].pid);
  }
  if (std::ranges::none_of(pairs, [](const OpenQueuePair& pair) {
        return !pair.label.empty() || !pair.label_origin.empty();
      }))
    return;
  dictionary.put_names_into(out);
  auto label = out.initLabel(n);
  auto label_origin = out.initLabelOrigin(n);
  for (unsigned i = 0; i < n; ++i) {
    label.set(i, dictionary.number(pairs[i].label));
    label_origin.set(i, dictionary.number(pairs[i].label_origin));
  }
}

}  // namespace heddle::wire
