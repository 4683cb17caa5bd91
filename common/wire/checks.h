// What decode.cpp checks single fields with. Each refuses the whole message by throwing Refused.
#pragma once

#include <capnp/blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/core/result.h"
#include "common/core/units.h"
#include "common/wire/limits.h"

namespace heddle::wire {

// Ends the decoding of a message; decode() catches it.
struct Refused {
  Error error;
};

[[noreturn]] inline void refuse(Errc code, std::string message) {
  throw Refused{{code, std::move(message)}};
}

inline void require(bool condition, const char* field, const char* rule) {
  if (!condition)
    refuse(Errc::parse, fmt::format("{} {}", field, rule));
}

// Enumerants keep their numbers in both worlds; one beyond the last that we know is of a later
// version.
template <class Core, class Wire>
Core enumerant(Wire value, Core last, const char* field) {
  if (static_cast<std::uint16_t>(value) > static_cast<std::uint16_t>(last)) {
    refuse(Errc::unsupported, fmt::format("{} has the value {}, which a later version defines",
                                          field, static_cast<std::uint16_t>(value)));
  }
  return static_cast<Core>(static_cast<std::uint16_t>(value));
}

inline std::string text(capnp::Text::Reader from, std::size_t max, const char* field) {
  require(from.size() <= max, field, "is too long");
  return {from.cStr(), from.size()};
}

inline bool name_character(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '/';
}

inline std::string name(capnp::Text::Reader from, std::size_t max, const char* field) {
  require(from.size() > 0, field, "is empty");
  std::string characters = text(from, max, field);
  require(std::ranges::all_of(characters, name_character), field,
          "holds a space, a control character or '/'");
  return characters;
}

inline std::string name(capnp::Text::Reader from, const char* field) {
  return name(from, kMaxNameBytes, field);
}

inline std::string port_name(capnp::Text::Reader from) {
  return name(from, kMaxPortBytes, "a port's name");
}

// Words with one space between them: "plan show".
inline std::string command(capnp::Text::Reader from) {
  std::string words = text(from, kMaxNameBytes, "the command");
  require(!words.empty() && !words.starts_with(' ') && !words.ends_with(' ') &&
              words.find("  ") == std::string::npos &&
              std::ranges::all_of(words, [](char c) { return c == ' ' || name_character(c); }),
          "the command", "is not a few words");
  return words;
}

inline std::string people_text(capnp::Text::Reader from, const char* field) {
  return text(from, kMaxTextBytes, field);
}

// Of a device that is not ours, which may call itself anything.
inline std::string device_text(capnp::Text::Reader from, const char* field) {
  std::string characters = text(from, kMaxDeviceTextBytes, field);
  require(std::ranges::none_of(
              characters, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }),
          field, "holds a control character");
  return characters;
}

inline Duration duration(std::uint64_t ns, Duration min, Duration max, const char* field) {
  require(
      ns <= static_cast<std::uint64_t>(max.count()) && static_cast<std::int64_t>(ns) >= min.count(),
      field, "is out of range");
  return Duration(static_cast<std::int64_t>(ns));
}

inline Duration any_duration(std::uint64_t ns, const char* field) {
  return duration(ns, {}, Duration::max(), field);
}

inline Duration lease(std::uint64_t ns) {
  return duration(ns, {}, kLongestLease, "the lease");
}

}  // namespace heddle::wire
