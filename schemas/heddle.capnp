@0xb3a1f0c75d2e8846;
# What coordinator, agents and command line say to each other. This file is the protocol's specification: the
# form of each message, what its sender means by it, and what its receiver does, also with what it does not know.
# common/wire turns it into the values of common/core and back.
#
# Transport
# ---------
# One ZeroMQ message of one part, DEALER to ROUTER, holds one Envelope in Cap'n Proto's packed stream framing, and
# nothing after it. Agents and command lines connect; the coordinator listens. CURVE authenticates both sides; on
# a plain transport nobody is authenticated, so there is none but on loopback, ipc, inproc or on request. Messages
# may be lost, repeated or late. Nothing depends on one arriving: every loss shows in a later message (a report's
# number, a heartbeat's digest) and is made good by asking again.
#
# Conversation
# ------------
#   agent                                  coordinator
#     Hello            ------------------>           on every connection, before anything else
#                      <------------------  Welcome  or Refusal, after which only Reports are taken
#                      <------------------  Snapshot
#     Acknowledgement  ------------------>           after every change, of what was read back
#     Report           ------------------>           every report interval
#     LinkChange       ------------------>           at once, when a link or a route changes
#                      <------------------  PlanDiff when there is a new plan; answered by Acknowledgement
#                      <------------------  Heartbeat every third of the lease or more often
#     SnapshotRequest  ------------------>           when a diff's base or a heartbeat's digest is not ours
#                      <------------------  LinkRequest when a report's `links` is not what was heard last;
#                                                    answered by LinkChange
#                      <------------------  Switch   answered by Acknowledgement
#   command line
#     Request          ------------------>
#                      <------------------  Reply
#
# Versions
# --------
# This is version 1. Fields, union members and enumerants are only ever added, never removed, renumbered or given
# another meaning, and an absent field means what its default says. So:
#   - a receiver ignores fields that it does not know;
#   - a sender that says something which would be dangerous to ignore (a pin of a new kind, say) sets `least` to the
#     version that introduced it. A receiver refuses an envelope whose `least` is above its own version;
#   - a message, union member or enumerant that the receiver does not know makes it refuse the whole message, so that no
#     plan is ever half understood. Refused messages change nothing; they are logged and counted;
#   - a coordinator speaks to an agent in no later version than the agent's Hello carried in `protocol`. Version N
#     and version N - 1 must be able to work together, in both roles; recorded bytes of each version are kept and tested.
#
# Limits
# ------
# A receiver refuses a message that breaks one, whole:
#   - a message: 16 MiB packed, 32 MiB unpacked;
#   - a list: 131,072 elements; ports 4,096; enforcers and sources 64 each;
#   - a name (node, enforcer, source): 1 to 64 octets, no space, control character or '/';
#   - software and boot id: up to 64 octets;
#   - a command: words of such characters with one space between them, 1 to 64 octets;
#   - a port: an interface's name, 1 to 15 octets, no space, control character or '/';
#   - a text for people: 1,024 octets of UTF-8, which the sender cuts; an argument: 1,024 octets;
#   - what another device calls itself or its port: 255 octets, as in LLDP, no control character;
#   - a time or a duration: 0 to 2^63 - 1 nanoseconds, where no narrower range is given.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("heddle::schema");

struct Envelope {
  protocol @0 :UInt16;
  # The version that the sender speaks; never 0.
  least @1 :UInt16;
  # The lowest version whose receiver may act on this message; 1 to `protocol`.
  node @2 :Text;
  # The sender: its node's name, "coordinator", or what a command line calls itself. The name binds nobody: who
  # speaks is settled by the key, and a receiver that knows whose key it is compares.
  sequence @3 :UInt64;
  # Counts a sender's messages on one connection, for logs.

  union {
    hello @4 :Hello;
    welcome @5 :Welcome;
    refusal @6 :Refusal;
    report @7 :Report;
    linkChange @8 :LinkChange;
    acknowledgement @9 :Acknowledgement;
    planDiff @10 :PlanDiff;
    snapshot @11 :Snapshot;
    snapshotRequest @12 :SnapshotRequest;
    heartbeat @13 :Heartbeat;
    switch @14 :Switch;
    request @15 :Request;
    reply @16 :Reply;
    linkRequest @17 :LinkRequest;
  }
}

