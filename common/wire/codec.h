// Messages between their form on the wire and values. schemas/heddle.capnp is the protocol's
// specification; the generated headers are seen by codec*.cpp alone. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"

namespace heddle {

// The version that encode() writes into every envelope; see "Versions" in the schema.
inline constexpr std::uint16_t kProtocolVersion = 1;

// No message is longer, packed. A channel refuses longer ones before they are read.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;

// What the receiver has said that it reads, besides what every receiver of this version does.
struct ReceiverReads {
  bool columns_of_one{};  // see Welcome in the schema
};

// Texts for people (reasons, errors) are cut at 1,024 bytes. Whatever else is out of its range is
// written as it is, and refused by the receiver's decode().
std::vector<std::byte> encode(const Envelope& envelope, ReceiverReads receiver = {});

// Takes bytes from anybody (safety rule 10): what it yields is within every limit of the schema,
// and a plan in it passes validate(). Errc::parse: not a message, or a field out of range (the text
// names it). Errc::unsupported: a message, kind or field that only a later version understands.
Result<Envelope> decode(std::span<const std::byte> bytes);

}  // namespace heddle
