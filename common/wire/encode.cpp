// Values to bytes. Nothing is refused here: the receiver's decode() is the judge.
#include <capnp/message.h>
#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "common/wire/codec.h"
#include "common/wire/limits.h"
#include "schemas/heddle.capnp.h"

namespace heddle {
namespace {

namespace ws = schema;

kj::StringPtr text(const std::string& s) {
  return {s.c_str(), s.size()};
}

// A text for people, cut between characters of UTF-8 to what the receiver takes.
std::string cut(const std::string& s) {
  if (s.size() <= wire::kMaxTextBytes)
    return s;
  std::size_t end = wire::kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(s[end]) & 0xC0) == 0x80)
    --end;
  return s.substr(0, end);
}

std::uint64_t nanoseconds(Duration d) {
  return static_cast<std::uint64_t>(d.count());
}

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

void put(ws::Address::Builder out, const IpAddress& address) {
  if (address.family == Family::v4) {
    out.setV4(v4_number(address));
  } else {
    auto v6 = out.initV6();
    v6.setHigh(v6_half(address, 0));
    v6.setLow(v6_half(address, 8));
  }
}

void put(ws::PlanVersion::Builder out, PlanVersion version) {
  out.setEpoch(version.epoch);
  out.setGeneration(version.generation);
}

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

void put(ws::SteeringUnit::Builder out, const SteeringUnit& unit) {
  std::visit(Overload{[&](const ByDestination& u) { put(out.initDestination(), u.destination); },
                      [&](const ByPortAndDestination& u) {
                        auto group = out.initPortAndDestination();
                        group.setInPort(text(u.in_port));
                        put(group.initAddress(), u.destination);
                      },
                      [&](const ByQueuePair& u) {
                        auto group = out.initQueuePair();
                        put(group.initSource(), u.source);
                        put(group.initTarget(), u.destination);
                        group.setSourcePort(u.source_port);
                      }},
             unit);
}

void put(ws::PinTarget::Builder out, const PinTarget& target) {
  std::visit(Overload{[&](const PortTableRoute& t) { out.setPortTableRoute(text(t.out_port)); },
                      [&](const HostRoute& t) { out.setHostRoute(text(t.out_port)); },
                      [&](const SegmentList& t) {
                        auto list = out.initSegmentList(static_cast<unsigned>(t.segments.size()));
                        for (unsigned i = 0; i < list.size(); ++i)
                          put(list[i], t.segments[i]);
                      },
                      [&](const FlowMark& t) { out.setFlowMark(text(t.out_port)); }},
             target);
}

void put(ws::Pin::Builder out, const Pin& pin) {
  put(out.initUnit(), pin.unit);
  put(out.initTarget(), pin.target);
  out.setReason(text(cut(pin.reason)));
}

void put(ws::PortStatus::Builder out, const PortStatus& port) {
  out.setName(text(port.name));
  out.setCarrier(port.carrier);
  out.setTxBytes(port.tx_bytes);
  out.setRxBytes(port.rx_bytes);
  out.setSpeed(static_cast<std::uint64_t>(port.speed.bits_per_second));
}

void put(ws::LldpNeighbour::Builder out, const LldpNeighbour& neighbour) {
  out.setPort(text(neighbour.port));
  out.setNode(text(neighbour.node));
  out.setNodePort(text(neighbour.node_port));
}

void put(ws::EnforcerCapability::Builder out, const EnforcerCapability& enforcer) {
  out.setName(text(enforcer.name));
  out.setGranularity(static_cast<ws::Granularity>(enforcer.granularity));
  out.setUsable(enforcer.usable);
  out.setReason(text(cut(enforcer.reason)));
}

void put(ws::SourceCapability::Builder out, const SourceCapability& source) {
  out.setName(text(source.name));
  out.setUsable(source.usable);
  out.setReason(text(cut(source.reason)));
}

void put(ws::Withdrawal::Builder out, const Withdrawal& withdrawal) {
  auto prefix = out.initDestination();
  put(prefix.initAddress(), withdrawal.destination.address);
  prefix.setLength(withdrawal.destination.length);
  out.setOutPort(text(withdrawal.out_port));
}

void put(ws::PinFailure::Builder out, const PinFailure& failure) {
  put(out.initUnit(), failure.unit);
  out.setCode(static_cast<ws::ErrorCode>(failure.code));
  out.setReason(text(cut(failure.reason)));
}