# Values ---------------------------------------------------------------------------------------------

struct Address {
  union {
    v4 @0 :UInt32;
    # 10.1.2.3 is 0x0a010203.
    v6 :group {
      high @1 :UInt64;
      low @2 :UInt64;
    }
  }
}

struct Prefix {
  address @0 :Address;
  length @1 :UInt8;
  # 0 to 32 or 128; the address's bits beyond it are zero.
}

struct PlanVersion {
  # Compared epoch first. An agent never replaces a plan by an older one.
  epoch @0 :UInt64;
  # A coordinator's reign. A new coordinator begins above every epoch that any Hello names.
  generation @1 :UInt64;
  # Counts plans within it.
}

enum ErrorCode {
  invalidArgument @0;
  parse @1;
  notFound @2;
  duplicate @3;
  stalePlan @4;
  wrongNode @5;
  gap @6;
  foreignState @7;
  kernel @8;
  io @9;
  timeout @10;
  permission @11;
  unsupported @12;
  unobservable @13;
}

enum Role {
  host @0;
  leaf @1;
  spine @2;
  cli @3;
}

enum Mode {
  observe @0;
  # Programs nothing, whatever it is sent.
  program @1;
}

enum Granularity {
  # How finely an enforcer tells subflows apart: the kinds of SteeringUnit.
  destination @0;
  portAndDestination @1;
  queuePair @2;
}

struct SteeringUnit {
  # The subflows that one pin moves together.
  union {
    destination @0 :Address;
    portAndDestination :group {
      inPort @1 :Text;
      address @2 :Address;
    }
    queuePair :group {
      source @3 :Address;
      target @4 :Address;
      # Of the same family as `source`.
      sourcePort @5 :UInt16;
    }
  }
}

struct PinTarget {
  # How the path is held. A port is an interface of the node; the gateway is the one that the node's `main` table
  # offers through it, so a pin cannot point where routing would not.
  union {
    portTableRoute @0 :Text;
    hostRoute @1 :Text;
    segmentList @2 :List(Address);
    # 1 to 8 segments.
    flowMark @3 :Text;
  }
}

struct Pin {
  unit @0 :SteeringUnit;
  target @1 :PinTarget;
  reason @2 :Text;
  # For people.
}

# From agents ----------------------------------------------------------------------------------------

struct PortStatus {
  name @0 :Text;
  carrier @1 :Bool;
  txBytes @2 :UInt64;
  # Since boot. A value below the last one is a reset, not traffic.
  rxBytes @3 :UInt64;
  speed @4 :UInt64;
  # Bits a second that the port has negotiated; 0 where that is not known, as without carrier.
  counts @5 :List(PortCount);
  # In a leaf's Report: what the port's driver counts of congestion (pause_sent, pause_received), as growth since the
  # last reading that succeeded. At most 64. A counter that is not listed could not be observed.
}

struct EnforcerCapability {
  name @0 :Text;
  granularity @1 :Granularity;
  usable @2 :Bool;
  reason @3 :Text;
  # Why it is not usable, and what would help.
}

struct SourceCapability {
  name @0 :Text;
  usable @1 :Bool;
  reason @2 :Text;
}

struct Hello {
  # An agent's first word on every connection. Two with one name and different instances are told apart by it, and
  # the later one is refused.
  role @0 :Role;
  mode @1 :Mode;
  disabled @2 :Bool;
  # By `heddle disable`; the coordinator plans nothing for it.
  software @3 :Text;
  bootId @4 :Text;
  instance @5 :UInt64;
  # Drawn when the agent started.
  installed @6 :PlanVersion;
  # The plan whose pins are in the kernel, read back; 0.0 if none.
  highestSeen @7 :PlanVersion;
  digest @8 :UInt64;
  # Of the installed pins; see common/core/plan.h.
  enforcers @9 :List(EnforcerCapability);
  sources @10 :List(SourceCapability);
  ports @11 :List(PortStatus);
  segments @12 :List(LocalSegment);
  # SRv6 segments that the node has installed, read back; a segment list names no others. At most 64. An agent whose
  # segments change says hello again.
}

struct LocalSegment {
  behaviour @0 :SegmentBehaviour;
  address @1 :Address;
  # IPv6; not ::.
}

