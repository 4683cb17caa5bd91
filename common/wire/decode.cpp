// Bytes from anybody to values. Every limit of schemas/heddle.capnp is enforced here. A broken one
// throws Refused, which decode() turns into its error; Cap'n Proto's own exceptions end there, too.
#include <capnp/message.h>
#include <capnp/serialize-packed.h>
#include <fmt/format.h>
#include <kj/exception.h>
#include <kj/io.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/wire/checks.h"
#include "common/wire/codec.h"
#include "common/wire/decode_tables.h"
#include "common/wire/limits.h"
#include "schemas/heddle.capnp.h"

namespace heddle {
namespace {

namespace ws = schema;
using namespace wire;

static_assert(static_cast<int>(ws::ErrorCode::INVALID_ARGUMENT) ==
              static_cast<int>(Errc::invalid_argument));
static_assert(static_cast<int>(ws::ErrorCode::FOREIGN_STATE) ==
              static_cast<int>(Errc::foreign_state));
static_assert(static_cast<int>(ws::ErrorCode::UNOBSERVABLE) ==
              static_cast<int>(Errc::unobservable));
static_assert(static_cast<int>(ws::Role::CLI) == static_cast<int>(Role::cli));
static_assert(static_cast<int>(ws::Mode::PROGRAM) == static_cast<int>(Mode::program));
static_assert(static_cast<int>(ws::SegmentBehaviour::DELIVERS_V6) ==
              static_cast<int>(SegmentBehaviour::delivers_v6));
static_assert(static_cast<int>(ws::Granularity::QUEUE_PAIR) ==
              static_cast<int>(Granularity::queue_pair));

Errc error_code(ws::ErrorCode code) {
  return enumerant(code, Errc::unobservable, "an error code");
}

[[noreturn]] void unknown_kind(const char* what) {
  refuse(Errc::unsupported, fmt::format("{} is of a kind that a later version defines", what));
}

IpAddress read(ws::Address::Reader from) {
  switch (from.which()) {
    case ws::Address::V4:
      return wire::v4(from.getV4());
    case ws::Address::V6:
      return wire::v6(from.getV6().getHigh(), from.getV6().getLow());
  }
  unknown_kind("an address");
}

PlanVersion read(ws::PlanVersion::Reader from) {
  return {from.getEpoch(), from.getGeneration()};
}

SteeringUnit read(ws::SteeringUnit::Reader from) {
  switch (from.which()) {
    case ws::SteeringUnit::DESTINATION:
      return ByDestination{read(from.getDestination())};
    case ws::SteeringUnit::PORT_AND_DESTINATION: {
      const auto group = from.getPortAndDestination();
      return ByPortAndDestination{port_name(group.getInPort()), read(group.getAddress())};
    }
    case ws::SteeringUnit::QUEUE_PAIR: {
      const auto group = from.getQueuePair();
      return ByQueuePair{read(group.getSource()), read(group.getTarget()), group.getSourcePort()};
    }
  }
  unknown_kind("a steering unit");
}

PinTarget read(ws::PinTarget::Reader from) {
  switch (from.which()) {
    case ws::PinTarget::PORT_TABLE_ROUTE:
      return PortTableRoute{port_name(from.getPortTableRoute())};
    case ws::PinTarget::HOST_ROUTE:
      return HostRoute{port_name(from.getHostRoute())};
    case ws::PinTarget::SEGMENT_LIST: {
      const auto list = from.getSegmentList();
      require(list.size() <= kMaxElements, "a segment list", "is too long");
      SegmentList target;
      for (const auto segment : list)
        target.segments.push_back(read(segment));
      return target;
    }
    case ws::PinTarget::FLOW_MARK:
      return FlowMark{port_name(from.getFlowMark())};
  }
  unknown_kind("a pin's target");
}

Pin read(ws::Pin::Reader from) {
  return {read(from.getUnit()), read(from.getTarget()),
          people_text(from.getReason(), "a pin's reason")};
}

PortCount read(ws::PortCount::Reader from) {
  return {name(from.getName(), "a counter's name"), from.getValue(), from.getReset()};
}

LldpNeighbour read(ws::LldpNeighbour::Reader from) {
  return {port_name(from.getPort()), device_text(from.getNode(), "a neighbour's name"),
          device_text(from.getNodePort(), "a neighbour's port"),
          device_text(from.getNodePortDescription(), "a neighbour's port")};
}

EnforcerCapability read(ws::EnforcerCapability::Reader from) {
  return {name(from.getName(), "an enforcer's name"),
          enumerant(from.getGranularity(), Granularity::queue_pair, "a granularity"),
          from.getUsable(), people_text(from.getReason(), "an enforcer's reason")};
}

SourceCapability read(ws::SourceCapability::Reader from) {
  return {name(from.getName(), "a source's name"), from.getUsable(),
          people_text(from.getReason(), "a source's reason")};
}

LocalSegment read(ws::LocalSegment::Reader from) {
  const LocalSegment segment{
      enumerant(from.getBehaviour(), SegmentBehaviour::delivers_v6, "a segment's behaviour"),
      read(from.getAddress())};
  require(segment.address.family == Family::v6 && !segment.address.is_unspecified(), "a segment",
          "is no IPv6 address");
  return segment;
}

Withdrawal read(ws::Withdrawal::Reader from) {
  const auto prefix = from.getDestination();
  Withdrawal withdrawal{{read(prefix.getAddress()), prefix.getLength()},
                        port_name(from.getOutPort())};
  const IpAddress& address = withdrawal.destination.address;
  const std::size_t length = withdrawal.destination.length;
  require(length <= 8 * address.size(), "a prefix's length", "is out of range");
  for (std::size_t bit = length; bit < 8 * address.size(); ++bit) {
    require((address.octets[bit / 8] >> (7 - bit % 8) & 1) == 0, "a prefix",
            "has bits beyond its length");
  }
  return withdrawal;
}

// validate() judges whole plans; these hand it what plans are made of.
void require_valid(const NodePlan& plan, const char* field) {
  if (const auto ok = validate(plan); !ok)
    refuse(Errc::parse, fmt::format("{}: {}", field, ok.error().message));
}

Pin any_pin_of(const SteeringUnit& unit) {
  return {unit, PortTableRoute{"any"}, ""};
}

PinFailure read(ws::PinFailure::Reader from) {
  PinFailure failure{read(from.getUnit()), error_code(from.getCode()),
                     people_text(from.getReason(), "a failure's reason")};
  require_valid({"", {}, {any_pin_of(failure.unit)}}, "a failed pin");
  return failure;
}

// They read lists themselves.
RdmaPortCounts read(ws::RdmaPort::Reader from);
PortStatus read(ws::PortStatus::Reader from);

template <class List>
auto read_all(List list, std::size_t max, const char* field) {
  require(list.size() <= max, field, "has too many elements");
  std::vector<decltype(read(list[0]))> items;
  items.reserve(list.size());
  for (const auto item : list)
    items.push_back(read(item));
  return items;
}

RdmaPortCounts read(ws::RdmaPort::Reader from) {
  return {.device = name(from.getDevice(), "an RDMA device's name"),
          .port = from.getPort(),
          .netdev = from.getNetdev().size() == 0 ? std::string{} : port_name(from.getNetdev()),
          .guid = from.getGuid(),
          .hidden = from.getHidden(),
          .counts = read_all(from.getCounts(), kMaxCapabilities, "an RDMA port's counters"),
          .length = any_duration(from.getLength(), "the time in which counters grew")};
}

PortStatus read(ws::PortStatus::Reader from) {
  return {port_name(from.getName()),
          from.getCarrier(),
          from.getTxBytes(),
          from.getRxBytes(),
          Rate{static_cast<double>(from.getSpeed())},
          read_all(from.getCounts(), kMaxCapabilities, "a port's counters")};
}

std::vector<PortStatus> ports(capnp::List<ws::PortStatus>::Reader list) {
  return read_all(list, kMaxPorts, "the list of ports");
}

Hello read(ws::Hello::Reader from) {
  return {.role = enumerant(from.getRole(), Role::cli, "the role"),
          .mode = enumerant(from.getMode(), Mode::program, "the mode"),
          .disabled = from.getDisabled(),
          .software = text(from.getSoftware(), kMaxNameBytes, "the software's version"),
          .boot_id = text(from.getBootId(), kMaxNameBytes, "the boot id"),
          .instance = from.getInstance(),
          .installed = read(from.getInstalled()),
          .highest_seen = read(from.getHighestSeen()),
          .digest = from.getDigest(),
          .enforcers = read_all(from.getEnforcers(), kMaxCapabilities, "the list of enforcers"),
          .sources = read_all(from.getSources(), kMaxCapabilities, "the list of sources"),
          .ports = ports(from.getPorts()),
          .segments = read_all(from.getSegments(), kMaxCapabilities, "the list of segments")};
}

Welcome read(ws::Welcome::Reader from) {
  return {.version = read(from.getVersion()),
          .report_interval = duration(from.getReportInterval(), kShortestReportInterval,
                                      kLongestReportInterval, "the report interval"),
          .lease = lease(from.getLease()),
          .columns_of_one = from.getColumnsOfOne()};
}

Refusal read(ws::Refusal::Reader from) {
  return {.code = error_code(from.getCode()),
          .reason = people_text(from.getReason(), "the reason")};
}

Report read(ws::Report::Reader from) {
  return {.number = from.getNumber(),
          .begin = Time(any_duration(from.getBegin(), "a report's begin")),
          .length = any_duration(from.getLength(), "a report's length"),
          .gap = from.getGap(),
          .flows = read_flows(from.getFlows()),
          .ports = ports(from.getPorts()),
          .rdma_ports = read_all(from.getRdmaPorts(), kMaxPorts, "the list of RDMA ports"),
          .queue_pairs = read_queue_pairs(from.getQueuePairs()),
          .links = from.getLinks()};
}

LinkChange read(ws::LinkChange::Reader from) {
  LinkChange change{
      .ports = ports(from.getPorts()),
      .withdrawn = read_all(from.getWithdrawn(), kMaxElements, "the list of withdrawals"),
      .neighbours = {},
      .state = from.getState()};
  if (from.hasNeighbours())
    change.neighbours = read_all(from.getNeighbours(), kMaxPorts, "the list of neighbours");
  return change;
}

PinStates read(ws::PinStates::Reader from) {
  const PinStates states{.installed = from.getInstalled(),
                         .hardware = from.getHardware(),
                         .offloaded = from.getOffloaded(),
                         .effective = from.getEffective()};
  require(states.offloaded <= states.installed && states.effective <= states.installed,
          "the states of pins", "name more than are installed");
  return states;
}

Acknowledgement read(ws::Acknowledgement::Reader from) {
  return {.version = read(from.getVersion()),
          .digest = from.getDigest(),
          .installed = from.getInstalled(),
          .failed = read_all(from.getFailed(), kMaxElements, "the list of failed pins"),
          .disabled = from.getDisabled(),
          .conflict = people_text(from.getConflict(), "the conflict"),
          .apply_time = any_duration(from.getApplyTime(), "the apply time"),
          .states = from.hasStates() ? std::optional(read(from.getStates())) : std::nullopt};
}

PlanDiff read(ws::PlanDiff::Reader from) {
  PlanDiff change{.node = name(from.getNode(), "a plan's node"),
                  .base = read(from.getBase()),
                  .version = read(from.getVersion()),
                  .set = read_all(from.getSet(), kMaxElements, "the list of pins"),
                  .removed = read_all(from.getRemoved(), kMaxElements, "the list of removed pins"),
                  .digest = from.getDigest()};
  require(change.version >= change.base, "a plan's version", "is below its base");
  require_valid({change.node, change.version, change.set}, "the pins");
  NodePlan removed{change.node, change.version, {}};
  for (const SteeringUnit& unit : change.removed)
    removed.pins.push_back(any_pin_of(unit));
  require_valid(std::move(removed), "the removed pins");
  for (const Pin& pin : change.set) {
    require(!std::ranges::binary_search(change.removed, pin.unit), "a pin",
            "is both set and removed");
  }
  return change;
}

Snapshot read(ws::Snapshot::Reader from) {
  Snapshot snapshot{.plan = {name(from.getNode(), "a plan's node"), read(from.getVersion()),
                             read_all(from.getPins(), kMaxElements, "the list of pins")},
                    .digest = from.getDigest()};
  require_valid(snapshot.plan, "the pins");
  require(digest(snapshot.plan.pins) == snapshot.digest, "a snapshot's digest",
          "is not that of its pins");
  return snapshot;
}

SnapshotRequest read(ws::SnapshotRequest::Reader from) {
  return {.have = read(from.getHave()), .reason = people_text(from.getReason(), "the reason")};
}

Heartbeat read(ws::Heartbeat::Reader from) {
  return {.version = read(from.getVersion()),
          .digest = from.getDigest(),
          .lease = lease(from.getLease())};
}

LinkRequest read(ws::LinkRequest::Reader from) {
  return {.have = from.getHave()};
}

Switch read(ws::Switch::Reader from) {
  return {.enable = from.getEnable(), .by = people_text(from.getBy(), "who switches")};
}

Request read(ws::Request::Reader from) {
  Request request{.id = from.getId(), .command = command(from.getCommand()), .arguments = {}};
  const auto arguments = from.getArguments();
  require(arguments.size() <= kMaxElements, "the list of arguments", "has too many elements");
  for (const auto argument : arguments) {
    request.arguments.push_back(text(argument, kMaxTextBytes, "an argument"));
  }
  return request;
}

Reply read(ws::Reply::Reader from) {
  return {.id = from.getId(),
          .exit_code = from.getExitCode(),
          .json = text(from.getJson(), kMaxMessageBytes, "the reply"),
          .error = people_text(from.getError(), "the error")};
}

Message read_message(ws::Envelope::Reader from) {
  switch (from.which()) {
    case ws::Envelope::HELLO:
      return read(from.getHello());
    case ws::Envelope::WELCOME:
      return read(from.getWelcome());
    case ws::Envelope::REFUSAL:
      return read(from.getRefusal());
    case ws::Envelope::REPORT:
      return read(from.getReport());
    case ws::Envelope::LINK_CHANGE:
      return read(from.getLinkChange());
    case ws::Envelope::ACKNOWLEDGEMENT:
      return read(from.getAcknowledgement());
    case ws::Envelope::PLAN_DIFF:
      return read(from.getPlanDiff());
    case ws::Envelope::SNAPSHOT:
      return read(from.getSnapshot());
    case ws::Envelope::SNAPSHOT_REQUEST:
      return read(from.getSnapshotRequest());
    case ws::Envelope::HEARTBEAT:
      return read(from.getHeartbeat());
    case ws::Envelope::SWITCH:
      return read(from.getSwitch());
    case ws::Envelope::REQUEST:
      return read(from.getRequest());
    case ws::Envelope::REPLY:
      return read(from.getReply());
    case ws::Envelope::LINK_REQUEST:
      return read(from.getLinkRequest());
  }
  unknown_kind("the message");
}

Envelope read(ws::Envelope::Reader from) {
  const std::uint16_t least = from.getLeast();
  require(from.getProtocol() > 0 && least > 0 && least <= from.getProtocol(),
          "the protocol's version", "is missing");
  if (least > kProtocolVersion) {
    refuse(Errc::unsupported,
           fmt::format("the message is for protocol version {} and later, this is version {}",
                       least, kProtocolVersion));
  }
  return {.node = name(from.getNode(), "the sender's name"),
          .sequence = from.getSequence(),
          .message = read_message(from)};
}

// The packed reader copies into words of its own, so the alignment of the bytes does not matter.
Envelope read_packed(kj::ArrayInputStream& stream) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = kMaxUnpackedWords;
  options.nestingLimit = 16;
  capnp::PackedMessageReader message(stream, options);
  return read(message.getRoot<ws::Envelope>());
}

}  // namespace

Result<Envelope> decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxMessageBytes) {
    return fail(Errc::parse, fmt::format("a message of {} octets is too long", bytes.size()));
  }
  try {
    kj::ArrayInputStream stream(
        kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
    Envelope envelope = read_packed(stream);
    if (stream.tryGetReadBuffer().size() != 0)
      return fail(Errc::parse, "octets follow the message");
    return envelope;
  } catch (const Refused& refused) {
    return tl::unexpected(refused.error);
  } catch (const kj::Exception& e) {
    return fail(Errc::parse, fmt::format("not a message: {}", e.getDescription().cStr()));
  }
}

}  // namespace heddle
