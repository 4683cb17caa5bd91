// What a receiver does with what a later version, or a sender that only pretends, might write:
// messages that encode() cannot make, built here by hand from the schema.
#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/schema.h>
#include <capnp/serialize-packed.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "common/wire/codec.h"
#include "schemas/heddle.capnp.h"

namespace heddle {
namespace {

namespace ws = schema;
using testing::HasSubstr;

Result<Envelope> decode_built(const std::function<void(ws::Envelope::Builder)>& fill) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<ws::Envelope>();
  root.setProtocol(1);
  root.setLeast(1);
  root.setNode("leaf1");
  fill(root);
  kj::VectorOutputStream stream;
  capnp::writePackedMessage(stream, message);
  return decode(std::as_bytes(std::span(stream.getArray().begin(), stream.getArray().size())));
}

// Makes a union of the struct hold a member that does not exist yet.
template <class T>
void set_unknown_member(typename T::Builder builder) {
  const auto offset = capnp::Schema::from<T>().getProto().getStruct().getDiscriminantOffset();
  const std::uint16_t unknown = 999;
  std::memcpy(capnp::AnyStruct::Builder(std::move(builder)).getDataSection().begin() + 2 * offset,
              &unknown, sizeof unknown);
}

void expect_code(Errc code, const std::string& part,
                 const std::function<void(ws::Envelope::Builder)>& fill) {
  const auto decoded = decode_built(fill);
  ASSERT_FALSE(decoded) << part;
  EXPECT_EQ(decoded.error().code, code) << decoded.error().message;
  EXPECT_THAT(decoded.error().message, HasSubstr(part));
}

TEST(LaterVersion, IsUnderstoodAsFarAsItAllows) {
  const auto decoded = decode_built([](auto root) {
    root.setProtocol(2);
    root.initHeartbeat().setDigest(5);
  });
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(std::get<Heartbeat>(decoded->message).digest, 5U);
}

TEST(LaterVersion, IsRefusedWhereItSaysSo) {
  expect_code(Errc::unsupported, "protocol version 2", [](auto root) {
    root.setProtocol(3);
    root.setLeast(2);
    root.initHeartbeat();
  });
}

TEST(LaterVersion, WhatItIntroducesIsRefusedWhole) {
  expect_code(Errc::unsupported, "the message",
              [](auto root) { set_unknown_member<ws::Envelope>(root); });
  expect_code(Errc::unsupported, "the role",
              [](auto root) { root.initHello().setRole(static_cast<ws::Role>(4)); });
  expect_code(Errc::unsupported, "the mode",
              [](auto root) { root.initHello().setMode(static_cast<ws::Mode>(2)); });
  expect_code(Errc::unsupported, "an error code",
              [](auto root) { root.initRefusal().setCode(static_cast<ws::ErrorCode>(14)); });
  expect_code(Errc::unsupported, "a granularity", [](auto root) {
    auto enforcer = root.initHello().initEnforcers(1)[0];
    enforcer.setName("x");
    enforcer.setGranularity(static_cast<ws::Granularity>(3));
  });
  const auto pin_of_snapshot = [](ws::Envelope::Builder root) {
    auto snapshot = root.initSnapshot();
    snapshot.setNode("leaf1");
    auto pin = snapshot.initPins(1)[0];
    pin.initUnit().initDestination().setV4(0x0a020102);
    pin.initTarget().setHostRoute("eth0");
    return pin;
  };
  expect_code(Errc::unsupported, "a steering unit", [&](auto root) {
    set_unknown_member<ws::SteeringUnit>(pin_of_snapshot(root).getUnit());
  });
  expect_code(Errc::unsupported, "a pin's target", [&](auto root) {
    set_unknown_member<ws::PinTarget>(pin_of_snapshot(root).getTarget());
  });
  expect_code(Errc::unsupported, "an address", [&](auto root) {
    set_unknown_member<ws::Address>(pin_of_snapshot(root).getUnit().getDestination());
  });
}

TEST(Pretender, SafetyRule10AnEnvelopeWithoutAVersionIsRefused) {
  expect_code(Errc::parse, "version", [](auto root) {
    root.setProtocol(0);
    root.setLeast(0);
  });
  expect_code(Errc::parse, "version", [](auto root) { root.setLeast(0); });
  expect_code(Errc::parse, "version", [](auto root) { root.setLeast(2); });
}

ws::FlowTable::Builder one_row(ws::Envelope::Builder root) {
  auto table = root.initReport().initFlows();
  table.initV4(2).set(0, 0x0a010102);
  table.initNames(1).set(0, "up1");
  table.initSource(1);
  table.initDestination(1).set(0, 1);
  table.initSourcePort(1);
  table.initDestQpn(1);
  table.initFirstSeen(1);
  table.initBytes(1);
  table.initPackets(1);
  table.initMessageLength(1);
  table.initOutPort(1).set(0, 1);
  table.initSeenBy(1);
  table.initReset(1);
  return table;
}

TEST(Pretender, SafetyRule10AFlowTableThatContradictsItselfIsRefused) {
  ASSERT_TRUE(decode_built([](auto root) { one_row(root); }));
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initBytes(2); });
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initReset(0); });
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initSource(0); });
  expect_code(Errc::parse, "another length", [](auto root) {
    auto table = one_row(root);
    table.initSource(3);
    table.initBytes(2);
  });
  expect_code(Errc::parse, "not in its table",
              [](auto root) { one_row(root).getDestination().set(0, 2); });
  expect_code(Errc::parse, "not in its table",
              [](auto root) { one_row(root).getSource().set(0, 0xffffffff); });
  expect_code(Errc::parse, "not in its table",
              [](auto root) { one_row(root).getSeenBy().set(0, 2); });
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initBytesError(2); });
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initLabel(1); });
  expect_code(Errc::parse, "not in its table", [](auto root) {
    auto table = one_row(root);
    table.initLabel(1).set(0, 2);
    table.initLabelOrigin(1);
  });
  expect_code(Errc::parse, "another length", [](auto root) { one_row(root).initLocalQpn(2); });
  expect_code(Errc::parse, "24 bits",
              [](auto root) { one_row(root).initLocalQpn(1).set(0, 1U << 24); });
  expect_code(Errc::parse, "not in its table",
              [](auto root) { one_row(root).initProcess(1).set(0, 1); });
  expect_code(Errc::unsupported, "how a peer is known",
              [](auto root) { one_row(root).initPeer(1).set(0, static_cast<schema::Peer>(4)); });
  expect_code(Errc::parse, "another length", [](auto root) {
    auto table = root.initReport().initQueuePairs();
    table.initQpn(1);
    table.initAddress(2);
  });
  // A queue pair's labels: without their origins, and of a name that is not given.
  const auto one_pair = [](auto root) {
    auto table = root.initReport().initQueuePairs();
    table.initV4(1);
    table.initQpn(1);
    table.initAddress(1);
    table.initRemoteQpn(1);
    table.initPid(1);
    return table;
  };
  ASSERT_TRUE(decode_built([&](auto root) { one_pair(root); }));
  expect_code(Errc::parse, "another length", [&](auto root) { one_pair(root).initLabel(1); });
  expect_code(Errc::parse, "not in its table", [&](auto root) {
    auto table = one_pair(root);
    table.initLabel(1).set(0, 1);
    table.initLabelOrigin(1);
  });
  expect_code(Errc::parse, "wrong size", [](auto root) { one_row(root).initV6(3); });
  expect_code(Errc::parse, "is empty", [](auto root) { one_row(root).initNames(1); });
  expect_code(Errc::parse, "first seen", [](auto root) {
    auto table = one_row(root);
    table.setFirstSeenBase(1);
    table.getFirstSeen().set(0, 0x7fffffffffffffff);
  });
}