enum SegmentBehaviour {
  # What the node does with a packet that is addressed to the segment; the names of RFC 8986.
  transit @0;
  # End: sends it to the next segment of its list.
  deliversV4 @1;
  # End.DX4: takes an IPv4 packet out of its wrapping and hands it to the node's own address.
  deliversV6 @2;
  # End.DT6: takes an IPv6 packet out of its wrapping and looks it up among the node's own addresses.
}

struct Report {
  # What an agent saw in one interval. Lost reports are not repeated: `number` shows the loss, and the coordinator
  # treats the interval as unobserved, never as silent.
  number @0 :UInt64;
  begin @1 :UInt64;
  # Nanoseconds of the sender's boot time.
  length @2 :UInt64;
  # Nanoseconds.
  gap @3 :Bool;
  # Something between the last report's end and this one's could not be seen.
  ports @4 :List(PortStatus);
  flows @5 :FlowTable;
  rdmaPorts @6 :List(RdmaPort);
  # At most 4,096.
  queuePairs @7 :QueuePairTable;
  links @8 :UInt64;
  # `state` of the LinkChange that says how links and routes are now; 0: not given.
}

struct RdmaPort {
  # One port of one RDMA device, and what it counted in the interval.
  device @0 :Text;
  # "mlx5_0": a name, which may change.
  port @1 :UInt32;
  # From 1.
  netdev @2 :Text;
  # Its network interface, 1 to 15 octets, or empty if it is not known.
  guid @3 :UInt64;
  # The device's node GUID in host byte order: the same device under every name.
  hidden @4 :Bool;
  # It was there and cannot be seen any more, while RDMA devices belong to one network namespace each (exclusive mode):
  # it may work on in another. There are no counts then.
  counts @5 :List(PortCount);
  # At most 64. A counter that is not listed could not be observed, which is not zero: the driver has none, or it has
  # reached its highest value and stands there, or it was not read in this interval, as reading many takes long.
  length @6 :UInt64;
  # Nanoseconds in which the counts grew: from the reading before to the last one, which is longer than the report's
  # interval where some intervals had no reading. 0: the report's own.
}

struct PortCount {
  name @0 :Text;
  # tx_bytes, rx_bytes: everything that the port sent and received;
  # tx_wait: the times it had something to send and might not;
  # cnp_sent, cnp_handled: congestion notifications sent as receiver, and obeyed as sender;
  # ecn_marked: packets that arrived marked by a switch's full queue;
  # pause_sent, pause_received: frames of flow control, of all priorities and of the link as a whole;
  # out_of_sequence, sequence_errors: requests that arrived out of order, and refusals because of that;
  # timeouts: acknowledgements that did not come in time.
  # A name that the receiver does not know is shown as it is.
  value @1 :UInt64;
  # How much it grew in the interval.
  reset @2 :Bool;
  # It went back, or its device was removed and re-added since the reading before: `value` is a lower bound.
}

struct QueuePairTable {
  # Connected queue pairs whose peer their own machine does not know, kept by columns. The coordinator looks for the other
  # end, whose numbers are the same the other way round. The whole state each time. Every column has as many elements as
  # `qpn`.
  v4 @0 :List(UInt32);
  v6 @1 :List(UInt64);
  # As in FlowTable.
  address @2 :List(UInt32);
  # Number of the queue pair's own address.
  qpn @3 :List(UInt32);
  remoteQpn @4 :List(UInt32);
  # 24 bits each.
  pid @5 :List(UInt32);
  # 0: not known.
  names @6 :List(Text);
  # The labels and their origins, each once: number 0 is the empty name, number i is names[i - 1].
  label @7 :List(UInt32);
  labelOrigin @8 :List(UInt32);
  # As in FlowTable: what the queue pair's process works for, and where that was read. Both as long as `qpn`, or both
  # empty where no machine says.
}

struct FlowTable {
  # Subflows, one a row, kept by columns: under Cap'n Proto's packing a row costs about 30 octets where a struct a
  # row would cost over 100. Every column has as many elements as `source`; a column of a later version may be empty
  # instead, for "not given". One element in place of many says the same of every row; an agent writes that only to a
  # coordinator whose Welcome has `columnsOfOne`.
  v4 @0 :List(UInt32);
  v6 @1 :List(UInt64);
  # The addresses, each once: number i is v4[i], or, from the size of v4 on, two elements of v6, high half first.
  names @2 :List(Text);
  # The ports and flow sources, each once: number 0 is the empty name, number i is names[i - 1].

