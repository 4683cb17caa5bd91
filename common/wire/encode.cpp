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
#include "common/wire/encode_tables.h"
#include "common/wire/limits.h"
#include "schemas/heddle.capnp.h"

namespace heddle {
namespace {

namespace ws = schema;
using namespace wire;

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

void put(ws::LldpNeighbour::Builder out, const LldpNeighbour& neighbour) {
  out.setPort(text(neighbour.port));
  out.setNode(text(neighbour.node));
  out.setNodePort(text(neighbour.node_port));
  out.setNodePortDescription(text(neighbour.node_port_description));
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

void put(ws::LocalSegment::Builder out, const LocalSegment& segment) {
  out.setBehaviour(static_cast<ws::SegmentBehaviour>(segment.behaviour));
  put(out.initAddress(), segment.address);
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

void put(ws::PortCount::Builder out, const PortCount& count) {
  out.setName(text(count.name));
  out.setValue(count.value);
  out.setReset(count.reset);
}

// They put lists themselves.
void put(ws::RdmaPort::Builder out, const RdmaPortCounts& port);
void put(ws::PortStatus::Builder out, const PortStatus& port);

template <class List, class Items>
void put_all(List list, const Items& items) {
  for (unsigned i = 0; i < list.size(); ++i)
    put(list[i], items[i]);
}

void put(ws::RdmaPort::Builder out, const RdmaPortCounts& port) {
  out.setDevice(text(port.device));
  out.setPort(port.port);
  out.setNetdev(text(port.netdev));
  out.setGuid(port.guid);
  out.setHidden(port.hidden);
  put_all(out.initCounts(static_cast<unsigned>(port.counts.size())), port.counts);
  out.setLength(nanoseconds(port.length));
}

void put(ws::PortStatus::Builder out, const PortStatus& port) {
  out.setName(text(port.name));
  out.setCarrier(port.carrier);
  out.setTxBytes(port.tx_bytes);
  out.setRxBytes(port.rx_bytes);
  out.setSpeed(static_cast<std::uint64_t>(port.speed.bits_per_second));
  if (!port.counts.empty())
    put_all(out.initCounts(static_cast<unsigned>(port.counts.size())), port.counts);
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
  if (!m.segments.empty())
    put_all(hello.initSegments(static_cast<unsigned>(m.segments.size())), m.segments);
}

void put(ws::Envelope::Builder out, const Welcome& m) {
  auto welcome = out.initWelcome();
  put(welcome.initVersion(), m.version);
  welcome.setReportInterval(nanoseconds(m.report_interval));
  welcome.setLease(nanoseconds(m.lease));
  welcome.setColumnsOfOne(m.columns_of_one);
}

void put(ws::Envelope::Builder out, const Refusal& m) {
  auto refusal = out.initRefusal();
  refusal.setCode(static_cast<ws::ErrorCode>(m.code));
  refusal.setReason(text(cut(m.reason)));
}

void put(ws::Envelope::Builder out, const Report& m, ReceiverReads receiver) {
  auto report = out.initReport();
  report.setNumber(m.number);
  report.setBegin(nanoseconds(m.begin.time_since_epoch()));
  report.setLength(nanoseconds(m.length));
  report.setGap(m.gap);
  put_all(report.initPorts(static_cast<unsigned>(m.ports.size())), m.ports);
  put_flows(report.initFlows(), m.flows, receiver.columns_of_one);
  if (!m.rdma_ports.empty())
    put_all(report.initRdmaPorts(static_cast<unsigned>(m.rdma_ports.size())), m.rdma_ports);
  if (!m.queue_pairs.empty())
    put_queue_pairs(report.initQueuePairs(), m.queue_pairs);
  report.setLinks(m.links);
}

void put(ws::Envelope::Builder out, const LinkChange& m) {
  auto change = out.initLinkChange();
  put_all(change.initPorts(static_cast<unsigned>(m.ports.size())), m.ports);
  put_all(change.initWithdrawn(static_cast<unsigned>(m.withdrawn.size())), m.withdrawn);
  if (m.neighbours)
    put_all(change.initNeighbours(static_cast<unsigned>(m.neighbours->size())), *m.neighbours);
  change.setState(m.state);
}

void put(ws::Envelope::Builder out, const LinkRequest& m) {
  out.initLinkRequest().setHave(m.have);
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
  if (m.states) {
    auto states = ack.initStates();
    states.setInstalled(m.states->installed);
    states.setHardware(m.states->hardware);
    states.setOffloaded(m.states->offloaded);
    states.setEffective(m.states->effective);
  }
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

std::vector<std::byte> encode(const Envelope& envelope, ReceiverReads receiver) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<ws::Envelope>();
  root.setProtocol(kProtocolVersion);
  root.setLeast(1);
  root.setNode(text(envelope.node));
  root.setSequence(envelope.sequence);
  std::visit(
      [&](const auto& m) {
        if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Report>)
          put(root, m, receiver);
        else
          put(root, m);
      },
      envelope.message);

  kj::VectorOutputStream stream;
  capnp::writePackedMessage(stream, message);
  const auto written = stream.getArray();
  std::vector<std::byte> bytes(written.size());
  std::memcpy(bytes.data(), written.begin(), written.size());
  return bytes;
}

}  // namespace heddle