TEST(ColumnsOfOne, SayTheSameOfEveryRow) {
  const auto decoded = decode_built([](auto root) {
    auto table = one_row(root);
    table.initSource(3);
    table.initDestQpn(3).set(2, 7);
    table.getBytes().set(0, 1000);
    table.initLabel(1).set(0, 1);
    table.initLabelOrigin(1).set(0, 1);
  });
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto& flows = std::get<Report>(decoded->message).flows;
  ASSERT_EQ(flows.size(), 3U);
  for (const FlowDelta& flow : flows) {
    EXPECT_EQ(flow.bytes, Bytes{1000});
    EXPECT_EQ(flow.out_port, "up1");
    EXPECT_EQ(flow.label, "up1");
  }
  EXPECT_EQ(flows[2].key.dest_qpn, 7U);
}

TEST(Pretender, SafetyRule10MorePinsThatAreGoodThanPinsAreRefused) {
  const auto states = [](auto root) {
    auto some = root.initAcknowledgement().initStates();
    some.setInstalled(2);
    return some;
  };
  ASSERT_TRUE(decode_built([&](auto root) { states(root).setEffective(2); }));
  expect_code(Errc::parse, "the states of pins", [&](auto root) { states(root).setEffective(3); });
  expect_code(Errc::parse, "the states of pins", [&](auto root) { states(root).setOffloaded(3); });
}

// What a switch of somebody else calls itself goes to screens and logs.
TEST(Pretender, SafetyRule10ANeighbourOfUnfitNamesIsRefused) {
  const auto neighbour = [](auto root) {
    auto one = root.initLinkChange().initNeighbours(1)[0];
    one.setPort("up1");
    return one;
  };
  ASSERT_TRUE(decode_built([&](auto root) { neighbour(root); }));
  ASSERT_TRUE(decode_built([&](auto root) { neighbour(root).setNode(std::string(255, 'a')); }));
  expect_code(Errc::parse, "too long",
              [&](auto root) { neighbour(root).setNode(std::string(256, 'a')); });
  expect_code(Errc::parse, "control character",
              [&](auto root) { neighbour(root).setNodePort("\x1b[2J"); });
  expect_code(Errc::parse, "is empty", [&](auto root) { neighbour(root).setPort(""); });
  expect_code(Errc::parse, "too many elements",
              [](auto root) { root.initLinkChange().initNeighbours(4'097); });
}

// Few octets on the wire that ask for much memory or time.
TEST(Pretender, SafetyRule10AMessageThatUnpacksToTooMuchIsRefused) {
  // One segment of 2^27 words: the header alone, packed.
  const std::vector<std::byte> header{std::byte{0x80}, std::byte{0x08}};
  EXPECT_EQ(decode(header).error().code, Errc::parse);
  expect_code(Errc::parse, "too many",
              [](auto root) { root.initReport().initFlows().initSource(131'073); });
  expect_code(Errc::parse, "too many", [](auto root) { root.initHello().initEnforcers(65); });
  expect_code(Errc::parse, "too many", [](auto root) { root.initLinkChange().initPorts(4'097); });
  // 40 MiB of zeros in 40 KiB.
  expect_code(Errc::parse, "",
              [](auto root) { root.initReport().initFlows().initSource(10'485'760); });
}

}  // namespace
}  // namespace heddle