  source @3 :List(UInt32);
  destination @4 :List(UInt32);
  # Address numbers; both of one family.
  sourcePort @5 :List(UInt16);
  destQpn @6 :List(UInt32);
  # 24 bits.
  firstSeenBase @7 :Int64;
  firstSeen @8 :List(UInt64);
  # Nanoseconds since 1970 by the sender's clock: the base plus each element. Part of the subflow's identity, so
  # it is the same in all its reports. Agents give it in steps of 2^29 ns (0.54 s), whose low octets take no room.
  bytes @9 :List(UInt64);
  packets @10 :List(UInt64);
  messageLength @11 :List(UInt64);
  # The longest RDMA message that began in the interval, in octets; 0 for none seen.
  outPort @12 :List(UInt32);
  # Name number of the port where it left the node; 0 on a host.
  seenBy @13 :List(UInt32);
  # Name number of the flow source.
  reset @14 :List(Bool);
  # The counter went back, or began anew after a loss: bytes and packets are lower bounds.
  bytesError @15 :List(UInt64);
  # Half the width of the interval around `bytes` in which the true number lies with 99.7 %, where bytes and packets
  # are estimated from samples; 0 where every packet was counted. Not given: 0 in every row.
  label @16 :List(UInt32);
  # Name number of what the machine that runs the process says the flow works for: "slurm:1234.0" (job and step),
  # "k8s:UID" (of the pod). 0: not known. Not given: not known in any row.
  labelOrigin @17 :List(UInt32);
  # Name number of where the label was read: "cgroup". Given where `label` is.
  localQpn @18 :List(UInt32);
  # The sender's own queue pair, 24 bits; 0: not known. Not given: not known in any row.
  pids @19 :List(UInt32);
  process @20 :List(UInt32);
  # Who owns that queue pair: number i is the process pids[i - 1] of the sender, 0 is not known. Not given: likewise.
  peer @21 :List(Peer);
  # How it came to be known where the packets go. Not given: `wire` in every row.
  unobservable @22 :List(Bool);
  # The queue pair is there, but what it sends cannot be seen: bytes and packets are 0 and mean nothing. Not given: false
  # in every row.
}

enum Peer {
  wire @0;
  # Its packets were seen.
  kernel @1;
  # The kernel was watched as it connected the queue pair.
  cm @2;
  # rdma_cm's table of connections.
  inferred @3;
  # From both ends' queue pair numbers; only the coordinator infers.
}

struct Withdrawal {
  # A destination that `main` no longer offers through a port.
  destination @0 :Prefix;
  outPort @1 :Text;
}

struct LinkChange {
  # The whole state each time, so that nothing depends on an earlier one.
  ports @0 :List(PortStatus);
  withdrawn @1 :List(Withdrawal);
  neighbours @2 :List(LldpNeighbour);
  # What LLDP says stands at the other end of each port; at most 4,096. Absent where nothing is known of neighbours, as
  # without lldpd; empty where lldpd is asked and hears nobody.
  state @3 :UInt64;
  # The sender's number for this state, one more for each that it told since its start (modulo 2^64). The receiver asks
  # for it again where a report's `links` is another one, and leaves out a state that is older than the one it has from
  # this instance. 0: not given, by an agent that reports no `links` either.
}

struct LldpNeighbour {
  # A neighbour by its own words. Two on one port are two entries: a hub, or a cable that was moved a moment ago.
  port @0 :Text;
  # Of the sender.
  node @1 :Text;
  # The neighbour's system name; empty where it has told none.
  nodePort @2 :Text;
  # Its port id: an interface's name, a MAC address, or whatever else it numbers its ports by.
  nodePortDescription @3 :Text;
  # Its port description: often the interface's name where the port id is none. Empty where it has told none.
}

struct PinFailure {
  unit @0 :SteeringUnit;
  code @1 :ErrorCode;
  reason @2 :Text;
}