template <class List, class Items>
void put_all(List list, const Items& items) {
  for (unsigned i = 0; i < list.size(); ++i)
    put(list[i], items[i]);
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

  void put_into(ws::FlowTable::Builder out) const {
    auto v4 = out.initV4(static_cast<unsigned>(v4_.size()));
    for (unsigned i = 0; i < v4.size(); ++i)
      v4.set(i, v4_number(v4_[i]));
    auto v6 = out.initV6(static_cast<unsigned>(2 * v6_.size()));
    for (unsigned i = 0; i < v6_.size(); ++i) {
      v6.set(2 * i, v6_half(v6_[i], 0));
      v6.set(2 * i + 1, v6_half(v6_[i], 8));
    }
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

void put(ws::FlowTable::Builder out, const std::vector<FlowDelta>& flows) {
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
  dictionary.put_into(out);
  out.setFirstSeenBase(base);

  const auto n = static_cast<unsigned>(flows.size());
  auto source = out.initSource(n);
  auto destination = out.initDestination(n);
  auto source_port = out.initSourcePort(n);
  auto dest_qpn = out.initDestQpn(n);
  auto first_seen = out.initFirstSeen(n);
  auto bytes = out.initBytes(n);
  auto packets = out.initPackets(n);
  auto message_length = out.initMessageLength(n);
  auto out_port = out.initOutPort(n);
  auto seen_by = out.initSeenBy(n);
  auto reset = out.initReset(n);
  for (unsigned i = 0; i < n; ++i) {
    const FlowDelta& flow = flows[i];
    source.set(i, dictionary.number(flow.key.source));
    destination.set(i, dictionary.number(flow.key.destination));
    source_port.set(i, flow.key.source_port);
    dest_qpn.set(i, flow.key.dest_qpn);
    // Unsigned, because the difference of two signed times may not fit a signed one.
    first_seen.set(i, static_cast<std::uint64_t>(flow.key.first_seen.time_since_epoch().count()) -
                          static_cast<std::uint64_t>(base));
    bytes.set(i, flow.bytes.value);
    packets.set(i, flow.packets);
    message_length.set(i, flow.message_length.value);
    out_port.set(i, dictionary.number(flow.out_port));
    seen_by.set(i, dictionary.number(flow.source));
    reset.set(i, flow.reset);
  }
  // Most sources count, and most nodes label nothing: such a report says nothing of either.
  if (std::ranges::any_of(flows,
                          [](const FlowDelta& flow) { return flow.bytes_error.value != 0; })) {
    auto error = out.initBytesError(n);
    for (unsigned i = 0; i < n; ++i)
      error.set(i, flows[i].bytes_error.value);
  }
  if (std::ranges::any_of(flows, [](const FlowDelta& flow) { return !flow.label.empty(); })) {
    auto label = out.initLabel(n);
    auto origin = out.initLabelOrigin(n);
    for (unsigned i = 0; i < n; ++i) {
      label.set(i, dictionary.number(flows[i].label));
      origin.set(i, dictionary.number(flows[i].label_origin));
    }
  }
}

void put(ws::Envelope::Builder out, const Hello& m) {
  auto hello = out.initHello();
  hello.setRole(static_cast<ws::Role>(m.role));
  hello.setMode(static_cast<ws::Mode>(m.mode));
  hello.setDisabled(m.disabled);
  hello.setSoftware(text(m.software));
  hello.setBootId(text(m.boot_id));
  hello.setInstance(m.instance);
  put(hello.initInstalled(), m.installed);
  put(hello.initHighestSeen(), m.highest_seen);
  hello.setDigest(m.digest);
  put_all(hello.initEnforcers(static_cast<unsigned>(m.enforcers.size())), m.enforcers);
  put_all(hello.initSources(static_cast<unsigned>(m.sources.size())), m.sources);
  put_all(hello.initPorts(static_cast<unsigned>(m.ports.size())), m.ports);
}

void put(ws::Envelope::Builder out, const Welcome& m) {
  auto welcome = out.initWelcome();
  put(welcome.initVersion(), m.version);
  welcome.setReportInterval(nanoseconds(m.report_interval));
  welcome.setLease(nanoseconds(m.lease));
}

void put(ws::Envelope::Builder out, const Refusal& m) {
  auto refusal = out.initRefusal();
  refusal.setCode(static_cast<ws::ErrorCode>(m.code));
  refusal.setReason(text(cut(m.reason)));
}

void put(ws::Envelope::Builder out, const Report& m) {
  auto report = out.initReport();
  report.setNumber(m.number);
  report.setBegin(nanoseconds(m.begin.time_since_epoch()));
  report.setLength(nanoseconds(m.length));
  report.setGap(m.gap);
  put_all(report.initPorts(static_cast<unsigned>(m.ports.size())), m.ports);
  put(report.initFlows(), m.flows);
}

void put(ws::Envelope::Builder out, const LinkChange& m) {
  auto change = out.initLinkChange();
  put_all(change.initPorts(static_cast<unsigned>(m.ports.size())), m.ports);
  put_all(change.initWithdrawn(static_cast<unsigned>(m.withdrawn.size())), m.withdrawn);
  if (m.neighbours)
    put_all(change.initNeighbours(static_cast<unsigned>(m.neighbours->size())), *m.neighbours);
}

void put(ws::Envelope::Builder out, const Acknowledgement& m) {
  auto ack = out.initAcknowledgement();
  put(ack.initVersion(), m.version);
  ack.setDigest(m.digest);
  ack.setInstalled(m.installed);
  put_all(ack.initFailed(static_cast<unsigned>(m.failed.size())), m.failed);
  ack.setDisabled(m.disabled);
  ack.setConflict(text(cut(m.conflict)));
  ack.setApplyTime(nanoseconds(m.apply_time));
}

void put(ws::Envelope::Builder out, const PlanDiff& m) {
  auto change = out.initPlanDiff();
  change.setNode(text(m.node));
  put(change.initBase(), m.base);
  put(change.initVersion(), m.version);
  put_all(change.initSet(static_cast<unsigned>(m.set.size())), m.set);
  put_all(change.initRemoved(static_cast<unsigned>(m.removed.size())), m.removed);
  change.setDigest(m.digest);
}

void put(ws::Envelope::Builder out, const Snapshot& m) {
  auto snapshot = out.initSnapshot();
  snapshot.setNode(text(m.plan.node));
  put(snapshot.initVersion(), m.plan.version);
  put_all(snapshot.initPins(static_cast<unsigned>(m.plan.pins.size())), m.plan.pins);
  snapshot.setDigest(m.digest);
}

void put(ws::Envelope::Builder out, const SnapshotRequest& m) {
  auto request = out.initSnapshotRequest();
  put(request.initHave(), m.have);
  request.setReason(text(cut(m.reason)));
}

void put(ws::Envelope::Builder out, const Heartbeat& m) {
  auto heartbeat = out.initHeartbeat();
  put(heartbeat.initVersion(), m.version);
  heartbeat.setDigest(m.digest);
  heartbeat.setLease(nanoseconds(m.lease));
}

void put(ws::Envelope::Builder out, const Switch& m) {
  auto order = out.initSwitch();
  order.setEnable(m.enable);
  order.setBy(text(cut(m.by)));
}

void put(ws::Envelope::Builder out, const Request& m) {
  auto request = out.initRequest();
  request.setId(m.id);
  request.setCommand(text(m.command));
  auto arguments = request.initArguments(static_cast<unsigned>(m.arguments.size()));
  for (unsigned i = 0; i < arguments.size(); ++i)
    arguments.set(i, text(m.arguments[i]));
}

void put(ws::Envelope::Builder out, const Reply& m) {
  auto reply = out.initReply();
  reply.setId(m.id);
  reply.setExitCode(m.exit_code);
  reply.setJson(text(m.json));
  reply.setError(text(cut(m.error)));
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<ws::Envelope>();
  root.setProtocol(kProtocolVersion);
  root.setLeast(1);
  root.setNode(text(envelope.node));
  root.setSequence(envelope.sequence);
  std::visit([&](const auto& m) { put(root, m); }, envelope.message);

  kj::VectorOutputStream stream;
  capnp::writePackedMessage(stream, message);
  const auto written = stream.getArray();
  std::vector<std::byte> bytes(written.size());
  std::memcpy(bytes.data(), written.begin(), written.size());
  return bytes;
}

}  // namespace heddle
