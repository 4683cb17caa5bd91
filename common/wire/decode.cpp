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
static_assert(static_cast<int>(ws::Granularity::QUEUE_PAIR) ==
              static_cast<int>(Granularity::queue_pair));

Errc error_code(ws::ErrorCode code) {
  return enumerant(code, Errc::unobservable, "an error code");
}

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

[[noreturn]] void unknown_kind(const char* what) {
  refuse(Errc::unsupported, fmt::format("{} is of a kind that a later version defines", what));
}

IpAddress read(ws::Address::Reader from) {
  switch (from.which()) {
    case ws::Address::V4:
      return v4(from.getV4());
    case ws::Address::V6:
      return v6(from.getV6().getHigh(), from.getV6().getLow());
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

PortStatus read(ws::PortStatus::Reader from) {
  return {port_name(from.getName()), from.getCarrier(), from.getTxBytes(), from.getRxBytes(),
          Rate{static_cast<double>(from.getSpeed())}};
}

LldpNeighbour read(ws::LldpNeighbour::Reader from) {
  return {port_name(from.getPort()), device_text(from.getNode(), "a neighbour's name"),
          device_text(from.getNodePort(), "a neighbour's port")};
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
void require_valid(NodePlan plan, const char* field) {
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

template <class List>
auto read_all(List list, std::size_t max, const char* field) {
  require(list.size() <= max, field, "has too many elements");
  std::vector<decltype(read(list[0]))> items;
  items.reserve(list.size());
  for (const auto item : list)
    items.push_back(read(item));
  return items;
}

std::vector<PortStatus> ports(capnp::List<ws::PortStatus>::Reader list) {
  return read_all(list, kMaxPorts, "the list of ports");
}

// The addresses and names that a flow table's rows refer to by number.
struct Dictionary {
  std::vector<IpAddress> addresses;
  std::vector<std::string> names{""};

  explicit Dictionary(ws::FlowTable::Reader from) {
    const auto four = from.getV4();
    const auto six = from.getV6();
    const auto texts = from.getNames();
    // A row brings at most two addresses and two names.
    require(
        four.size() <= 2 * kMaxElements && six.size() <= 4 * kMaxElements && six.size() % 2 == 0,
        "a flow table's list of addresses", "has a wrong size");
    require(texts.size() <= 2 * kMaxElements, "a flow table's list of names",
            "has too many elements");
    addresses.reserve(four.size() + six.size() / 2);
    for (const std::uint32_t n : four)
      addresses.push_back(v4(n));
    for (unsigned i = 0; i < six.size(); i += 2)
      addresses.push_back(v6(six[i], six[i + 1]));
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

std::vector<FlowDelta> read(ws::FlowTable::Reader from) {
  const auto source = from.getSource();
  const unsigned n = source.size();
  require(n <= kMaxElements, "the flow table", "has too many rows");
  const auto column = [n](auto list) {
    require(list.size() == n, "a column of the flow table", "has another length than the first");
    return list;
  };
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
  // Columns that came later, and that senders leave out where they say nothing.
  const auto later_column = [&column](auto list) { return list.size() == 0 ? list : column(list); };
  const auto bytes_error = later_column(from.getBytesError());
  const auto label = later_column(from.getLabel());
  const auto label_origin = label.size() == 0 ? label : column(from.getLabelOrigin());
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
    flow.key.dest_qpn = dest_qpn[i];
    require(flow.key.dest_qpn < 1U << 24, "a queue pair's number", "has more than 24 bits");
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
    if (bytes_error.size() != 0)
      flow.bytes_error = Bytes{bytes_error[i]};
    if (label.size() != 0) {
      flow.label = dictionary.name_of(label[i]);
      flow.label_origin = dictionary.name_of(label_origin[i]);
    }
  }
  return flows;
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
          .ports = ports(from.getPorts())};
}

Welcome read(ws::Welcome::Reader from) {
  return {.version = read(from.getVersion()),
          .report_interval = duration(from.getReportInterval(), kShortestReportInterval,
                                      kLongestReportInterval, "the report interval"),
          .lease = lease(from.getLease())};
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
          .flows = read(from.getFlows()),
          .ports = ports(from.getPorts())};
}

LinkChange read(ws::LinkChange::Reader from) {
  LinkChange change{
      .ports = ports(from.getPorts()),
      .withdrawn = read_all(from.getWithdrawn(), kMaxElements, "the list of withdrawals"),
      .neighbours = {}};
  if (from.hasNeighbours())
    change.neighbours = read_all(from.getNeighbours(), kMaxPorts, "the list of neighbours");
  return change;
}

Acknowledgement read(ws::Acknowledgement::Reader from) {
  return {.version = read(from.getVersion()),
          .digest = from.getDigest(),
          .installed = from.getInstalled(),
          .failed = read_all(from.getFailed(), kMaxElements, "the list of failed pins"),
          .disabled = from.getDisabled(),
          .conflict = people_text(from.getConflict(), "the conflict"),
          .apply_time = any_duration(from.getApplyTime(), "the apply time")};
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