struct Acknowledgement {
  # What was read back from the kernel, never what was merely sent to it.
  version @0 :PlanVersion;
  digest @1 :UInt64;
  # Of the installed pins; differs from the plan's while some have failed.
  installed @2 :UInt32;
  failed @3 :List(PinFailure);
  # Pins of this version that are not installed, those that the agent took away by itself included.
  disabled @4 :Bool;
  conflict @5 :Text;
  # Foreign state inside our ranges, named; the agent programs nothing while there is any. Empty: none.
  applyTime @6 :UInt64;
  # Nanoseconds from the plan's arrival to the end of reading back.
  states @7 :PinStates;
  # How far the pins have come. Absent where it is not told.
}

struct PinStates {
  installed @0 :UInt32;
  # Pins that were read back from the kernel, whatever else is known of them. Acknowledgement.installed leaves those out
  # that are in `failed` besides, as their uplink is not the one that packets leave by.
  hardware @1 :Bool;
  # An ASIC forwards here, so that a pin has to be offloaded.
  offloaded @2 :UInt32;
  # Of the installed ones, those that the kernel shows as taken by the ASIC. 0 where no ASIC forwards.
  effective @3 :UInt32;
  # Of the installed ones, those that were proven to steer: of IPv4 and not by marks the kernel's own lookup says so, or
  # packets were seen leaving by the pin's uplink. The others are not known to fail: no packet of theirs came yet, or
  # none can be seen.
}

struct SnapshotRequest {
  have @0 :PlanVersion;
  reason @1 :Text;
}

# From the coordinator -------------------------------------------------------------------------------

struct Welcome {
  version @0 :PlanVersion;
  reportInterval @1 :UInt64;
  # Nanoseconds, 1 ms to 1 h.
  lease @2 :UInt64;
  # Nanoseconds, up to 24 h. Without a word from the coordinator for so long the agent removes every pin. Any message
  # from the coordinator that is not refused counts as a word.
  columnsOfOne @3 :Bool;
  # This coordinator reads a column of one element as one that says the same of every row; see FlowTable.
}

struct Refusal {
  # The receiver goes on observing and programs nothing new.
  code @0 :ErrorCode;
  reason @1 :Text;
}

struct PlanDiff {
  # Turns the pins of `base` into those of `version`. A receiver whose pins are not of `base`, or who would not arrive
  # at `digest`, changes nothing and asks for a snapshot; one that holds a newer version changes nothing.
  node @0 :Text;
  # The receiver's; a plan for another node is refused.
  base @1 :PlanVersion;
  version @2 :PlanVersion;
  # Not below `base`.
  set @3 :List(Pin);
  # Added or changed; sorted by unit, none twice.
  removed @4 :List(SteeringUnit);
  # Likewise; none of them in `set`.
  digest @5 :UInt64;
  # Of the pins afterwards.
}

struct Snapshot {
  # All pins of one node.
  node @0 :Text;
  version @1 :PlanVersion;
  pins @2 :List(Pin);
  # Sorted by unit, none twice.
  digest @3 :UInt64;
  # Of `pins`. The receiver computes it too, and refuses a snapshot where they differ.
}

struct Heartbeat {
  # Renews the lease, and says what this node should hold. Where that is not what it holds, it asks for a snapshot.
  version @0 :PlanVersion;
  digest @1 :UInt64;
  lease @2 :UInt64;
  # As in Welcome.
}

struct LinkRequest {
  # Asks for a LinkChange, after a report whose `links` is not the `state` that was heard last: one was lost, or was
  # overtaken by an older one. Never sent to an agent whose reports have no `links`.
  have @0 :UInt64;
  # The state that was heard last; 0: none.
}

struct Switch {
  # The off switch, and back: remove every pin and program none until switched on. Survives restarts of the agent.
  enable @0 :Bool;
  by @1 :Text;
  # For the log: who wanted it.
}

# Command line ---------------------------------------------------------------------------------------

struct Request {
  id @0 :UInt64;
  # Chosen by the sender, repeated in the reply.
  command @1 :Text;
  # As it is typed, "status" or "plan show": one or two words, at most 64 bytes.
  arguments @2 :List(Text);
}

struct Reply {
  id @0 :UInt64;
  exitCode @1 :UInt8;
  json @2 :Text;
  # One JSON value; its keys are described in heddle(1). Up to the message's limit.
  error @3 :Text;
  # For people; empty if the command succeeded.
}
